"""Reference cases for the element-wise, reduction and shape ops: numpy and torch say what test_ops.c must find.

    python3 tests/ref_ops_math.py            writes tests/ref_ops_math.txt
"""
import os
import numpy as np
import torch

from ref_common import Writer

w = Writer(os.path.join(os.path.dirname(os.path.abspath(__file__)), "ref_ops_math.txt"), 20240611)
f32, f64 = np.float32, np.float64


def t64(a):
    return torch.tensor(np.asarray(a, dtype=f64))


# ---- element-wise, two operands
A, B = w.normal(3, 5), w.away(3, 5, kinks=(0.0,), distance=0.3)
row, col, scalar = w.away(5, distance=0.3), w.away(3, 1, distance=0.3), w.away(distance=0.3)
binary = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "squared_difference": lambda a, b: (a - b) ** 2,
}
for op, fn in binary.items():
    for b in (B, row, col, scalar):
        w.case(op, [A, b], [fn(A.astype(f64), b.astype(f64)).astype(f32)])
    w.case(op, [row, B], [fn(row.astype(f64), B.astype(f64)).astype(f32)])
    w.case(op, [w.normal(2, 1, 3), w.away(4, 1, distance=0.3)], [None])
    w.case(op, [w.normal(3, dtype="float64"), w.away(3, distance=0.3).astype(f64)], [None])
for op, fn in (("maximum", np.maximum), ("minimum", np.minimum)):
    a = w.normal(4, 3)
    b = a + w.away(4, 3, distance=0.2)
    w.case(op, [a, b], [fn(a, b)])
    w.case(op, [a, np.array([9, -9, 9], f32)], [fn(a, np.array([9, -9, 9], f32))])
    x, y = np.array([np.nan, 1, np.inf, -0.5], f32), np.array([1, np.nan, 2, -0.5], f32)
    w.case(op, [x, y], [fn(x, y)], nograd="NaN and ties")
p = w.uniform(0.3, 3, 4, 3)
q = w.away(4, 3, distance=0.2)
w.case("pow", [p, q], [np.power(p.astype(f64), q).astype(f32)])
w.case("pow", [p, w.away(3)], [None])
x = np.array([0, 0, -2, -2, -2, 2, 1, np.inf, -8, 1e-30, 3, 7, 5, 1e20, -1.5], f32)
y = np.array([0, 2, 3, -3, 2, -1, np.nan, -1, 0.5, 0.3, 0.5, 1, 31.5, 2.5, 5], f32)
with np.errstate(all="ignore"):
    w.case("pow", [x, y], [np.power(x.astype(f64), y).astype(f32)], nograd="edges of the domain")
a, b = w.away(5, 3, scale=4), w.away(5, 3, distance=0.4)
safe = np.abs(a / b - np.round(a / b)) > 0.05
a, b = np.where(safe, a, 1.0).astype(f32), np.where(safe, b, 3.0).astype(f32)
w.case("floordiv", [a, b], [np.floor(a.astype(f64) / b).astype(f32)])
w.case("mod", [a, b], [np.mod(a.astype(f64), b).astype(f32)])
comparisons = {"greater": np.greater, "greater_equal": np.greater_equal, "less": np.less, "less_equal": np.less_equal,
               "equal": np.equal, "not_equal": np.not_equal}
for op, fn in comparisons.items():
    a, b = w.ints(0, 3, 4, 3).astype(f32), w.ints(0, 3, 4, 3).astype(f32)
    a[0, 0] = np.nan
    w.case(op, [a, b], [fn(a, b)])
    w.case(op, [a.astype(f64), np.array(1.0)], [fn(a, 1.0)])
    i, j = w.ints(-2, 3, 3, 4), w.ints(-2, 3, 4)
    w.case(op, [i, j], [fn(i, j)])
    w.case(op, [i.astype(np.int64), j.astype(np.int64)], [fn(i, j)])

