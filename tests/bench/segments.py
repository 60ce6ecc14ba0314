"""A step of a graph network, here (segments.c) and in PyTorch, in turn, one thread.

    make build/segments
    python tests/bench/segments.py [--nodes 100000] [--edges 2000000] [--units 4] [--rounds 3] [--seconds 2]

Prints one line of JSON: milliseconds (medians of the rounds) and PyTorch's divided by ours."""
import argparse
import json
import statistics
import subprocess
import time

import torch


def step_ms(nodes, edges, units, seconds):
    torch.manual_seed(1)
    torch.set_num_threads(1)
    x = torch.randn(nodes, units, requires_grad=True)
    start, to = (torch.randint(nodes, (edges,)) for _ in range(2))
    times, end = [], time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        begin = time.perf_counter()
        x.grad = None
        torch.zeros(nodes, units).index_add(0, to, x[start]).square().sum().backward()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


def main():
    p = argparse.ArgumentParser()
    for name, value in (("nodes", 100000), ("edges", 2000000), ("units", 4), ("rounds", 3)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--seconds", type=float, default=2)
    a = p.parse_args()
    ours, peer = [], []
    for _ in range(a.rounds):
        out = subprocess.run(["build/segments", *(str(x) for x in (a.nodes, a.edges, a.units, a.seconds))], check=True,
                             capture_output=True, text=True)
        ours.append(json.loads(out.stdout)["ours_ms"])
        peer.append(step_ms(a.nodes, a.edges, a.units, a.seconds))
    ms, peer_ms = statistics.median(ours), statistics.median(peer)
    print(json.dumps({"workload": "segments", "nodes": a.nodes, "edges": a.edges, "units": a.units, "ours_ms": round(ms, 3),
                      "peer_ms": round(peer_ms, 3), "ratio": round(peer_ms / ms, 3)}))


main()
