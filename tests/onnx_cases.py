"""What tp_import_onnx makes of models, by the program made of onnx_cases.c.

    onnx_cases.py operators <folder> <program>    the ONNX project's own operator cases
    onnx_cases.py exported <folder> <program>     what test_export_onnx.c wrote there

operators: writes every case of the onnx package whose values are tensors of types that tp has, runs the program over them,
and says how many pass of how many: a case counts when tp_import_onnx knows each of its operators. Of those, only what EXCEPT
lists, with the reason, may be refused; anything else that does not pass is a failure.

exported: every model that tp wrote gives in tp what it gave before. Models in which more than the batch is unknown may be
refused, with a sentence that says so."""
import collections, os, subprocess, sys, warnings
warnings.simplefilter('ignore')
import numpy as np, onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

EXCEPT = [  # beginning of the name, why it is refused
    (('test_convtranspose_3d',), 'a convolution over three axes: the op table has them over two'),
    (('test_bernoulli', 'test_training_dropout_default', 'test_training_dropout', 'test_training_dropout_mask',
      'test_training_dropout_default_mask'),
     "numpy's random numbers"),
    (('test_gridsample_bicubic', 'test_gridsample_nearest', 'test_gridsample_reflection', 'test_gridsample_volumetric'),
     'GridSample but for bilinear ones of images, in a border of zeros or of the edge'),
]

what, folder, tool = sys.argv[1:4]
os.makedirs(folder, exist_ok=True)


def run():
    """(word, name, rest) of each line that the program prints; what went wrong with the program itself."""
    r = subprocess.run([tool, folder], capture_output=True, text=True)
    lines = [(line.split(' ', 2) + [''])[:3] for line in r.stdout.splitlines()]
    return lines, ['onnx_cases ended with status %d: %s' % (r.returncode, r.stderr[-500:])] if r.returncode else []


def finish(passed, failed):
    for line in failed:
        print('FAIL', line)
    print('%d passed, %d failed' % (passed, len(failed)))
    sys.exit(1 if failed or not passed else 0)


if what == 'exported':
    lines, failed = run()
    passed = refused = 0
    for word, name, rest in lines:
        if word == 'PASS':
            passed += 1
        elif word == 'REFUSED' and ('_unknown' in name or '_open' in name or name.endswith('_batch')):
            refused += 1  # sizes that only running tells
        else:
            failed.append(' '.join((word, name, rest)))
    print('exported models, read back: %d of %d; the rest has unknown sizes that a plan needs' % (passed, len(lines)))
    if refused * 20 > len(lines):
        failed.append('%d of %d refused' % (refused, len(lines)))
    finish(passed, failed)

T = onnx.TensorProto
types = {T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16, T.INT32, T.INT64, T.UINT8, T.BOOL}
known = set(subprocess.run([tool, '--operators'], capture_output=True, text=True, check=True).stdout.split())


def array(a, elem):
    a = numpy_helper.to_array(a) if isinstance(a, T) else np.asarray(a)
    if elem == T.BFLOAT16:
        return a.astype(np.float32)
    return a


cases, other = {}, collections.Counter()
for t in collect_testcases(None):
    g = t.model.graph
    values = list(g.input) + list(g.output)
    if not all(v.type.HasField('tensor_type') for v in values):
        other['sequences, optionals or maps'] += 1
        continue
    elems = [v.type.tensor_type.elem_type for v in values]
    if not set(elems) <= types:
        other['element types that tp does not have'] += 1
        continue
    strange = sorted({n.op_type if n.domain in ('', 'ai.onnx') else n.domain + '.' + n.op_type for n in g.node} - known)
    if strange:
        other['operators that tp does not have'] += 1
        continue
    given, expected = t.data_sets[0]
    data = {'in ' + v.name: array(a, e) for v, a, e in zip(g.input, given, elems)}
    data.update({'out ' + v.name: array(a, e) for v, a, e in zip(g.output, expected, elems[len(g.input):])})
    np.savez(os.path.join(folder, t.name + '.npz'), **data)
    onnx.save(t.model, os.path.join(folder, t.name + '.onnx'))
    half = bool({T.FLOAT16, T.BFLOAT16} & set(elems))  # computed in float32, so not rounded where the reference rounds
    cases[t.name] = '%s %g %g' % (t.name, max(t.rtol, 1e-2 if half else 1e-3), max(t.atol, 2e-3 if half else 1e-6))
with open(os.path.join(folder, 'list'), 'w') as f:
    f.write('\n'.join(cases.values()) + '\n')

lines, broken = run()
passed, failed, refused, how = 0, [], collections.Counter(), collections.Counter()
seen = set()
for word, name, rest in lines:
    seen.add(name)
    reason = next((why for names, why in EXCEPT if name.startswith(names)), None)
    if word == 'PASS':
        passed += 1
        how[rest] += 1
    elif reason:
        refused[reason] += 1
    else:
        failed.append(' '.join((word, name, rest)))
failed += broken + ['no result: ' + name for name in cases if name not in seen]
total = len(cases) + sum(other.values())
print('onnx %s operator cases: %d of %d whose operators and types tp has (%d in all)' % (onnx.__version__, passed, len(cases), total))
print('  inputs: %d all fed, %d with sizes as constants, %d constant' % (how['fed'], how['sizes'], how['all']))
print('  known exceptions: ' + '; '.join('%d %s' % (n, why) for why, n in refused.items()))
print('  outside: ' + '; '.join('%d %s' % (n, why) for why, n in other.items()))
finish(passed, failed)