# ---- integers: wrap around, floor division of every sign, division by zero gives 0
for dtype in (np.int32, np.int64):
    big = np.iinfo(dtype)
    a = np.array([7, -7, 7, -7, 6, -6, 0, big.max, big.min, big.min, 5], dtype)
    b = np.array([3, 3, -3, -3, 3, -3, 5, 2, 2, -1, 0], dtype)
    with np.errstate(all="ignore"):
        for op, fn in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("maximum", np.maximum),
                       ("minimum", np.minimum), ("squared_difference", lambda u, v: (u - v) * (u - v))):
            w.case(op, [a, b], [fn(a, b).astype(dtype)])
        quotient, rest = np.zeros_like(a), np.zeros_like(a)
        ok = b != 0
        quotient[ok], rest[ok] = a[ok] // b[ok], a[ok] % b[ok]
        quotient[9] = big.min  # wraps
        w.case("floordiv", [a, b], [quotient])
        w.case("mod", [a, b], [rest])
        w.case("neg", [a], [-a])
        w.case("abs", [a], [np.abs(a)])
        w.case("sign", [a], [np.sign(a)])
        w.case("square", [a], [a * a])
        w.case("affine", [a], [a * dtype(3) - dtype(2)], scale=3.0, offset=-2.0)
    w.case("clip", [a], [np.clip(a, -3, 6)], low=-3.5, high=6.5)
    w.case("clip", [a], [np.maximum(a, -3)], low=-3.0, high=float("inf"))
    c = w.bools(11)
    w.case("select", [c, a, b], [np.where(c, a, b)])
    x = w.ints(-5, 6, 2, 3, 4, dtype=dtype)
    for op, fn in (("reduce_sum", np.sum), ("reduce_max", np.max), ("reduce_min", np.min), ("reduce_prod", np.prod)):
        w.case(op, [x], [fn(x, axis=(0, 2)).astype(dtype)], axes=[0, 2], n_axes=2, keep_dims=False)
    w.case("add_n", [x, x, x], [x * dtype(3)])
    w.case("all_reduce", [x, x, x], [x * dtype(3)] * 3, mean=0)
    w.case("argmax", [x], [np.argmax(x, 1)], axis=1)

# ---- logic
a, b = w.bools(3, 4), w.bools(4)
w.case("logical_and", [a, b], [a & b])
w.case("logical_or", [a, b], [a | b])
w.case("logical_not", [a], [~a])
c, x, y = w.bools(3, 4), w.normal(3, 4), w.normal(3, 4)
w.case("select", [c, x, y], [np.where(c, x, y)])
w.case("select", [w.bools(3, 1), x, w.normal()], [None])
w.case("select", [np.array(True), x, y], [x])
u, v = w.ints(0, 256, 3, 4, dtype="uint8"), w.ints(0, 256, 3, 4, dtype="uint8")
w.case("select_bytes", [c, u, v], [np.where(c, u, v)])
w.case("select_bytes", [c, a, w.bools(3, 4) & a], [None])

# ---- element-wise, one operand
z = w.away(4, 5)
positive = w.uniform(0.2, 4, 4, 5)
unary = {
    "neg": (np.negative, z), "abs": (np.abs, z), "sign": (np.sign, z), "square": (np.square, z),
    "sqrt": (np.sqrt, positive), "rsqrt": (lambda x: 1 / np.sqrt(x), positive), "reciprocal": (lambda x: 1 / x, w.away(3, 3, distance=0.3)),
    "exp": (np.exp, z), "ln": (np.log, positive), "sin": (np.sin, z), "cos": (np.cos, z),
    "erf": (lambda x: torch.special.erf(t64(x)).numpy(), z), "tanh": (np.tanh, z),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), z), "softplus": (lambda x: np.logaddexp(0, x), z),
    "relu": (lambda x: np.maximum(x, 0), z), "elu": (lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), z),
    "floor": (np.floor, w.away(4, 5, kinks=(-2, -1, 0, 1, 2), scale=1)), "ceil": (np.ceil, w.away(4, 5, kinks=(-2, -1, 0, 1, 2), scale=1)),
    "round": (np.round, w.away(4, 5, kinks=(-1.5, -0.5, 0.5, 1.5), scale=0.8)),
}
for op, (fn, x) in unary.items():
    w.case(op, [x], [fn(x.astype(f64)).astype(f32)])
    w.case(op, [x.reshape(-1)[:3].astype(f64)], [fn(x.reshape(-1)[:3].astype(f64))], tol=1e-14)
