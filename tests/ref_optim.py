"""Reference trajectories of the optimizers, in double: TensorFlow's formulas, checked against torch.optim where both say the
same (with PyTorch installed); ref_optim_others.py has what other programs compute.   python3 tests/ref_optim.py > tests/ref_optim.txt
A line a case: name, then five weights after 1, 10 and 50 updates. Gradient of weight i at update t = 0, 1, ...:
c[i] w[i] + float32(0.5 sin(0.7 t + i)); w starts at (1, -2, 0.5, 3, -0.25)."""
import numpy as np

C = np.array([0.1, 0.5, 1.0, 2.0, 0.3])
W0 = np.array([1, -2, 0.5, 3, -0.25])
I = np.arange(5)


def shift(t):
    return np.float32(0.5 * np.sin(0.7 * t + I)).astype(np.float64)


def gradient(w, t):
    return C * w + shift(t)


def run(update, state, steps=50):
    w, out = W0.copy(), []
    for t in range(steps):
        w = update(w, gradient(w, t), state, t + 1)
        if t + 1 in (1, 10, 50):
            out += list(w)
    return out


def f32(x):  # options are float32 in C
    return float(np.float32(x))


def sgd(lr):
    return lambda w, g, s, t: w - f32(lr) * g


def momentum(lr, mu, nesterov):
    def f(w, g, s, t):
        s['a'] = f32(mu) * s.get('a', 0) + g
        return w - f32(lr) * (g + f32(mu) * s['a'] if nesterov else s['a'])
    return f


def adam(lr, b1=0.9, b2=0.999, eps=1e-8, decay=0.0):
    def f(w, g, s, t):
        w = w * (1 - f32(lr) * f32(decay))
        s['m'] = s.get('m', 0) + (g - s.get('m', 0)) * (1 - f32(b1))
        s['v'] = s.get('v', 0) + (g * g - s.get('v', 0)) * (1 - f32(b2))
        return w - f32(lr) * np.sqrt(1 - f32(b2) ** t) / (1 - f32(b1) ** t) * s['m'] / (np.sqrt(s['v']) + f32(eps))
    return f


def lamb(lr, b1=0.9, b2=0.999, eps=1e-6, decay=0.0):
    def f(w, g, s, t):
        s['m'] = s.get('m', 0) + (g - s.get('m', 0)) * (1 - f32(b1))
        s['v'] = s.get('v', 0) + (g * g - s.get('v', 0)) * (1 - f32(b2))
        r = s['m'] / (1 - f32(b1) ** t) / (np.sqrt(s['v'] / (1 - f32(b2) ** t)) + f32(eps)) + f32(decay) * w
        return w - f32(lr) * np.linalg.norm(w) / np.linalg.norm(r) * r
    return f


def lion(lr, b1=0.9, b2=0.99, decay=0.0):  # Chen et al. 2023, algorithm 2
    def f(w, g, s, t):
        m = s.get('m', 0)
        s['m'] = f32(b2) * m + (1 - f32(b2)) * g
        return w - f32(lr) * (np.sign(f32(b1) * m + (1 - f32(b1)) * g) + f32(decay) * w)
    return f


def rmsprop(lr, decay=0.9, mu=0.0, eps=1e-10, centered=False):
    def f(w, g, s, t):
        ms, mg = s.get('ms', np.ones(5)), s.get('mg', np.zeros(5))
        s['ms'] = ms + (g * g - ms) * (1 - f32(decay))
        s['mg'] = mg + (g - mg) * (1 - f32(decay))
        s['mom'] = f32(mu) * s.get('mom', 0) + f32(lr) * g / np.sqrt(s['ms'] - (s['mg'] ** 2 if centered else 0) + f32(eps))
        return w - s['mom']
    return f


def adagrad(lr, initial=0.1):
    def f(w, g, s, t):
        s['a'] = s.get('a', f32(initial)) + g * g
        return w - f32(lr) * g / np.sqrt(s['a'])
    return f


