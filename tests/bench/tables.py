"""A training step on two large tables, here (tables.c) and in PyTorch with dense and with sparse gradients, in turn, one thread.

    make build/tables
    python tests/bench/tables.py [--rows 1000000] [--units 32] [--batch 1024] [--rounds 3] [--seconds 2]

Prints one line of JSON: milliseconds (medians of the rounds) and the best of PyTorch's divided by ours."""
import argparse
import json
import statistics
import subprocess
import time

import torch


def step_ms(rows, units, batch, seconds, sparse):
    torch.manual_seed(1)
    torch.set_num_threads(1)
    tables = [torch.nn.Embedding(rows, units, sparse=sparse) for _ in range(2)]
    optimizer = torch.optim.SGD([t.weight for t in tables], lr=0.01)
    times, end = [], time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        user, item = ((torch.rand(batch) ** 4 * rows).long().clamp(max=rows - 1) for _ in range(2))
        label = (torch.rand(batch) > 0.5).float()
        begin = time.perf_counter()
        optimizer.zero_grad()
        dot = (tables[0](user) * tables[1](item)).sum(1)
        torch.nn.functional.binary_cross_entropy_with_logits(dot, label).backward()
        optimizer.step()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


def main():
    p = argparse.ArgumentParser()
    for name, value in (("rows", 1000000), ("units", 32), ("batch", 1024), ("rounds", 3)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--seconds", type=float, default=2)
    a = p.parse_args()
    ours, peers = [], {"dense": [], "sparse": []}
    for _ in range(a.rounds):
        out = subprocess.run(["build/tables", *(str(x) for x in (a.rows, a.units, a.batch, a.seconds))], check=True,
                             capture_output=True, text=True)
        ours.append(json.loads(out.stdout)["ours_ms"])
        for name in peers:
            peers[name].append(step_ms(a.rows, a.units, a.batch, a.seconds, name == "sparse"))
    peer_ms = {name: round(statistics.median(ms), 3) for name, ms in peers.items()}
    ms = statistics.median(ours)
    print(json.dumps({"workload": "tables", "rows": a.rows, "units": a.units, "batch": a.batch, "ours_ms": round(ms, 3),
                      "peer_ms": peer_ms, "ratio": round(min(peer_ms.values()) / ms, 3)}))


main()
