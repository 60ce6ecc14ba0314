"""The judge of what tp writes. `writes dir` makes arrays for tp to read; `check dir` judges everything in dir."""
import glob, json, os, sys
import numpy as np
import safetensors.numpy

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
try:
    import tensorflow as tf
except ImportError:  # it is large, and not there for every Python: without it those checks are left out
    tf = None

what, folder = sys.argv[1:3]
rng = np.random.RandomState(0)
arrays = {}
for t in ('f2', 'f4', 'f8', 'i1', 'i2', 'i4', 'i8', 'u1', 'u2', 'u4', 'u8'):
    for order in '<>':
        for layout in 'CF':
            a = (rng.rand(3, 4, 2) * 100).astype(order + t)
            arrays['%s%s/%s:0' % ('little_' if order == '<' else 'big_', t, layout)] = np.asarray(a, order=layout)
arrays['bool'] = rng.rand(5) > 0.5
arrays['scalar'] = np.float32(2.5)
arrays['empty'] = np.zeros((0, 3), 'f4')

# what others than numpy can hold: no big-endian, no Fortran order
others = {'types/' + t: np.arange(6).reshape(2, 3).astype(t)
          for t in ('float16', 'float32', 'float64', 'int8', 'int16', 'int32', 'int64', 'uint8', 'uint16', 'uint32', 'uint64', 'bool')}
others.update({'scalar': np.array(2.5, 'f4'), 'empty': np.zeros((0, 3), 'f4'), 'quote" back\\ \u00e9': np.ones(2, 'f4')})


def tf_model():
    """What tf.train.Checkpoint saves: its names are paths through objects."""
    m = tf.Module()
    m.kernel = tf.Variable(np.arange(6, dtype='f4').reshape(2, 3))
    m.layers = [tf.Variable(np.int64(3)), tf.Variable([True, False])]
    return tf.train.Checkpoint(model=m, step=tf.Variable(7, dtype='int64'))


if what == 'writes':
    safetensors.numpy.save_file(others, os.path.join(folder, 'theirs.safetensors'), {'format': 'pt', 'by': 'them'})
    if tf:
        v1 = tf.compat.v1
        with tf.Graph().as_default(), v1.Session() as s:
            for name, a in others.items():
                if name.startswith('types/'):
                    v1.get_variable(name, initializer=a, use_resource=True)
            v1.get_variable('global_step', initializer=np.int64(1000))
            v1.get_variable('bf16', initializer=tf.cast(tf.constant([1., 2.]), tf.bfloat16), use_resource=True)
            s.run(v1.global_variables_initializer())
            v1.train.Saver().save(s, os.path.join(folder, 'tf_saver'), global_step=1000, write_meta_graph=False)
        tf_model().save(os.path.join(folder, 'tf_objects'))
        names = ['layer%05d/some/long/scope/name/weights' % i for i in range(8000)]
        tf.raw_ops.SaveV2(prefix=os.path.join(folder, 'tf_many'), tensor_names=names, shape_and_slices=[''] * len(names),
                          tensors=[tf.constant(np.float32(i)) for i in range(len(names))])
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


# safetensors: ours read by them, theirs read by us and written again
def ours_expected(t):
    i = np.arange(24).reshape(2, 3, 4)
    return i % 2 == 1 if t == 'bool' else i if t == 'uint8' else i - 3


with safetensors.safe_open(os.path.join(folder, 'ours.safetensors'), 'np') as f:  # numpy alone has no bfloat16
    z = {k: f.get_tensor(k) for k in f.keys() if 'bfloat16' not in k}
for t in ('float32', 'float64', 'float16', 'int32', 'int64', 'uint8', 'bool'):
    a = z['scope/%s:0' % t]
    check('safetensors ' + t, a.dtype == np.dtype(t) and a.shape == (2, 3, 4) and (a == ours_expected(t)).all(), a)
check('safetensors scalar', z['scalar'].shape == () and z['scalar'] == 12345)
check('safetensors empty', z['empty'].shape == (0, 5))
with safetensors.safe_open(os.path.join(folder, 'ours.safetensors'), 'np') as f:
    check('safetensors bfloat16', f.get_slice('scope/bfloat16:0').get_dtype() == 'BF16')
    meta = f.metadata()
    check('safetensors metadata', sorted(meta) == ['format', 'tp.crc32c'] and meta['format'] == 'tp2', meta)


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def safetensors_parts(data):  # header, tensors' bytes in their order
    n = int.from_bytes(data[:8], 'little')
    header = json.loads(data[8:8 + n])
    at = sorted(e['data_offsets'] for name, e in header.items() if name != '__metadata__')
    return header, [data[8 + n + a:8 + n + b] for a, b in at]