edge = np.array([0, -0.0, np.inf, -np.inf, np.nan, 2e-38, -2e-38, 3e38, 1e-6, -1e-6, 20, -20, 89, -104, 0.5, 1.5, 2.5, -0.5], f32)
with np.errstate(all="ignore"):
    for op in ("exp", "tanh", "sigmoid", "softplus", "relu", "elu", "erf", "floor", "ceil", "round", "square", "abs", "sqrt"):
        fn = unary[op][0]
        x = edge[edge >= 0] if op == "sqrt" else edge[~np.isinf(edge)] if op in ("softplus", "erf") else edge
        with np.errstate(all="ignore"):
            w.case(op, [x], [fn(x.astype(f64)).astype(f32)], nograd="edges of the domain")
    x = np.array([0, np.inf, 2e-38, 3e38, 1, 1.0000001, 0.9999999], f32)
    w.case("ln", [x], [np.log(x.astype(f64)).astype(f32)], nograd="edges of the domain")
x = np.array([-7.85, 100.1, -1234.5, 99999.0, 3.1415927, 1.5707964, 6.2831855, 2e6, 0.78539819, 1e-20], f32)
w.case("sin", [x], [np.sin(x.astype(f64)).astype(f32)], tol=2e-7, nograd="large arguments")
w.case("cos", [x], [np.cos(x.astype(f64)).astype(f32)], tol=2e-7, nograd="large arguments")
w.case("is_finite", [edge], [np.isfinite(edge)])
w.case("is_finite", [edge.astype(f64)], [np.isfinite(edge)])
dy = w.normal(4, 5)
y = np.maximum(z, 0)
w.case("relu_grad", [dy, y + np.where(z > 0, 0, -1).astype(f32)], [np.where(z > 0, dy, 0).astype(f32)])
w.case("relu_grad", [np.array([1, 2, 3], f32), np.array([0, -0.0, 1], f32)], [np.array([0, 0, 3], f32)], nograd="kink")
w.case("leaky_relu", [z], [np.where(z > 0, z, f32(0.2) * z)], alpha=0.2)
w.case("leaky_relu_grad", [dy, z], [np.where(z > 0, dy, f32(0.2) * dy)], alpha=0.2)
e = np.where(z > 0, z, np.expm1(np.minimum(z, 0))).astype(f32)
w.case("elu_grad", [dy, e], [np.where(e > 0, dy, dy * (e + 1)).astype(f32)])
x = w.away(4, 5, kinks=(-1.0, 0.75))
w.case("clip", [x], [np.clip(x, -1, 0.75)], low=-1.0, high=0.75)
w.case("clip_grad", [dy, x], [np.where((x >= -1) & (x <= 0.75), dy, 0).astype(f32)], low=-1.0, high=0.75)
w.case("clip_grad", [np.array([1, 2, 3], f32), np.array([-1, 0.75, 1], f32)], [np.array([1, 2, 0], f32)], low=-1.0, high=0.75,
       nograd="kink")
w.case("affine", [z], [(z.astype(f64) * 1.5 - 0.25).astype(f32)], scale=1.5, offset=-0.25)
w.case("cast", [z], [z.astype(f64)], **{"from": "float32", "to": "float64"})
w.case("cast", [z.astype(f64)], [z], **{"from": "float64", "to": "float32"})
w.case("cast", [z], [z.astype(np.int32)], **{"from": "float32", "to": "int32"}, nograd="to integers")
w.case("cast", [w.ints(-9, 9, 3, 3)], [None], **{"from": "int32", "to": "int64"})
i = w.ints(-9, 9, 3, 3)
for a, to in ((i, "float32"), (i.astype(np.int64), "float64"), (i.astype(np.int64), "int32"), (np.abs(i).astype(np.uint8), "float32"),
              (w.bools(2, 3), "float32"), (i, "bool"), (w.bools(3), "int64"), (np.abs(i), "uint8")):
    w.case("cast", [a], [a.astype(to)], **{"from": a.dtype.name, "to": to})
w.case("cast", [np.array([0, 0.5, -1, np.nan], f32)], [np.array([0, 1, 1, 1], bool)], **{"from": "float32", "to": "bool"})

