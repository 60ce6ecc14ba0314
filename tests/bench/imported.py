"""Predictions of torchvision's networks, exported to ONNX: here (imported.c) and in ONNX Runtime, in turn, one thread.

    gcc -std=c11 -O2 -I. tests/bench/imported.c -o build/imported -lm -lpthread
    python tests/bench/imported.py [--program build/imported] [--rounds 3] [--seconds 0.3] [--size 64] [--batch 2] [name ...]

Needs torch, torchvision, onnx, onnxruntime. --program may be given several times, for programs of other headers. Prints one line of
JSON for each network: milliseconds (medians of the rounds) and ONNX Runtime's divided by ours, and at the end the geometric means."""
import argparse
import json
import math
import os
import statistics
import subprocess
import tempfile
import time

import numpy as np
import onnxruntime
import torch
import torchvision.models as models

NETWORKS = ["resnet18", "resnet50", "resnet34", "squeezenet1_1", "googlenet", "mobilenet_v2", "mobilenet_v3_small",
            "shufflenet_v2_x0_5", "densenet121", "efficientnet_b0", "mnasnet0_5", "regnet_y_400mf"]


def export(name, path, shape):
    more = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    torch.manual_seed(1)
    network = getattr(models, name)(num_classes=10, **more).eval()
    torch.onnx.export(network, (torch.zeros(shape),), path, opset_version=17, dynamo=False)


def runtime_ms(session, feed, seconds):
    best, end, i = math.inf, time.perf_counter() + seconds, 0
    while i < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        session.run(None, feed)
        best, i = min(best, time.perf_counter() - begin), i + 1
    return best * 1e3


def measure(name, folder, args):
    path, given, made = (os.path.join(folder, name + end) for end in (".onnx", ".in", ".out"))
    shape = (args.batch, 3, args.size, args.size)
    export(name, path, shape)
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    x.tofile(given)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    feed = {session.get_inputs()[0].name: x}
    want = session.run(None, feed)[0].ravel()
    theirs, ours = [], {p: [] for p in args.program}
    for _ in range(args.rounds):
        theirs.append(runtime_ms(session, feed, args.seconds))
        for p in args.program:
            out = subprocess.run([p, path, given, made, str(args.seconds)], capture_output=True, text=True)
            assert out.returncode == 0, out.stdout
            ours[p].append(json.loads(out.stdout)["ms"])
            difference = np.abs(np.fromfile(made, np.float32) - want).max() / np.abs(want).max()
            assert difference < 1e-4, (name, p, difference)
    ms = statistics.median(theirs)
    line = {"network": name, "onnxruntime": round(ms, 3)}
    for p in args.program:
        line[p] = round(statistics.median(ours[p]), 3)
        line[p + " ratio"] = round(ms / statistics.median(ours[p]), 3)
    return line


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=NETWORKS)
    parser.add_argument("--program", action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--size", type=int, default=64, help="pixels along a side of the images")
    parser.add_argument("--batch", type=int, default=2)
    args = parser.parse_args()
    args.program = args.program or ["build/imported"]
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.names or NETWORKS:
            lines.append(measure(name, folder, args))
            print(json.dumps(lines[-1]), flush=True)
    for p in args.program:
        ratios = [line[p + " ratio"] for line in lines]
        print(json.dumps({"program": p, "geometric mean": round(statistics.geometric_mean(ratios), 3),
                          "least": min(ratios)}))


if __name__ == "__main__":
    main()
