"""Random networks, in turn with ONNX Runtime: predictions of the file that tp_export_onnx writes, on the same input.

    gcc -std=c11 -O2 -I. tests/bench/sweep.c -o build/sweep -lm -lpthread
    build/venv/bin/python tests/bench/sweep.py 1 40 [threads]        seeds 1 to 40; make interop makes build/venv

A JSON line for each network and batch, with the medians of three rounds and the largest difference of the outputs, relative to the
largest output; the last lines: geometric mean and least of the ratios (ONNX Runtime's time divided by ours)."""
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime as ort

BATCHES = (1, 8, 64)
SECONDS = 0.3


def theirs(session, feed):
    session.run(None, feed)
    best = 1e30
    for _ in range(5):
        n, t0 = 0, time.perf_counter()
        while True:
            session.run(None, feed)
            n += 1
            if time.perf_counter() - t0 > SECONDS / 5:
                break
        best = min(best, (time.perf_counter() - t0) / n)
    return best * 1e3


def one(seed, batch, threads, folder):
    ours, peer, difference = [], [], 0.0
    for round_ in range(3):
        run = subprocess.run(['build/sweep', str(seed), str(batch), str(threads), str(SECONDS), folder],
                             capture_output=True, text=True)
        if run.returncode:
            return {'seed': seed, 'error': run.stderr.strip()[-300:]}
        line = json.loads(run.stdout)
        ours.append(line['ours_ms'])
        if round_ == 0:
            options = ort.SessionOptions()
            options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
            session = ort.InferenceSession(folder + '/net.onnx', options, providers=['CPUExecutionProvider'])
            feed = {session.get_inputs()[0].name: np.load(folder + '/x.npy')}
            want, got = session.run(None, feed)[0], np.load(folder + '/y.npy')
            difference = float(np.abs(want - got).max() / max(np.abs(want).max(), 1e-30))
        peer.append(theirs(session, feed))
    line['ours_ms'], line['onnxruntime_ms'] = statistics.median(ours), statistics.median(peer)
    line['difference'] = float(f'{difference:.2g}')
    line['ratio'] = round(line['onnxruntime_ms'] / line['ours_ms'], 3)
    return line


first, last = int(sys.argv[1]), int(sys.argv[2])
threads = int(sys.argv[3]) if len(sys.argv) > 3 else 1
ratios = {}
with tempfile.TemporaryDirectory() as folder:
    for seed in range(first, last + 1):
        for batch in BATCHES:
            line = one(seed, batch, threads, folder)
            print(json.dumps(line), flush=True)
            if 'ratio' in line:
                ratios.setdefault(batch, []).append(line['ratio'])
for batch, r in ratios.items():
    print(json.dumps({'workload': f'sweep.b{batch}', 'networks': len(r), 'threads': threads, 'least': min(r),
                      'geomean': round(math.exp(sum(map(math.log, r)) / len(r)), 3)}))