whole = open(os.path.join(folder, 'ours.safetensors'), 'rb').read()
header, tensors = safetensors_parts(whole)
sums = header['__metadata__']['tp.crc32c']
blank = whole[:8 + int.from_bytes(whole[:8], 'little')].replace(sums[:8].encode(), b'0' * 8, 1)
check('safetensors checksums', sums == ''.join('%08x' % crc32c(d) for d in [blank] + tensors), sums)
z = safetensors.numpy.load_file(os.path.join(folder, 'again_theirs.safetensors'))
check('safetensors names', sorted(z) == sorted(others), sorted(z))
for k, want in others.items():
    check('safetensors again ' + k, k in z and z[k].shape == want.shape and (z[k] == want).all())
# the same arrays make the same header and the same bytes behind it
same = {k: a for k, a in z.items()}
ours = safetensors_parts(open(os.path.join(folder, 'again_theirs.safetensors'), 'rb').read())
check('safetensors bytes', safetensors_parts(safetensors.numpy.save(same, ours[0]['__metadata__'])) == ours)

if tf:
    r = tf.train.load_checkpoint(os.path.join(folder, 'ours_tf'))
    check('tf keys', sorted(r.get_variable_to_shape_map()) == sorted(['empty', 'scalar'] + ['scope/%s:0' % t for t in (
        'float32', 'float64', 'float16', 'bfloat16', 'int32', 'int64', 'uint8', 'bool')]))
    for t in ('float32', 'float64', 'float16', 'bfloat16', 'int32', 'int64', 'uint8', 'bool'):
        a = r.get_tensor('scope/%s:0' % t)
        check('tf ' + t, a.dtype.name == t and a.shape == (2, 3, 4) and (a == ours_expected(t)).all(), a)
    check('tf scalar', r.get_tensor('scalar') == 12345 and r.get_tensor('empty').shape == (0, 5))
    z = safetensors.numpy.load_file(os.path.join(folder, 'again_tf_saver-1000.safetensors'))
    check('tf saver names', sorted(z) == sorted([k for k in others if k.startswith('types/')] + ['global_step', 'bf16']) and z['global_step'] == 1000, sorted(z))
    for k, want in others.items():
        if k.startswith('types/'):
            check('tf saver ' + k, z[k].shape == want.shape and (z[k] == want).all())
    z = safetensors.numpy.load_file(os.path.join(folder, 'again_tf_objects-1.safetensors'))
    check('tf objects', sorted(z) == ['model/kernel', 'model/layers/0', 'model/layers/1', 'save_counter', 'step'] and z['step'] == 7
          and z['model/layers/0'] == 3 and (z['model/kernel'] == np.arange(6).reshape(2, 3)).all(), sorted(z))
    for f in ('index', 'data-00000-of-00001'):
        check('tf bytes ' + f, open(os.path.join(folder, 'tf_many.' + f), 'rb').read() == open(os.path.join(folder, 'again_tf_many.' + f), 'rb').read())
    # a Saver restores variables from ours
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as s:
        v = v1.get_variable('scope/float32', shape=(2, 3, 4))
        v1.train.Saver({'scope/float32:0': v}).restore(s, os.path.join(folder, 'ours_tf'))
        check('tf restore', (s.run(v) == ours_expected('float32')).all())
    latest = tf.train.latest_checkpoint(os.path.join(folder, 'tf_state'))
    check('tf latest_checkpoint', latest is not None and latest.endswith('tf_state/model-7'), latest)
else:
    print('no tensorflow: its checkpoints were not checked')

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