# ---- reductions
x = w.normal(2, 3, 4, 5)
d = w.distinct(2, 3, 4, 5)
prod = w.uniform(0.5, 1.6, 2, 3, 4)
for axes in ([], [0], [3], [1, 2], [0, 1, 2], [0, 2], [1, 3], [-1, 0], [2, 3], [0, 2, 3]):
    ax = tuple(axes) if axes else None
    for keep in (False, True):
        k = dict(axes=axes or [0], n_axes=len(axes), keep_dims=keep)
        w.case("reduce_sum", [x], [np.sum(x.astype(f64), axis=ax, keepdims=keep).astype(f32)], **k)
        w.case("reduce_mean", [x], [np.mean(x.astype(f64), axis=ax, keepdims=keep).astype(f32)], **k)
        w.case("reduce_max", [d], [np.max(d, axis=ax, keepdims=keep)], **k)
        w.case("reduce_min", [d], [np.min(d, axis=ax, keepdims=keep)], **k)
for axes in ([], [0], [2], [0, 2], [1]):
    ax = tuple(axes) if axes else None
    k = dict(axes=axes or [0], n_axes=len(axes), keep_dims=False)
    w.case("reduce_prod", [prod], [np.prod(prod.astype(f64), axis=ax).astype(f32)], **k)
    t = t64(prod).requires_grad_()
    y = t.prod() if ax is None else t
    for a in sorted(ax or (), reverse=True):
        y = y.prod(dim=a)
    g = w.normal(*y.shape)
    y.backward(t64(g))
    w.case("reduce_prod_grad", [prod, g], [t.grad.numpy().astype(f32)], **k)
zeros = np.array([[2, 0, 3], [0, 0, 5], [1, 2, 4]], f32)
w.case("reduce_prod", [zeros], [np.prod(zeros, 1)], axes=[1], n_axes=1, keep_dims=False, nograd2="zeros")
w.case("reduce_prod_grad", [zeros, np.array([1, 2, 3], f32)], [np.array([[0, 6, 0], [0, 0, 0], [24, 12, 6]], f32)],
       axes=[1], n_axes=1, keep_dims=False, nograd="zeros")
w.case("reduce_max", [np.array([[1, np.nan, 3], [-np.inf, -np.inf, -np.inf]], f32)], [np.array([np.nan, -np.inf], f32)],
       axes=[1], n_axes=1, keep_dims=False, nograd="NaN")
w.case("reduce_sum", [np.array(3.5, f32)], [np.array(3.5, f32)], axes=[0], n_axes=0, keep_dims=False)
w.case("reduce_sum", [np.zeros((0, 3), f32)], [np.zeros(3, f32)], axes=[0], n_axes=1, keep_dims=False, nograd="empty")
b = w.bools(3, 4, 2) | w.bools(3, 4, 2)
for axes in ([], [1], [0, 2]):
    ax = tuple(axes) if axes else None
    k = dict(axes=axes or [0], n_axes=len(axes), keep_dims=False)
    w.case("reduce_all", [b], [np.asarray(np.all(b, axis=ax))], **k)
    w.case("reduce_any", [~b], [np.asarray(np.any(~b, axis=ax))], **k)
w.case("size_ratio", [x, w.normal(2, 3)], [np.array(20, f32)])
for shape in ((2, 3, 4, 5), (3, 1, 5), (5,), (), (2, 1, 1, 1), (1, 3, 1, 5), (4, 5)):
    lead = 4 - len(shape)
    ax = tuple(range(lead)) + tuple(i + lead for i, n in enumerate(shape) if n == 1)
    y = np.sum(x.astype(f64), axis=ax, keepdims=True).reshape(shape).astype(f32)
    w.case("sum_to_like", [x, w.normal(*shape)], [y])
    s = w.normal(*shape)
    w.case("broadcast_like", [s, x], [np.broadcast_to(s, x.shape).copy()])
w.case("broadcast_like", [np.array([[1], [2]], np.int64), np.zeros((3, 2, 2), f32)],
       [np.broadcast_to(np.array([[1], [2]], np.int64), (3, 2, 2)).copy()])
xs = [w.normal(3, 4) for _ in range(5)]
total = np.sum(np.array(xs, f64), 0)
w.case("add_n", xs, [total.astype(f32)])
w.case("all_reduce", xs, [total.astype(f32)] * 5, mean=0)
w.case("all_reduce", xs, [(total / 5).astype(f32)] * 5, mean=1)
w.case("add_n", xs[:1], [xs[0]])
w.case("all_reduce", xs[:1], [xs[0]], mean=1)
w.case("l2_loss", [x], [np.array(0.5 * np.sum(x.astype(f64) ** 2), f32)])
parts = [w.normal(3, 2), w.normal(4), w.normal()]
w.case("global_norm", parts, [np.array(np.sqrt(sum(np.sum(a.astype(f64) ** 2) for a in parts)), f32)])
w.case("zero_fraction", [np.array([0, 1, -0.0, 2, 0], f32)], [np.array(0.6, f32)])
for axis in (0, 1, -1):
    w.case("argmax", [d], [np.argmax(d, axis)], axis=axis)
