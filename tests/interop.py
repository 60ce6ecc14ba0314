"""The judge of what tp writes. `numpy-writes dir` makes arrays for tp to read; `check dir` judges everything in dir."""
import glob, json, os, sys
import numpy as np

what, folder = sys.argv[1:3]
rng = np.random.RandomState(0)
arrays = {}
for t in ('f2', 'f4', 'f8', 'i1', 'i2', 'i4', 'i8', 'u1', 'u2'):
    for order in '<>':
        for layout in 'CF':
            a = (rng.rand(3, 4, 2) * 100).astype(order + t)
            arrays['%s%s/%s:0' % ('little_' if order == '<' else 'big_', t, layout)] = np.asarray(a, order=layout)
arrays['bool'] = rng.rand(5) > 0.5
arrays['scalar'] = np.float32(2.5)
arrays['empty'] = np.zeros((0, 3), 'f4')

if what == 'numpy-writes':
    np.savez(os.path.join(folder, 'numpy_stored.npz'), **arrays)
    np.savez_compressed(os.path.join(folder, 'numpy_compressed.npz'), **arrays)
    sys.exit(0)

passed = failed = 0


def check(name, ok, detail=''):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        print('FAIL', name, detail)


for f in ('stored.npz', 'deflated.npz'):
    with np.load(os.path.join(folder, f)) as z:
        for t in ('float32', 'float64', 'float16', 'int32', 'int64', 'uint8', 'bool'):
            a = z['scope/%s:0' % t]
            i = np.arange(24).reshape(2, 3, 4)
            want = i % 2 == 1 if t == 'bool' else i if t == 'uint8' else i - 3
            check('%s %s' % (f, t), a.dtype == np.dtype(t) and a.shape == (2, 3, 4) and (a == want).all(), a)
        check(f + ' scalar', z['scalar'].shape == () and z['scalar'] == 12345)
        check(f + ' empty', z['empty'].shape == (0, 5))
check('one.npy', (np.load(os.path.join(folder, 'one.npy')) == np.arange(24).reshape(2, 3, 4) - 3).all())
for f in ('again_numpy_stored.npz', 'again_numpy_compressed.npz'):
    with np.load(os.path.join(folder, f)) as z:
        for k, want in arrays.items():
            check('%s %s' % (f, k), k in z.files and z[k].shape == np.shape(want) and (z[k] == want).all())

# a training run: checkpoints, statistics, events
log = os.path.join(folder, 'train_log', 'mnist_convnet')
stats = json.load(open(os.path.join(log, 'stats.json')))
check('stats.json is a list', isinstance(stats, list) and len(stats) >= 1)
last = stats[-1]
check('stats.json keys', list(last)[-2:] == ['epoch_num', 'global_step'] and 'validation_error' in last, list(last))
models = sorted(glob.glob(os.path.join(log, 'model-*.npz')))
check('a checkpoint', len(models) >= 1)
with np.load(models[-1]) as z:
    for name, shape in (('conv0/W', (3, 3, 1, 32)), ('conv0/b', (32,)), ('conv3/W', (3, 3, 32, 32)), ('fc0/W', (1568, 512)), ('fc1/W', (512, 10)),
                        ('fc0/W/Adam', (1568, 512)), ('fc0/W/Adam_1', (1568, 512)), ('global_step', ()), ('beta1_power', ())):
        check('checkpoint ' + name, name in z.files and z[name].shape == shape, z.files)
    check('global_step', int(z['global_step']) == last['global_step'])
    check('finite', all(np.isfinite(z[k]).all() for k in z.files if z[k].dtype.kind == 'f'))
state = open(os.path.join(log, 'checkpoint')).read()
check('checkpoint file', state.startswith('model_checkpoint_path: "model-%d' % last['global_step']), state)

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
acc = EventAccumulator(log, size_guidance={'scalars': 0, 'histograms': 0, 'images': 0})
acc.Reload()
tags = acc.Tags()['scalars']
for tag in ('validation_error', 'cross_entropy_loss', 'total_cost'):
    check('event tag ' + tag, tag in tags, tags)
if 'validation_error' in tags:
    e = acc.Scalars('validation_error')[-1]
    check('event value', e.step == last['global_step'] and abs(e.value - last['validation_error']) < 1e-6, e)

print('%d passed, %d failed' % (passed, failed))
sys.exit(1 if failed else 0)
