"""The workloads of bench.c in PyTorch on a GPU: one JSON line with the median time of a training step.
usage: torch_gpu.py --workload resnet50.b256 [--precision f32|tf32|bf16] [--mode eager|compile|reduce-overhead|max-autotune|graph]
                    [--nchw] [--resident] [--seconds 2] [--serve] [--lock file] [--cpu]
modes      eager; torch.compile in its default mode, with CUDA graphs (reduce-overhead), with a search (max-autotune);
           graph: an eager step captured whole as one CUDA graph, which no user gets without writing it
--nchw     contiguous images and filters; the default for images is channels-last
--resident resnet50: float images that lie on the device; else bytes are uploaded in each step, as bench.c does
--serve    after warming up, one measurement for each line on stdin, until it ends: for interleaved runs
--lock     taken while warming up, so that processes side by side do not disturb each other's choice of kernels
--cpu      tiny sizes on the CPU: does this file work?
Inputs of a step come from pinned memory without blocking. Steps are queued without waiting for each other; a window of
them is timed from a synchronised start to a synchronised end. Memory is the peak of steps after warming up."""
import time; T0 = time.time()
import argparse, contextlib, fcntl, json, math, statistics, sys

ap = argparse.ArgumentParser()
ap.add_argument('--workload', required=True)
ap.add_argument('--precision', default='f32', choices=['f32', 'tf32', 'bf16'])
ap.add_argument('--mode', default='eager', choices=['eager', 'compile', 'reduce-overhead', 'max-autotune', 'graph'])
ap.add_argument('--nchw', action='store_true')
ap.add_argument('--resident', action='store_true')
ap.add_argument('--seconds', type=float, default=2.0)
ap.add_argument('--serve', action='store_true')
ap.add_argument('--lock')
ap.add_argument('--cpu', action='store_true')
a = ap.parse_args()

import torch, torch.nn as nn, torch.nn.functional as F
from torch_nets import MLP, MnistCNN, ResNet20

if not a.cpu and not torch.cuda.is_available():
    sys.exit('torch_gpu.py: this PyTorch sees no GPU')
dev = torch.device('cpu' if a.cpu else 'cuda')
torch.manual_seed(0)
tf32 = a.precision != 'f32' # under autocast too: what stays float32 may use it
torch.set_float32_matmul_precision('high' if tf32 else 'highest')
torch.backends.cudnn.allow_tf32 = tf32
torch.backends.cudnn.benchmark = True

# ==== the networks ====


class Bottleneck(nn.Module):
    def __init__(self, c_in, width, stride):
        super().__init__()
        c = 4 * width
        self.c1, self.b1 = nn.Conv2d(c_in, width, 1, bias=False), nn.BatchNorm2d(width)
        self.c2, self.b2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.c3, self.b3 = nn.Conv2d(width, c, 1, bias=False), nn.BatchNorm2d(c)
        self.shortcut = nn.Identity() if c_in == c else nn.Sequential(nn.Conv2d(c_in, c, 1, stride, bias=False), nn.BatchNorm2d(c))

    def forward(self, x):
        y = F.relu(self.b2(self.c2(F.relu(self.b1(self.c1(x))))))
        return F.relu(self.b3(self.c3(y)) + self.shortcut(x))


class ResNet50(nn.Module):  # v1.5, as torchvision has it
    def __init__(self):
        super().__init__()
        self.c0, self.b0 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        blocks, c = [], 64
        for group, n in enumerate((3, 4, 6, 3)):
            for i in range(n):
                blocks.append(Bottleneck(c, 64 << group, 2 if group and not i else 1))
                c = 256 << group
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(2048, 1000)
        for m in self.modules():
            if isinstance(m, nn.Conv2d): nn.init.kaiming_normal_(m.weight, mode='fan_out', nonlinearity='relu')

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.b0(self.c0(x))), 3, 2, 1)
        return self.fc(self.blocks(x).mean((2, 3)))


class CharLSTM(nn.Module):
    def __init__(self, units, classes=100):
        super().__init__()
        self.embedding, self.fc = nn.Embedding(classes, units), nn.Linear(units, classes)
        self.lstm = nn.LSTM(units, units, 2, batch_first=True)

    def forward(self, x):
        return self.fc(self.lstm(self.embedding(x))[0]).flatten(0, 1)


class GPTBlock(nn.Module):
    def __init__(self, c=256, heads=4):
        super().__init__()
        self.n1, self.n2, self.heads = nn.LayerNorm(c), nn.LayerNorm(c), heads
        self.qkv, self.out, self.up, self.down = nn.Linear(c, 3 * c), nn.Linear(c, c), nn.Linear(c, 4 * c), nn.Linear(4 * c, c)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class GPT(nn.Module):
    def __init__(self, words=1024, places=128, c=256):
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(words, c), nn.Embedding(places, c), nn.LayerNorm(c)
        self.blocks = nn.Sequential(*[GPTBlock(c) for _ in range(4)])

    def forward(self, x):
        x = self.blocks(self.words(x) + self.places.weight[:x.shape[1]])
        return F.linear(self.norm(x), self.words.weight).flatten(0, 1)


# ==== a workload: network, inputs in host memory, optimizer ====

name, _, size = a.workload.partition('.')
batch = 4 if a.cpu or name == 'gpt' else int(size[1:])
image_side = 64 if a.cpu and name == 'resnet50' else {'mnistcnn': 28, 'resnet20': 32, 'resnet50': 224}.get(name, 0)
steps = 5 if a.cpu else 50
layout = torch.channels_last if image_side and not a.nchw else torch.contiguous_format
clip = None
fast = dict(fused=True) if not a.cpu else {}
can_record = dict(capturable=True) if a.mode == 'graph' else {}


