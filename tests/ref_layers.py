"""Reference values of the layers, in double, by PyTorch: outputs, gradients of all inputs and variables, running statistics
after three steps.   python3 tests/ref_layers.py > tests/ref_layers.txt      (test_layers_values.c reads it)

A case is
    case <layer, or sym.function> <1 in a training tower, 0 in one for inference>
    x <f, or the number of different integers> <seed> <dims...>
    in <option that takes a node, or state.h, state.c; labels and masks are 0 and 1> <seed> <dims...>
    opt <i, f, a for an activation> <option> <value>
    var <name> <seed> <scale> <offset> <dims...>     offset + scale * what value() says
    y <dims...> | <values...>
    dx <values...>                   gradients of sum(y * value(999)), of x, of the k-th `in`, of a variable
    din <k> <values...>
    dvar <name> <values...>
    stat <name> <values...>          after three steps, the k-th with x of seed + k
Inputs are not in the file: both sides compute them with value()."""
import numpy as np
import torch
import torch.nn.functional as F

SAME, VALID, NHWC, NCHW, YES, NO = 1, 2, 1, 2, 1, 2
ACT = {'relu': torch.relu, 'tanh': torch.tanh}


def value(seed, n):
    """n numbers in [-1, 1), exact in float32 after rounding: a hash of (seed, index)."""
    m = np.uint64(0xffffffff)
    h = (np.uint64(seed) * np.uint64(0x9E3779B1) + np.arange(n, dtype=np.uint64) * np.uint64(0x85EBCA6B)) & m
    h ^= h >> np.uint64(15)
    h = (h * np.uint64(0x2C1B3C6D)) & m
    h ^= h >> np.uint64(12)
    h = (h * np.uint64(0x297A2D39)) & m
    h ^= h >> np.uint64(15)
    return h.astype(np.float64) / 2.0 ** 31 - 1


def floats(seed, shape, scale=1.0, offset=0.0):
    a = np.float32(offset) + np.float32(scale) * np.float32(value(seed, int(np.prod(shape))))
    return torch.tensor(a.astype(np.float64).reshape(shape), requires_grad=True)


def text(a):
    a = a.detach().numpy() if isinstance(a, torch.Tensor) else np.asarray(a)
    return ' '.join('%.7g' % v for v in a.reshape(-1))


count = {}


def case(layer, x, fn, opts=None, vars=None, ins=None, train=1, vocab=0, stats=None):
    opts, vars, ins = opts or {}, vars or {}, ins or {}
    n = count[layer] = count.get(layer, 0) + 1
    seed = 100 * n + 7 * len(layer)
    print('case %s %d' % (layer, train))
    print('x %s %d %s' % (vocab or 'f', seed, ' '.join(map(str, x))))
    xs = []
    for k in range(3):
        if vocab:
            xs.append(torch.tensor(((value(seed + k, int(np.prod(x))) + 1) / 2 * vocab).astype(np.int64).reshape(x)))
        else:
            xs.append(floats(seed + k, x))
    others = {}
    for k, (name, shape) in enumerate(ins.items()):
        print('in %s %d %s' % (name, seed + 10 + k, ' '.join(map(str, shape))))
        others[name] = floats(seed + 10 + k, shape)
        if name in ('labels', 'mask'):
            others[name] = (others[name] >= 0).double()
    for name, v in opts.items():
        print('opt %s %s %s' % ('a' if isinstance(v, str) else 'f' if isinstance(v, float) else 'i', name, v))
    v = {}
    for k, (name, shape) in enumerate(vars.items()):
        scale, offset = 1.0, 0.0
        if shape and isinstance(shape[0], tuple):
            shape, scale, offset = shape
        print('var %s %d %g %g %s' % (name, seed + 50 + k, scale, offset, ' '.join(map(str, shape))))
        v[name] = floats(seed + 50 + k, shape, scale, offset)
    y = fn(xs[0], v, others)
    r = torch.tensor(np.float64(np.float32(value(999, y.numel())))).reshape(y.shape)
    wanted = ([] if vocab else [xs[0]]) + [a for a in others.values() if a.requires_grad] + list(v.values())
    grads = torch.autograd.grad((y * r).sum(), wanted, allow_unused=True) if wanted else []
    grads = list(grads)
    print('y %s | %s' % (' '.join(map(str, y.shape)), text(y)))
    if not vocab:
        print('dx ' + text(grads.pop(0)))
    for k in (k for k, a in enumerate(others.values()) if a.requires_grad):
        g = grads.pop(0)
        if g is not None:
            print('din %d %s' % (k, text(g)))
    for name in v:
        g = grads.pop(0)
        if g is not None:
            print('dvar %s %s' % (name, text(g)))
    if stats:
        for name, a in stats(xs, v).items():
            print('stat %s %s' % (name, text(a)))


def act(y, o):
    return ACT[o['activation']](y) if 'activation' in o else y


def pair(o, name, default=None):
    h = o.get(name, default)
    h = h if isinstance(h, tuple) else (h, o.get(name + '_w', h))
    return h


def to_nchw(x, o):
    return x if o.get('data_format') == NCHW else x.permute(0, 3, 1, 2)


def from_nchw(y, o):
    return y if o.get('data_format') == NCHW else y.permute(0, 2, 3, 1)