w.case("argmax", [np.array([[1, 3, 3], [np.nan, 5, np.nan], [2, np.nan, 9]], f32)], [np.array([1, 0, 1])], axis=1)
k = w.distinct(4, 6)
order = np.argsort(-k, axis=1, kind="stable")[:, :3].astype(np.int32)
w.case("top_k", [k], [np.take_along_axis(k, order, 1), order], k=3)
w.case("top_k", [np.array([2, 3, 2, 3, 1], f32)], [np.array([3, 3, 2], f32), np.array([1, 3, 0], np.int32)], k=3, nograd="ties")
w.case("take_last", [k, order], [np.take_along_axis(k, order, 1)])
put = np.zeros((4, 6), f32)
val = w.normal(4, 3)
np.put_along_axis(put, order, val, 1)
w.case("put_last", [val, order, k], [put])
logits = w.ints(0, 4, 6, 5).astype(f32)
labels = w.ints(0, 5, 6)
for kk in (1, 2, 5):
    y = np.array([np.sum(logits[i] > logits[i, labels[i]]) < kk for i in range(6)])
    w.case("in_top_k", [logits, labels], [y], k=kk)
    w.case("in_top_k", [logits.astype(f64), labels.astype(np.int64)], [y], k=kk)
w.case("in_top_k", [np.array([[1, np.inf], [1, 2]], f32), np.array([1, 7], np.int32)], [np.array([False, False])], k=2)

# ---- shapes
x = w.normal(2, 3, 4)
w.case("reshape", [x], [x.reshape(4, 6)], shape=[2, 4, -1])
w.case("reshape", [x], [x.reshape(24)], shape=[1, 24])
w.case("reshape", [w.normal(1, 1)], [None], shape=[0])
w.case("reshape_like", [x, w.normal(6, 4)], [x.reshape(6, 4)])
w.case("batch_flatten", [x], [x.reshape(2, 12)])
w.case("expand_dims", [x], [x[:, None]], axis=1)
w.case("expand_dims", [x], [x[..., None]], axis=-1)
w.case("squeeze", [x[:, :1]], [x[:, 0]], axis=1)
w.case("identity", [x], [x])
w.case("stop_gradient", [x], [x], nograd="that is what it is for")
w.case("fill_like", [x], [np.full_like(x, 2.5)], value=2.5)
w.case("fill_like", [w.ints(0, 5, 3)], [np.full(3, 7, np.int32)], value=7.0)
for perm in ([0, 2, 1], [2, 1, 0], [1, 0, 2], [-1, 0, 1]):
    w.case("transpose", [x], [np.transpose(x, perm)], perm=perm, n=3)
w.case("transpose", [x], [x.T], perm=[0], n=0)
w.case("transpose", [w.ints(0, 9, 5, 3, dtype="int64")], [None], perm=[1, 0], n=2)
for dtype in (f32, f64, np.uint8, np.int64):
    a, b, c = (w.ints(0, 99, 2, n, 3).astype(dtype) for n in (1, 4, 2))
    w.case("concat", [a, b, c], [np.concatenate([a, b, c], 1)], axis=1)
a, b = w.normal(2, 3), w.normal(4, 3)
w.case("concat", [a, b], [np.concatenate([a, b])], axis=0)
w.case("concat", [a, b[:2]], [np.concatenate([a, b[:2]], -1)], axis=-1)
w.case("concat_grad", [w.normal(2, 7, 2), np.zeros((2, 3, 2), f32), np.zeros((2, 4, 2), f32)], [None, None], axis=1)
g = w.normal(5, 2)
w.case("concat_grad", [g, np.zeros((1, 2), f32), np.zeros((4, 2), f32)], [g[:1], g[1:]], axis=0)
x = w.normal(2, 6, 3)
w.case("split", [x], np.split(x, 3, 1), axis=1, n=3)
w.case("split", [x], np.split(x, 2, 0), axis=0, n=2)
xs = [w.normal(2, 3) for _ in range(3)]
for axis in (0, 1, 2, -1):
    w.case("stack", xs, [np.stack(xs, axis)], axis=axis)
