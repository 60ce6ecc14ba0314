"""Ours and PyTorch on one GPU, in turn: ours A ours B ... for each round; medians over the rounds.
usage: pair_gpu.py workload precision build/cuda/bench [--modes eager,compile] [--rounds 3] [--seconds 1] [--limit 120]
                   [--python python3] [--resident]
A process for each of PyTorch's modes warms up before anything is measured (what is not ready after --limit seconds is left
out) and then waits between its turns. `--modes ''`: ours alone. JSON lines; the last line is for people, and the status is
1 if ours did not run."""
import argparse, json, os, queue, statistics, subprocess, sys, tempfile, threading, time

ap = argparse.ArgumentParser()
ap.add_argument('workload'), ap.add_argument('precision'), ap.add_argument('bench')
ap.add_argument('--modes', default='eager,compile,reduce-overhead')
ap.add_argument('--rounds', type=int, default=3)
ap.add_argument('--seconds', default='1')
ap.add_argument('--limit', type=float, default=120)
ap.add_argument('--python', default=sys.executable)
ap.add_argument('--resident', action='store_true')
ap.add_argument('--cpu', action='store_true', help='tiny sizes, ours on the CPU: does this file work?')
a = ap.parse_args()
also = (['--resident'] if a.resident else [])
peer_py = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'bench', 'torch_gpu.py')


class Peer:
    """torch_gpu.py --serve, whose lines a thread reads, so that waiting for one can end."""

    def __init__(self, mode, lock):
        self.mode, self.lines, self.runs = mode, queue.Queue(), []
        mode, _, layout = mode.partition('-nchw') if mode.endswith('-nchw') else (mode, '', '')
        cmd = [a.python, peer_py, '--workload', a.workload, '--precision', a.precision, '--mode', mode, '--seconds', a.seconds,
               '--serve', '--lock', lock] + also + (['--nchw'] if self.mode.endswith('-nchw') else []) + (['--cpu'] if a.cpu else [])
        self.p = subprocess.Popen(cmd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.p.stdout:
            if line.startswith('{'): self.lines.put(json.loads(line))
        self.lines.put(None)

    def line(self, until):
        try: return self.lines.get(timeout=max(0.1, until - time.time()))
        except queue.Empty: return None

    def measure(self):
        try:
            self.p.stdin.write('\n')
            self.p.stdin.flush()
        except OSError: return None
        return self.line(time.time() + 30)

    def end(self):
        self.p.kill()
        self.p.wait()


def ours():
    cmd = [a.bench, a.workload, '1', a.seconds, '--precision', a.precision] + ([] if a.cpu else ['--gpu', '0']) + also
    try: run = subprocess.run(cmd, capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as e: sys.exit(f'ours does not run: {e}')
    line = [l for l in run.stdout.splitlines() if l.startswith('{')]
    if not line: sys.exit('ours does not run: ' + (run.stderr.strip().splitlines() or [f'status {run.returncode}'])[-1])
    print(line[-1], flush=True)
    return json.loads(line[-1])


mine, peers, absent = [], [], []
with tempfile.NamedTemporaryFile() as lock:
    started = time.time()
    waiting = [Peer(m, lock.name) for m in a.modes.split(',') if m]
    try:
        for p in waiting:
            ready = p.line(started + a.limit)
            if ready is None:
                p.end()
                absent.append(p.mode)
            else: peers.append(p)
        for _ in range(a.rounds):
            for p in peers or [None]:
                mine.append(ours())
                got = p.measure() if p else None
                if got:
                    p.runs.append(got)
                    print(json.dumps(got), flush=True)
    finally:
        for p in waiting: p.end()


def middle(runs, key): return statistics.median(r[key] for r in runs)


ms = middle(mine, 'ours_ms')
text = f"ours {ms:.3f} ms, {mine[0]['images_per_s'] * mine[0]['ours_ms'] / ms:.0f}/s, {mine[0]['memory_mb']:.0f} MB, {mine[0]['kernels']} kernels, first step {middle(mine, 'first_step_s'):.1f} s"
ran = sorted((p for p in peers if p.runs), key=lambda p: middle(p.runs, 'ms'))
absent += [p.mode for p in peers if not p.runs]
for p in ran:
    print(json.dumps(dict(workload=a.workload, precision=a.precision, resident=a.resident, peer=p.mode, version=p.runs[0]['version'],
                          ours_ms=round(ms, 5), peer_ms=round(middle(p.runs, 'ms'), 5), ratio=round(middle(p.runs, 'ms') / ms, 3),
                          ours_mb=mine[0]['memory_mb'], peer_mb=p.runs[0].get('memory_mb'), rounds=len(p.runs))))
if ran:
    best, mb = ran[0], ran[0].runs[0].get('memory_mb')
    least = min((p.runs[0].get('memory_mb') or 0 for p in ran))
    text += f"; PyTorch {middle(best.runs, 'ms'):.3f} ms ({best.mode}), {mb} MB (least {least}); ratio {middle(best.runs, 'ms') / ms:.2f}"
if absent: text += '; not ready: ' + ', '.join(absent)
print(text)
