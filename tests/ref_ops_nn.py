"""Reference cases for matmul, convolutions, pooling, normalisation, losses and state ops: torch and numpy say what
test_ops.c must find.

    python3 tests/ref_ops_nn.py            writes tests/ref_ops_nn.txt
"""
import os
import numpy as np
import torch
import torch.nn.functional as F

from ref_common import Writer

w = Writer(os.path.join(os.path.dirname(os.path.abspath(__file__)), "ref_ops_nn.txt"), 20261120)
f32, f64 = np.float32, np.float64


def t(a):
    return torch.tensor(np.asarray(a, dtype=f64))


def out(x):
    return x.detach().numpy().astype(f32)


# ---- matmul
for ta in (0, 1):
    for tb in (0, 1):
        for m, n, k in ((3, 5, 4), (1, 7, 9), (6, 1, 2), (5, 3, 1)):
            a, b = w.normal(*((k, m) if ta else (m, k))), w.normal(*((n, k) if tb else (k, n)))
            y = t(a).transpose(-1, -2) if ta else t(a)
            y = y @ (t(b).transpose(-1, -2) if tb else t(b))
            w.case("matmul", [a, b], [out(y)], transpose_a=ta, transpose_b=tb)
        a, b = w.normal(*((2, 3, 4, 2) if ta else (2, 3, 2, 4))), w.normal(*((3, 5, 4) if tb else (3, 4, 5)))
        y = (t(a).transpose(-1, -2) if ta else t(a)) @ (t(b).transpose(-1, -2) if tb else t(b))
        w.case("matmul", [a, b], [out(y)], transpose_a=ta, transpose_b=tb)
        a, b = w.normal(*((2, 1, 4, 2) if ta else (2, 1, 2, 4))), w.normal(*((4, 5) if not tb else (5, 4)))
        y = (t(a).transpose(-1, -2) if ta else t(a)) @ (t(b).transpose(-1, -2) if tb else t(b))
        w.case("matmul", [a, b], [out(y)], transpose_a=ta, transpose_b=tb)
        for m, n, k in ((67, 45, 129), (1, 300, 77), (130, 10, 500)):
            w.big("matmul", [("float32", (k, m) if ta else (m, k), -1.0, 1.0), ("float32", (n, k) if tb else (k, n), -1.0, 1.0)], transpose_a=ta, transpose_b=tb)


# ---- convolutions; padding 1 SAME 2 VALID, data_format 1 NHWC 2 NCHW
def same(n, k, s, d):
    total = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
    return total // 2, total - total // 2


def conv(x, k, a):  # x NCHW, k HWIO
    if a["padding"] == 1:
        p = same(x.shape[3], k.shape[1], a["stride_w"], a["dilation_w"]) + same(x.shape[2], k.shape[0], a["stride_h"], a["dilation_h"])
        x = F.pad(x, p)
    return F.conv2d(x, k.permute(3, 2, 0, 1), stride=(a["stride_h"], a["stride_w"]), dilation=(a["dilation_h"], a["dilation_w"]), groups=a["groups"])


