#!/usr/bin/env python3
"""HorovodTrainer and PyTorch's DistributedDataParallel over gloo, in turn: a rank has one core; and one process of each alone.
usage: ddp.py python workload ranks rounds seconds      VARIANTS="eager;compile --channels-last": only these
       ddp.py --peer workload [--ranks n] [--mode eager|compile] [--channels-last] [--seconds s]     one line of PyTorch's

workload: mlp.b<batch>, mnistcnn.b<batch>, resnet20.b<batch>; the batch is that of one rank. build/ranks and build/bench are made by
run.sh. A line for each variant of PyTorch: the milliseconds of a step, medians over the rounds; ratio: PyTorch's divided by ours;
single_...: the same of one process on one core; computation: a step without communication, made by all ranks at the same time;
communication: what a step with it takes more; all_reduce: the bytes of all gradients, summed with nothing beside it. busy:
the most that other programs took of the processors during a run, its start included (Linux: /proc/stat); root's runs go before them (autogroup)."""
import json
import os
import socket
import statistics
import subprocess
import sys
import time


def option(name, default):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


# ==== one rank of PyTorch ====


def network(workload, channels_last):
    import torch
    from torch_nets import MLP, MnistCNN, ResNet20
    name, _, size = workload.partition('.b')
    batch = int(size)
    if name == 'mlp':
        net, x = MLP(), torch.rand(batch, 784)
        make = lambda p: torch.optim.SGD(p, 0.01)
    elif name == 'mnistcnn':
        net, x = MnistCNN(), torch.rand(batch, 1, 28, 28)
        make = lambda p: torch.optim.Adam(p, 1e-3)
    else:
        net, x = ResNet20(), torch.rand(batch, 3, 32, 32) * 255 - 128
        make = lambda p: torch.optim.SGD(p, 0.01, 0.9, weight_decay=2e-4)
    if channels_last:
        net, x = net.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    return net.train(), x, torch.arange(batch) % 10, make


def peer(rank, size, port):
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    workload, mode, channels_last = sys.argv[2], option('--mode', 'eager'), '--channels-last' in sys.argv
    seconds = float(option('--seconds', '2'))
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    if size > 1: dist.init_process_group('gloo', init_method=f'tcp://127.0.0.1:{port}', rank=rank, world_size=size)

    def measure(parallel, steps):
        """Milliseconds of a step: the median over 10 windows of the mean in each. steps: of a window, 0: as many as fill the time."""
        net, x, y, make = network(workload, channels_last)
        decay = getattr(net, 'decay', None)
        optimizer = make(net.parameters())
        if parallel: net = torch.nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True)
        if mode == 'compile': net = torch.compile(net)

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(net(x), y)
            if decay: loss = loss + decay()
            loss.backward()
            optimizer.step()

        for _ in range(10): step()
        if size > 1: dist.barrier()
        if not steps:
            began = time.perf_counter()
            for _ in range(5): step()
            n = torch.tensor([1 + int(seconds / 10 / ((time.perf_counter() - began) / 5))])
            if size > 1: dist.broadcast(n, 0)
            steps = int(n)
        windows = []
        for _ in range(10):
            began = time.perf_counter()
            for _ in range(steps): step()
            windows.append((time.perf_counter() - began) / steps * 1e3)
        if size > 1: dist.barrier()
        return statistics.median(windows), steps

    compute, steps = measure(False, 0)
    line = dict(peer='torch-' + mode + ('-cl' if channels_last else ''), workload=workload, ranks=size, compute_ms=compute, step_ms=compute)
    if size > 1:
        line['step_ms'] = measure(True, steps)[0]
        x, took = torch.zeros(sum(p.numel() for p in network(workload, False)[0].parameters())), []
        for _ in range(10):
            dist.barrier()
            began = time.perf_counter()
            dist.all_reduce(x)
            took.append((time.perf_counter() - began) * 1e3)
        line['all_reduce_ms'] = min(took)
        dist.barrier()
    if rank == 0: print(json.dumps(line), flush=True)
    os._exit(0) # gloo's threads, and those that compile, do not always end


# ==== both in turn ====


def processor_seconds(cores):
    """Seconds that these processors have worked since the machine was started, or were taken from it (steal); those of our processes that have ended."""
    worked, ours = 0, os.times()
    for line in open('/proc/stat') if os.path.exists('/proc/stat') else []:
        name, *fields = line.split()[:9]
        if name in [f'cpu{c}' for c in cores]: worked += sum(int(x) for x in fields) - int(fields[3]) - int(fields[4])
    return worked / os.sysconf('SC_CLK_TCK'), sum(ours[:4])


most_busy = 0


