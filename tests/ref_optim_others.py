"""Trajectories of the optimizers as other programs make them: TensorFlow's own kernels (2.21.0), which are what tensorpack's
optimizers ran, and for LAMB, which TensorFlow has not, optax (0.2.8). No formula of an update is written here.
    python3 -m venv v && v/bin/pip install tensorflow-cpu optax && v/bin/python tests/ref_optim_others.py > tests/ref_optim_others.txt
A line a case: name, 32 or 64 (the floats that the other program computed in), then five weights after 1, 2, 10 and 50 updates.
The gradient of weight i at update t = 0, 1, ... is c[i] w[i] + float32(0.5 sin(0.7 t + i)); w starts at (1, -2, 0.5, 3, -0.25),
or at 0 in cases named .._from_0.
optax.lamb is the formula that tp_apply_lamb documents, a norm of 0 included. They differ in beta^t, which optax has in the weights'
type and tp in float32, as TensorFlow's Adam. Others (apex, the paper) clip the global norm of the gradients or bound |w| as well."""
import os

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '2'
os.environ['TF_ENABLE_ONEDNN_OPTS'] = '0'
import jax
import numpy as np
import optax
import tensorflow as tf

jax.config.update('jax_enable_x64', True)
R = tf.raw_ops
SEEN = (1, 2, 10, 50)
C = np.array([0.1, 0.5, 1.0, 2.0, 0.3])
W0 = np.array([1, -2, 0.5, 3, -0.25])
f32 = np.float32


def shift(t):
    return f32(0.5 * np.sin(0.7 * t + np.arange(5)))


class Kernel:
    """One update by one of TensorFlow's kernels: slots that start somewhere, and a call. Options are float32, as in C."""

    def __init__(self, call, **slots):
        self.call, self.slots = call, slots

    def start(self, w0, dtype):
        self.dtype = dtype
        self.w = tf.Variable(w0, dtype=dtype)
        self.s = {k: tf.Variable(np.full(5, f32(v)), dtype=dtype) for k, v in self.slots.items()}

    def step(self, t):
        o = lambda x: tf.constant(float(f32(x)), self.dtype)
        g = tf.constant(C, self.dtype) * self.w + tf.constant(shift(t), self.dtype)
        self.call(self.w.handle, {k: v.handle for k, v in self.s.items()}, g, o, t + 1, self.dtype)
        return self.w.numpy()


def sgd(lr):
    return Kernel(lambda w, s, g, o, t, d: R.ResourceApplyGradientDescent(var=w, alpha=o(lr), delta=g))


def momentum(lr, mu, nesterov=False):
    return Kernel(lambda w, s, g, o, t, d: R.ResourceApplyMomentum(var=w, accum=s['a'], lr=o(lr), grad=g, momentum=o(mu), use_nesterov=nesterov), a=0)


def adam(lr, b1=0.9, b2=0.999, eps=1e-8):
    def call(w, s, g, o, t, d):
        def power(b):  # the variables beta1_power, beta2_power: float32 whatever the weights are, multiplied after each update
            p = f32(b)
            for _ in range(t - 1):
                p = p * f32(b)
            return tf.constant(float(p), d)
        R.ResourceApplyAdam(var=w, m=s['m'], v=s['v'], beta1_power=power(b1), beta2_power=power(b2), lr=o(lr), beta1=o(b1), beta2=o(b2), epsilon=o(eps), grad=g)
    return Kernel(call, m=0, v=0)


def rmsprop(lr, decay=0.9, mu=0.0, eps=1e-10, centered=False):
    def call(w, s, g, o, t, d):
        if centered:
            R.ResourceApplyCenteredRMSProp(var=w, mg=s['mg'], ms=s['ms'], mom=s['mom'], lr=o(lr), rho=o(decay), momentum=o(mu), epsilon=o(eps), grad=g)
        else:
            R.ResourceApplyRMSProp(var=w, ms=s['ms'], mom=s['mom'], lr=o(lr), rho=o(decay), momentum=o(mu), epsilon=o(eps), grad=g)
    return Kernel(call, ms=1, mg=0, mom=0)  # RMSPropOptimizer starts the mean square at 1


def adagrad(lr, initial=0.1):
    return Kernel(lambda w, s, g, o, t, d: R.ResourceApplyAdagrad(var=w, accum=s['a'], lr=o(lr), grad=g), a=initial)