def images(c):
    x = torch.randint(0, 256, (batch, c, image_side, image_side), dtype=torch.uint8)
    return (x if name == 'resnet50' and not a.resident else x / 255.).contiguous(memory_format=layout)


if name == 'mlp':
    net, x = MLP(), torch.rand(batch, 784)
    make = lambda p: torch.optim.SGD(p, 0.01, **fast)
elif name == 'mnistcnn':
    net, x = MnistCNN(), images(1)
    make = lambda p: torch.optim.Adam(p, 1e-3, **fast, **can_record)
elif name == 'resnet20':
    net, x = ResNet20(), images(3)
    make = lambda p: torch.optim.SGD(p, 0.01, 0.9, weight_decay=2e-4, **fast)
elif name == 'resnet50':
    net, x = ResNet50(), images(3)
    make = lambda p: torch.optim.SGD(p, 0.1, 0.9, weight_decay=1e-4, **fast)
elif name in ('lstm128', 'lstm256'):
    net, x, clip = CharLSTM(int(name[4:])), torch.randint(0, 100, (batch, steps)), 5.0
    make = lambda p: torch.optim.Adam(p, 2e-3, **fast, **can_record)
elif name == 'gpt':
    net, x = GPT(), torch.randint(0, 1024, (batch, 8 if a.cpu else 128))
    make = lambda p: torch.optim.AdamW(p, 1e-4, **fast, **can_record)
else:
    sys.exit(f"torch_gpu.py: no workload '{a.workload}'")
y = torch.arange(x.numel() if name in ('lstm128', 'lstm256', 'gpt') else batch) % 10
net = net.to(dev).train()
if image_side: net = net.to(memory_format=layout)
params = list(net.parameters())
opt = make(params)
if a.resident: x, y = x.to(dev), y.to(dev)
elif not a.cpu: x, y = (torch.empty_like(t, pin_memory=True).copy_(t) for t in (x, y)) # keeps the layout


def loss_of(x, y):
    with torch.autocast(dev.type, torch.bfloat16) if a.precision == 'bf16' else contextlib.nullcontext():
        if x.dtype == torch.uint8: x = x * (1 / 127.5) - 1
        loss = F.cross_entropy(net(x), y)
    return loss + net.decay() if hasattr(net, 'decay') else loss


if a.mode in ('compile', 'reduce-overhead', 'max-autotune'):
    import torch._dynamo
    loss_of = torch.compile(loss_of, mode=None if a.mode == 'compile' else a.mode)


def update(x, y):
    opt.zero_grad(set_to_none=True)
    loss_of(x, y).backward()
    if clip: nn.utils.clip_grad_norm_(params, clip)
    opt.step()


def step():
    if a.mode == 'reduce-overhead': torch.compiler.cudagraph_mark_step_begin()
    update(x.to(dev, non_blocking=True), y.to(dev, non_blocking=True))


def wait():
    if dev.type == 'cuda': torch.cuda.synchronize()


def record():
    """The whole step as one CUDA graph, over inputs that stay where they are."""
    sx, sy = x.to(dev), y.to(dev)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5): update(sx, sy)
    torch.cuda.current_stream().wait_stream(side)
    g = torch.cuda.CUDAGraph()
    opt.zero_grad(set_to_none=True)
    with torch.cuda.graph(g):
        loss_of(sx, sy).backward()
        if clip: nn.utils.clip_grad_norm_(params, clip)
        opt.step()

    def replay():
        if not a.resident:
            sx.copy_(x, non_blocking=True)
            sy.copy_(y, non_blocking=True)
        g.replay()
    return replay


# ==== measuring ====

@contextlib.contextmanager
def alone():
    if not a.lock:
        yield
        return
    with open(a.lock, 'w') as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def timed(n):
    wait()
    t = time.perf_counter()
    for _ in range(n): step()
    wait()
    return (time.perf_counter() - t) / n


def measure():
    """Windows of at least 50 ms each; the median of their steps' times."""
    n = max(1, math.ceil(0.05 / max(timed(3), 1e-6)))
    windows, end = [], time.perf_counter() + a.seconds
    while len(windows) < 3 or time.perf_counter() < end: windows.append(timed(n))
    ms = statistics.median(windows) * 1e3
    mb = 1 << 20
    memory = {} if a.cpu else dict(memory_mb=round(torch.cuda.max_memory_allocated() / mb, 1),
                                   reserved_mb=round(torch.cuda.max_memory_reserved() / mb, 1),
                                   device=torch.cuda.get_device_name())
    print(json.dumps(dict(peer='torch-' + a.mode + ('-nchw' if a.nchw and image_side else ''), version=torch.__version__,
                          workload=a.workload, precision=a.precision, resident=a.resident, ms=round(ms, 5),
                          best_ms=round(min(windows) * 1e3, 5), windows=len(windows), steps_per_window=n,
                          images_per_s=round(batch * 1e3 / ms, 1), first_step_s=round(first, 2),
                          ready_s=round(ready, 2), params=sum(p.numel() for p in params), **memory)), flush=True)


with alone():
    step()
    wait()
    first = time.time() - T0
    if a.mode == 'graph': step = record()
    began = time.perf_counter()
    for i in range(2 if a.cpu else 200): # what is compiled again or recorded settles in the first few
        step()
        if i >= 10 and time.perf_counter() - began > 1: break
    wait()
    ready = time.time() - T0
    if dev.type == 'cuda':
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
if a.serve:
    print(json.dumps(dict(ready=round(ready, 2))), flush=True)
    for line in sys.stdin: measure()
else:
    measure()