# events whose values are known (tests/interop_write.c)
import io, math, struct, zlib
acc = EventAccumulator(os.path.join(folder, 'events'), size_guidance={k: 0 for k in ('scalars', 'histograms', 'images', 'tensors')})
acc.Reload()
tags = acc.Tags()
eighth = [(e.step, e.value) for e in acc.Scalars('an/eighth')]
check('scalars', eighth == [(1, 0.125), (2, 0.25), (3, 0.375)], eighth)
check('a scalar that is NaN', [(e.step, math.isnan(e.value)) for e in acc.Scalars('bad')] == [(2, True)])
for e in acc.Histograms('hundred'):
    h = e.histogram_value
    check('histogram', (h.min, h.max, h.num, h.sum, h.sum_squares) == (0, 99, 100, 4950, 328350), h)
    below = 0
    for limit, count in zip(h.bucket_limit, h.bucket):
        below += count
        want = min(100, max(0, math.ceil(limit)))  # how many of 0..99 are below it
        check('histogram up to %g' % limit, below == want, (below, want))


def png_pixels(data):
    """What a PNG of 8 bits without filters holds, by its specification; other readers are asked where there are some."""
    width, height, depth, colour = struct.unpack('>IIBB', data[16:26])
    at, idat = 8, b''
    while at < len(data):
        size, kind = struct.unpack('>I4s', data[at:at + 8])
        check('png checksum', zlib.crc32(data[at + 4:at + 8 + size]) == struct.unpack('>I', data[at + 8 + size:at + 12 + size])[0])
        idat += data[at + 8:at + 8 + size] if kind == b'IDAT' else b''
        at += 12 + size
    raw = zlib.decompress(idat)
    n = {0: 1, 2: 3, 6: 4}[colour]
    rows = [raw[y * (1 + width * n):][:1 + width * n] for y in range(height)]
    check('png filters', depth == 8 and all(r[0] == 0 for r in rows))
    return np.frombuffer(b''.join(r[1:] for r in rows), 'u1').reshape(height, width, n)


pixels = (7 * np.arange(36)).astype('u1').reshape(2, 3, 2, 3)
for i in range(2):
    shots = acc.Images('picture/%d' % i)
    check('images', [e.step for e in shots] == [1, 2, 3] and all((e.width, e.height) == (2, 3) for e in shots), shots)
    for e in shots:
        check('image %d' % i, (png_pixels(e.encoded_image_string) == pixels[i]).all())
        try:
            from PIL import Image
            check('image %d by pillow' % i, (np.asarray(Image.open(io.BytesIO(e.encoded_image_string))) == pixels[i]).all())
        except ImportError:
            pass
graph = {n.name: n for n in acc.Graph().node}
check('graph', 'RunOp/w' in graph or 'w' in graph, sorted(graph))
product = [n for n in graph.values() if n.op == 'MatMul']
check('a node of the graph', len(product) == 1 and len(product[0].input) == 2 and product[0].input[0] == product[0].input[1] and
      product[0].input[0] in graph, product)
check('tags of run metadata', tags['run_metadata'] == ['trace-1', 'trace-2', 'trace-3'], tags['run_metadata'])
for tag in tags['run_metadata']:
    stats = acc.RunMetadata(tag).step_stats.dev_stats
    devices = {d.device: d for d in stats}
    check('devices of ' + tag, set(devices) == {'host', 'cpu:0'}, list(devices))
    nodes = {n.node_name: n for n in devices['cpu:0'].node_stats}
    check('nodes of ' + tag, product[0].name in nodes and all(n in graph for n in nodes), list(nodes))
    n = nodes.get(product[0].name)
    check('times of ' + tag, n is not None and 0 <= n.all_end_rel_micros < 10 ** 7 and n.all_start_micros > 10 ** 15 and
          n.all_end_rel_nanos // 1000 == n.all_end_rel_micros and n.timeline_label == 'matmul', n)
    from tensorboard.compat.proto.config_pb2 import RunMetadata
    with open(os.path.join(folder, 'events', 'runmetadata-%s.pb' % tag[6:]), 'rb') as f:
        check('file of ' + tag, RunMetadata.FromString(f.read()) == acc.RunMetadata(tag))
    with open(os.path.join(folder, 'events', 'chrome-trace-%s.json' % tag[6:])) as f:
        trace = json.load(f)['traceEvents']
    check('chrome trace of ' + tag, any(e['name'] == 'matmul' and e['args']['node'] == product[0].name and e['ph'] == 'X' for e in trace))

print('%d passed, %d failed' % (passed, failed))
sys.exit(1 if failed else 0)