def adadelta(lr, rho=0.95, eps=1e-8):
    return Kernel(lambda w, s, g, o, t, d: R.ResourceApplyAdadelta(var=w, accum=s['a'], accum_update=s['u'], lr=o(lr), rho=o(rho), epsilon=o(eps), grad=g), a=0, u=0)


def ftrl(lr, power=-0.5, initial=0.1, l1=0.0, l2=0.0, shrinkage=0.0):
    def call(w, s, g, o, t, d):  # as FtrlOptimizer: the second kernel only where there is a shrinkage
        if shrinkage:
            R.ResourceApplyFtrlV2(var=w, accum=s['a'], linear=s['l'], grad=g, lr=o(lr), l1=o(l1), l2=o(l2), l2_shrinkage=o(shrinkage), lr_power=o(power))
        else:
            R.ResourceApplyFtrl(var=w, accum=s['a'], linear=s['l'], grad=g, lr=o(lr), l1=o(l1), l2=o(l2), lr_power=o(power))
    return Kernel(call, a=initial, l=0)


class Optax:
    def __init__(self, make):
        self.make = make

    def start(self, w0, dtype):
        self.dtype, self.opt = dtype, self.make()
        self.w = jax.numpy.asarray(w0, dtype)
        self.state = self.opt.init(self.w)

    def step(self, t):
        g = jax.numpy.asarray(C, self.dtype) * self.w + jax.numpy.asarray(shift(t), self.dtype)
        u, self.state = self.opt.update(g, self.state, self.w)
        self.w = optax.apply_updates(self.w, u)
        return np.asarray(self.w)


def lamb(lr, b1=0.9, b2=0.999, eps=1e-6, decay=0.0):
    o = lambda x: float(f32(x))
    return Optax(lambda: optax.lamb(o(lr), o(b1), o(b2), o(eps), 0.0, o(decay)))


cases = {
    'sgd': sgd(0.1), 'momentum': momentum(0.1, 0.9), 'nesterov': momentum(0.1, 0.9, True), 'adam': adam(0.05), 'adam_epsilon': adam(0.05, 0.5, 0.99, 1e-2),
    'adagrad': adagrad(0.3), 'adadelta': adadelta(1.0, 0.9, 1e-3),
    'rmsprop': rmsprop(0.01), 'rmsprop_momentum': rmsprop(0.01, 0.8, 0.5, 1e-3), 'rmsprop_no_decay': rmsprop(0.01, 0.0, 0.9, 1e-2),
    'rmsprop_centered': rmsprop(0.01, 0.9, 0.5, 1e-2, True), 'rmsprop_centered_plain': rmsprop(0.02, 0.95, 0.0, 1e-3, True),
    'rmsprop_from_0': rmsprop(0.05, 0.9, 0.9, 1e-10), 'rmsprop_centered_from_0': rmsprop(0.05, 0.8, 0.9, 1e-2, True),
    'ftrl': ftrl(0.3), 'ftrl_l1': ftrl(0.5, l1=0.7), 'ftrl_l2': ftrl(0.5, l2=0.3), 'ftrl_shrinkage': ftrl(0.3, shrinkage=0.1),
    'ftrl_l1_l2': ftrl(0.3, -0.5, 0.2, 0.4, 0.1, 0.02), 'ftrl_power': ftrl(0.3, -0.7), 'ftrl_power_0': ftrl(0.1, 0.0, 0.5, 0.1, 0.2),
    'ftrl_power_all': ftrl(0.4, -0.3, 1.0, 0.3, 0.2, 0.05), 'ftrl_from_0': ftrl(0.3, -0.5, 0.1, 0.2, 0.05),
    'lamb': lamb(0.02, decay=0.05), 'lamb_plain': lamb(0.05), 'lamb_epsilon': lamb(0.05, 0.5, 0.99, 1e-2), 'lamb_all': lamb(0.03, 0.8, 0.9, 1e-3, 0.2),
    'lamb_from_0': lamb(0.05, decay=0.1),
}

if __name__ == '__main__':
    for name, case in cases.items():
        for dtype in (np.float32, np.float64):
            case.start(W0 * (0.0 if name.endswith('_from_0') else 1.0), dtype)
            ws = [case.step(t) for t in range(50)]
            print(name, 8 * np.dtype(dtype).itemsize, ' '.join('%.*g' % (9 if dtype == np.float32 else 17, x) for t in SEEN for x in ws[t - 1]))
