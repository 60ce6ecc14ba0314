"""Single ops and their gradients, here (ops.c) and in PyTorch, in turn, one thread.

    make build/ops
    python tests/bench/ops.py [part of a name] [--rounds 3] [--seconds 0.2]

Prints one line of JSON for each case: milliseconds of y = f(x) and of a step, which also computes dx (medians of the rounds), and
PyTorch's divided by ours; at last the geometric mean and the least of each. PyTorch gets images in the layout that the case names,
channels last where it names none."""
import argparse
import json
import math
import statistics
import subprocess
import time

import torch
import torch.nn.functional as F

CASES = {}


def positive(*shape):
    return lambda: torch.rand(*shape) * 1.5 + 0.5


def below(most, n):
    return lambda: torch.randint(most, (n,))


def case(name, f, *shape, gradient=True, **others):
    """others: more operands, each a shape or a function that makes it"""
    CASES[name] = (f, shape, gradient, others)


def nhwc(x):  # the same memory, as PyTorch names it
    return x.permute(0, 3, 1, 2)


case("add_row", lambda x, b: x + b, 1024, 1024, b=(1, 1024))
case("add_column", lambda x, b: x + b, 1024, 1024, b=(1024, 1))
case("mul_channels_nchw", lambda x, b: x * b, 64, 64, 16, 16, b=(1, 64, 1, 1))
case("mul_samples", lambda x, b: x * b, 64, 256, 1, 64, b=(64, 1, 1, 64))
case("outer_sum", lambda x, b: x + b, 1024, 1, b=(1, 1024))
case("mul_middle", lambda x, b: x * b, 64, 128, 128, b=(64, 1, 128))
case("add_scalar", lambda x, b: x + b, 1024, 1024, b=(1,))
case("mod", torch.remainder, 1024, 1024, b=positive(1024, 1024))
case("floordiv", torch.floor_divide, 1024, 1024, gradient=False, b=positive(1024, 1024))
case("maximum", torch.maximum, 1024, 1024, b=(1024, 1024))
case("select_greater", lambda x, b, c: torch.where(x > b, x, c), 1024, 1024, b=(1024, 1024), c=positive(1024, 1024))
case("round_", torch.round, 1024, 1024, gradient=False)
case("clip", lambda x: x.clamp(-1, 1), 1024, 1024)
case("to_f64", lambda x: x.double().square().float(), 1024, 1024)
case("to_int", lambda x: (x.abs() * 100).int().float(), 1024, 1024, gradient=False)
case("int_sum", lambda x: ((x.abs() * 100).int() + (x.abs() * 50).int()).float(), 1024, 1024, gradient=False)
case("int_product", lambda x: ((x.abs() * 100).int() * (x.abs() * 50).int()).float(), 1024, 1024, gradient=False)
case("int_div", lambda x: ((x.abs() * 1000).int() // (x.abs() * 3 + 1).int()).float(), 1024, 1024, gradient=False)
case("logical", lambda x, b: ((x > b) & x.isfinite()).float(), 1024, 1024, gradient=False, b=(1024, 1024))

case("sum_rows", lambda x: x.sum(1), 1024, 1024)
case("sum_columns", lambda x: x.sum(0), 1024, 1024)
case("sum_middle", lambda x: x.sum(1), 64, 128, 128)
case("sum_outer", lambda x: x.sum((0, 2)), 64, 128, 128)
case("sum_maps_nchw", lambda x: x.sum((2, 3)), 64, 256, 8, 8)
case("sum_pixels", lambda x: x.sum((0, 1, 2)), 64, 16, 16, 64)
case("max_rows", lambda x: x.amax(1), 1024, 1024)
case("max_columns", lambda x: x.amax(0), 1024, 1024)
case("max_middle", lambda x: x.amax(1), 64, 128, 128)
case("min_maps_nchw", lambda x: x.amin((2, 3)), 64, 256, 8, 8)
case("prod_rows", lambda x: x.prod(1), 4096, 16)
case("prod_columns", lambda x: x.prod(0), 16, 65536)
case("prod_middle", lambda x: x.prod(1), 1024, 16, 64)
case("norm_rows", lambda x: x.square().sum(1).sqrt(), 8192, 128)
case("variance_columns", lambda x: (x - x.mean(0, keepdim=True)).square().mean(0), 1024, 1024)
case("argmax_rows", lambda x: x.argmax(1).float(), 1024, 1024, gradient=False)
case("argmax_columns", lambda x: x.argmax(0).float(), 1024, 1024, gradient=False)
case("any_rows", lambda x: (x > 9).any(1).float(), 1024, 1024, gradient=False)
case("cumsum_rows", lambda x: x.cumsum(1), 1024, 1024)
case("cumsum_columns", lambda x: x.cumsum(0), 1024, 1024)
case("cumsum_reverse", lambda x: x.flip(1).cumsum(1).flip(1), 1024, 1024)
case("top_5_of_100", lambda x: x.topk(5)[0], 10000, 100)
case("top_10_of_8192", lambda x: x.topk(10)[0], 128, 8192)
case("top_1000_of_8192", lambda x: x.topk(1000)[0], 128, 8192)
case("in_top_5", lambda x, i: (x.topk(5)[1] == i[:, None]).any(1).float(), 1024, 1000, gradient=False, i=below(1000, 1024))

case("softmax_10", lambda x: x.softmax(1), 65536, 10)
case("softmax_1000", lambda x: x.softmax(1), 1024, 1000)
case("softmax_30000", lambda x: x.log_softmax(1), 64, 30000)
case("cross_entropy_10", lambda x, i: F.cross_entropy(x, i, reduction="none"), 65536, 10, i=below(10, 65536))
case("cross_entropy_30000", lambda x, i: F.cross_entropy(x, i, reduction="none"), 64, 30000, i=below(30000, 64))
case("cross_entropy_dense", lambda x, p: F.cross_entropy(x, p, reduction="none"), 1024, 1000, p=positive(1024, 1000))
case("sigmoid_cross_entropy", lambda x, p: F.binary_cross_entropy_with_logits(x, p, reduction="none"), 1024, 1024,
       p=positive(1024, 1024))

case("transpose", lambda x: x.t().contiguous(), 1024, 1024)
case("transpose_odd", lambda x: x.t().contiguous(), 1023, 77)
case("nchw_to_nhwc", lambda x: x.permute(0, 2, 3, 1).contiguous(), 32, 64, 28, 28)
case("nhwc_to_nchw", lambda x: x.permute(0, 3, 1, 2).contiguous(), 32, 28, 28, 64)
case("images_to_nchw", lambda x: x.permute(0, 3, 1, 2).contiguous(), 8, 224, 224, 3)
case("heads", lambda x: x.permute(0, 2, 1, 3).contiguous(), 16, 128, 8, 64)
case("patches", lambda x: x.permute(0, 1, 3, 2, 4, 5).contiguous(), 32, 8, 4, 8, 4, 3)
case("reverse_rows", lambda x: x.flip(1), 1024, 1024)
case("reverse_columns", lambda x: x.flip(0), 1024, 1024)
case("flip_images", lambda x: x.flip(2), 64, 64, 64, 3)
case("concat_columns", lambda x, b: torch.cat((x, b, x), 1), 1024, 300, b=(1024, 1000))
case("concat_channels", lambda x, b: torch.cat((x, b, x), 3), 32, 32, 32, 16, b=(32, 32, 32, 3))
case("stack_last", lambda x: torch.stack((x, x, x), 2), 512, 512)
case("tile_rows", lambda x: x.repeat(1, 4), 1024, 256)
case("tile_samples", lambda x: x.repeat(4, 1), 256, 1024)
case("pad_zero", lambda x: F.pad(x, (0, 0, 1, 1, 1, 1)), 32, 32, 32, 32)
case("pad_reflect", lambda x: F.pad(nhwc(x), (2, 2, 2, 2), mode="reflect"), 32, 32, 32, 32)
case("crop", lambda x: x[:, 2:30, 2:30].contiguous(), 64, 32, 32, 16)
case("slice_columns", lambda x: x[:, 3:503].contiguous(), 2048, 1000)
case("gather_64", lambda x, i: F.embedding(i, x), 10000, 64, i=below(10000, 65536))
case("gather_1", lambda x, i: x[i], 1000000, i=below(1000000, 1000000))
case("gather_1024", lambda x, i: F.embedding(i, x), 1024, 1024, i=below(1024, 2048))
case("one_hot", lambda x, i: F.one_hot(i, 256).float() @ x, 256, 64, i=below(256, 4096))

case("max_pool_2", lambda x: F.max_pool2d(nhwc(x), 2), 32, 32, 32, 32)
case("max_pool_3_2", lambda x: F.max_pool2d(nhwc(x), 3, 2, 1), 32, 56, 56, 16)
case("max_pool_5_1", lambda x: F.max_pool2d(nhwc(x), 5, 1, 2), 8, 28, 28, 64)
case("max_pool_nchw", lambda x: F.max_pool2d(x, 2), 32, 32, 32, 32)
case("avg_pool_2", lambda x: F.avg_pool2d(nhwc(x), 2), 32, 32, 32, 32)
case("avg_pool_3_1", lambda x: F.avg_pool2d(nhwc(x), 3, 1, 1, count_include_pad=False), 32, 32, 32, 32)
case("avg_pool_31", lambda x: F.avg_pool2d(nhwc(x), 31, 1), 4, 64, 64, 16)
case("max_pool_31", lambda x: F.max_pool2d(nhwc(x), 31, 1), 4, 64, 64, 16)
case("avg_pool_nchw", lambda x: F.avg_pool2d(x, 2), 32, 32, 32, 32)
case("global_pool", lambda x: x.mean((1, 2)), 64, 14, 14, 128)
case("bilinear_2x", lambda x: F.interpolate(nhwc(x), (128, 128), mode="bilinear"), 8, 64, 64, 16)
case("bilinear_rgb", lambda x: F.interpolate(nhwc(x), (224, 224), mode="bilinear"), 8, 128, 128, 3)
case("nearest_2x", lambda x: F.interpolate(nhwc(x), (128, 128), mode="nearest"), 8, 64, 64, 16)
case("sampler", lambda x, g: F.grid_sample(nhwc(x), g, padding_mode="border", align_corners=True), 8, 64, 64, 16,
       g=lambda: torch.rand(8, 64, 64, 2) * 0.05 - 1)

case("layer_norm_768", lambda x, g, b: F.layer_norm(x, (768,), g, b), 2048, 768, g=(768,), b=(768,))
case("layer_norm_32", lambda x, g, b: F.layer_norm(x, (32,), g, b), 32768, 32, g=(32,), b=(32,))
case("group_norm", lambda x, g, b: F.group_norm(nhwc(x), 8, g, b), 16, 32, 32, 64, g=(64,), b=(64,))
case("group_norm_nchw", lambda x, g, b: F.group_norm(x, 8, g, b), 16, 64, 32, 32, g=(64,), b=(64,))
case("instance_norm_nchw", lambda x, g, b: F.instance_norm(x, weight=g, bias=b), 16, 64, 32, 32, g=(64,), b=(64,))
case("batch_norm", lambda x, g, b: F.batch_norm(nhwc(x), None, None, g, b, True), 32, 28, 28, 64, g=(64,), b=(64,))
case("batch_norm_nchw", lambda x, g, b: F.batch_norm(x, None, None, g, b, True), 32, 64, 28, 28, g=(64,), b=(64,))
case("batch_norm_rows", lambda x, g, b: F.batch_norm(x, None, None, g, b, True), 1024, 1024, g=(1024,), b=(1024,))
for c in (1, 3):  # few channels, last
    case(f"bias_c{c}", lambda x, b: nhwc(x) + b.view(1, -1, 1, 1), 8, 256, 256, c, b=(c,))
    case(f"group_norm_c{c}", lambda x, g, b, c=c: F.group_norm(nhwc(x), c, g, b), 8, 256, 256, c, g=(c,), b=(c,))
    case(f"batch_norm_c{c}", lambda x, g, b: F.batch_norm(nhwc(x), None, None, g, b, True), 8, 256, 256, c, g=(c,), b=(c,))
    case(f"max_pool_c{c}", lambda x: F.max_pool2d(nhwc(x), 3, 1, 1), 8, 128, 128, c)
    case(f"sampler_c{c}", lambda x, g: F.grid_sample(nhwc(x), g, padding_mode="border", align_corners=True), 8, 128, 128, c,
           g=lambda: torch.rand(8, 128, 128, 2) * 0.025 - 1)
case("max_pool_2_c3", lambda x: F.max_pool2d(nhwc(x), 2), 8, 128, 128, 3)
case("depthwise_c3", lambda x, w: F.conv2d(nhwc(x), w, padding=1, groups=3), 8, 128, 128, 3, w=(3, 1, 3, 3))
case("sum_middle_c3", lambda x: x.sum(1), 1000, 100, 3)
case("products_16", torch.matmul, 4096, 16, 16, b=(4096, 16, 16))
case("products_64", torch.matmul, 256, 64, 64, b=(256, 64, 64))
case("products_shared", torch.matmul, 64, 128, 64, b=(64, 32))
case("matrix_vector", torch.matmul, 1024, 1024, b=(1024, 1))
case("outer_product", torch.matmul, 1024, 1, b=(1, 1024))


def attention(causal):
    def f(x):
        q = x.view(x.shape[0], x.shape[1], 4, -1).transpose(1, 2)
        return F.scaled_dot_product_attention(q, q, q, is_causal=causal).transpose(1, 2).reshape(x.shape)
    return f


case("attention_long", attention(True), 2, 512, 128)
case("attention_short", attention(False), 64, 32, 128)
case("dropout", lambda x: F.dropout(x, 0.5), 1024, 1024)
case("add_noise", lambda x: x + torch.randn_like(x), 1024, 1024)
case("segment_sum", lambda x, i: torch.zeros(1000, 64).index_add(0, i, x), 65536, 64, i=below(1000, 65536))


def median_ms(f, seconds):
    f()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        begin = time.perf_counter()
        f()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


def peer_ms(name, seconds):
    f, shape, gradient, others = CASES[name]
    x = torch.randn(*shape)
    more = [o() if callable(o) else torch.randn(*o) for o in others.values()]
    with torch.no_grad():
        forward, dy = median_ms(lambda: f(x, *more), seconds), torch.randn_like(f(x, *more))
    x.requires_grad_(True)
    step = median_ms(lambda: torch.autograd.grad(f(x, *more), x, dy)[0].contiguous(), seconds) if gradient else -1
    return forward, step


def main():
    p = argparse.ArgumentParser()
    p.add_argument("name", nargs="?", default="")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=0.2)
    a = p.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    measured = {}
    for _ in range(a.rounds):
        out = subprocess.run(["build/ops", a.name, str(a.seconds)], check=True, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True)
        for line in out.stdout.splitlines():
            row = json.loads(line)
            name = row["op"]
            measured.setdefault(name, []).append((row["ms"], row["step_ms"], *peer_ms(name, a.seconds)))
    ratios = {"ratio": [], "step_ratio": []}
    for name, rows in measured.items():
        ms, step_ms, peer, peer_step = (statistics.median(r) for r in zip(*rows))
        line = {"op": name, "ms": round(ms, 4), "peer_ms": round(peer, 4), "ratio": round(peer / ms, 2)}
        ratios["ratio"].append((peer / ms, name))
        if step_ms > 0:
            line.update({"step_ms": round(step_ms, 4), "peer_step_ms": round(peer_step, 4),
                         "step_ratio": round(peer_step / step_ms, 2)})
            ratios["step_ratio"].append((peer_step / step_ms, name))
        print(json.dumps(line), flush=True)
    for what, values in ratios.items():
        if not values:
            continue
        mean = math.exp(statistics.mean(math.log(r) for r, _ in values))
        print(json.dumps({"all": what, "cases": len(values), "geometric_mean": round(mean, 2), "least": round(min(values)[0], 2),
                          "of": min(values)[1]}))


main()
