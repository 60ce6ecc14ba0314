"""The judge of ONNX files. `exported folder`: every <name>.onnx that tp wrote there must pass onnx.checker, and give in ONNX
Runtime what <name>.npz says: arrays "in <name>" and "out <name>". Folders of a model server are judged by their config.pbtxt."""
import glob, os, re, sys
import numpy as np
import onnx
import onnxruntime as ort

passed = failed = 0
not_run = []  # what ONNX Runtime has no kernel for
RTOL = ATOL = 1e-4


def check(name, ok, detail=''):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        print('FAIL', name, detail)
    return ok


def session(model):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model, options, providers=['CPUExecutionProvider'])


def difference(got, want):
    """None if they are the same value, else what is wrong."""
    got, want = np.asarray(got), np.asarray(want)
    if got.dtype != want.dtype or got.shape != want.shape:
        return '%s %s, expected %s %s' % (got.dtype, got.shape, want.dtype, want.shape)
    if want.dtype.kind != 'f':
        return None if (got == want).all() else '%s, expected %s' % (got.ravel()[:8], want.ravel()[:8])
    if np.allclose(got, want, rtol=RTOL, atol=ATOL, equal_nan=True):
        return None
    with np.errstate(all='ignore'):
        return 'off by %g' % np.nanmax(np.abs(got.astype('f8') - want.astype('f8')))


def judge_model(path):
    name = os.path.splitext(os.path.basename(path))[0]
    try:
        onnx.checker.check_model(path, full_check=True)
    except Exception as e:
        return check(name, False, 'checker: %s' % str(e)[:300])
    try:
        s = session(path)
    except Exception as e:
        lacks = re.search(r'Could not find an implementation for (\w+)', str(e))
        if lacks and '_f64_' in name:  # it computes few operators in double precision
            not_run.append(lacks.group(1))
            return check(name, True)
        return check(name, False, 'ONNX Runtime does not load it: %s' % str(e)[:300])
    with np.load(path[:-5] + '.npz') as z:
        feed = {k[3:]: z[k] for k in z.files if k.startswith('in ')}
        want = {k[4:]: z[k] for k in z.files if k.startswith('out ')}
    if [o.name for o in s.get_outputs()] != list(want) or [i.name for i in s.get_inputs()] != list(feed):
        return check(name, False, 'other inputs or outputs')
    try:
        got = s.run(list(want), feed)
    except Exception as e:
        return check(name, False, 'ONNX Runtime does not run it: %s' % str(e)[:300])
    wrong = ['%s: %s' % (k, difference(g, want[k])) for k, g in zip(want, got) if difference(g, want[k])]
    return check(name, not wrong, '; '.join(wrong))


def parse_text(text):
    """A protobuf message in text form, as a list of (field, value); a value is a string, a list, or such a list again."""
    tokens = re.findall(r'"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*|-?\d+|\S', text)
    at = 0

    def value():
        nonlocal at
        t = tokens[at]
        at += 1
        if t == '{':
            return message('}')
        if t != '[':
            return t[1:-1] if t[0] == '"' else t
        items = []
        while tokens[at] != ']':
            items.append(value())
            if tokens[at] == ',':
                at += 1
        at += 1
        return items

    def message(end):
        nonlocal at
        fields = []
        while at < len(tokens) and tokens[at] != end:
            key = tokens[at]
            assert re.match(r'[a-z_]+$', key), key
            at += 1
            if tokens[at] == ':':
                at += 1
            else:
                assert tokens[at] in '{[', tokens[at]
            fields.append((key, value()))
        assert (at < len(tokens)) == (end is not None), 'a bracket is missing'
        at += 1
        return fields

    return message(None)


TYPES = {'tensor(float)': 'TYPE_FP32', 'tensor(double)': 'TYPE_FP64', 'tensor(int32)': 'TYPE_INT32',
         'tensor(int64)': 'TYPE_INT64', 'tensor(uint8)': 'TYPE_UINT8', 'tensor(bool)': 'TYPE_BOOL'}


def judge_folder(folder):
    """A model of a Triton repository: what config.pbtxt says is what each version's model has."""
    name = os.path.basename(folder)
    try:
        fields = parse_text(open(os.path.join(folder, 'config.pbtxt')).read())
        config = dict((k, v) for k, v in fields if k not in ('input', 'output', 'parameters'))
        assert set(config) == {'backend', 'max_batch_size'} and config['backend'] == 'onnxruntime', config
        batch = int(config['max_batch_size'])
        keys = [dict(v)['key'] for k, v in fields if k == 'parameters']
        assert keys == ['signature_name', 'tags'], keys
        versions = [v for v in os.listdir(folder) if v != 'config.pbtxt']
        assert versions and all(re.match(r'[1-9]\d*$', v) for v in versions), versions
        for v in versions:
            assert os.listdir(os.path.join(folder, v)) == ['model.onnx']
            path = os.path.join(folder, v, 'model.onnx')
            onnx.checker.check_model(path, full_check=True)
            s = session(path)
            for what, there in (('input', s.get_inputs()), ('output', s.get_outputs())):
                said = [dict(m) for k, f in fields if k == what for m in f]
                assert [m['name'] for m in said] == [t.name for t in there]
                for m, t in zip(said, there):
                    shape = [d if isinstance(d, int) else -1 for d in t.shape]
                    if batch > 0:
                        assert shape[0] == -1
                        shape = shape[1:]
                    assert m['data_type'] == TYPES[t.type], m
                    if shape:
                        assert [int(d) for d in m['dims']] == shape and 'reshape' not in m, m
                    else:
                        assert m['dims'] == ['1'] and dict(m['reshape'])['shape'] == [], m
    except Exception as e:
        return check(name, False, '%s: %s' % (type(e).__name__, e))
    return check(name, True)


def exported(folder):
    models = sorted(glob.glob(os.path.join(folder, '*.onnx')))
    folders = sorted(os.path.dirname(p) for p in glob.glob(os.path.join(folder, '*', 'config.pbtxt')))
    check('there are models', len(models) > 1000, len(models))
    check('there are folders', len(folders) > 0)
    for m in models:
        judge_model(m)
    for f in folders:
        judge_folder(f)


def main():
    commands = {'exported': exported}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        sys.exit('usage: onnx_judge.py %s folder' % '|'.join(commands))
    commands[sys.argv[1]](*sys.argv[2:])
    if not_run:
        print('%d checked, but not run: ONNX Runtime has no %s for float64' % (len(not_run), ', '.join(sorted(set(not_run)))))
    print('%d passed, %d failed' % (passed, failed))
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
