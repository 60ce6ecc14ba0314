"""Gradient penalties for test_gradients2.c: torch differentiates small critics twice, in double.

    python3 tests/ref_gradients2.py            writes tests/ref_gradients2.txt

A line is: critic, number of weights, penalty, then the derivative by each weight, one after the other. Inputs and weights
are sines, which both sides compute; critics and names are those of the test.
"""
import os
import numpy as np
import torch
import torch.nn.functional as F


def sines(k, scale, *shape):
    i = np.arange(int(np.prod(shape)))
    return torch.tensor((scale * np.sin(1.3 * i + 0.7 * k + 0.2)).reshape(shape), dtype=torch.float64)


def conv(x, w, stride=1, pad=0, groups=1):
    if stride == 2:  # SAME of an even size by 3: one more behind
        x, pad = F.pad(x, (0, 1, 0, 1)), 0
    return F.conv2d(x, w.permute(3, 2, 0, 1), stride=stride, padding=pad, groups=groups)


def norm(x, axes, gamma, beta):
    mean, var = x.mean(axes, keepdim=True), x.var(axes, unbiased=False, keepdim=True)
    return (x - mean) / torch.sqrt(var + 0.125) * gamma + beta


def flat(x):  # as NHWC
    return x.permute(0, 2, 3, 1).reshape(len(x), -1)


leaky = lambda x: F.leaky_relu(x, 0.25)
wide = lambda v: v[:, None, None]
critics = {
    "plain": ([(3, 3, 2, 3), (3,), (2, 2, 3, 2), (2,)], lambda x, w: flat(leaky(conv(leaky(conv(x, w[0], 2) + wide(w[1])), w[2]))) @ w[3]),
    "layer_norm": ([(3, 3, 2, 3), (3,), (3,), (3, 3, 3, 2), (2,), (8,)],
                   lambda x, w: flat(leaky(conv(F.avg_pool2d(leaky(norm(conv(x, w[0], 1, 1), (1,), wide(w[1]), wide(w[2]))), 2), w[3], 1, 1) + wide(w[4]))) @ w[5]),
    "batch_norm": ([(3, 3, 2, 3), (3,), (3,), (3, 3, 3, 2), (8,)],
                   lambda x, w: flat(torch.tanh(conv(F.max_pool2d(torch.relu(norm(conv(x, w[0], 1, 1), (0, 2, 3), wide(w[1]), wide(w[2]))), 2), w[3], 1, 1))) @ w[4]),
    "softmax": ([(3, 3, 2, 3), (3,), (3, 4), (4,)],
                lambda x, w: torch.softmax(F.elu(conv(F.pad(x, (1, 1, 1, 1), mode="reflect"), w[0]) + wide(w[1]))[:, :, 1:4].mean((2, 3)) @ w[2], -1) @ w[3]),
    "group_norm": ([(3, 3, 2, 4), (4,), (4,), (3, 3, 4, 2), (2,), (2,), (32,)],
                   lambda x, w: flat(leaky(F.group_norm(conv(leaky(F.group_norm(conv(x, w[0], 1, 1), 2, w[1], w[2], 0.125)), w[3], 1, 1), 1, w[4], w[5], 0.125))) @ w[6]),
    "groups": ([(3, 3, 1, 4), (64,), (64,), (64, 3), (3,)], lambda x, w: leaky(norm(flat(conv(x, w[0], 1, 1, 2)), (1,), w[1], w[2]) @ w[3]) @ w[4]),
}
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "ref_gradients2.txt"), "w") as f:
    for name, (shapes, critic) in critics.items():
        x = sines(50, 1.0, 2, 4, 4, 2).permute(0, 3, 1, 2).requires_grad_()
        weights = [sines(3 * k, 0.8, *s).requires_grad_() for k, s in enumerate(shapes)]
        dx = torch.autograd.grad(critic(x, weights).sum(), x, create_graph=True)[0]
        penalty = ((dx.square().sum((1, 2, 3)).sqrt() - 1) ** 2).mean()
        penalty.backward()
        values = [penalty.item()] + [v for w in weights for v in (torch.zeros_like(w) if w.grad is None else w.grad).reshape(-1).tolist()]
        f.write(" ".join([name, str(len(weights))] + ["%.12g" % v for v in values]) + "\n")