w.case("unstack", [x], [x[:, :, i] for i in range(3)], axis=2, n=3)
w.case("unstack", [x], [x[i] for i in range(2)], axis=0, n=2)
w.case("slice", [x], [x[1:2, 2:5, 0:3]], begin=[1, 2, 0], size=[1, 3, -1])
w.case("slice", [w.normal(7)], [None], begin=[3], size=[2])
g = w.normal(1, 3, 3)
full = np.zeros_like(x)
full[1:2, 2:5] = g
w.case("slice_grad", [g, x], [full], begin=[1, 2, 0], size=[1, 3, -1])
x = w.normal(3, 4, 2)
for mode, name, before, after in ((0, "constant", [1, 0, 2], [0, 3, 1]), (1, "reflect", [2, 1, 0], [1, 3, 1]), (2, "symmetric", [3, 1, 2], [1, 4, 0])):
    args = dict(constant_values=1.5) if mode == 0 else {}
    y = np.pad(x, list(zip(before, after)), mode=name, **args)
    k = dict(before=before, after=after, mode=mode, value=1.5)
    w.case("pad", [x], [y], **k)
    index = np.pad(np.arange(x.size).reshape(x.shape), list(zip(before, after)), mode=name, **(dict(constant_values=-1) if mode == 0 else {}))
    g = w.normal(*y.shape)
    dx = np.zeros(x.size)
    np.add.at(dx, index[index >= 0], g.astype(f64)[index >= 0])
    w.case("pad_grad", [g, x], [dx.reshape(x.shape).astype(f32)], **k)
i = w.ints(0, 9, 2, 3, dtype="int64")
w.case("pad", [i], [np.pad(i, ((1, 1), (0, 2)), constant_values=-4)], before=[1, 0], after=[1, 2], mode=0, value=-4.0)
w.case("tile", [x], [np.tile(x, (2, 1, 3))], multiples=[2, 1, 3])
w.case("tile", [i], [np.tile(i, (2, 2))], multiples=[2, 2])
g = w.normal(6, 4, 6)
w.case("tile_grad", [g, x], [g.astype(f64).reshape(2, 3, 1, 4, 3, 2).sum((0, 2, 4)).astype(f32)], multiples=[2, 1, 3])
params, at = w.normal(5, 3), np.array([[4, 0], [2, 2], [1, 4]], np.int32)
w.case("gather", [params, at], [params[at]])
w.case("gather", [params, at.astype(np.int64)], [params[at]])
w.case("gather", [w.ints(0, 99, 6, dtype="int64"), np.array(3, np.int32)], [None])
g = w.normal(3, 2, 3)
dp = np.zeros((5, 3))
np.add.at(dp, at, g.astype(f64))
w.case("gather_grad", [g, at, params], [dp.astype(f32)])
w.case("one_hot", [np.array([2, 0, 3, -1], np.int32)], [np.array([[0, 0, 2], [2, 0, 0], [0, 0, 0], [0, 0, 0]], f32) + f32(-1) * 0],
       depth=3, on=2.0, off=0.0)
w.case("one_hot", [np.array([[1]], np.int64)], [np.array([[[-1, 1]]], f32)], depth=2, on=1.0, off=-1.0)
w.case("print", [x], [x], message="what print says")
w.case("check_numerics", [x], [x], message="is it finite")
w.case("group", [], [np.zeros(0, bool)])