shapes = [  # B H W C O KH KW sh sw dh dw groups
    (2, 5, 6, 3, 4, 3, 3, 1, 1, 1, 1, 1), (1, 7, 5, 2, 6, 3, 2, 2, 1, 1, 1, 2), (1, 8, 8, 4, 4, 3, 3, 2, 2, 1, 1, 4), (2, 9, 7, 1, 3, 5, 3, 1, 2, 1, 1, 1),
    (1, 9, 9, 2, 2, 3, 3, 1, 1, 2, 2, 1), (3, 4, 4, 5, 3, 1, 1, 1, 1, 1, 1, 1), (1, 6, 6, 3, 2, 1, 1, 2, 2, 1, 1, 1), (2, 5, 5, 6, 9, 2, 3, 1, 1, 1, 2, 3),
]
for B, H, W, C, O, KH, KW, sh, sw, dh, dw, g in shapes:
    for padding in (1, 2):
        for fmt in (1, 2):
            a = dict(stride_h=sh, stride_w=sw, dilation_h=dh, dilation_w=dw, padding=padding, data_format=fmt, groups=g)
            xn, kn = w.normal(B, C, H, W), w.normal(KH, KW, C // g, O)
            x, k = t(xn).requires_grad_(), t(kn).requires_grad_()
            y = conv(x, k, a)
            dyn = w.normal(*y.shape)
            y.backward(t(dyn))
            lay = (lambda v: v) if fmt == 2 else (lambda v: np.ascontiguousarray(np.transpose(v, (0, 2, 3, 1))))
            w.case("conv2d", [lay(xn), kn], [lay(out(y))], tol=2e-5, **a)
            w.case("conv2d_input_grad", [lay(dyn), kn, lay(xn)], [lay(out(x.grad))], tol=2e-5, **a)
            w.case("conv2d_filter_grad", [lay(xn), lay(dyn), kn], [out(k.grad)], tol=2e-5, **a)
for B, H, C, O, K, s, g in ((3, 17, 16, 32, 3, 1, 1), (2, 28, 1, 32, 3, 1, 1), (1, 15, 24, 40, 5, 2, 1), (2, 9, 32, 32, 3, 1, 32)):
    a = dict(stride_h=s, stride_w=s, padding=1, groups=g)
    OH = -(-H // s)
    w.big("conv2d", [("float32", (B, H, H, C), -1.0, 1.0), ("float32", (K, K, C // g, O), -1.0, 1.0)], **a)
    w.big("conv2d_input_grad", [("float32", (B, OH, OH, O), -1.0, 1.0), ("float32", (K, K, C // g, O), -1.0, 1.0), ("float32", (B, H, H, C), -1.0, 1.0)], **a)
    w.big("conv2d_filter_grad", [("float32", (B, H, H, C), -1.0, 1.0), ("float32", (B, OH, OH, O), -1.0, 1.0), ("float32", (K, K, C // g, O), -1.0, 1.0)], **a)

# ---- bias_add
for shape, fmt in (((3, 4), 0), ((2, 3, 2, 5), 1), ((2, 3, 2, 5), 2), ((2, 3, 4), 0)):
    x = w.normal(*shape)
    c = shape[1] if fmt == 2 else shape[-1]
    b = w.normal(c)
    w.case("bias_add", [x, b], [x + (b.reshape(1, c, 1, 1) if fmt == 2 else b)], data_format=fmt)
w.big("bias_add", [("float32", (200, 37), -1.0, 1.0), ("float32", (37,), -1.0, 1.0)])

# ---- pooling
for H, W, C, kh, kw, sh, sw in ((6, 6, 3, 2, 2, 2, 2), (7, 5, 2, 3, 3, 2, 2), (5, 7, 4, 3, 2, 1, 2), (4, 4, 17, 2, 2, 0, 0), (8, 8, 1, 4, 4, 4, 4)):
    for padding in (1, 2):
        for fmt in (1, 2):
            xn = w.distinct(2, C, H, W)
            a = dict(size_h=kh, size_w=kw, stride_h=sh, stride_w=sw, padding=padding, data_format=fmt)
            s = (sh or kh, sw or kw)
            ph, pw = (same(H, kh, s[0], 1), same(W, kw, s[1], 1)) if padding == 1 else ((0, 0), (0, 0))
            x = t(xn).requires_grad_()
            y = F.max_pool2d(F.pad(x, pw + ph, value=-1e9), (kh, kw), s)
            dyn = w.normal(*y.shape)
            y.backward(t(dyn))
            # which element of its window was chosen
            cols = F.unfold(F.pad(x.detach(), pw + ph, value=-1e9).reshape(-1, 1, H + sum(ph), W + sum(pw)), (kh, kw), stride=s)
            arg = cols.argmax(1).reshape(y.shape).numpy().astype(np.uint8)
            lay = (lambda v: v) if fmt == 2 else (lambda v: np.ascontiguousarray(np.transpose(v, (0, 2, 3, 1))))
            w.case("max_pool", [lay(xn), ], [lay(out(y)), lay(arg)], **a)
            w.case("max_pool_grad", [lay(dyn), lay(arg), lay(xn)], [lay(out(x.grad))], **a)
            w.case("max_pool_take", [lay(xn), lay(arg)], [lay(out(y))], **a)
            x = t(xn).requires_grad_()
            n = F.avg_pool2d(F.pad(torch.ones_like(x), pw + ph), (kh, kw), s)
            y = F.avg_pool2d(F.pad(x, pw + ph), (kh, kw), s) / n
            y.backward(t(dyn))
            w.case("avg_pool", [lay(xn)], [lay(out(y))], **a)
            w.case("avg_pool_grad", [lay(dyn), lay(xn)], [lay(out(x.grad))], **a)
w.big("max_pool", [("float32", (3, 28, 28, 35), -1.0, 1.0)], size_h=2, size_w=2)
w.big("max_pool", [("float32", (2, 13, 13, 33), -1.0, 1.0)], size_h=3, size_w=3, stride_h=2, stride_w=2, padding=1)

# ---- batch norm
for shape, axis in (((6, 3), 1), ((2, 3, 4, 5), 3), ((2, 3, 4, 5), 1), ((1, 7, 1, 2), 3)):
    C = shape[axis]
    xn, gn, bn, dyn = w.normal(*shape), w.uniform(0.5, 2, C), w.normal(C), w.normal(*shape)
    x, g, b = t(xn).requires_grad_(), t(gn).requires_grad_(), t(bn).requires_grad_()
    axes = [d for d in range(len(shape)) if d != axis]
    wide = [C if d == axis else 1 for d in range(len(shape))]
    n = int(np.prod(shape)) // C
    mean, var = x.mean(axes), x.var(axes, unbiased=False)
    inv = 1 / torch.sqrt(var + 1e-3)
    y = (x - mean.reshape(wide)) * inv.reshape(wide) * g.reshape(wide) + b.reshape(wide)
    y.backward(t(dyn))
    for unbiased in (0, 1):
        w.case("batch_norm", [xn, gn, bn], [out(y), out(mean), out(var * (n / (n - 1) if unbiased else 1)), out(inv)], axis=axis, epsilon=1e-3, unbiased=unbiased, tol=3e-5,
               nograd="batch_norm_grad is compared with torch below, differences are at the end")
    w.case("batch_norm_grad", [dyn, xn, gn, out(mean), out(inv)], [out(x.grad), out(g.grad), out(b.grad)], axis=axis, epsilon=1e-3, tol=5e-5)
    mn, vn = w.normal(C), w.uniform(0.5, 2, C)
    y = (t(xn) - t(mn).reshape(wide)) / torch.sqrt(t(vn).reshape(wide) + 1e-3) * t(gn).reshape(wide) + t(bn).reshape(wide)
    w.case("batch_norm_infer", [xn, gn, bn, mn, vn], [out(y)], axis=axis, epsilon=1e-3, tol=3e-5)
w.big("batch_norm", [("float32", (8, 20, 20, 24), -1.0, 1.0), ("float32", (24,), 0.5, 2.0), ("float32", (24,), -1.0, 1.0)], axis=3, epsilon=1e-3)

# ---- softmax and its losses
for shape in ((3, 5), (2, 3, 4), (7,), (4, 1)):
    x = w.normal(*shape, scale=3)
    w.case("softmax", [x], [out(torch.softmax(t(x), -1))])
    w.case("log_softmax", [x], [out(torch.log_softmax(t(x), -1))])
w.case("softmax", [np.array([[1000, 1001, -1000]], f32)], [out(torch.softmax(t([[1000, 1001, -1000]]), -1))], nograd="saturated")
w.big("softmax", [("float32", (300, 65), -9.0, 9.0)])
w.big("log_softmax", [("float32", (300, 65), -9.0, 9.0)])
for B, C in ((4, 5), (1, 10), (6, 2)):
    x, label = w.normal(B, C, scale=2), w.ints(0, C, B)
    for dtype in ("int32", "int64"):
        w.case("sparse_softmax_cross_entropy", [x, label.astype(dtype)], [out(F.cross_entropy(t(x), torch.tensor(label).long(), reduction="none")), out(torch.softmax(t(x), -1))])

# ---- layer norm over the last axis
for shape in ((1, 2), (3, 5), (2, 3, 4), (7, 19)):
    xn, gn, bn, dyn = w.normal(*shape), w.normal(shape[-1]), w.normal(shape[-1]), w.normal(*shape)
    x, g, b = (t(a).requires_grad_() for a in (xn, gn, bn))
    y = F.layer_norm(x, (shape[-1],), g, b, 1e-3)
    y.backward(t(dyn))
    mean = t(xn).mean(-1)
    inv = 1 / torch.sqrt(t(xn).var(-1, unbiased=False) + 1e-3)
    w.case("layer_norm", [xn, gn, bn], [out(y), out(mean), out(inv)], epsilon=1e-3, tol=3e-5, nograd="layer_norm_grad is compared with torch below, differences are at the end")
    w.case("layer_norm_grad", [dyn, xn, gn, out(mean), out(inv)], [out(x.grad), out(g.grad), out(b.grad)], epsilon=1e-3, tol=5e-5)
for rows, C in ((300, 65), (9, 768), (1000, 16)):
    mat, vec = [("float32", (rows, C), -2.0, 2.0)], [("float32", (C,), -1.0, 1.0)]
    w.big("layer_norm", mat + vec + vec, epsilon=1e-5)
    w.big("layer_norm_grad", mat + mat + vec + [("float32", (rows,), -0.1, 0.1), ("float32", (rows,), 0.5, 1.0)], epsilon=1e-5)

# ---- GRU as TensorFlow's GRUCell: the reset gate comes before the product, so it is written out in torch
def gru(T, B, I, H, batch_major):
    x, kg, bg = w.normal(T, B, I), w.normal(I + H, 2 * H) * f32(0.5), w.normal(2 * H) * f32(0.5)
    kc, bc, h0 = w.normal(I + H, H) * f32(0.5), w.normal(H) * f32(0.5), w.normal(B, H) * f32(0.5)
    dy, dh = w.normal(T, B, H), w.normal(B, H)
    leaf = [t(a).requires_grad_() for a in (x, kg, bg, kc, bc, h0)]
    X, KG, BG, KC, BC, H0 = leaf
    h, ys, gates = H0, [], []
    for s in range(T):
        ru = torch.sigmoid(torch.cat([X[s], h], 1) @ KG + BG)
        c = torch.tanh(torch.cat([X[s], ru[:, :H] * h], 1) @ KC + BC)
        h = ru[:, H:] * h + (1 - ru[:, H:]) * c
        ys.append(h)
        gates.append(torch.cat([ru, c], 1))
    y, gates = torch.stack(ys), torch.stack(gates)
    (y * t(dy)).sum().add((h * t(dh)).sum()).backward()
    lay = (lambda a: np.ascontiguousarray(np.swapaxes(a, 0, 1))) if batch_major else (lambda a: a)
    w.case("gru", [lay(x), kg, bg, kc, bc, h0], [lay(out(y)), out(h), lay(out(gates))], batch_major=batch_major, tol=2e-5,
           nograd="the gates pass none on; gru_grad is compared with torch below")
    w.case("gru_grad", [lay(dy), dh, lay(x), kg, kc, h0, lay(out(y)), lay(out(gates))],
           [lay(out(X.grad))] + [out(a.grad) for a in (KG, BG, KC, BC, H0)], batch_major=batch_major, tol=5e-5)


for batch_major in (False, True):
    gru(1, 1, 1, 1, batch_major)
    gru(3, 2, 4, 3, batch_major)
    gru(5, 3, 2, 5, batch_major)
    for T, B, I, H in ((7, 37, 19, 24), (4, 70, 3, 33), (2, 1, 40, 16)):
        one, lead = [("float32", (B, H), -1.0, 1.0)], (B, T) if batch_major else (T, B)
        seq = lambda n, low=-1.0: [("float32", lead + (n,), low, 1.0)]
        kernel = lambda n: [("float32", (I + H, n), -0.5, 0.5)]
        w.big("gru", seq(I) + kernel(2 * H) + [("float32", (2 * H,), -1.0, 1.0)] + kernel(H) + [("float32", (H,), -1.0, 1.0)] + one, batch_major=batch_major)
        w.big("gru_grad", seq(H) + one + seq(I) + kernel(2 * H) + kernel(H) + one + seq(H) + seq(3 * H, 0.0), batch_major=batch_major)

# ---- attention; torch's causal mask begins at the first key, ours ends at the last, which is the same for Tq = Tk
for B, Tq, Tk, H, D, causal in ((1, 1, 1, 1, 1, 0), (2, 3, 5, 2, 3, 0), (1, 4, 4, 2, 2, 1), (2, 5, 7, 3, 1, 1), (1, 6, 6, 1, 4, 1)):
    C = H * D
    qn, kn, vn, dyn = w.normal(B, Tq, C), w.normal(B, Tk, C), w.normal(B, Tk, C), w.normal(B, Tq, C)
    q, k, v = (t(a).requires_grad_() for a in (qn, kn, vn))
    head = lambda a: a.reshape(B, -1, H, D).transpose(1, 2)
    mask = torch.ones(Tq, Tk, dtype=torch.bool).tril(Tk - Tq) if causal else None
    y = F.scaled_dot_product_attention(head(q), head(k), head(v), attn_mask=mask).transpose(1, 2).reshape(B, Tq, C)
    y.backward(t(dyn))
    scores = head(q) @ head(k).transpose(-1, -2) / D ** 0.5
    if causal:
        scores = scores.masked_fill(~mask, float("-inf"))
    lse = torch.logsumexp(scores, -1)
    a = dict(heads=H, causal=causal)
    w.case("attention", [qn, kn, vn], [out(y), out(lse)], tol=3e-5, nograd="the second output passes none on; attention_grad is compared with torch below", **a)
    w.case("attention_grad", [dyn, qn, kn, vn, out(y), out(lse)], [out(q.grad), out(k.grad), out(v.grad)], tol=5e-5, **a)
for B, Tq, Tk, H, D, causal in ((2, 130, 130, 3, 16, 1), (1, 37, 150, 2, 9, 1), (1, 70, 33, 2, 40, 0), (3, 1, 65, 1, 24, 1)):
    three = lambda n: [("float32", (B, n, H * D), -1.0, 1.0)]
    w.big("attention", three(Tq) + three(Tk) + three(Tk), heads=H, causal=causal)
    w.big("attention_grad", three(Tq) + three(Tq) + three(Tk) + three(Tk) + three(Tq) + [("float32", (B, H, Tq), 2.0, 3.0)], heads=H, causal=causal)

# ---- LSTM: columns i, j, f, o; torch's rows are i, f, g (our j), o
def lstm(T, B, I, H, fb, batch_major):
    x, k, b = w.normal(T, B, I), w.normal(I + H, 4 * H) * f32(0.5), w.normal(4 * H) * f32(0.5)
    h0, c0 = w.normal(B, H) * f32(0.5), w.normal(B, H) * f32(0.5)
    dy, dh, dc = w.normal(T, B, H), w.normal(B, H), w.normal(B, H)
    order = [0, 2, 1, 3]
    cell = torch.nn.LSTM(I, H, 1).double()
    kk = np.asarray(k, f64).reshape(I + H, 4, H)[:, order].reshape(I + H, 4 * H)
    bb = np.asarray(b, f64).reshape(4, H).copy()
    bb[2] += fb
    with torch.no_grad():
        cell.weight_ih_l0.copy_(t(kk[:I].T))
        cell.weight_hh_l0.copy_(t(kk[I:].T))
        cell.bias_ih_l0.copy_(t(bb[order].reshape(-1)))
        cell.bias_hh_l0.zero_()
    X, H0, C0 = (t(a).requires_grad_() for a in (x, h0, c0))
    y, (hn, cn) = cell(X, (H0[None], C0[None]))
    (y * t(dy)).sum().add((hn[0] * t(dh)).sum()).add((cn[0] * t(dc)).sum()).backward()
    # gates and cells, one step after the other
    gates, cells, h, c = [], [], t(h0), t(c0)
    for s in range(T):
        g = (torch.cat([t(x[s]), h], 1) @ t(k) + t(b)).reshape(B, 4, H)
        g = torch.stack([torch.sigmoid(g[:, 0]), torch.tanh(g[:, 1]), torch.sigmoid(g[:, 2] + fb), torch.sigmoid(g[:, 3])], 1)
        c = c * g[:, 2] + g[:, 0] * g[:, 1]
        h = torch.tanh(c) * g[:, 3]
        gates.append(g.reshape(B, 4 * H))
        cells.append(c)
    gates, cells = torch.stack(gates), torch.stack(cells)
    back = lambda g: g.detach().numpy().reshape(4, H, -1)[order].reshape(4 * H, -1)
    dk = np.concatenate([back(cell.weight_ih_l0.grad), back(cell.weight_hh_l0.grad)], 1).T
    db = back(cell.bias_ih_l0.grad)[:, 0]
    lay = (lambda a: np.ascontiguousarray(np.swapaxes(a, 0, 1))) if batch_major else (lambda a: a)
    a = dict(forget_bias=fb, batch_major=batch_major)
    w.case("lstm", [lay(x), k, b, h0, c0], [lay(out(y)), out(hn[0]), out(cn[0]), lay(out(gates)), lay(out(cells))], tol=2e-5,
           nograd="gates and cells pass none on; lstm_grad is compared with torch, and test_ops_nn.c with the unrolled cell", **a)
    w.case("lstm_grad", [lay(dy), dh, dc, lay(x), k, h0, c0, lay(out(y)), lay(out(gates)), lay(out(cells))],
           [lay(out(X.grad)), dk.astype(f32), db.astype(f32), out(H0.grad), out(C0.grad)], tol=5e-5, nograd="it has none", **a)


for batch_major in (False, True):
    lstm(1, 1, 1, 1, 1.0, batch_major)
    lstm(3, 2, 4, 3, 0.0, batch_major)
    lstm(5, 3, 2, 5, 1.0, batch_major)
    for T, B, I, H in ((7, 37, 19, 24), (4, 70, 3, 33), (2, 1, 40, 16)):
        one, lead = [("float32", (B, H), -1.0, 1.0)], (B, T) if batch_major else (T, B)
        seq = lambda n, low=-1.0: [("float32", lead + (n,), low, 1.0)]
        kernel = [("float32", (I + H, 4 * H), -0.5, 0.5)]
        w.big("lstm", seq(I) + kernel + [("float32", (4 * H,), -1.0, 1.0)] + one + one, forget_bias=1.0, batch_major=batch_major)
        w.big("lstm_grad", seq(H) + one + one + seq(I) + kernel + one + one + seq(H) + seq(4 * H, 0.0) + seq(H), forget_bias=1.0, batch_major=batch_major)


# ---- state
v, x = w.normal(3, 2), w.normal(3, 2)
w.case("assign", [x], [x], var=[v], newvar=[x])
w.case("assign_add", [x], [v + x], var=[v], newvar=[v + x])
w.case("assign_sub", [x], [v - x], var=[v], newvar=[v - x])
w.case("assign_moving_average", [x], [(v - 0.25 * (v - x)).astype(f32)], var=[v], newvar=[(v - 0.25 * (v - x)).astype(f32)], decay=0.75)
no, yes = np.array(False), np.array(True)
w.case("assign", [x, no], [v], var=[v], newvar=[v])
w.case("assign_add", [x, yes], [v + x], var=[v], newvar=[v + x])
i64 = np.array([5, 7], np.int64)
w.case("assign_add", [np.array([1, -2], np.int64)], [i64 + [1, -2]], var=[i64], newvar=[i64 + [1, -2]])
w.case("ema_debias", [np.array(2, f32)], [np.array((0.2 * 0.95 + 2 * 0.05) / (1 - 0.95 ** 2), f32)], var=[np.array(0.2, f32), np.array(1, f32)],
       newvar=[np.array(0.2 * 0.95 + 2 * 0.05, f32), np.array(2, f32)], decay=0.95)
w.case("summary", [x], [x], tag="x", kind=1)
g1, g2, w1, w2 = w.normal(4), w.normal(2, 3), w.normal(4), w.normal(2, 3)
lr = np.array(0.1, f32)
w.case("apply_gradient_descent", [g1, g2, lr], [None], var=[w1, w2], newvar=[w1 - 0.1 * g1, w2 - 0.1 * g2], n=2)
a1, a2 = w.normal(4), w.normal(2, 3)
for nesterov in (0, 1):
    n1, n2 = 0.9 * a1 + g1, 0.9 * a2 + g2
    u1, u2 = (g1 + 0.9 * n1, g2 + 0.9 * n2) if nesterov else (n1, n2)
    w.case("apply_momentum", [g1, g2, lr], [None], var=[w1, w2, a1, a2], newvar=[x.astype(f32) for x in (w1 - 0.1 * u1, w2 - 0.1 * u2, n1, n2)], n=2, momentum=0.9, nesterov=nesterov)
m1, m2, v1, v2 = w.normal(4), w.normal(2, 3), w.uniform(0.1, 1, 4), w.uniform(0.1, 1, 2, 3)
b1p, b2p = np.array(0.9 ** 3, f32), np.array(0.999 ** 3, f32)


def adam(p, m, v, g):
    m, v = 0.9 * m.astype(f64) + 0.1 * g, 0.999 * v.astype(f64) + 0.001 * g.astype(f64) ** 2
    return p - 0.1 * np.sqrt(1 - 0.999 ** 3) / (1 - 0.9 ** 3) * m / (np.sqrt(v) + 1e-3), m, v


p1, p2 = adam(w1, m1, v1, g1), adam(w2, m2, v2, g2)
w.case("apply_adam", [g1, g2, lr, b1p, b2p], [None], var=[w1, w2, m1, m2, v1, v2], newvar=[x.astype(f32) for x in (p1[0], p2[0], p1[1], p2[1], p1[2], p2[2])], n=2,
       beta1=0.9, beta2=0.999, epsilon=1e-3, tol=5e-5)
d1, d2 = w1.astype(f64) * (1 - 0.1 * 0.3), w2.astype(f64) * (1 - 0.1 * 0.3)
w.case("apply_adam", [g1, g2, lr, b1p, b2p], [None], var=[w1, w2, m1, m2, v1, v2], newvar=[x.astype(f32) for x in (adam(d1, m1, v1, g1)[0], adam(d2, m2, v2, g2)[0], p1[1], p2[1], p1[2], p2[2])],
       n=2, beta1=0.9, beta2=0.999, epsilon=1e-3, decay=0.3, tol=5e-5)
F = lambda *xs: [x.astype(f32) for x in xs]
for kind in (3, 4):
    out = []
    for p, ms, mom, mg, g in ((w1, v1, m1, a1 * 0.1, g1), (w2, v2, m2, a2 * 0.1, g2)):
        p, ms, mom, mg, g = (x.astype(f64) for x in (p, ms, mom, mg, g))
        ms, mg = 0.9 * ms + 0.1 * g * g, 0.9 * mg + 0.1 * g
        mom = 0.5 * mom + 0.1 * g / np.sqrt(ms - (mg * mg if kind == 4 else 0) + 0.3)
        out.append((p - mom, ms, mom, mg))
    n_slot = kind - 1
    w.case("apply_rmsprop", [g1, g2, lr], [None], var=[w1, w2, v1, v2, m1, m2] + ([x.astype(f32) for x in (a1 * 0.1, a2 * 0.1)] if kind == 4 else []),
           newvar=F(*[out[i][q] for q in range(1 + n_slot) for i in range(2)]), n=2, decay=0.9, momentum=0.5, epsilon=0.3, tol=2e-5)
acc = [v.astype(f64) + g.astype(f64) ** 2 for v, g in ((v1, g1), (v2, g2))]
w.case("apply_adagrad", [g1, g2, lr], [None], var=[w1, w2, v1, v2], newvar=F(*[p - 0.1 * g / np.sqrt(a) for p, g, a in ((w1, g1, acc[0]), (w2, g2, acc[1]))], *acc), n=2, tol=2e-5)
out = []
for p, a, u, g in ((w1, v1, np.abs(m1), g1), (w2, v2, np.abs(m2), g2)):
    p, a, u, g = (x.astype(f64) for x in (p, a, u, g))
    a = 0.95 * a + 0.05 * g * g
    d = g * np.sqrt(u + 1e-3) / np.sqrt(a + 1e-3)
    out.append((p - 0.1 * d, a, 0.95 * u + 0.05 * d * d))
w.case("apply_adadelta", [g1, g2, lr], [None], var=[w1, w2, v1, v2] + F(np.abs(m1), np.abs(m2)), newvar=F(*[out[i][q] for q in range(3) for i in range(2)]), n=2, rho=0.95, epsilon=1e-3, tol=2e-5)
for power, l1, l2, shrink in ((0.5, 0.2, 0.1, 0.05), (0.7, 0.0, 0.3, 0.0)):
    out = []
    for p, a, l, g in ((w1, v1, m1, g1), (w2, v2, m2, g2)):
        p, a, l, g = (x.astype(f64) for x in (p, a, l, g))
        new = a + g * g
        l = l + g + 2 * shrink * p - (new ** power - a ** power) / 0.1 * p
        out.append((np.where(np.abs(l) > l1, (l1 * np.sign(l) - l) / (new ** power / 0.1 + 2 * l2), 0), new, l))
    w.case("apply_ftrl", [g1, g2, lr], [None], var=[w1, w2, v1, v2, m1, m2], newvar=F(*[out[i][q] for q in range(3) for i in range(2)]), n=2, lr_power=-power, l1=l1, l2=l2, shrinkage=shrink, tol=5e-5)
out = []
for p, m, v, g in ((w1, m1, v1, g1), (w2, m2, v2, g2)):
    p, m, v, g = (x.astype(f64) for x in (p, m, v, g))
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    r = m / (1 - 0.9 ** 3) / (np.sqrt(v / (1 - 0.999 ** 3)) + 1e-3) + 0.2 * p
    out.append((p - 0.1 * np.sqrt((p * p).sum() / (r * r).sum()) * r, m, v))
w.case("apply_lamb", [g1, g2, lr, b1p, b2p], [None], var=[w1, w2, m1, m2, v1, v2], newvar=F(*[out[i][q] for q in range(3) for i in range(2)]), n=2, beta1=0.9, beta2=0.999, epsilon=1e-3, decay=0.2, tol=5e-5)
w.case("apply_adam", [g1, g2, lr, b1p, b2p, no], [None], var=[w1, w2, m1, m2, v1, v2], newvar=[w1, w2, m1, m2, v1, v2], n=2, beta1=0.9, beta2=0.999, epsilon=1e-3)

# ---- added later, at the end, so that the numbers above stay
# norms, their gradients and the gradients of these by finite differences
for shape, axis in (((6, 3), 1), ((2, 3, 2, 2), 3), ((3, 2, 2, 1), 1)):
    C = shape[axis]
    for unbiased in (0, 1):
        w.case("batch_norm", [w.normal(*shape), w.uniform(0.5, 2, C), w.normal(C)], [None] * 4, axis=axis, epsilon=0.1, unbiased=unbiased)
    w.case("batch_norm_grad", [w.normal(*shape), w.normal(*shape), w.uniform(0.5, 2, C), w.normal(C), w.uniform(0.5, 2, C)], [None] * 3, axis=axis, epsilon=0.1)
for shape in ((4,), (3, 5), (2, 2, 3)):
    C = shape[-1]
    w.case("layer_norm", [w.normal(*shape), w.normal(C), w.normal(C)], [None] * 3, epsilon=0.1)
    w.case("layer_norm_grad", [w.normal(*shape), w.normal(*shape), w.normal(C), w.normal(*shape[:-1]), w.uniform(0.5, 2, *shape[:-1])], [None] * 3, epsilon=0.1)


def out(x):  # the name was used above
    return x.detach().numpy().astype(f32)


# ---- resize: torch knows four of the six ways, TensorFlow's formulas are written out for the others
def axis_matrix(n, m, nearest, align, half):
    M = np.zeros((m, n))
    scale = (n - 1) / (m - 1) if align and m > 1 else n / m
    for i in range(m):
        at = (i + 0.5) * scale - (0 if nearest else 0.5) if half else i * scale
        if nearest:
            M[i, min(n - 1, int(np.floor(at + 0.5 + 1e-9) if align else np.floor(at + 1e-9)))] = 1
        else:
            low = np.floor(at + 1e-12)
            part = max(at - low, 0)
            M[i, int(min(max(low, 0), n - 1))] += 1 - part
            M[i, int(min(max(low + 1, 0), n - 1))] += part
    return M


for H, W, OH, OW in ((2, 2, 4, 4), (5, 3, 2, 7), (4, 6, 4, 3), (1, 3, 3, 1), (3, 4, 9, 8)):
    for nearest in (0, 1):
        for align, half in ((0, 0), (1, 0), (0, 1)):
            for fmt in (1, 2):
                xn = w.normal(2, 3, H, W)
                x = t(xn).requires_grad_()
                y = torch.einsum("ih,jw,bchw->bcij", t(axis_matrix(H, OH, nearest, align, half)), t(axis_matrix(W, OW, nearest, align, half)), x)
                if not nearest and (align or half):
                    assert torch.allclose(y, torch.nn.functional.interpolate(x, (OH, OW), mode="bilinear", align_corners=bool(align)))
                if nearest and not align:
                    assert torch.allclose(y, torch.nn.functional.interpolate(x, (OH, OW), mode="nearest-exact" if half else "nearest"))
                dyn = w.normal(*y.shape)
                y.backward(t(dyn))
                lay = (lambda v: v) if fmt == 2 else (lambda v: np.ascontiguousarray(np.transpose(v, (0, 2, 3, 1))))
                a = dict(out_h=OH, out_w=OW, align_corners=align, half_pixel_centers=half, nearest=nearest, data_format=fmt)
                if fmt == 2 and (H, W) != (2, 2) and (H, W) != (5, 3):
                    continue
                w.case("resize", [lay(xn)], [lay(out(y))], **a)
                w.case("resize_grad", [lay(dyn), lay(xn)], [lay(out(x.grad))], **a)
w.case("resize", [np.array([[1, 2], [3, 4]], f32).reshape(1, 2, 2, 1)], [np.array([1, 1.5, 2, 2, 2, 2.5, 3, 3, 3, 3.5, 4, 4, 3, 3.5, 4, 4], f32).reshape(1, 4, 4, 1)], out_h=4, out_w=4)
w.case("resize", [np.zeros((0, 2, 2, 1), f32)], [np.zeros((0, 3, 3, 1), f32)], out_h=3, out_w=3, nograd="empty")
for n in (0, 1):
    w.big("resize", [("float32", (3, 37, 41, 5), -1.0, 1.0)], out_h=80, out_w=53, nearest=n)
    w.big("resize_grad", [("float32", (3, 80, 53, 5), -1.0, 1.0), ("float32", (3, 37, 41, 5), -1.0, 1.0)], out_h=80, out_w=53, nearest=n)

# ---- bilinear_sampler as tensorpack's ImageSample: four gathers in torch
def sampler(image, coords, border):
    B, H, W, C = image.shape
    c = coords.clamp(min=0)
    low = torch.floor(c.detach())
    f = c - low
    size = torch.tensor([H - 1, W - 1], dtype=torch.float64)
    low, high = (torch.minimum(v, size).long() for v in (low, low + 1))
    b = torch.arange(B)[:, None, None]
    pixel = lambda i, j: image[b, i[..., 0], j[..., 1]]
    fy, fx = f[..., :1], f[..., 1:]
    y = (pixel(low, low) * (1 - fx) + pixel(low, high) * fx) * (1 - fy) + (pixel(high, low) * (1 - fx) + pixel(high, high) * fx) * fy
    if border:
        y = y * ((coords >= 0) & (coords <= size)).all(-1, keepdim=True)
    return y


for B, H, W, C, OH, OW in ((1, 2, 2, 1, 3, 4), (2, 5, 4, 3, 3, 3), (3, 1, 6, 2, 2, 5)):
    for border in (0, 1):
        xn = w.normal(B, H, W, C)
        cn = w.uniform(-1.5, 1.0, B, OH, OW, 2) + w.uniform(0, 1, B, OH, OW, 2) * np.array([H, W], f32)
        cn = (np.floor(cn) + np.clip(cn - np.floor(cn), 0.05, 0.95)).astype(f32)  # clear of whole numbers
        x, c = t(xn).requires_grad_(), t(cn).requires_grad_()
        y = sampler(x, c, border)
        dyn = w.normal(*y.shape)
        y.backward(t(dyn))
        w.case("bilinear_sampler", [xn, cn], [out(y)], border=border)
        w.case("bilinear_sampler_grad", [dyn, xn, cn], [out(x.grad), out(c.grad)], border=border)
for border, y in ((0, [2, 1.5, 3, 4]), (1, [2, 0, 0, 4])):
    w.case("bilinear_sampler", [np.array([[1, 2], [3, 4]], f32).reshape(1, 2, 2, 1), np.array([.25, .5, -.5, .5, 1.5, 0, 1, 1], f32).reshape(1, 1, 4, 2)], [np.array(y, f32).reshape(1, 1, 4, 1)],
           border=border, nograd="whole numbers")
far = np.array([1e30, -1e30, np.inf, 0, np.nan, 0, -np.inf, 5], f32).reshape(1, 1, 4, 2)
w.case("bilinear_sampler", [np.array([[1, 2], [3, 4]], f32).reshape(1, 2, 2, 1), far], [np.array([3, 3, np.nan, 2], f32).reshape(1, 1, 4, 1)], nograd="far outside")
w.case("bilinear_sampler_grad", [w.normal(1, 1, 4, 1), w.normal(1, 2, 2, 1), far], [None, None], nograd="far outside")
w.big("bilinear_sampler", [("float32", (3, 20, 30, 7), -1.0, 1.0), ("float32", (3, 40, 50, 2), -2.0, 31.0)], border=1)
w.big("bilinear_sampler_grad", [("float32", (3, 40, 50, 7), -1.0, 1.0), ("float32", (3, 20, 30, 7), -1.0, 1.0), ("float32", (3, 40, 50, 2), -2.0, 31.0)])


# ---- CTC; torch wants logarithms of probabilities
def ctc(x, labels, label_lengths, logit_lengths, blank, batch_major, zero_infinity=0, dtype="int32"):
    labels, label_lengths, logit_lengths = (np.array(v, dtype) for v in (labels, label_lengths, logit_lengths))
    C = x.shape[-1]
    v = t(x).requires_grad_()
    long = lambda a: torch.tensor(a.astype(np.int64))
    y = torch.nn.functional.ctc_loss(torch.log_softmax(v, -1), long(labels), long(logit_lengths), long(label_lengths), blank % C, "none", bool(zero_infinity))
    torch.where(torch.isinf(y), 0 * y.detach(), y).sum().backward()
    dx = torch.where(torch.isinf(y.detach())[None, :, None], 0 * v.detach(), v.grad)
    lay = (lambda a: np.ascontiguousarray(np.swapaxes(a, 0, 1))) if batch_major else (lambda a: a)
    w.case("ctc_loss", [lay(x), labels, label_lengths, logit_lengths], [out(y), lay(out(dx))], tol=2e-5, nograd="the second output passes none on; it is torch's derivative",
           blank=blank, batch_major=batch_major, zero_infinity=zero_infinity)


for batch_major in (0, 1):
    ctc(w.normal(1, 1, 2), [[1]], [1], [1], 0, batch_major)
    ctc(w.normal(6, 3, 5), [[1, 2, 2, 3], [4, 4, 0, 0], [2, 0, 0, 0]], [4, 2, 1], [6, 5, 3], 0, batch_major)
    ctc(w.normal(7, 2, 4, scale=3), [[0, 1, 0], [2, 2, 2]], [3, 3], [7, 7], -1, batch_major, dtype="int64")
    ctc(w.normal(5, 4, 3), [[0, 0], [2, 0], [2, 2], [0, 2]], [0, 0, 2, 1], [5, 2, 3, 1], 1, batch_major)
for zero_infinity in (0, 1):  # too short, repeated labels without the room for a blank
    ctc(w.normal(3, 4, 4), [[1, 2, 3, 1], [1, 1, 0, 0], [2, 3, 0, 0], [1, 1, 0, 0]], [4, 2, 2, 2], [3, 2, 1, 3], 0, 0, zero_infinity)
ctc(w.normal(4, 2, 3, scale=400), [[1, 2], [2, 2]], [2, 2], [4, 4], 0, 0)  # all but impossible
ctc(w.normal(80, 3, 20, scale=2), w.ints(1, 20, 3, 30), [30, 22, 1], [80, 77, 64], 0, 1)
for zero_infinity in (0, 1):  # NaN on a path, beside it, in one step or in all; infinity
    x = np.sin(np.arange(6 * 7 * 4)).astype(f32).reshape(6, 7, 4)
    x[0, 1, 1] = x[5, 2, 3] = x[:, 3] = np.nan
    x[4, 5, 2] = np.inf
    for batch_major in (0, 1):
        ctc(x, [[1, 2]] * 6 + [[1, 1]], [2, 2, 2, 2, 2, 2, 2], [6, 6, 6, 6, 6, 5, 2], 0, batch_major, zero_infinity)
w.case("ctc_loss", [w.normal(2, 3, 4), np.zeros((3, 0), np.int32), np.zeros(3, np.int32), np.array([0, 0, 0], np.int32)], [np.zeros(3, f32), np.zeros((2, 3, 4), f32)], nograd="no labels, no steps")
w.big("ctc_loss", [("float32", (150, 13, 28), -5.0, 5.0), ("int32", (13, 40), 1.0, 27.0), ("int32", (13,), 20.0, 40.0), ("int32", (13,), 100.0, 150.0)])
out = []
for p, m, g in ((w1, m1, g1), (w2, m2, g2)):
    p, m, g = (x.astype(f64) for x in (p, m, g))
    out.append((p - 0.1 * (np.sign(0.9 * m + 0.1 * g) + 0.2 * p), 0.99 * m + 0.01 * g))
w.case("apply_lion", [g1, g2, lr], [None], var=[w1, w2, m1, m2], newvar=F(*[out[i][q] for q in range(2) for i in range(2)]), n=2, beta1=0.9, beta2=0.99, decay=0.2, tol=2e-5)
values = lambda x: x.detach().numpy().astype(f32)
# group norm, its gradient by torch, then both and their gradients by finite differences
for shape, axis, groups in (((2, 3, 2, 6), 3, 1), ((2, 3, 2, 6), 3, 3), ((2, 3, 2, 6), 3, 6), ((3, 4, 5, 2), 1, 2), ((2, 5, 3), 2, 3), ((1, 6, 7), 1, 1), ((2, 3, 4, 2), 2, 2), ((2, 1, 1, 8), 3, 2)):
    C, G = shape[axis], groups
    xn, gn, bn, dyn = w.normal(*shape), w.normal(C), w.normal(C), w.normal(*shape)
    x, g, b = (t(a).requires_grad_() for a in (xn, gn, bn))
    y = torch.nn.functional.group_norm(x.movedim(axis, 1), G, g, b, 1e-3).movedim(1, axis)
    y.backward(t(dyn))
    each = t(xn).movedim(axis, 1).reshape(shape[0], G, -1)
    mean, inv = each.mean(-1), 1 / torch.sqrt(each.var(-1, unbiased=False) + 1e-3)
    w.case("group_norm", [xn, gn, bn], [values(y), values(mean), values(inv)], axis=axis, groups=G, epsilon=1e-3, tol=3e-5, nograd="group_norm_grad is compared with torch below, differences are at the end")
    w.case("group_norm_grad", [dyn, xn, gn, values(mean), values(inv)], [values(x.grad), values(g.grad), values(b.grad)], axis=axis, groups=G, epsilon=1e-3, tol=5e-5)
for shape, axis, groups in (((2, 3, 2, 4), 3, 2), ((2, 4, 3), 1, 4), ((2, 2, 3, 2), 2, 1)):
    C = shape[axis]
    w.case("group_norm", [w.normal(*shape), w.normal(C), w.normal(C)], [None] * 3, axis=axis, groups=groups, epsilon=0.1)
    w.case("group_norm_grad", [w.normal(*shape), w.normal(*shape), w.normal(C), w.normal(shape[0], groups), w.uniform(0.5, 2, shape[0], groups)], [None] * 3, axis=axis, groups=groups, epsilon=0.1)
for shape, axis, groups in (((40, 5, 5, 24), 3, 4), ((2, 40, 40, 40), 3, 10), ((9, 3, 3, 17), 3, 17), ((3, 6, 33, 17), 1, 3), ((2, 3, 8, 67), 2, 8), ((2, 4, 3000), 1, 2), ((1, 9, 1, 5), 3, 5)):
    C = shape[axis]
    mat, vec, stat = [("float32", shape, -2.0, 2.0)], [("float32", (C,), -1.0, 1.0)], [("float32", (shape[0], groups))]
    w.big("group_norm", mat + vec + vec, axis=axis, groups=groups, epsilon=1e-5)
    w.big("group_norm_grad", mat + mat + vec + [stat[0] + (-0.1, 0.1), stat[0] + (0.5, 1.0)], axis=axis, groups=groups, epsilon=1e-5)
# many steps of few units: the gradients of the weights need more scratch memory than those of the input
for I, H in ((5, 5), (3, 8)):
    seq, one = (lambda n, low=-1.0: [("float32", (3, 200, n), low, 1.0)]), [("float32", (200, H), -1.0, 1.0)]
    kernel = lambda n: [("float32", (I + H, n), -0.5, 0.5)]
    w.big("gru_grad", seq(H) + one + seq(I) + kernel(2 * H) + kernel(H) + one + seq(H) + seq(3 * H, 0.0), batch_major=False)
w.close()