def pads(n, k, s, same):
    total = max((-(-n // s) - 1) * s + k - n, 0) if same else 0
    return total // 2, total - total // 2


def padded(x, kernel, strides, dilation, same, fill=0.0):
    h, w = [pads(x.shape[2 + i], (kernel[i] - 1) * dilation[i] + 1, strides[i], same) for i in range(2)]
    return F.pad(x, (w[0], w[1], h[0], h[1]), value=fill)


def conv2d(o, transposed_weight=None, depthwise=False):
    def f(x, v, _):
        w = v['W']
        groups = o.get('split', 1)
        if depthwise:
            groups = w.shape[2]
            w = w.reshape(w.shape[0], w.shape[1], 1, -1)
        s, d = pair(o, 'strides', 1), pair(o, 'dilation_rate', 1)
        x = padded(to_nchw(x, o), w.shape[:2], s, d, o.get('padding', SAME) == SAME)
        y = F.conv2d(x, w.permute(3, 2, 0, 1), v.get('b'), s, 0, d, groups)
        return act(from_nchw(y, o), o)
    return f


def deconv2d(o):
    def f(x, v, _):
        x = to_nchw(x, o)
        y = transpose(x, v['W'].permute(3, 2, 0, 1), pair(o, 'strides', 1), o.get('padding', SAME) == SAME)
        if 'b' in v:
            y = y + v['b'][:, None, None]
        return act(from_nchw(y, o), o)
    return f


def transpose(x, w, s, same, groups=1):
    y = F.conv_transpose2d(x, w, None, s, groups=groups)
    for i in range(2):
        k = w.shape[2 + i]
        over = k - s[i]
        if over < 0:  # places that no kernel reaches
            more = [0, 0, 0, -over] if i == 0 else [0, -over, 0, 0]
            y = F.pad(y, more)
        elif same:
            y = y.narrow(2 + i, over // 2, x.shape[2 + i] * s[i])
    return y


def run_conv():
    img, chw = (2, 5, 4, 2), (2, 2, 5, 4)
    for o, x, w, b in [
        (dict(filters=3, kernel_size=3), img, (3, 3, 2, 3), 1), (dict(filters=2, kernel_size=3, strides=2, padding=VALID), img, (3, 3, 2, 2), 1),
        (dict(filters=2, kernel_size=2, kernel_size_w=3, strides=2, strides_w=1), img, (2, 3, 2, 2), 1), (dict(filters=4, kernel_size=3, split=2, activation='relu'), img, (3, 3, 1, 4), 1),
        (dict(filters=2, kernel_size=3, data_format=NCHW, strides=2), chw, (3, 3, 2, 2), 1), (dict(filters=2, kernel_size=2, dilation_rate=2, dilation_rate_w=1, use_bias=NO), img, (2, 2, 2, 2), 0),
        (dict(filters=2, kernel_size=1, padding=VALID, data_format=NCHW, activation='tanh'), chw, (1, 1, 2, 2), 1), (dict(filters=2, kernel_size=4, data_format=NCHW, split=2, dilation_rate=2), chw, (4, 4, 1, 2), 1),
        (dict(filters=3, kernel_size=5, padding=VALID, kernel_size_w=4), img, (5, 4, 2, 3), 1)]:
        case('Conv2D', x, conv2d(o), o, dict(W=w, **(dict(b=w[3:]) if b else {})))
    img, chw = (2, 3, 4, 2), (2, 2, 3, 4)
    for o, x, w, b in [
        (dict(filters=3, kernel_size=3), img, (3, 3, 3, 2), 1), (dict(filters=2, kernel_size=3, padding=VALID), img, (3, 3, 2, 2), 1), (dict(filters=2, kernel_size=3, strides=2), img, (3, 3, 2, 2), 1),
        (dict(filters=2, kernel_size=3, strides=2, padding=VALID), img, (3, 3, 2, 2), 1), (dict(filters=1, kernel_size=4, strides=2, data_format=NCHW, activation='relu'), chw, (4, 4, 1, 2), 1),
        (dict(filters=2, kernel_size=2, kernel_size_w=3, strides=1, strides_w=2, padding=VALID, data_format=NCHW), chw, (2, 3, 2, 2), 1), (dict(filters=2, kernel_size=1, strides=2, use_bias=NO), img, (1, 1, 2, 2), 0),
        (dict(filters=1, kernel_size=1, strides=3, padding=VALID, activation='tanh'), img, (1, 1, 1, 2), 1), (dict(filters=1, kernel_size=5, strides=2, strides_w=3), img, (5, 5, 1, 2), 1), (dict(filters=2, kernel_size=3, kernel_size_w=2, padding=VALID), img, (3, 2, 2, 2), 1)]:
        case('Conv2DTranspose', x, deconv2d(o), o, dict(W=w, **(dict(b=w[2:3]) if b else {})))
    img, chw = (2, 4, 3, 3), (2, 3, 4, 3)
    for o, x, w, b in [
        (dict(kernel_size=3), img, (3, 3, 3, 1), 0), (dict(kernel_size=3, depth_multiplier=2), img, (3, 3, 3, 2), 0), (dict(kernel_size=2, strides=2, use_bias=YES), img, (2, 2, 3, 1), 1),
        (dict(kernel_size=3, padding=VALID, depth_multiplier=2, data_format=NCHW), chw, (3, 3, 3, 2), 0), (dict(kernel_size=3, kernel_size_w=1, activation='relu'), img, (3, 1, 3, 1), 0),
        (dict(kernel_size=2, dilation_rate=2), img, (2, 2, 3, 1), 0), (dict(kernel_size=3, data_format=NCHW, strides=2, use_bias=YES, activation='tanh'), chw, (3, 3, 3, 1), 1), (dict(kernel_size=1, padding=VALID, depth_multiplier=3), img, (1, 1, 3, 3), 0)]:
        case('DepthwiseConv2D', x, conv2d(o, depthwise=True), o, dict(W=w, **(dict(b=(w[2] * w[3],)) if b else {})))


def dense(o):
    def f(x, v, _):
        y = x.reshape(x.shape[0], -1) @ v['W']
        return act(y + v['b'] if 'b' in v else y, o)
    return f


def run_fc():
    for o, x in [(dict(units=3), (2, 4)), (dict(units=1), (3, 2)), (dict(units=2, activation='relu'), (3, 4)), (dict(units=4, use_bias=NO), (2, 3)), (dict(units=3), (2, 2, 3, 2)), (dict(units=2, activation='tanh', use_bias=NO), (2, 2, 3)), (dict(units=2), (4,)), (dict(units=5, activation='relu'), (1, 3, 2))]:
        n = int(np.prod(x[1:]))
        case('FullyConnected', x, dense(o), o, dict(W=(n, o['units']), **({} if o.get('use_bias') == NO else dict(b=(o['units'],)))))


def pool(o, largest):
    def f(x, v, _):
        k = pair(o, 'pool_size')
        s = pair(o, 'strides') if 'strides' in o else k
        x = to_nchw(x, o)
        same = o.get('padding', VALID) == SAME
        if largest:
            return from_nchw(F.max_pool2d(padded(x, k, s, (1, 1), same, -np.inf), k, s), o)
        ones = padded(torch.ones_like(x), k, s, (1, 1), same)
        return from_nchw(F.avg_pool2d(padded(x, k, s, (1, 1), same), k, s) / F.avg_pool2d(ones, k, s), o)
    return f


def run_pool():
    img, chw = (2, 5, 4, 2), (2, 2, 5, 4)
    for o, x in [(dict(pool_size=2), img), (dict(pool_size=3, strides=2), img), (dict(pool_size=3, strides=2, padding=SAME), img), (dict(pool_size=2, data_format=NCHW), chw), (dict(pool_size=3, strides=1, padding=SAME, data_format=NCHW), chw), (dict(pool_size=2, pool_size_w=3), img), (dict(pool_size=2, pool_size_w=1, strides=1, strides_w=2), img), (dict(pool_size=3, padding=SAME), img), (dict(pool_size=1, strides=2), img)]:
        case('MaxPooling', x, pool(o, True), o)
        case('AvgPooling', x, pool(o, False), o)
    for x, f in [((2, 3, 2, 2), 0), ((1, 4, 4, 1), NHWC), ((2, 1, 1, 3), 0), ((3, 2, 5, 2), NHWC), ((2, 2, 3, 2), NCHW), ((1, 3, 1, 4), NCHW), ((2, 1, 2, 2), NCHW), ((1, 1, 5, 1), 0)]:
        o = dict(data_format=f) if f else {}
        case('GlobalAvgPooling', x, lambda x, v, _: to_nchw(x, o).mean((2, 3)), o)


def unpool(o):
    def f(x, v, ins):
        s = pair(o, 'shape')
        mat = ins.get('unpool_mat')
        if mat is None:
            mat = torch.zeros(s, dtype=torch.float64)
            mat[0, 0] = 1
        return from_nchw(torch.kron(to_nchw(x, o).contiguous(), mat[None, None]), o)
    return f


def bilinear(o):
    def f(x, v, _):
        s = o['shape']
        x, t = to_nchw(x, o), 2 * s
        fl = np.ceil(t / 2.0)
        c = (2 * fl - 1 - fl % 2) / (2 * fl)
        row = 1 - np.abs(np.arange(t) / fl - c)
        w = torch.tensor(np.outer(row, row))[None, None].repeat(x.shape[1], 1, 1, 1)
        for axis in (2, 3):  # the symmetric border of s - 1 (a large one is cut off again)
            n = x.shape[axis]
            before, after = x.narrow(axis, 0, s - 1).flip(axis), x.narrow(axis, n - s + 1, s - 1).flip(axis)
            x = torch.cat([before, x, after], axis)
        y = transpose(x, w, (s, s), True, x.shape[1])
        edge = s * (s - 1)
        y = y[:, :, edge:y.shape[2] - edge, edge:y.shape[3] - edge]
        return from_nchw(y, o)
    return f


def run_up():
    img, chw = (2, 2, 3, 2), (2, 2, 2, 3)
    for o, x, mat in [(dict(shape=2), img, None), (dict(shape=2, shape_w=1), img, None), (dict(shape=1), img, None), (dict(shape=2, data_format=NCHW), chw, None), (dict(shape=2), img, (2, 2)), (dict(shape=1, shape_w=3), img, (1, 3)), (dict(shape=3, data_format=NCHW), chw, (3, 3)), (dict(shape=2, shape_w=3, data_format=NCHW), chw, (2, 3))]:
        case('FixedUnPooling', x, unpool(o), o, ins=dict(unpool_mat=mat) if mat else None)
    for o, x in [(dict(shape=2), (1, 3, 2, 1)), (dict(shape=1), (2, 2, 2, 1)), (dict(shape=3), (1, 2, 3, 1)), (dict(shape=2, data_format=NCHW), (2, 1, 2, 3)), (dict(shape=2, data_format=NCHW), (1, 2, 2, 2)), (dict(shape=3, data_format=NCHW), (1, 1, 3, 2)), (dict(shape=4), (1, 3, 3, 1)), (dict(shape=2), (2, 1, 4, 2))]:
        case('CaffeBilinearUpSample', x, bilinear(o), o)


def affine(y, v, o):
    rank = y.dim()
    at = 1 if rank == 2 or o.get('data_format') == NCHW else 3
    shape = [1] * rank
    shape[at] = -1
    if 'gamma' in v:
        y = y * v['gamma'].reshape(shape)
    return y + v['beta'].reshape(shape) if 'beta' in v else y


def groupnorm(o, groups):
    def f(x, v, _):
        c = x if x.dim() == 2 else to_nchw(x, o)
        y = F.group_norm(c, groups if groups else c.shape[1], eps=o.get('epsilon', 1e-5))
        return affine(y if x.dim() == 2 else from_nchw(y, o), v, o)
    return f


def norm_vars(o, c):
    names = [n for n, k in (('gamma', 'scale'), ('beta', 'center')) if o.get(k) != NO]
    return {n: (c,) for n in names}


def run_norms():
    for o, x in [({}, (3, 4)), ({}, (2, 3, 2, 4)), (dict(data_format=NCHW), (2, 4, 3, 2)), (dict(epsilon=0.1), (2, 2, 2, 4)), (dict(center=NO), (2, 3, 2, 4)), (dict(scale=NO), (3, 4)), (dict(center=NO, scale=NO, data_format=NCHW), (2, 4, 2, 2)), (dict(epsilon=0.02, scale=NO), (2, 1, 3, 4)), (dict(epsilon=0.5), (2, 5))]:
        c = x[1] if len(x) == 2 or 'data_format' in o else x[3]
        case('LayerNorm', x, groupnorm(o, 1), o, norm_vars(o, c))
    for o, x in [({}, (2, 3, 2, 3)), (dict(data_format=NCHW), (2, 3, 3, 2)), (dict(epsilon=0.1), (2, 2, 2, 3)), (dict(center=NO), (2, 3, 2, 2)), (dict(scale=NO), (2, 3, 2, 2)), (dict(center=NO, scale=NO, data_format=NCHW), (2, 2, 2, 2)), (dict(epsilon=0.02, scale=NO, data_format=NCHW), (2, 1, 3, 4)), (dict(epsilon=0.5), (1, 5, 2, 1))]:
        c = x[1] if 'data_format' in o else x[3]
        case('InstanceNorm', x, groupnorm(o, 0), o, norm_vars(o, c))
    for o, x in [(dict(groups=2), (2, 3, 2, 4)), (dict(groups=2, data_format=NCHW), (2, 4, 3, 2)), (dict(groups=3, epsilon=0.1), (2, 2, 2, 3)), (dict(groups=1), (2, 2, 2, 3)), (dict(groups=2, center=NO), (2, 2, 2, 6)), (dict(groups=3, scale=NO), (1, 2, 2, 6)), (dict(groups=2, center=NO, scale=NO, data_format=NCHW), (2, 4, 2, 2)), (dict(), (1, 1, 2, 64)), (dict(groups=4, data_format=NCHW, epsilon=0.02), (1, 4, 2, 3))]:
        c = x[1] if 'data_format' in o else x[3]
        case('GroupNorm', x, groupnorm(o, o.get('groups', 32)), o, norm_vars(o, c))


def channels_first(x, o):
    if x.dim() == 2:
        return x
    return x if o.get('data_format') == NCHW or o.get('axis') == 1 else x.permute(0, 3, 1, 2)


def batchnorm(o, train):
    train = o['training'] == YES if 'training' in o else train

    def f(x, v, _):
        c = channels_first(x, o)
        eps = o.get('epsilon', 1e-5)
        ghost = o.get('virtual_batch_size') if train else None
        if x.dim() == 4 and not ghost:
            eps = max(eps, 1.001e-5)
        eps = float(np.float32(eps))
        if ghost:
            y = torch.cat([F.batch_norm(g, None, None, v.get('gamma'), v.get('beta'), True, 0, eps) for g in c.split(ghost)])
        elif train:
            y = F.batch_norm(c, None, None, v.get('gamma'), v.get('beta'), True, 0, eps)
        else:
            y = F.batch_norm(c, v['mean/EMA'].detach(), v['variance/EMA'].detach(), v.get('gamma'), v.get('beta'), False, 0, eps)
        return y if c is x else y.permute(0, 2, 3, 1)
    return f


def batchnorm_stats(o, train):
    train = o['training'] == YES if 'training' in o else train

    def f(xs, v):
        m, q = v['mean/EMA'].detach(), v['variance/EMA'].detach()
        keep = o.get('momentum', 0.9)
        for x in xs:
            c = channels_first(x, o).detach()
            ghost = o.get('virtual_batch_size')
            if ghost:
                c = c[:ghost]
            over = [i for i in range(c.dim()) if i != 1]
            if train and o.get('ema_update') != 3:
                m = m * keep + (1 - keep) * c.mean(over)
                q = q * keep + (1 - keep) * c.var(over, unbiased=c.dim() == 4 and not ghost)
        return {'mean/EMA': m, 'variance/EMA': q}
    return f


def run_bn():
    img, chw = (3, 2, 2, 2), (3, 2, 2, 2)
    for o, x, train in [
        ({}, img, 1), ({}, (4, 3), 1), ({}, img, 0), ({}, (4, 3), 0), (dict(data_format=NCHW), (2, 3, 2, 2), 1), (dict(axis=1), (2, 3, 2, 2), 1), (dict(momentum=0.75, epsilon=0.01), img, 1), (dict(center=NO), img, 1),
        (dict(scale=NO, epsilon=0.001), (4, 2), 1), (dict(center=NO, scale=NO, data_format=NCHW), chw, 0), (dict(training=NO), img, 1), (dict(training=YES, ema_update=2), img, 0), (dict(ema_update=2, momentum=0.5), img, 1), (dict(ema_update=3), img, 1),
        (dict(virtual_batch_size=2), (4, 2, 2, 2), 1), (dict(virtual_batch_size=2), (6, 2), 1), (dict(virtual_batch_size=2, data_format=NCHW, momentum=0.6, epsilon=0.01), (4, 2, 2, 2), 1), (dict(virtual_batch_size=2), (3, 2), 0),
        (dict(virtual_batch_size=3, ema_update=3, scale=NO), (3, 2, 1, 2), 1)]:
        c = x[1] if len(x) == 2 or 'data_format' in o or 'axis' in o else x[3]
        v = norm_vars(o, c)
        v['mean/EMA'] = (c,)
        v['variance/EMA'] = ((c,), 0.4, 1.0)
        case('BatchNorm', x, batchnorm(o, train), o, v, train=train, stats=batchnorm_stats(o, train))
    for x, train in [(img, 1), (img, 0), ((4, 3), 1), ((4, 3), 0), ((1, 3, 2, 1), 1), ((2, 1, 1, 3), 1), ((5, 1), 1), ((2, 2, 3, 2), 0)]:
        c = x[-1]
        v = {'bn/gamma': (c,), 'bn/beta': (c,), 'bn/mean/EMA': (c,), 'bn/variance/EMA': ((c,), 0.4, 1.0)}
        short = lambda v: {k[3:]: a for k, a in v.items()}
        case('BNReLU', x, lambda x, v, _: torch.relu(batchnorm({}, train)(x, short(v), _)), {}, v, train=train,
             stats=lambda xs, v: {'bn/' + k: a for k, a in batchnorm_stats({}, train)(xs, short(v)).items()})


def moments(c):
    over = [i for i in range(c.dim()) if i != 1]
    return c.mean(over), c.var(over, unbiased=False)


def renorm(o, train):
    def f(x, v, ins):
        c = x if x.dim() == 2 else to_nchw(x, o)
        shape = [1, -1] + [1] * (c.dim() - 2)
        eps = o.get('epsilon', 1e-5)
        if train:
            rmax, dmax = (ins['rmax_node'].detach() if 'rmax_node' in ins else o['rmax']), o['dmax']
            m, q = moments(c)
            s = (q + eps).sqrt()
            with torch.no_grad():
                big_m = v['renorm_mean'] + (1 - v['renorm_mean_weight']) * m
                big_s = v['renorm_stddev'] + (1 - v['renorm_stddev_weight']) * s
                r, d = (s / big_s).clamp(1 / rmax, rmax), ((m - big_m) / big_s).clamp(-dmax, dmax)
            y = (c - m.reshape(shape)) / s.reshape(shape) * r.reshape(shape) + d.reshape(shape)
        else:
            y = (c - v['moving_mean'].detach().reshape(shape)) / (v['moving_variance'].detach().reshape(shape) + eps).sqrt()
        return affine(y if x.dim() == 2 else from_nchw(y, o), v, o)
    return f


def renorm_stats(o, train):
    def f(xs, v):
        v = {k: a.detach() for k, a in v.items()}
        eps, keep = o.get('epsilon', 1e-5), o.get('momentum', 0.9)
        for x in xs if train else []:
            m, q = moments(x.detach() if x.dim() == 2 else to_nchw(x.detach(), o))
            for k, a in (('renorm_mean', m), ('renorm_mean_weight', 1.0), ('renorm_stddev', (q + eps).sqrt()), ('renorm_stddev_weight', 1.0)):
                v[k] = v[k] * 0.99 + 0.01 * a
            for k, a in (('moving_mean', v['renorm_mean'] / v['renorm_mean_weight']), ('moving_variance', (v['renorm_stddev'] / v['renorm_stddev_weight']) ** 2 - eps)):
                v[k] = v[k] * keep + (1 - keep) * a
        return {k: a for k, a in v.items() if 'moving' in k or 'renorm' in k}
    return f


def run_renorm():
    for o, x, train in [
        (dict(rmax=3.0, dmax=5.0), (3, 2, 2, 2), 1), (dict(rmax=3.0, dmax=5.0), (4, 3), 1), (dict(rmax=1.05, dmax=0.1), (3, 2, 2, 2), 1), (dict(rmax=1.2, dmax=0.2, data_format=NCHW), (3, 2, 2, 2), 1),
        (dict(rmax=2.0, dmax=1.0, momentum=0.5, epsilon=0.01), (4, 2), 1), (dict(rmax=3.0, dmax=5.0), (3, 2, 2, 2), 0), (dict(rmax=3.0, dmax=5.0, center=NO), (4, 2), 0), (dict(rmax=2.0, dmax=5.0, scale=NO), (2, 2, 3, 2), 1),
        (dict(rmax=2.0, dmax=3.0, scale=NO, center=NO, data_format=NCHW), (2, 2, 1, 3), 1)]:
        c = x[1] if len(x) == 2 or 'data_format' in o else x[3]
        v = norm_vars(o, c)
        v.update({'moving_mean': (c,), 'moving_variance': ((c,), 0.4, 1.0), 'renorm_mean': ((c,), 0.2, 0.0), 'renorm_mean_weight': ((), 0.1, 0.5), 'renorm_stddev': ((c,), 0.05, 0.25), 'renorm_stddev_weight': ((), 0.1, 0.5)})
        case('BatchRenorm', x, renorm(o, train), o, v, train=train, stats=renorm_stats(o, train))


def run_small():
    for o, x in [({}, (3,)), (dict(init=0.25), (2, 3)), ({}, (2, 2, 2)), ({}, (1, 2, 2, 2)), (dict(init=0.5), (4,)), ({}, (6, 1)), ({}, (1, 1)), (dict(init=0.1), (2, 5))]:
        case('PReLU', x, lambda x, v, _: F.prelu(x, v['alpha'].reshape(1)), o, dict(alpha=()))
    for n, x in [(2, (2, 4)), (4, (2, 4)), (1, (2, 3)), (3, (3, 6)), (2, (2, 2, 3, 4)), (3, (1, 2, 2, 3)), (1, (1, 2, 1, 2)), (5, (1, 1, 2, 5))]:
        case('Maxout', x, lambda x, v, _: x.reshape(x.shape[:-1] + (-1, n)).max(-1)[0], dict(num_unit=n))
    for dim, x, z in [(1, (2, 3), (2, 1)), (-1, (2, 3), (2, 2)), (-2, (2, 3), (1, 3)), (3, (1, 2, 2, 2), (1, 2, 2, 3)), (2, (1, 2, 2, 2), (1, 2, 1, 2)), (1, (1, 2, 2, 2), (1, 3, 2, 2)), (-1, (2, 2, 1), (2, 2, 2)), (-4, (1, 2, 1, 2), (2, 2, 1, 2))]:
        case('ConcatWith', x, lambda x, v, i: torch.cat([x, i['tensor']], dim), dict(dim=dim), ins=dict(tensor=z))
    for o, x in [({}, (2, 4)), ({}, (3, 2)), ({}, (2, 2, 3)), (dict(use_temperature=YES), (2, 4)), (dict(use_temperature=YES, temperature_init=2.0), (2, 3)), (dict(use_temperature=NO), (1, 5)), (dict(temperature_init=3.0), (2, 2)), (dict(use_temperature=YES), (1, 2, 2, 3))]:
        t = o.get('use_temperature') == YES
        case('SoftMax', x, lambda x, v, _: torch.softmax(x * v['invtemp'] if t else x, -1), o, dict(invtemp=()) if t else None)
    for vocab, units, x in [(3, 2, (4,)), (5, 1, (2, 3)), (1, 4, (2,)), (7, 3, (2, 2, 2)), (2, 2, (5,)), (4, 5, (1, 3)), (6, 2, (3, 1)), (3, 3, (2, 1, 2))]:
        case('Embedding', x, lambda x, v, _: v['W'][x], dict(vocab=vocab, units=units), dict(W=(vocab, units)), vocab=vocab)


def lstm_step(x, h, c, w, b, forget):
    i, j, f, o = (torch.cat([x, h], 1) @ w + b).chunk(4, 1)
    c = c * torch.sigmoid(f + forget) + torch.sigmoid(i) * torch.tanh(j)
    return torch.tanh(c) * torch.sigmoid(o), c


def gru_step(x, h, v):
    r, u = torch.sigmoid(torch.cat([x, h], 1) @ v['gates/kernel'] + v['gates/bias']).chunk(2, 1)
    return u * h + (1 - u) * torch.tanh(torch.cat([x, r * h], 1) @ v['candidate/kernel'] + v['candidate/bias'])


def against_torch():
    """The LSTM's formula and PyTorch's cell, whose gates are in another order."""
    n, i = 3, 2
    cell = torch.nn.LSTMCell(i, n).double()
    x, h, c = floats(1, (4, i)), floats(2, (4, n)), floats(3, (4, n))
    order = [0, 2, 1, 3]  # theirs i f g o, ours i j f o
    w = torch.cat([cell.weight_ih, cell.weight_hh], 1).t().reshape(i + n, 4, n)[:, order].reshape(i + n, 4 * n)
    b = (cell.bias_ih + cell.bias_hh).reshape(4, n)[order].reshape(-1)
    assert torch.allclose(lstm_step(x, h, c, w, b, 0.0)[0], cell(x, (h, c))[0])


def rnn(o, lstm, cell):
    def f(x, v, ins):
        batch = x.shape[0] if cell or o.get('time_major') != YES else x.shape[1]
        zero = torch.zeros(batch, o['units'], dtype=torch.float64)
        h, c = ins.get('state.h', zero), ins.get('state.c', zero)
        steps = [x] if cell else x.unbind(0 if o.get('time_major') == YES else 1)
        ys = []
        for t in steps:
            if lstm:
                h, c = lstm_step(t, h, c, v['kernel'], v['bias'], o.get('forget_bias', 1.0))
            else:
                h = gru_step(t, h, v)
            ys.append(h)
        return h if cell else torch.stack(ys, 0 if o.get('time_major') == YES else 1)
    return f


def run_rnn():
    for o, x, state in [(dict(units=2), (2, 3, 2), 0), (dict(units=3), (1, 2, 1), 0), (dict(units=2, time_major=YES), (3, 2, 2), 0), (dict(units=2, forget_bias=0.25), (2, 2, 2), 0), (dict(units=1), (2, 4, 1), 1), (dict(units=2, time_major=YES), (2, 3, 1), 1), (dict(units=2, forget_bias=0.5, time_major=YES), (1, 1, 3), 0), (dict(units=4), (1, 2, 2), 1)]:
        n, i, b = o['units'], x[2], x[1] if o.get('time_major') == YES else x[0]
        both = {'state.h': (b, n), 'state.c': (b, n)} if state else None
        gru = {'gates/kernel': (i + n, 2 * n), 'gates/bias': (2 * n,), 'candidate/kernel': (i + n, n), 'candidate/bias': (n,)}
        case('LSTM', x, rnn(o, True, False), o, dict(kernel=(i + n, 4 * n), bias=(4 * n,)), ins=both)
        of_gru = {k: a for k, a in o.items() if k != 'forget_bias'}
        case('GRU', x, rnn(of_gru, False, False), of_gru, gru, ins={'state.h': (b, n)} if state else None)
        x = (x[0], x[2])
        both = {'state.h': (x[0], n), 'state.c': (x[0], n)} if state else None
        o = {k: a for k, a in o.items() if k != 'time_major'}
        case('BasicLSTMCell', x, rnn(o, True, True), o, dict(kernel=(i + n, 4 * n), bias=(4 * n,)), ins=both)
        of_gru = {k: a for k, a in o.items() if k != 'forget_bias'}
        case('GRUCell', x, rnn(of_gru, False, True), of_gru, gru, ins={'state.h': (x[0], n)} if state else None)


def attention(o, units):
    def f(x, v, ins):
        heads = o['heads']
        k = ins.get('key', x)
        val = ins.get('value', k)

        def project(a, n):
            y = a @ v['W' + n]
            return y + v['b' + n] if 'b' + n in v else y

        def split(a):
            return a.reshape(a.shape[0], a.shape[1], heads, -1).transpose(1, 2)
        q, k, val = split(project(x, 'q')), split(project(k, 'k')), split(project(val, 'v'))
        if 'mask' in ins:
            mask = ins['mask'] > 0
            mask = (mask[:, None, None] if mask.dim() == 2 else mask[:, None]).expand(q.shape[0], 1, q.shape[2], k.shape[2])
            if o.get('causal') == YES:
                mask = mask & torch.ones_like(mask).tril(k.shape[2] - q.shape[2])
            bias = torch.zeros_like(mask, dtype=q.dtype).masked_fill(~mask, -1e30)  # hides all keys of a query: the mean of the values
            y = torch.softmax(q @ k.transpose(2, 3) / q.shape[3] ** 0.5 + bias, 3) @ val
        else:
            y = F.scaled_dot_product_attention(q, k, val, is_causal=o.get('causal') == YES)
        return project(y.transpose(1, 2).reshape(x.shape[0], x.shape[1], units), 'o')
    return f


def run_attention():
    for o, x, key, value_ in [(dict(heads=1), (1, 2, 2), 0, 0), (dict(heads=2), (2, 2, 2), 0, 0), (dict(heads=2, units=4), (1, 3, 2), 0, 0), (dict(heads=1, causal=YES), (1, 3, 2), 0, 0), (dict(heads=2, use_bias=NO), (1, 2, 4), 0, 0), (dict(heads=1), (1, 2, 2), (1, 3, 1), 0), (dict(heads=1, units=2), (2, 1, 3), (2, 2, 2), (2, 2, 1)), (dict(heads=2, causal=YES, use_bias=NO, units=2), (2, 2, 3), 0, 0)]:
        u = o.get('units', x[2])
        d = key[2] if key else x[2]
        v = dict(Wq=(x[2], u), bq=(u,), Wk=(d, u), bk=(u,), Wv=(value_[2] if value_ else d, u), bv=(u,), Wo=(u, u), bo=(u,))
        if o.get('use_bias') == NO:
            v = {k: a for k, a in v.items() if k[0] == 'W'}
        ins = {}
        if key:
            ins['key'] = key
        if value_:
            ins['value'] = value_
        case('MultiHeadAttention', x, attention(o, u), o, v, ins=ins)
    for o, x, key, mask in [(dict(heads=2), (3, 4, 2), 0, (3, 4)), (dict(heads=1), (2, 3, 2), 0, (2, 3, 3)), (dict(heads=2, causal=YES), (2, 4, 4), 0, (2, 4)), (dict(heads=3, units=6), (2, 2, 2), (2, 5, 3), (2, 5)), (dict(heads=2, units=4, causal=YES, use_bias=NO), (2, 2, 2), (2, 4, 3), (2, 2, 4)), (dict(heads=1), (4, 2, 1), (4, 3, 1), (1, 2, 3))]:
        u = o.get('units', x[2])
        d = key[2] if key else x[2]
        v = dict(Wq=(x[2], u), bq=(u,), Wk=(d, u), bk=(u,), Wv=(d, u), bv=(u,), Wo=(u, u), bo=(u,))
        if o.get('use_bias') == NO:
            v = {k: a for k, a in v.items() if k[0] == 'W'}
        case('MultiHeadAttention', x, attention(o, u), o, v, ins=dict(key=key, mask=mask) if key else dict(mask=mask))


def shuffle(x, n, nchw, to_space):
    """By indices, as TensorFlow orders them."""
    x = x.permute(0, 2, 3, 1) if nchw else x
    b, h, w, c = x.shape
    if to_space:
        y = torch.zeros(b, h * n, w * n, c // (n * n), dtype=x.dtype)
        for i in range(n):
            for j in range(n):
                y[:, i::n, j::n] = x[..., (i * n + j) * y.shape[3]:(i * n + j + 1) * y.shape[3]]
    else:
        y = torch.cat([x[:, i::n, j::n] for i in range(n) for j in range(n)], 3)
    return y.permute(0, 3, 1, 2) if nchw else y


def distance(a, b):
    return ((a - b) ** 2).sum(1)


def run_symbolic():
    def contrastive(x, i, m):
        d2 = distance(x, i['right'])
        y = i['labels']
        return 0.5 * (y * d2 + (1 - y) * torch.relu(m - (d2 + 1e-10).sqrt()) ** 2).mean()

    def balanced(x, i):
        y = i['labels']
        beta = 1 - y.mean()
        return F.binary_cross_entropy_with_logits(x, y, weight=beta * y + (1 - beta) * (1 - y))

    for k in range(8):
        x = [(3, 2), (1, 4), (5, 1), (2, 3), (4, 4), (6, 2), (2, 2), (3, 5)][k]
        m = [1.0, 0.5, 0.25, 2.0, 0.1, 3.0, 5.0, 0.75][k]
        two, three = dict(right=x), dict(positive=x, negative=x)
        labels = dict(right=x, labels=x[:1])
        case('sym.rms', x, lambda x, v, i: (x ** 2).mean().sqrt())
        case('sym.huber_loss', x, lambda x, v, i: F.huber_loss(x, torch.zeros_like(x), delta=m, reduction='none'), dict(p=m))
        case('sym.psnr', x, lambda x, v, i: 10 * torch.log10(m * m / F.mse_loss(x, i['right'])), dict(p=m), ins=two)
        case('sym.contrastive_loss', x, lambda x, v, i: contrastive(x, i, m), dict(p=m), ins=labels)
        case('sym.siamese_cosine_loss', x, lambda x, v, i: 0.5 * ((2 * i['labels'] - 1 - F.cosine_similarity(x, i['right'])) ** 2).mean(), ins=labels)
        case('sym.triplet_loss', x, lambda x, v, i: torch.relu(m + distance(x, i['positive']) - distance(x, i['negative'])).mean(), dict(p=m), ins=three)
        case('sym.soft_triplet_loss', x, lambda x, v, i: F.cross_entropy(torch.stack([(distance(x, i[n]) + 1e-10).sqrt() for n in ('positive', 'negative')], 1), torch.ones(len(x), dtype=torch.int64)), ins=three)
        case('sym.class_balanced_sigmoid_cross_entropy', x, lambda x, v, i: balanced(x, i), ins=dict(labels=x))
        case('sym.selu', x, lambda x, v, i: F.selu(4 * x), dict(scale=4.0))
        case('sym.relu6', x, lambda x, v, i: F.relu6(8 * x), dict(scale=8.0))
        case('sym.hard_swish', x, lambda x, v, i: F.hardswish(4 * x), dict(scale=4.0))
        n, x, nchw = [(2, (1, 2, 1, 4), 0), (2, (2, 1, 2, 8), 0), (3, (1, 1, 2, 9), 0), (1, (1, 2, 3, 2), 0), (2, (1, 4, 2, 1), 1), (2, (2, 8, 1, 2), 1), (3, (1, 18, 1, 1), 1), (1, (2, 3, 1, 2), 1)][k]
        case('sym.depth_to_space', x, lambda x, v, i: shuffle(x, n, nchw, True), dict(p=float(n), format=NCHW if nchw else NHWC))
        x = (x[0], x[1] // (n * n), x[2] * n, x[3] * n) if nchw else (x[0], x[1] * n, x[2] * n, x[3] // (n * n))
        case('sym.space_to_depth', x, lambda x, v, i: shuffle(x, n, nchw, False), dict(p=float(n), format=NCHW if nchw else NHWC))


against_torch()
for run in (run_conv, run_fc, run_pool, run_up, run_norms, run_bn, run_renorm, run_small, run_rnn, run_attention, run_symbolic):
    run()