# ---- nothing at all: dimensions of 0
e = np.zeros((0, 3), f32)
k = dict(nograd="empty")
w.case("add", [e, w.normal(3)], [e], **k)
w.case("relu", [e], [e], **k)
w.case("reduce_sum", [np.zeros((3, 0, 2), f32)], [np.zeros((3, 2), f32)], axes=[1], n_axes=1, keep_dims=False, **k)
w.case("reduce_sum", [e], [np.zeros((0,), f32)], axes=[1], n_axes=1, keep_dims=False, **k)
w.case("sum_to_like", [e, w.normal(3)], [np.zeros(3, f32)], **k)
w.case("broadcast_like", [w.normal(1, 3), e], [e], **k)
w.case("l2_loss", [e], [np.array(0, f32)], **k)
w.case("add_n", [e, e, e], [e], **k)
w.case("all_reduce", [e, e], [e, e], mean=1, **k)
w.case("transpose", [e], [e.T], perm=[0], n=0, **k)
w.case("concat", [e, x[0][:, :3] if x.shape[2] > 2 else w.normal(2, 3), e], [None], axis=0, **k)
w.case("split", [np.zeros((4, 0), f32)], [np.zeros((2, 0), f32)] * 2, axis=0, n=2, **k)
w.case("stack", [e, e], [np.zeros((2, 0, 3), f32)], axis=0, **k)
w.case("slice", [w.normal(4, 3)], [e], begin=[4, 0], size=[-1, 3], **k)
w.case("pad", [e], [np.full((2, 4), 5, f32)], before=[1, 0], after=[1, 1], mode=0, value=5.0, **k)
w.case("tile", [w.normal(2, 3)], [np.zeros((0, 3), f32)], multiples=[0, 1], **k)
w.case("gather", [w.normal(2, 3), np.zeros(0, np.int32)], [e], **k)
w.case("gather_grad", [e, np.zeros(0, np.int32), w.normal(2, 3)], [np.zeros((2, 3), f32)], **k)
w.case("argmax", [e], [np.zeros(0, np.int64)], axis=1)
w.case("batch_flatten", [np.zeros((0, 2, 3), f32)], [np.zeros((0, 6), f32)], **k)
w.case("reshape", [e], [np.zeros((0, 1, 3), f32)], shape=[3, -1, 1, 3], **k)
deep = w.normal(2, 1, 2, 3, 1, 2, 2, 2)
w.case("transpose", [deep], [np.transpose(deep, [7, 0, 3, 1, 6, 2, 4, 5])], perm=[7, 0, 3, 1, 6, 2, 4, 5], n=8)
w.case("tile", [deep], [np.tile(deep, (2, 1, 2, 1, 2, 1, 2, 1))], multiples=[2, 1, 2, 1, 2, 1, 2, 1])
w.case("reduce_sum", [deep], [deep.astype(f64).sum((0, 3, 5, 7)).astype(f32)], axes=[0, 3, 5, 7], n_axes=4, keep_dims=False)

# ---- larger: the fast kernels against the naive loops, and one thread against several
for shape, axes in (((100000,), []), ((1, 200001), [1]), ((3, 70000), [1]), ((1000, 257), [1]), ((1000, 257), [0]), ((70000, 10), [0]),
                    ((200001, 3), [0]), ((37, 49, 64), [1]), ((5, 7, 1500), [0]), ((2, 31, 17, 600), [1, 2]), ((64, 3, 33, 31), [0, 2, 3]),
                    ((9, 4000, 2), [1]), ((50, 60, 70), [0, 1]), ((50, 60, 70), [0, 2]), ((3, 100000), [0]), ((40, 1), [0])):
    for op in ("reduce_sum", "reduce_mean", "reduce_max"):
        w.big(op, [("float32", shape, -1.0, 2.0)], axes=axes or [0], n_axes=len(axes), keep_dims=False)
w.big("sum_to_like", [("float32", (128, 14, 14, 64), -1.0, 1.0), ("float32", (64,), 0.0, 1.0)])
w.big("sum_to_like", [("float32", (4000, 10), -1.0, 1.0), ("float32", (10,), 0.0, 1.0)])
w.big("sum_to_like", [("float32", (400, 100), -1.0, 1.0), ("float32", (400, 1), 0.0, 1.0)])
w.big("l2_loss", [("float32", (300001,), -1.0, 1.0)])
w.big("global_norm", [("float32", (100001,), -1.0, 1.0), ("float32", (3, 3), -1.0, 1.0), ("float32", (700, 90), -1.0, 1.0)])
w.big("add_n", [("float32", (70001,), -1.0, 1.0)] * 4)
w.big("all_reduce", [("float32", (70001,), -1.0, 1.0)] * 3, mean=1)
for op in ("add", "sub", "mul", "div", "maximum", "minimum", "relu_grad"):
    w.big(op, [("float32", (31, 1003), -2.0, 2.0), ("float32", (31, 1003), 0.1, 2.0)])
