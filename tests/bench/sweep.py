"""Random networks, in turn with other programs, on the same weights and inputs: training with PyTorch, predictions of the file that
tp_export_onnx writes with ONNX Runtime.

    gcc -std=c11 -O2 -I. tests/bench/sweep.c -o build/sweep -lm -lpthread
    build/venv/bin/python tests/bench/sweep.py train 1 40       seeds 1 to 40; make interop makes build/venv
        --batch 2               for all networks (predict: else 1, 8 and 64; train: else drawn, 1 to 256)
        --threads 1  --seconds 0.3  --rounds 3       0 rounds: compare only
        --skip-compare          measure only (train)
        --compile 15            torch.compile gets so many seconds for a network, 0 none; a second run finds its kernels in PyTorch's cache

Prints a JSON line for each network with the medians of the rounds; at the end geometric mean and least of the ratios (the other program's
time divided by ours).

train makes three steps. The cost of each and of a fourth, all variables and gradients after them are compared with those of PyTorch in
double. "error" is the largest distance of a variable or gradient, relative to its norm; it may be 1e-4, or thirty times that of PyTorch in
float32 (a gradient that is zero but for rounding has no digits that are right). If it is more, an input of a relu or another function with a
kink may have been rounded to the other side; then weights that differ by 1e-6 in PyTorch do as much, and the line says "kink". Else it says
"mismatch". The ratio is that of the
fastest variant of PyTorch, "by": eager, channels_last, compile. For the measurement PyTorch gets what it is fast at: its own GRU (ours is
TensorFlow's) and symmetric padding, where ours pads one row more below than above."""
import argparse
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np


class Net:
    """A network in PyTorch. Its parameters are rearrangements of our variables: index[k] says where in our variables, one after the
    other in one long vector, each element of parameter k lies."""

    def __init__(self, text, flat, where, as_pytorch_likes, dtype):
        self.run = {}
        exec('def net(x):\n ' + text.replace('; ', '\n ') + '\n return x', functions(self), self.run)
        self.flat, self.where, self.as_pytorch_likes, self.dtype = flat, where, as_pytorch_likes, dtype
        self.layers, self.parameters, self.index, self.moving = {}, [], [], {}

    def variables(self, layer, make):
        """The parameters of a layer, made of our variables at its first call."""
        if layer not in self.layers:
            self.layers[layer] = [self.parameter(i) for i in make(lambda name: self.where[layer + '/' + name])]
        return self.layers[layer]

    def parameter(self, index):
        p = torch.nn.Parameter(torch.tensor(self.flat[index]).to(self.dtype))
        self.parameters.append(p)
        self.index.append(index)
        return p

    def statistics(self, layer):
        if layer not in self.moving:
            index = [self.where[f'{layer}/{name}/EMA'] for name in ('mean', 'variance')]
            self.moving[layer] = [(i, torch.tensor(self.flat[i]).to(self.dtype)) for i in index]
        return [t for _, t in self.moving[layer]]

    def back(self, values):
        """Values of the parameters, such as gradients, in the order of our variables; NaN where there are none."""
        out = np.full(len(self.flat), np.nan)
        for index, v in zip(self.index, values):
            out[index] = v.detach().numpy()
        return out

    def state(self):
        out = self.back(self.parameters)
        for layer in self.moving.values():
            for index, t in layer:
                out[index] = t.numpy()
        return out