def adadelta(lr, rho=0.95, eps=1e-8):
    def f(w, g, s, t):
        s['a'] = f32(rho) * s.get('a', 0) + (1 - f32(rho)) * g * g
        d = g * np.sqrt(s.get('u', 0) + f32(eps)) / np.sqrt(s['a'] + f32(eps))
        s['u'] = f32(rho) * s.get('u', 0) + (1 - f32(rho)) * d * d
        return w - f32(lr) * d
    return f


def ftrl(lr, power=-0.5, initial=0.1, l1=0.0, l2=0.0, shrinkage=0.0):
    def f(w, g, s, t):
        a = s.get('a', np.full(5, f32(initial)))
        new, p = a + g * g, -f32(power)
        s['l'] = s.get('l', 0) + g + 2 * f32(shrinkage) * w - (new ** p - a ** p) / f32(lr) * w
        s['a'] = new
        return np.where(np.abs(s['l']) > f32(l1), (np.sign(s['l']) * f32(l1) - s['l']) / (new ** p / f32(lr) + 2 * f32(l2)), 0)
    return f


def accumulated(inner, niter):  # the sum of niter gradients at every niter-th update
    def f(w, g, s, t):
        s['sum'] = s.get('sum', 0) + g
        if t % niter:
            return w
        s['applied'] = s.get('applied', 0) + 1
        w, s['sum'] = inner(w, s['sum'], s, s['applied']), 0
        return w
    return f


cases = {
    'sgd': sgd(0.1), 'momentum': momentum(0.1, 0.9, False), 'nesterov': momentum(0.1, 0.9, True), 'adam': adam(0.05), 'adam_epsilon': adam(0.05, 0.5, 0.99, 1e-2),
    'adamw': adam(0.05, decay=0.1), 'lamb': lamb(0.02, decay=0.05), 'rmsprop': rmsprop(0.01), 'rmsprop_momentum': rmsprop(0.01, 0.8, 0.5, 1e-3),
    'rmsprop_centered': rmsprop(0.01, 0.9, 0.5, 1e-2, True), 'adagrad': adagrad(0.3), 'adadelta': adadelta(1.0, 0.9, 1e-3), 'ftrl': ftrl(0.3),
    'ftrl_l1_l2': ftrl(0.3, -0.5, 0.2, 0.4, 0.1, 0.02), 'ftrl_power': ftrl(0.3, -0.7), 'accum_momentum': accumulated(momentum(0.05, 0.9, False), 4), 'accum_adam': accumulated(adam(0.05), 3),
    'lion': lion(0.02), 'lion_all': lion(0.05, 0.6, 0.8, 0.3),
}


def against_torch():
    import torch
    same = {
        'sgd': lambda p: torch.optim.SGD(p, f32(0.1)), 'momentum': lambda p: torch.optim.SGD(p, f32(0.1), f32(0.9)),
        'nesterov': lambda p: torch.optim.SGD(p, f32(0.1), f32(0.9), nesterov=True),
        'adadelta': lambda p: torch.optim.Adadelta(p, 1.0, f32(0.9), f32(1e-3)),
    }
    same_without_epsilon = {
        'adam': (adam(0.05, eps=0), lambda p: torch.optim.Adam(p, f32(0.05), (f32(0.9), f32(0.999)), 0)),
        'adamw': (adam(0.05, eps=0, decay=0.1), lambda p: torch.optim.AdamW(p, f32(0.05), (f32(0.9), f32(0.999)), 0, f32(0.1))),
        'adagrad': (adagrad(0.3), lambda p: torch.optim.Adagrad(p, f32(0.3), initial_accumulator_value=f32(0.1), eps=0)),
    }
    pairs = [(cases[k], v) for k, v in same.items()] + list(same_without_epsilon.values())
    for ours, make in pairs:
        w = torch.tensor(W0, dtype=torch.float64, requires_grad=True)
        opt, out = make([w]), []
        for t in range(50):
            w.grad = torch.tensor(gradient(w.detach().numpy(), t))
            opt.step()
            if t + 1 in (1, 10, 50):
                out += list(w.detach().numpy())
        assert np.allclose(out, run(ours, {}), rtol=1e-9, atol=1e-12), make


if __name__ == '__main__':
    try:
        import torch
        against_torch()
    except ImportError:
        pass
    for name, update in cases.items():
        print(name, ' '.join('%.9g' % v for v in run(update, {})))