for op in ("neg", "abs", "square", "sqrt", "rsqrt", "reciprocal", "exp", "ln", "tanh", "sigmoid", "relu"):
    w.big(op, [("float32", (20003,), 0.01, 8.0)])
for op in ("exp", "tanh", "sigmoid", "relu", "neg", "abs"):
    w.big(op, [("float32", (20003,), -90.0, 88.0)])
    w.big(op, [("float32", (20003,), -1.0, 1.0)])
w.big("transpose", [("float32", (33, 65, 129), -1.0, 1.0)], perm=[0, 2, 1], n=3)
w.big("transpose", [("uint8", (70, 1001), 0.0, 200.0)], perm=[1, 0], n=2)
w.big("transpose", [("float32", (16, 28, 28, 33), -1.0, 1.0)], perm=[0, 3, 1, 2], n=4)
w.big("gather_grad", [("float32", (500, 200), -1.0, 1.0), ("int32", (500,), 0.0, 99.0), ("float32", (100, 200), 0.0, 1.0)])
w.big("concat", [("float32", (300, 70), -1.0, 1.0), ("float32", (300, 130), -1.0, 1.0)], axis=1)
w.big("broadcast_like", [("float32", (300, 1), -1.0, 1.0), ("float32", (300, 700), 0.0, 1.0)])

# ---- added later, at the end, so that the numbers above stay
for op, fn, low, high in (("asin", np.arcsin, -0.97, 0.97), ("acos", np.arccos, -0.97, 0.97), ("atan", np.arctan, -4, 4)):
    x = w.uniform(low, high, 3, 9)
    w.case(op, [x], [fn(x.astype(f64)).astype(f32)], tol=3e-7)
    x = np.array([0, -0.0, 1e-30, 3e-5, -3e-5, 0.26794919, 0.5, -0.86602540, 0.99999994, 1, -1], f32)
    w.case(op, [x], [fn(x.astype(f64)).astype(f32)], tol=3e-7, nograd="ends of the domain")
with np.errstate(all="ignore"):
    x = np.array([1.0000001, -2, np.inf, np.nan], f32)
    w.case("asin", [x], [np.arcsin(x)], nograd="outside of the domain")
    w.case("acos", [x], [np.arccos(x)], nograd="outside of the domain")
x = np.array([np.inf, -np.inf, 1e30, 1.5e7, np.nan], f32)
w.case("atan", [x], [np.arctan(x.astype(f64)).astype(f32)], nograd="ends of the domain")


def cumsum(x, axis, exclusive, reverse):
    v = np.flip(x, axis) if reverse else x
    y = np.cumsum(v, axis, dtype=f64 if x.dtype.kind == "f" else x.dtype)
    if exclusive:
        y = y - v
    return np.ascontiguousarray(np.flip(y, axis) if reverse else y).astype(x.dtype)


x = w.normal(3, 4, 2)
for axis in (0, 1, -1):
    for exclusive in (0, 1):
        for reverse in (0, 1):
            w.case("cumsum", [x], [cumsum(x, axis, exclusive, reverse)], axis=axis, exclusive=exclusive, reverse=reverse)
for dtype in ("int32", "int64"):
    i = w.ints(-9, 9, 5, 2, dtype=dtype)
    w.case("cumsum", [i], [cumsum(i, 0, 1, 0)], axis=0, exclusive=True)
    w.case("cumsum", [i], [cumsum(i, 1, 0, 1)], axis=1, reverse=True)
w.case("cumsum", [np.zeros((0, 3), f32)], [np.zeros((0, 3), f32)], axis=0, nograd="empty")
w.big("cumsum", [("float32", (40, 700, 3), -1.0, 1.0)], axis=1)
for axes in ([0], [1], [-1], [0, 2], []):
    w.case("reverse", [x], [np.ascontiguousarray(np.flip(x, axes or None))], axes=axes or [0], n_axes=len(axes))
i = w.ints(0, 9, 70, 3, 5).astype(np.uint8)
w.case("reverse", [i], [np.ascontiguousarray(np.flip(i, (0, 2)))], axes=[0, 2], n_axes=2)
w.case("reverse", [np.zeros((0, 3), f32)], [np.zeros((0, 3), f32)], axes=[0], n_axes=1, nograd="empty")
w.big("reverse", [("float32", (300, 400), -1.0, 1.0)], axes=[1], n_axes=1)
w.close()