def functions(n):
    """How what sweep.c draws is written in PyTorch."""
    def affine(V):
        return V('gamma'), V('beta')

    def same(x, k, stride, dilation):
        """x and the padding of a convolution that is TensorFlow's SAME."""
        total = [max((-(-h // stride) - 1) * stride + (k - 1) * dilation + 1 - h, 0) for h in x.shape[2:]]
        if n.as_pytorch_likes:
            return x, (k - 1) * dilation // 2
        (top, left), (bottom, right) = [t // 2 for t in total], [t - t // 2 for t in total]
        return F.pad(x, (left, right, top, bottom)), 0

    def conv2d(x, name, stride=1, dilation=1, groups=1):
        w, b = n.variables(name, lambda V: (V('W').transpose(3, 2, 0, 1), V('b')))
        x, padding = same(x, w.shape[2], stride, dilation)
        return F.conv2d(x, w, b, stride, padding, dilation, groups)

    def depthwise(x, name, stride):
        w, = n.variables(name, lambda V: (V('W').transpose(2, 3, 0, 1),))
        x, padding = same(x, w.shape[2], stride, 1)
        return F.conv2d(x, w, None, stride, padding, 1, x.shape[1])

    def transposed(x, name):
        w, b = n.variables(name, lambda V: (V('W').transpose(3, 2, 0, 1), V('b')))
        if n.as_pytorch_likes:
            return F.conv_transpose2d(x, w, b, 2, 1, 1)
        return F.conv_transpose2d(x, w, b, 2)[:, :, :2 * x.shape[2], :2 * x.shape[3]]

    def dense(x, name):
        w, b = n.variables(name, lambda V: (V('W').T, V('b')))
        return F.linear(x.flatten(1), w, b)

    def batch_norm(x, name):
        gamma, beta = n.variables(name, affine)
        mean, variance = n.statistics(name)
        return F.batch_norm(x, mean, variance, gamma, beta, True, 0.1, 1.001e-5)

    @torch.compiler.disable  # torch.compile leaves PyTorch's LSTM and GRU as they are
    def lstm(x, name):  # ours: columns i, j, f, o, forget bias 1
        def make(V):
            (i, j, f, o), b = np.split(V('kernel').T, 4), V('bias').reshape(4, -1)
            w = np.concatenate((i, f, j, o))
            return w[:, :x.shape[2]], w[:, x.shape[2]:], b[[0, 2, 1, 3]].reshape(-1)
        w, u, b = n.variables(name, make)
        units = u.shape[1]
        forget = torch.zeros(4 * units, dtype=x.dtype)
        forget[units:2 * units] = 1
        zero = torch.zeros(1, x.shape[0], units, dtype=x.dtype)
        return torch._VF.lstm(x, (zero, zero), (w, u, b, forget), True, 1, 0.0, True, False, True)[0]

    @torch.compiler.disable
    def gru(x, name):
        def make(V):
            w = np.concatenate((V('gates/kernel').T, V('candidate/kernel').T))
            return w[:, :x.shape[2]], w[:, x.shape[2]:], np.concatenate((V('gates/bias'), V('candidate/bias')))
        w, u, b = n.variables(name, make)
        units = u.shape[1]
        h = torch.zeros(x.shape[0], units, dtype=x.dtype)
        if n.as_pytorch_likes:
            return torch._VF.gru(x, h[None], (w, u, b, torch.zeros_like(b)), True, 1, 0.0, True, False, True)[0]
        steps = []
        for a in F.linear(x, w, b).unbind(1):
            r, z = torch.sigmoid(a[:, :2 * units] + F.linear(h, u[:2 * units])).chunk(2, 1)
            h = z * h + (1 - z) * torch.tanh(a[:, 2 * units:] + F.linear(r * h, u[2 * units:]))
            steps.append(h)
        return torch.stack(steps, 1)

    def attention(x, name):
        w, b, wo, bo = n.variables(name, lambda V: (np.concatenate([V('W' + k).T for k in 'qkv']),
                                                    np.concatenate([V('b' + k) for k in 'qkv']), V('Wo').T, V('bo')))
        q, k, v = F.linear(x, w, b).unflatten(2, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        return F.linear(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2), wo, bo)

    return dict(
        conv2d=conv2d, depthwise=depthwise, transposed=transposed, dense=dense, batch_norm=batch_norm, lstm=lstm, gru=gru,
        attention=attention,
        embedding=lambda x, name: F.embedding(x, n.variables(name, lambda V: (V('W'),))[0]),
        instance_norm=lambda x, name: F.instance_norm(x, None, None, *n.variables(name, affine)),
        group_norm=lambda x, name, groups: F.group_norm(x, groups, *n.variables(name, affine)),
        prelu=lambda x, name: F.prelu(x, n.variables(name, lambda V: (V('alpha').reshape(1),))[0]),
        maxout=lambda x, k: x.unflatten(1, (-1, k)).amax(2),
        max_pool=F.max_pool2d, avg_pool=F.avg_pool2d, global_avg_pool=lambda x: x.mean((2, 3)),
        concat=lambda *xs: torch.cat(xs, 1),
        relu=F.relu, leaky=lambda x: F.leaky_relu(x, 0.1), elu=F.elu, gelu=F.gelu, silu=F.silu, tanh=torch.tanh,
        sigmoid=torch.sigmoid, softplus=F.softplus, selu=F.selu, gelu_tanh=lambda x: F.gelu(x, approximate='tanh'),
        relu6=F.relu6, hard_swish=F.hardswish, mish=F.mish)


def training(line, folder, dtype, as_pytorch_likes=False, channels_last=False):
    """The network, its cost as a function, and its optimizer."""
    start = np.load(folder + '/start.npz')
    arrays = {k.removesuffix(':0'): start[k] for k in start.files}
    where, at = {}, 0
    for k, a in arrays.items():
        where[k] = np.arange(at, at + a.size).reshape(a.shape)
        at += a.size
    flat = np.concatenate([a.reshape(-1).astype(np.float64) for a in arrays.values()])
    n = Net(line['net'], flat, where, as_pytorch_likes, dtype)
    x, label = torch.tensor(np.load(folder + '/x.npy')), torch.tensor(np.load(folder + '/label.npy')).long()
    if x.ndim == 4:
        x = x.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)
    x = x.to(dtype) if x.is_floating_point() else x

    def cost():
        y = n.run['net'](x)
        return (y - 1).square().mean() if y.shape[1] == 1 else F.cross_entropy(y, label)

    cost()  # makes the parameters
    n.moving.clear()
    if channels_last:
        for p in n.parameters:
            if p.ndim == 4: p.data = p.data.contiguous(memory_format=torch.channels_last)
    optimizer = {'SGD': lambda: torch.optim.SGD(n.parameters, 1e-2, fused=True),
                 'Momentum': lambda: torch.optim.SGD(n.parameters, 1e-2, 0.9, fused=True),
                 'Adam': lambda: torch.optim.Adam(n.parameters, 1e-3, eps=1e-15, fused=True)}[line['optimizer']]()
    return n, cost, optimizer


def three_steps(line, folder, dtype, perturb=0, rng=None):
    """The network; costs, state and gradients after three steps, from weights that are changed by a relative `perturb`."""
    n, cost, optimizer = training(line, folder, dtype)
    for p in n.parameters:
        if perturb: p.data *= 1 + perturb * torch.randn(p.shape, generator=rng, dtype=dtype)
    costs = []
    for step in range(4):
        if step == 3: state = n.state()
        optimizer.zero_grad()
        c = cost()
        c.backward()
        costs.append(c.item())
        if step < 3: optimizer.step()
    return n, (np.array(costs), state, n.back([p.grad for p in n.parameters]))


def compare(line, folder):
    n, want = three_steps(line, folder, torch.float64)
    end, grads = ({k.removesuffix(':0'): a for k, a in np.load(f'{folder}/{f}.npz').items()} for f in ('end', 'grads'))
    ours = [('cost', np.array(line.pop('cost')), 0, ...)]
    ours += [(k, end[k], 1, i) for k, i in n.where.items() if not np.isnan(want[1][i]).any()]
    ours += [('gradient of ' + k, a, 2, n.where[k]) for k, a in grads.items()]
    largest = max(np.linalg.norm(want[2][n.where[k]]) for k in grads)
    noise = [0.0] * len(ours)

    def differing(peer):
        line['error'], wrong = 0.0, []
        for k, (name, a, which, i) in enumerate(ours):
            size = max(np.linalg.norm(want[which][i]), 1e-30)
            error = np.linalg.norm(a - want[which][i]) / size
            noise[k] = max(noise[k], np.linalg.norm(peer[which][i] - want[which][i]) / size)
            if noise[k] < 1e-4: line['error'] = max(line['error'], float(f'{error:.2g}'))
            if not error <= max(1e-4, 30 * noise[k], 1e-6 * largest / size if which == 2 else 0):
                wrong.append(f'{name} {error:.1e} ({noise[k]:.1e})')
        return wrong

    wrong = differing(three_steps(line, folder, torch.float32)[1])
    rng = torch.Generator().manual_seed(1)
    for _ in range(16):  # is it a kink?
        if not wrong: break
        line['kink'] = True
        wrong = differing(three_steps(line, folder, torch.float64, 1e-6, rng)[1])
    if wrong: line['mismatch'] = wrong


def measure(run, seconds):
    """Milliseconds of a run: the best of five averages."""
    run()
    best = 1e30
    for _ in range(5):
        n, t0 = 0, time.perf_counter()
        while n == 0 or time.perf_counter() - t0 < seconds / 5:
            run()
            n += 1
        best = min(best, (time.perf_counter() - t0) / n)
    return best * 1e3


def too_long(*_):
    raise TimeoutError


def variants(line, folder, options):
    """The ways to make a step in PyTorch, by name."""
    def step(cost, optimizer):
        for group in optimizer.param_groups: group['lr'] = 1e-6

        def run():
            cost().backward()
            optimizer.step()
            optimizer.zero_grad()
        return run

    found = {}
    for name in ('eager', 'channels_last'):
        if name == 'eager' or 'conv2d' in line['net']:
            n, cost, optimizer = training(line, folder, torch.float32, True, name == 'channels_last')
            found[name] = step(cost, optimizer)
    if options.compile:
        torch._dynamo.reset()
        signal.signal(signal.SIGALRM, too_long)
        try:
            signal.setitimer(signal.ITIMER_REAL, options.compile)
            n, cost, optimizer = training(line, folder, torch.float32, True)
            cost()
            run = step(torch.compile(cost), optimizer)
            run()
            found['compile'] = run
        except Exception as e:
            line['compile'] = 'too long' if isinstance(e, TimeoutError) or 'TimeoutError' in str(e) else str(e)[:200]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    return found


def onnx_runtime(line, folder, threads):
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = ort.InferenceSession(folder + '/net.onnx', options, providers=['CPUExecutionProvider'])
    feed = {session.get_inputs()[0].name: np.load(folder + '/x.npy')}
    want, got = session.run(None, feed)[0], np.load(folder + '/y.npy')
    line['error'] = float(f'{np.abs(want - got).max() / max(np.abs(want).max(), 1e-30):.2g}')
    return {'onnxruntime': lambda: session.run(None, feed)}


def ours(seed, batch, o, folder):
    run = subprocess.run(['build/sweep', o.mode, str(seed), str(batch), str(o.threads), str(o.seconds if o.rounds else 0), folder],
                         capture_output=True, text=True)
    if run.returncode: raise RuntimeError(run.stderr.strip()[-300:])
    return json.loads(re.sub(r'-?\b(nan|inf)\b(?=[],])', 'NaN', run.stdout))  # C and JSON name them differently


def one(seed, batch, o, folder):
    line = ours(seed, batch, o, folder)
    if not all(map(math.isfinite, line.get('cost', ()))):
        return {'seed': seed, 'diverges': True, 'net': line['net']}  # there is nothing to compare
    if o.mode == 'train' and not o.skip_compare: compare(line, folder)
    if not o.rounds and o.mode == 'train':
        del line['ours_ms']
        return line
    peers = variants(line, folder, o) if o.mode == 'train' else onnx_runtime(line, folder, o.threads)
    mine, theirs = [], {k: [] for k in peers}
    for _ in range(o.rounds):
        mine.append(ours(seed, batch, o, folder)['ours_ms'])
        for k, run in peers.items(): theirs[k].append(measure(run, o.seconds))
    if o.rounds:
        line['ours_ms'] = statistics.median(mine)
        line['peer_ms'] = {k: round(statistics.median(t), 4) for k, t in theirs.items()}
        line['by'] = min(line['peer_ms'], key=line['peer_ms'].get)
        line['ratio'] = round(line['peer_ms'][line['by']] / line['ours_ms'], 3)
    line.pop('cost', 0)
    line['net'] = line.pop('net')  # last
    return line


parser = argparse.ArgumentParser()
parser.add_argument('mode', choices=('train', 'predict'))
parser.add_argument('first', type=int)
parser.add_argument('last', type=int)
parser.add_argument('--batch', type=int)
parser.add_argument('--threads', type=int, default=1)
parser.add_argument('--rounds', type=int, default=3)
parser.add_argument('--seconds', type=float, default=0.3)
parser.add_argument('--skip-compare', action='store_true')
parser.add_argument('--compile', type=float, default=15)
o = parser.parse_args()
sources = [f for f in os.listdir('.') if f.startswith('tp_') and f.endswith('.h')] + ['tests/bench/sweep.c']
if not os.path.exists('build/sweep') or max(map(os.path.getmtime, sources)) > os.path.getmtime('build/sweep'):
    sys.exit('build/sweep is older than the headers or is not there: compile it, as the first lines of sweep.py say')
if o.mode == 'train':
    os.environ['TORCHINDUCTOR_COMPILE_THREADS'] = '1'  # in this process: nothing goes on when the time is over
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(o.threads)
else:
    import onnxruntime as ort
batches = (o.batch,) if o.batch else (0,) if o.mode == 'train' else (1, 8, 64)
ratios, wrong = {b: [] for b in batches}, 0
with tempfile.TemporaryDirectory() as folder:
    for seed in range(o.first, o.last + 1):
        for batch in batches:
            try:
                line = one(seed, batch, o, folder)
            except RuntimeError as e:
                line = {'seed': seed, 'mismatch': str(e)}
            print(json.dumps(line), flush=True)
            wrong += 'mismatch' in line
            if 'ratio' in line: ratios[batch].append(line['ratio'])
for batch, r in ratios.items():
    total = {'workload': f'sweep.{o.mode}', 'batch': batch or '1 to 256', 'threads': o.threads}
    if r: total.update(networks=len(r), geomean=round(math.exp(sum(map(math.log, r)) / len(r)), 3), least=min(r))
    print(json.dumps(total))
sys.exit(f'{wrong} networks differ' if wrong else 0)