def last_json(commands, cores):
    """The line of a run; counts what other programs take meanwhile."""
    global most_busy
    used = set().union(*cores)
    began, (all0, ours0) = time.perf_counter(), processor_seconds(used)
    line = run_once(commands, cores)
    all1, ours1 = processor_seconds(used)
    most_busy = max(most_busy, ((all1 - all0) - (ours1 - ours0)) / (time.perf_counter() - began) / len(used))
    return line


def run_once(commands, cores):
    """The last line of JSON that the first of these processes prints, each of which has a core of its own."""
    runs = [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             preexec_fn=(lambda core: lambda: os.sched_setaffinity(0, core))(core)) for c, core in zip(commands, cores)]
    out = [r.communicate() for r in runs]
    for line in reversed(out[0][0].strip().splitlines()):
        if line.startswith('{') and not any(r.returncode for r in runs): return json.loads(line)
    sys.exit(' '.join(commands[0]) + ': no result\n' + '\n'.join(o[1][-800:] for o in out))


def pair(python, workload, ranks, rounds, seconds):
    cores = sorted(os.sched_getaffinity(0))
    if ranks > len(cores): sys.exit(f'ddp.py: {ranks} ranks of one core each want as many cores; there are {len(cores)}')
    variants = ['eager', 'compile'] + ([] if workload.startswith('mlp') else ['eager --channels-last', 'compile --channels-last'])
    if os.environ.get('VARIANTS'): variants = os.environ['VARIANTS'].split(';')
    os.environ.update(OMP_NUM_THREADS='1', GLOO_SOCKET_IFNAME='lo', OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1')
    mpirun = os.environ.get('MPIRUN', 'mpirun').split() + ['-np', str(ranks), '--bind-to', 'core', 'build/ranks', workload, seconds]
    try: # where Linux shares processors between sessions, this one goes before others
        os.setsid()
        with open('/proc/self/autogroup', 'w') as f: f.write('-20')
    except OSError: pass
    ours, alone, theirs = [], [], {v: ([], []) for v in variants}

    def torch_line(variant, n):
        with socket.socket() as s: # a port that nobody uses
            s.bind(('127.0.0.1', 0))
            port = s.getsockname()[1]
        command = [python, __file__, '--peer', workload, '--ranks', str(n), '--seconds', seconds, '--port', str(port), '--mode'] + variant.split()
        return last_json([command + ['--rank', str(i)] for i in range(n)], [{c} for c in cores[:n]])

    for _ in range(rounds):
        for v in variants:
            ours.append(last_json([mpirun], [cores]))
            theirs[v][0].append(torch_line(v, ranks))
            alone.append(last_json([['build/bench', workload, '1', seconds]], [cores[:1]]))
            theirs[v][1].append(torch_line(v, 1))
    middle = lambda lines, key: statistics.median(l[key] for l in lines)
    ms, compute, single = middle(ours, 'step_ms'), middle(ours, 'compute_ms'), middle(alone, 'ours_ms')
    lines = []
    for many, one in theirs.values():
        peer_ms, peer_single = middle(many, 'step_ms'), middle(one, 'step_ms')
        line = dict(workload=workload, ranks=ranks, ours_ms=ms, peer=many[0]['peer'].replace('torch', 'ddp'), peer_ms=peer_ms, ratio=peer_ms / ms,
                    single_ours_ms=single, single_peer_ms=peer_single, single_ratio=peer_single / single,
                    ours_computation_ms=compute, ours_communication_ms=ms - compute, ours_wait_ms=middle(ours, 'wait_ms'),
                    peer_computation_ms=middle(many, 'compute_ms'), peer_communication_ms=peer_ms - middle(many, 'compute_ms'),
                    ours_all_reduce_ms=middle(ours, 'mb') / middle(ours, 'gb_per_s') + middle(ours, 'latency_us') / 1e3,
                    peer_all_reduce_ms=middle(many, 'all_reduce_ms'), model_ms=middle(ours, 'predicted_ms'))
        lines.append({k: round(v, 3) if isinstance(v, float) else v for k, v in line.items()} | dict(rounds=rounds))
    for line in sorted(lines, key=lambda l: -l['peer_ms']): print(json.dumps(line))
    best, best_single = min(l['peer_ms'] for l in lines) / ms, min(l['single_peer_ms'] for l in lines) / single
    print(json.dumps(dict(workload=workload, ranks=ranks, best_ratio=round(best, 3), best_single_ratio=round(best_single, 3), busy=round(most_busy, 3))))


if sys.argv[1] == '--peer': peer(int(option('--rank', '0')), int(option('--ranks', '1')), option('--port', '29511'))
else: pair(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
