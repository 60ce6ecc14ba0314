"""Writes reference cases for test_import_ops.c: small ONNX models, and what independent programs say that they give.

    build/venv/bin/python tests/ref_onnx.py tests/ref_onnx.txt      (the environment of `make interop`)

A case is
    case <name> <rtol> <atol>
    model <hex>                      the bytes of the file
    in <name> <dtype> <ndim> <dims...> <values...>
    out <name> <dtype> <ndim> <dims...> <values...>
or, where a model has to be refused,
    case <name> 0 0
    model <hex>
    refused <part of the sentence>
The models are the ONNX project's own operator cases (one for each operator, version and set of attributes and optional
inputs, with numbers cut to three digits), and the table below for what those leave out. The values are those of the
project's reference evaluator and of ONNX Runtime; where both compute a model, they have to agree, but for RUNTIME."""
import sys, warnings
warnings.simplefilter('ignore')
import numpy as np, onnx, onnxruntime as ort
from onnx import TensorProto as T, helper as H, numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.reference import ReferenceEvaluator

TYPES = {T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16, T.INT32, T.INT64, T.UINT8, T.BOOL}
OPERATORS = """Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization
BlackmanWindow Cast CastLike Ceil Celu CenterCropPad Clip Concat Constant ConstantOfShape Conv ConvTranspose Cos Cosh CumSum
DepthToSpace Div Dropout Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND Gelu Gemm
GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization HammingWindow HannWindow HardSigmoid HardSwish
Hardmax Identity If InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax
LpNormalization LpPool MatMul Max MaxPool Mean MeanVarianceNormalization Min Mish Mod Mul Neg NegativeLogLikelihoodLoss Not
OneHot Or PRelu Pad Pow RMSNormalization RNN Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax
ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize RotaryEmbedding Round Scatter ScatterElements
ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth
Split Sqrt Squeeze Sub Sum SwiGLU Swish Tan Tanh ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Upsample Where
Xor""".split()
REFUSED = ('test_convtranspose_3d', 'test_training_dropout', 'test_gridsample_bicubic', 'test_gridsample_nearest',
           'test_gridsample_reflection', 'test_gridsample_volumetric')  # onnx_cases.py says why
MOST = 700  # numbers of a case
# Where ONNX Runtime is right: the evaluator computes old versions of Softmax like the new ones, pads some pools wrongly and
# knows LRN of odd sizes only.
RUNTIME = {'LRN', 'Softmax', 'LogSoftmax', 'Hardmax', 'MaxPool', 'LpPool', 'GlobalMaxPool', 'LpNormalization'}


def shorter(a):
    """The same with three digits behind the point, as float32 where it is a shorter float."""
    a = np.asarray(a)
    if a.dtype.kind == 'f' and a.dtype.itemsize < 4 or a.dtype.name == 'bfloat16':
        return a
    return np.round(a, 3) if a.dtype.kind == 'f' else a


def by_runtime(model, given):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        s = ort.InferenceSession(model.SerializeToString(), options, providers=['CPUExecutionProvider'])
        return s.run(None, given)
    except Exception:
        return None


def by_reference(model, given):
    try:
        return ReferenceEvaluator(model).run(None, given)
    except Exception:
        return None


def text(kind, name, a):
    a = np.asarray(a)
    if a.dtype.name in ('float16', 'bfloat16'):
        a = a.astype(np.float32)
    fmt = {'float32': '%.7g', 'float64': '%.12g'}.get(a.dtype.name)
    values = [fmt % v for v in a.reshape(-1)] if fmt else [str(int(v)) for v in a.reshape(-1)]
    return ' '.join([kind, name, a.dtype.name, str(a.ndim)] + [str(d) for d in a.shape] + values)


written, notes = set(), []


def write(file, name, model, given, want=None):
    """One case. want: what the project's case says, where neither program computes it."""
    reference, runtime = by_reference(model, given), by_runtime(model, given)
    half = bool({T.FLOAT16, T.BFLOAT16} & {v.type.tensor_type.elem_type for v in list(model.graph.input) + list(model.graph.output)})
    rtol, atol = (1e-2, 2e-3) if half else (1e-4, 1e-5)
    # the evaluator's Resize multiplies infinite elements by zeros
    spread = model.graph.node[0].op_type == 'Resize' and not all(np.isfinite(a).all() for a in given.values())
    if runtime is not None and want is None and (model.graph.node[0].op_type in RUNTIME or spread):
        reference = None
    got = [g for g in (want, reference, runtime) if g is not None]
    if not got:
        notes.append('%s: nobody computes it' % name)
        return False
    for other in got[1:]:
        for a, b in zip(got[0], other):
            a, b = np.asarray(a), np.asarray(b)
            if a.shape != b.shape or not np.allclose(a.astype('f8'), b.astype('f8'), rtol=rtol, atol=max(atol, 1e-4), equal_nan=True):
                notes.append('%s: the programs differ' % name)
                return False
    lines = ['case %s %g %g' % (name, rtol, atol), 'model ' + model.SerializeToString().hex()]
    lines += [text('in', k, given[k]) for k in given]
    lines += [text('out', o.name, a) for o, a in zip(model.graph.output, got[-1])]
    file.write('\n'.join(lines) + '\n')
    written.update(n.op_type for n in model.graph.node)
    return True


def project_cases(file):
    chosen = {}
    for t in collect_testcases(None):
        g = t.model.graph
        values = list(g.input) + list(g.output)
        if '_expanded' in t.name or t.name.startswith(REFUSED):
            continue
        if not all(v.type.HasField('tensor_type') and v.type.tensor_type.elem_type in TYPES for v in values):
            continue
        if any(n.domain not in ('', 'ai.onnx') or n.op_type not in OPERATORS for n in g.node):
            continue
        given = [numpy_helper.to_array(a) if isinstance(a, T) else np.asarray(a) for a in t.data_sets[0][0]]
        want = [numpy_helper.to_array(a) if isinstance(a, T) else np.asarray(a) for a in t.data_sets[0][1]]
        size = sum(a.size for a in given + want)
        if size > MOST:
            continue
        kinds = tuple((n.op_type, tuple(bool(i) for i in n.input), tuple(bool(o) for o in n.output),
                       tuple(sorted((a.name, a.s if a.type == a.STRING else a.i if a.type == a.INT else 0) for a in n.attribute)))
                      for n in g.node)
        ranks = tuple(a.ndim for a in given) if any(n.op_type in ('MatMul', 'Conv', 'Softmax', 'MaxPool', 'AveragePool', 'LpPool') for n in g.node) else ()
        key = (kinds, tuple(v.type.tensor_type.elem_type for v in g.input), ranks)
        if len(g.node) == 1 and g.node[0].op_type in ('Cast', 'CastLike'):
            key += (g.output[0].type.tensor_type.elem_type,)
        if key not in chosen or size < chosen[key][0]:
            chosen[key] = (size, t, given, want)
    for size, t, given, want in chosen.values():
        g = t.model.graph
        cut = [shorter(a) for a in given]
        same = all(np.array_equal(a, b, equal_nan=True) if a.dtype.kind == 'f' else (a == b).all() for a, b in zip(cut, given))
        for f in list(g.node):
            f.doc_string = ''
        write(file, t.name[5:], t.model, {v.name: a for v, a in zip(g.input, cut)}, want if same else None)


def main():
    with open(sys.argv[1], 'w') as file:
        project_cases(file)
        own_cases(file)
        recurrent_activations(file)
        later_cases(file)
    missing = sorted(set(OPERATORS) - written)
    for n in notes:
        print(n)
    print('without a case:', ' '.join(missing) or 'none')


R = np.random.RandomState(5)


def real(*shape):
    return np.round(R.standard_normal(shape), 2).astype(np.float32)


def ints(low, high, *shape):
    return R.randint(low, high, size=shape).astype(np.int64)


L = lambda *v: np.array(v, np.int64)
F = lambda *v: np.array(v, np.float32)
B = lambda *v: np.array(v, bool)
PLAIN = {np.dtype('float32'): T.FLOAT, np.dtype('float64'): T.DOUBLE, np.dtype('int32'): T.INT32, np.dtype('int64'): T.INT64,
         np.dtype('uint8'): T.UINT8, np.dtype('bool'): T.BOOL, np.dtype('float16'): T.FLOAT16}


def model(nodes, ins, outs, opset=18, known=(), shapes=None):
    """ins: name -> array; those in `known` are initializers. outs: names, or name -> type. shapes: name -> what the file says."""
    shapes = shapes or {}
    inputs = [H.make_tensor_value_info(k, PLAIN[a.dtype], shapes.get(k, a.shape)) for k, a in ins.items() if k not in known]
    outputs = [H.make_tensor_value_info(o, outs[o] if isinstance(outs, dict) else T.FLOAT, None) for o in outs]
    weights = [numpy_helper.from_array(a, k) for k, a in ins.items() if k in known]
    g = H.make_graph(nodes, 'g', inputs, outputs, weights)
    m = H.make_model(g, opset_imports=[H.make_opsetid('', opset)], ir_version=10)
    return m


def simple(op, arrays, attrs, n_out, opset, out_type):
    names = ['' if a is None else 'x%d' % i for i, a in enumerate(arrays)]
    outs = ['y%d' % i for i in range(n_out)]
    types = out_type if isinstance(out_type, (list, tuple)) else [out_type] * n_out
    node = H.make_node(op, names, outs, **attrs)
    return [node], {n: a for n, a in zip(names, arrays) if n}, dict(zip(outs, types))


counted = {}


def own(file, op, *arrays, n_out=1, opset=18, type=T.FLOAT, shapes=None, **attrs):
    """A model of one operator."""
    counted[op] = counted.get(op, 0) + 1
    nodes, ins, outs = simple(op, arrays, attrs, n_out, opset, type)
    write(file, 'own_%s_%d' % (op.lower(), counted[op]), model(nodes, ins, outs, opset, shapes=shapes), ins)


def refuse(file, part, op, *arrays, n_out=1, opset=18, type=T.FLOAT, shapes=None, known=True, edit=None, **attrs):
    """One that has to be refused, with a sentence that has `part` in it. Its inputs but the first are known if `known`."""
    nodes, ins, outs = simple(op, arrays, attrs, n_out, opset, type)
    m = model(nodes, ins, outs, opset, [k for k in ins if known and k != 'x0'], shapes)
    if edit:
        edit(m)
    refuse_model(file, part, op, m)


def refuse_model(file, part, what, m):
    counted['!' + what] = counted.get('!' + what, 0) + 1
    lines = ['case refused_%s_%d 0 0' % (what.lower(), counted['!' + what]), 'model ' + m.SerializeToString().hex(), 'refused ' + part]
    file.write('\n'.join(lines) + '\n')


def own_cases(file):
    o = lambda op, *arrays, **more: own(file, op, *arrays, **more)
    x23, x234 = real(2, 3), real(2, 3, 4)
    o('Erf', x23), o('Mish', x23), o('Tan', x23), o('Sinh', x23), o('Relu', real())
    o('LRN', real(1, 5, 2, 2), size=3, alpha=0.2, beta=0.5, bias=1.5), o('LRN', real(2, 4, 3, 1), size=3), o('LRN', real(1, 3, 2, 1), size=5)
    # lists and cuts
    for f, t, a, s in (([1], [3], [0], None), ([1, 0], [3, 2], None, None), ([-1], [-100], [1], [-1]), ([0, 4], [4, 0], [0, 1], [2, -2]),
                       ([-3], [-1], [-1], None), ([5], [9], [1], None), ([2], [1], [0], None), ([0], [2**31 - 1], [1], [3]), ([100], [-100], [0], [-3])):
        o('Slice', real(4, 5), L(*f), L(*t), None if a is None else L(*a), None if s is None else L(*s))
    o('Slice', real(4, 5), opset=9, starts=[1], ends=[3], axes=[1]), o('Slice', real(4, 5), opset=9, starts=[1], ends=[-1])
    o('Slice', real(4, 5), L(0), L(2), L(0), L(1)), o('Slice', real(4, 5), L(1), L(2**62), L(0), L(1)), o('Slice', real(4, 5), L(-1), L(-2**62), L(0), L(-1))
    o('Split', real(4, 3), n_out=2, axis=0, num_outputs=2), o('Split', real(5, 3), n_out=2, axis=0, num_outputs=2), o('Split', real(4, 6), L(1, 2, 3), n_out=3, axis=-1)
    o('Split', real(4, 6), n_out=2, opset=11, axis=1, split=[2, 4]), o('Split', real(4, 6), n_out=3, opset=11, axis=1)
    for shape, attrs in (((2, 2), {}), ((5, 7), {}), ((4, 4), {})):
        o('CenterCropPad', real(4, 5), L(*shape), **attrs)
    o('CenterCropPad', real(2, 4, 5), L(6, 2), axes=[-1, 1]), o('CenterCropPad', real(2, 4, 5), L(3), axes=[1])
    for mode in ('constant', 'reflect', 'edge', 'wrap'):
        o('Pad', real(3, 4), L(1, 2, 0, 1), mode=mode, opset=19)
    o('Pad', real(3, 4), L(-1, 1, 0, -2)), o('Pad', real(3, 4), L(1, 1), F(2.5).reshape(()), L(-1)), o('Pad', real(3, 4), opset=10, pads=[1, 0, 0, 2], value=3.0)
    o('Pad', real(3, 4), L(0, 0, 0, 0)), o('Pad', ints(0, 9, 3, 4), L(0, 1, 1, 0), type=T.INT64)
    o('Tile', real(2, 3), L(2, 1)), o('Tile', real(), L()), o('Expand', real(3, 1), L(2, 1, 4)), o('Expand', real(2, 3), L(1, 1)), o('Expand', real(1, 3), L(4, 3))
    o('Flatten', real(2, 3, 4), axis=0), o('Flatten', real(2, 3, 4), axis=3), o('Flatten', real(2, 3, 4), axis=-1)
    o('Squeeze', real(1, 3, 1)), o('Squeeze', real(1, 3, 1), L(0)), o('Squeeze', real(1, 3, 1), opset=11, axes=[-1]), o('Unsqueeze', real(3), L(0, -1)), o('Unsqueeze', real(3), opset=11, axes=[1])
    o('Transpose', real(3)), o('Transpose', real()), o('Transpose', x234, perm=[1, 2, 0]), o('Concat', x23, axis=-1), o('Concat', x23, real(2, 1), x23, axis=1)
    o('Reshape', x234, L(0, -1)), o('Reshape', x234, L(4, 0, -1)), o('Reshape', real(0, 3), L(3, 0), allowzero=1), o('Reshape', x234, L(24)), o('Reshape', real(1), L())
    o('Constant', type=T.FLOAT, value_float=2.5), o('Constant', type=T.INT64, value_int=-3), o('Constant', type=T.INT64, value_ints=[1, 2**62 + 1, -5]), o('Constant', value_floats=[0.5, -2.0])
    o('Constant', value=numpy_helper.from_array(x23)), o('ConstantOfShape', L(2, 0, 3)), o('ConstantOfShape', L(2, 3)), o('ConstantOfShape', L(2), type=T.INT64, value=numpy_helper.from_array(L(7)))
    o('Range', F(1).reshape(()), F(4).reshape(()), F(0.5).reshape(())), o('Range', L(5).reshape(()), L(-3).reshape(()), L(-2).reshape(()), type=T.INT64), o('Range', L(5).reshape(()), L(5).reshape(()), L(1).reshape(()), type=T.INT64)
    o('Shape', x234, type=T.INT64, start=1), o('Shape', x234, type=T.INT64, start=-2, end=-1), o('Shape', x234, type=T.INT64, end=9), o('Shape', x234, type=T.INT64, start=2, end=1), o('Size', x234, type=T.INT64)
    o('EyeLike', real(3, 4), k=1), o('EyeLike', real(3, 4), k=-1, dtype=T.INT64, type=T.INT64), o('Trilu', real(3, 4), L(1).reshape(()), upper=0), o('Trilu', real(2, 3, 3)), o('Trilu', ints(0, 9, 3, 3), L(-1).reshape(()), type=T.INT64)
    # arithmetic
    i1, i2 = ints(-9, 9, 3, 3), ints(1, 5, 3, 3)
    o('Div', i1, i2, type=T.INT64), o('Div', i1, -i2, type=T.INT64), o('Mod', i1, i2, type=T.INT64), o('Mod', i1, -i2, type=T.INT64), o('Mod', i1, i2, type=T.INT64, fmod=1), o('Mod', x23, np.abs(x23) + 1, fmod=1)
    o('Pow', np.abs(x23) + F(1), L(2), type=T.FLOAT), o('Pow', i2, F(2.0), type=T.INT64), o('Pow', i2, L(2), type=T.INT64), o('Clip', x23, F(-0.5).reshape(())), o('Clip', x23, None, F(0.5).reshape(())), o('Clip', x23)
    o('Clip', x23, opset=6, min=-0.2, max=0.3), o('Clip', ints(-9, 9, 3), L(-2).reshape(()), L(4).reshape(()), type=T.INT64)
    o('Max', x23, real(3), real(2, 1)), o('Mean', x23), o('Mean', x23, x23, real(3)), o('Sum', x23), o('Min', ints(0, 9, 3), ints(0, 9, 3), type=T.INT64)
    for op, attrs in (('Elu', {'alpha': 0.5}), ('Elu', {}), ('Selu', {}), ('Selu', {'alpha': 1.2, 'gamma': 0.7}), ('Celu', {}), ('Celu', {'alpha': 2.0}), ('LeakyRelu', {}), ('HardSigmoid', {}),
                      ('ThresholdedRelu', {'alpha': 0.3}), ('Shrink', {'lambd': 0.3, 'bias': 0.1}), ('Shrink', {})):
        o(op, x23, **attrs)
    o('Gelu', x23, opset=20), o('Gelu', x23, opset=20, approximate='tanh'), o('Swish', x23, opset=24, alpha=2.0), o('Shrink', ints(-3, 3, 4), type=T.INT64, lambd=1.5, bias=1.0)
    o('IsInf', F(1, np.inf, -np.inf, np.nan), type=T.BOOL, detect_positive=0), o('IsInf', F(1, np.inf, -np.inf), type=T.BOOL, detect_negative=0), o('PRelu', real(2, 3, 2), real(3, 1))
    o('Where', B(1, 0, 1), F(1, 2, 3), F(4, 5, 6)), o('Where', np.array([[True], [False]]), ints(0, 9, 3), ints(0, 9, 3), type=T.INT64), o('Xor', B(1, 0, 1), B(1, 1, 0), type=T.BOOL)
    for kind in (T.INT32, T.INT64, T.UINT8, T.BOOL, T.DOUBLE, T.FLOAT16):
        o('Cast', F(0, 1.25, 2, 200), to=kind, type=kind)
    o('CastLike', x23, L(1), type=T.INT64), o('Dropout', x23), o('Dropout', x23, n_out=2, type=[T.FLOAT, T.BOOL]), o('Dropout', x23, F(0.0).reshape(()), B(1).reshape(())), o('Dropout', x23, opset=7, ratio=0.3)
    # reductions
    for op in ('ReduceSum', 'ReduceMean', 'ReduceMax', 'ReduceMin', 'ReduceProd', 'ReduceL1', 'ReduceL2', 'ReduceLogSum', 'ReduceLogSumExp', 'ReduceSumSquare'):
        x = np.abs(x234) + F(0.5)
        o(op, x, keepdims=0, opset=13, **({} if op == 'ReduceSum' else {'axes': [1]})), o(op, x, L(-1, 0)), o(op, x, keepdims=0), o(op, x, noop_with_empty_axes=1), o(op, x, L(), keepdims=0)
    o('ReduceMean', ints(0, 9, 2, 3), L(1), type=T.INT64), o('ReduceProd', ints(1, 4, 2, 3), L(0), type=T.INT64, keepdims=0), o('ReduceMax', B(1, 0), type=T.BOOL, opset=20), o('ReduceMin', B(1, 0), L(0), type=T.BOOL, opset=20)
    o('ReduceLogSumExp', F(1, -np.inf, 2)), o('ReduceSum', real()), o('ReduceL1', ints(-3, 3, 4), type=T.INT64)
    for op in ('ArgMax', 'ArgMin'):
        o(op, F(1, 3, 3, 0, 0), type=T.INT64), o(op, F(1, 3, 3, 0, 0), type=T.INT64, select_last_index=1, keepdims=0), o(op, x234, type=T.INT64, axis=-2), o(op, ints(0, 9, 2, 3), type=T.INT64, axis=1)
    o('TopK', real(3, 5), L(2), n_out=2, type=[T.FLOAT, T.INT64]), o('TopK', real(3, 5), L(2), n_out=2, type=[T.FLOAT, T.INT64], largest=0, axis=0), o('TopK', np.array([[3, 1, 2]], np.int64), L(2), n_out=2, type=T.INT64)
    o('TopK', real(3, 5), n_out=2, opset=9, type=[T.FLOAT, T.INT64], k=3)
    for e in (0, 1):
        for r in (0, 1):
            o('CumSum', x23, L(1).reshape(()), exclusive=e, reverse=r)
    o('CumSum', ints(0, 9, 4), L(0).reshape(()), type=T.INT64)
    # products
    o('MatMul', real(3), real(3)), o('MatMul', real(2, 3), real(3)), o('MatMul', real(3), real(3, 2)), o('MatMul', real(2, 2, 3), real(3, 2)), o('MatMul', ints(0, 5, 2, 3), ints(0, 5, 3, 2), type=T.INT64)
    o('Gemm', real(3, 2), real(3, 4), real(2, 4), transA=1, alpha=0.5, beta=2.0), o('Gemm', real(2, 3), real(4, 3), real(4), transB=1), o('Gemm', real(2, 3), real(3, 4)), o('Gemm', real(2, 3), real(3, 4), real(1), beta=0.0)
    for eq, shapes in (('ij,jk', ((2, 3), (3, 4))), ('ij->ji', ((2, 3),)), ('ii->i', ((3, 3),)), ('ii', ((3, 3),)), ('bij,bjk->bik', ((2, 2, 3), (2, 3, 2))), ('ij,ij->', ((2, 3), (2, 3))), ('i,j->ij', ((2,), (3,))),
                       ('...ij,...jk->...ik', ((2, 2, 3), (2, 3, 2))), ('ij->i', ((2, 3),)), ('ij,kj->ik', ((2, 3), (4, 3))), (' i j , j -> i ', ((2, 3), (3,))), ('i->i', ((3,),)), ('ijk,k->ij', ((2, 2, 3), (3,)))):
        o('Einsum', *[real(*s) for s in shapes], equation=eq)
    # windows
    o('Conv', real(1, 2, 5), real(3, 2, 3)), o('Conv', real(1, 2, 5), real(3, 2, 3), real(3), pads=[1, 1], strides=[2]), o('Conv', real(1, 2, 5, 5), real(4, 1, 3, 3), group=2, dilations=[2, 1], pads=[2, 1, 2, 1])
    o('Conv', real(1, 2, 5, 4), real(2, 2, 3, 2), auto_pad='SAME_UPPER', strides=[2, 2]), o('Conv', real(1, 2, 5, 4), real(2, 2, 2, 2), auto_pad='SAME_LOWER'), o('Conv', real(1, 2, 5, 4), real(2, 2, 3, 2), auto_pad='VALID'), o('Conv', real(1, 2, 5, 4), real(2, 2, 3, 2), pads=[0, 1, 2, 0])
    o('ConvTranspose', real(1, 2, 3), real(2, 3, 3)), o('ConvTranspose', real(1, 2, 3, 3), real(2, 2, 3, 3), real(2), strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 0])
    o('ConvTranspose', real(1, 4, 3, 2), real(4, 1, 2, 2), group=2, dilations=[2, 1]), o('ConvTranspose', real(1, 1, 3, 3), real(1, 1, 3, 3), strides=[2, 2], output_shape=[6, 7])
    for pad in ('SAME_UPPER', 'SAME_LOWER', 'VALID'):
        o('ConvTranspose', real(1, 1, 3, 3), real(1, 1, 3, 3), strides=[2, 2], auto_pad=pad)
        for op in ('MaxPool', 'AveragePool'):
            o(op, real(1, 2, 5, 4), kernel_shape=[3, 2], strides=[2, 1], auto_pad=pad)
    for op in ('MaxPool', 'AveragePool', 'LpPool'):
        o(op, real(1, 2, 5), kernel_shape=[2]), o(op, real(1, 2, 5, 4), kernel_shape=[2, 3], strides=[2, 1], pads=[1, 1, 0, 1], opset=22), o(op, real(1, 1, 3, 4, 4), kernel_shape=[2, 2, 2], opset=22)
        o(op, real(1, 2, 6, 5), kernel_shape=[2, 2], dilations=[2, 2], opset=22), o(op, real(1, 1, 5, 5), kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, opset=22)
    o('MaxPool', real(1, 2, 4, 4), kernel_shape=[2, 2], n_out=2, type=[T.FLOAT, T.INT64]), o('MaxPool', real(1, 2, 4, 4), kernel_shape=[2, 2], strides=[2, 2], storage_order=1, n_out=2, type=[T.FLOAT, T.INT64])
    o('MaxPool', real(1, 2, 4), kernel_shape=[2], n_out=2, type=[T.FLOAT, T.INT64]), o('AveragePool', real(1, 1, 4, 4), kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1), o('LpPool', np.abs(real(1, 1, 4, 4)), kernel_shape=[2, 2], p=3)
    o('AveragePool', real(1, 1, 5, 5), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1, count_include_pad=1, opset=22)
    o('GlobalAveragePool', real(1, 2, 3)), o('GlobalMaxPool', real(1, 2, 3, 2, 2))
    # normalisation
    p4 = np.abs(real(4)) + F(0.5)
    o('BatchNormalization', real(2, 4, 3), real(4), real(4), real(4), p4), o('BatchNormalization', real(3, 4), real(4), real(4), real(4), p4, epsilon=0.1)
    o('BatchNormalization', real(2, 4, 3), real(4), real(4), real(4), p4, n_out=3, training_mode=1, momentum=0.8)
    o('LayerNormalization', real(2, 4), real(4), real(4)), o('LayerNormalization', real(2, 4), real(4)), o('LayerNormalization', real(2, 3, 4), real(3, 4), real(3, 4), axis=1), o('LayerNormalization', real(2, 4), real(4), real(4), n_out=3)
    o('RMSNormalization', real(2, 3, 4), real(4), opset=23), o('RMSNormalization', real(2, 3, 4), real(3, 4), opset=23, axis=1, epsilon=0.01), o('InstanceNormalization', real(2, 3, 4), real(3), real(3))
    o('GroupNormalization', real(2, 4, 3), real(2), real(2), num_groups=2), o('GroupNormalization', real(2, 4, 3), real(4), real(4), num_groups=2, opset=21)
    o('LpNormalization', real(2, 3)), o('LpNormalization', real(2, 3), p=1, axis=0), o('LpNormalization', np.zeros((2, 3), np.float32)), o('MeanVarianceNormalization', real(2, 3, 2, 2)), o('MeanVarianceNormalization', real(2, 3), axes=[1])
    for op in ('Softmax', 'LogSoftmax', 'Hardmax'):
        o(op, x234, axis=1), o(op, x234), o(op, x234, opset=11), o(op, x234, opset=11, axis=2), o(op, x234, opset=11, axis=0), o(op, real(0, 3))
    # picking
    o('Gather', real(4, 3), L(1, -1, 0)), o('Gather', real(4, 3), L(0, 2).reshape(1, 2), axis=1), o('Gather', real(4, 3), L(-2).reshape(()), axis=-1), o('Gather', real(4, 3), np.array([2, 0], np.int32))
    o('GatherElements', real(3, 3), ints(-3, 3, 2, 3)), o('GatherElements', real(3, 3), ints(0, 3, 3, 2), axis=1), o('GatherElements', ints(0, 9, 3, 3), ints(0, 3, 3, 3), axis=1, type=T.INT64), o('GatherElements', real(3, 4), ints(0, 3, 2, 2), axis=0)
    o('GatherND', real(2, 3, 2), L(0, 1, 1, -1).reshape(2, 2)), o('GatherND', real(2, 3, 2), L(1, 0).reshape(2, 1), batch_dims=1), o('GatherND', real(2, 3), L(1, 2).reshape(1, 2))
    for how in ('none', 'add', 'mul', 'max', 'min'):
        o('ScatterElements', real(3, 3), L(0, 1, 2).reshape(1, 3), real(1, 3), reduction=how), o('ScatterND', real(4, 2), L(1, 3).reshape(2, 1), real(2, 2), reduction=how)
    o('ScatterElements', real(3, 3), L(0, -1).reshape(2, 1), real(2, 1), axis=1), o('ScatterElements', ints(0, 9, 3), L(2), L(7), type=T.INT64), o('Scatter', real(3, 3), L(0, 1, 2).reshape(1, 3), real(1, 3), opset=9)
    o('OneHot', L(0, 2, -1), L(3).reshape(()), F(0, 1)), o('OneHot', L(0, 2), L(3).reshape(()), F(-1, 5), axis=0), o('OneHot', np.array([1, 0], np.int32), L(2).reshape(()), L(0, 1), type=T.INT64)
    o('DepthToSpace', real(1, 8, 2, 1), blocksize=2), o('DepthToSpace', real(1, 8, 2, 1), blocksize=2, mode='CRD'), o('SpaceToDepth', real(1, 2, 4, 2), blocksize=2)
    # resizing
    for mode in ('nearest', 'linear', 'cubic'):
        for where in ('half_pixel', 'align_corners', 'asymmetric', 'pytorch_half_pixel', 'half_pixel_symmetric'):
            o('Resize', real(1, 1, 3, 4), None, None, L(1, 1, 5, 2), mode=mode, coordinate_transformation_mode=where, opset=19)
        o('Resize', real(1, 1, 3, 4), None, F(1, 1, 2, 0.5), mode=mode)
    for nearest in ('round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil'):
        o('Resize', real(1, 1, 3, 4), None, None, L(1, 1, 5, 3), mode='nearest', nearest_mode=nearest)
    o('Resize', real(1, 1, 4, 4), F(0, 0, 0.2, 0.1, 1, 1, 0.9, 1.2), None, L(1, 1, 3, 3), mode='linear', coordinate_transformation_mode='tf_crop_and_resize', extrapolation_value=7.0)
    o('Resize', real(1, 1, 6, 6), None, None, L(3, 4), mode='linear', antialias=1, axes=[2, 3]), o('Resize', real(1, 1, 6, 6), None, None, L(3, 4), mode='cubic', antialias=1, exclude_outside=1, axes=[2, 3])
    o('Resize', real(1, 1, 4, 6), None, None, L(3, 3), mode='linear', axes=[2, 3], keep_aspect_ratio_policy='not_larger'), o('Resize', real(1, 1, 4, 6), None, None, L(3, 3), mode='linear', axes=[2, 3], keep_aspect_ratio_policy='not_smaller')
    o('Resize', real(4), None, F(2.0), mode='linear'), o('Resize', real(1, 1, 2, 2), F(1, 1, 2, 2), opset=10, mode='nearest'), o('Upsample', real(1, 1, 2, 2), F(1, 1, 2, 3), opset=9, mode='linear'), o('Upsample', real(1, 1, 2, 2), opset=7, scales=[1.0, 1.0, 2.0, 2.0])
    o('Resize', ints(0, 9, 1, 1, 2, 2), None, F(1, 1, 2, 2), mode='nearest', type=T.INT64), o('Resize', real(1, 1, 3, 4), None, None, L(1, 1, 3, 4), mode='linear'), o('Resize', real(2, 2, 2, 2), None, None, L(5, 3), axes=[-1, 2])
    for border in ('zeros', 'border'):
        for corners in (0, 1):
            o('GridSample', real(2, 2, 3, 4), 1.3 * real(2, 3, 2, 2), padding_mode=border, align_corners=corners), o('GridSample', real(1, 1, 1, 3), real(1, 2, 2, 2), mode='linear', padding_mode=border, align_corners=corners, opset=20)
    # losses
    logp, label = real(3, 4), L(0, 3, 1)
    for how in ('none', 'sum', 'mean'):
        o('SoftmaxCrossEntropyLoss', logp, label, reduction=how), o('NegativeLogLikelihoodLoss', logp, label, np.abs(real(4)), reduction=how)
    o('SoftmaxCrossEntropyLoss', logp, label, n_out=2), o('SoftmaxCrossEntropyLoss', logp, L(0, -1, 1), ignore_index=-1), o('NegativeLogLikelihoodLoss', real(2, 3, 2), ints(0, 3, 2, 2), np.abs(real(3)), ignore_index=0)
    # recurrent ones
    for op, gates in (('LSTM', 4), ('GRU', 3), ('RNN', 1)):
        for direction, D in (('forward', 1), ('reverse', 1), ('bidirectional', 2)):
            n = 3 if op == 'LSTM' else 2
            w = [real(3, 2, 2), real(D, gates * 3, 2), real(D, gates * 3, 3), real(D, 2 * gates * 3)]
            o(op, *w, n_out=n, hidden_size=3, direction=direction)
            start = [real(D, 2, 3)] * (2 if op == 'LSTM' else 1)
            o(op, *w, None, *start, n_out=n, hidden_size=3, direction=direction)
        o(op, *w[:3], n_out=1, hidden_size=3, direction='bidirectional')
        o(op, real(2, 3, 2), real(1, gates * 3, 2), real(1, gates * 3, 3), real(1, 2 * gates * 3), n_out=n, hidden_size=3, layout=1)
    o('GRU', real(3, 2, 2), real(1, 9, 2), real(1, 9, 3), real(1, 18), n_out=2, hidden_size=3, linear_before_reset=1)
    o('LSTM', real(3, 2, 2), real(1, 12, 2), real(1, 12, 3), real(1, 24), None, real(1, 2, 3), real(1, 2, 3), real(1, 9), n_out=3, hidden_size=3)
    o('LSTM', real(3, 2, 2), real(1, 12, 2), real(1, 12, 3), real(1, 24), np.array([3, 3], np.int32), n_out=3, hidden_size=3)
    # attention
    q, k, v = real(1, 2, 3, 4), real(1, 2, 5, 4), real(1, 2, 5, 4)
    o('Attention', q, k, v, opset=23), o('Attention', q, k, v, opset=23, is_causal=1), o('Attention', q, k, v, opset=23, scale=0.3, softcap=2.0), o('Attention', q, k, v, real(3, 5), opset=23), o('Attention', q, k, v, R.randint(0, 2, size=(3, 5)).astype(bool) | (np.arange(5) == 0), opset=23)
    o('Attention', real(1, 3, 8), real(1, 5, 8), real(1, 5, 8), opset=23, q_num_heads=2, kv_num_heads=2), o('Attention', real(1, 4, 3, 4), real(1, 2, 5, 4), real(1, 2, 5, 4), opset=23)
    o('Attention', q, k, v, None, real(1, 2, 2, 4), real(1, 2, 2, 4), opset=23, n_out=3)
    for mode in (0, 1, 2, 3):
        o('Attention', q, k, v, real(3, 5), None, None, opset=23, n_out=4, qk_matmul_output_mode=mode, softcap=1.5)
    for inter in (0, 1):
        c, s = real(2, 3, 2), real(2, 3, 2)
        o('RotaryEmbedding', real(2, 2, 3, 4), c, s, opset=23, interleaved=inter), o('RotaryEmbedding', real(2, 2, 3, 6), c, s, opset=23, interleaved=inter, rotary_embedding_dim=4)
        o('RotaryEmbedding', real(2, 3, 8), real(5, 2), real(5, 2), ints(0, 5, 2, 3), opset=23, interleaved=inter, num_heads=2)
    for op in ('HannWindow', 'HammingWindow', 'BlackmanWindow'):
        o(op, L(6).reshape(())), o(op, L(6).reshape(()), periodic=0, output_datatype=T.DOUBLE, type=T.DOUBLE)
    branches(file)
    chains(file)
    refusals(file)


def branches(file):
    """If: both ways, one that gives a constant, one inside another."""
    add = H.make_graph([H.make_node('Add', ['x', 'x'], ['a'])], 'then', [], [H.make_tensor_value_info('a', T.FLOAT, None)])
    seven = H.make_graph([H.make_node('Constant', [], ['b'], value_floats=[7.0])], 'else', [], [H.make_tensor_value_info('b', T.FLOAT, None)])
    weight = H.make_graph([H.make_node('Mul', ['x', 'w'], ['c'])], 'else', [], [H.make_tensor_value_info('c', T.FLOAT, None)], [numpy_helper.from_array(F(3), 'w')])
    inner = H.make_graph([H.make_node('If', ['cond'], ['d'], then_branch=add, else_branch=weight)], 'then', [], [H.make_tensor_value_info('d', T.FLOAT, None)])
    for i, (yes, no) in enumerate(((add, seven), (inner, seven), (weight, add))):
        for cond in (True, False):
            ins = {'cond': B(cond).reshape(()), 'x': F(1, 2)}
            m = model([H.make_node('If', ['cond'], ['y'], then_branch=yes, else_branch=no)], ins, {'y': T.FLOAT})
            write(file, 'own_if_%d_%d' % (i, cond), m, ins)


def chains(file):
    """What exporters write: shapes taken apart and put together, which has to vanish."""
    N = H.make_node
    x = real(2, 3, 4)
    k = {'two': L(2), 'zero': L(0), 'one': L(1), 'minus': L(-1), 'three': L(3)}
    dims = {'x': ('n', 'm', 4)}
    head = [N('Shape', ['x'], ['s']), N('Gather', ['s', 'zero'], ['n']), N('Gather', ['s', 'one'], ['m'])]
    bodies = {
        'flat': [N('Concat', ['n', 'minus'], ['t'], axis=0), N('Reshape', ['x', 't'], ['y'])],
        'both': [N('Mul', ['n', 'm'], ['nm']), N('Concat', ['nm', 'minus'], ['t'], axis=0), N('Reshape', ['x', 't'], ['y'])],
        'swap': [N('Slice', ['s', 'two', 'three', 'zero'], ['c']), N('Concat', ['n', 'm', 'c'], ['t'], axis=0), N('Reshape', ['x', 't'], ['y'])],
        'expand': [N('Slice', ['s', 'zero', 'two', 'zero'], ['nm']), N('Concat', ['nm', 'one'], ['t'], axis=0), N('ConstantOfShape', ['t'], ['z']), N('Add', ['x', 'z'], ['y'])],
        'tile': [N('Unsqueeze', ['x', 'zero'], ['u']), N('Concat', ['two', 'n', 'm', 'minus'], ['t'], axis=0), N('Abs', ['t'], ['t1']), N('Where', ['last', 'one', 't1'], ['t2']), N('Expand', ['u', 't2'], ['y'])],
        'square': [N('Sub', ['n', 'one'], ['n1']), N('Add', ['n1', 'one'], ['n2']), N('Div', ['n2', 'one'], ['n3']), N('Cast', ['n3'], ['n4'], to=T.INT64), N('Squeeze', ['n4', 'zero'], ['n5']), N('Unsqueeze', ['n5', 'zero'], ['n6']),
                   N('Concat', ['n6', 'minus'], ['t'], axis=0), N('Reshape', ['x', 't'], ['y'])],
        'product': [N('ReduceProd', ['s'], ['p'], keepdims=1), N('Reshape', ['x', 'p'], ['y'])],
        'equal': [N('Equal', ['n', 'two'], ['e']), N('Where', ['e', 'n', 'n'], ['n1']), N('Concat', ['n1', 'minus'], ['t'], axis=0), N('Identity', ['t'], ['t1']), N('Reshape', ['x', 't1'], ['y'])],
        'size': [N('Size', ['x'], ['p']), N('Reshape', ['p', 'one'], ['p1']), N('Reshape', ['x', 'p1'], ['y'])],
        'split': [N('Split', ['s'], ['a', 'b', 'c'], axis=0, num_outputs=3), N('Concat', ['a', 'b', 'c'], ['t'], axis=0), N('Reshape', ['x', 't'], ['y'])],
        'range': [N('Squeeze', ['m', 'zero'], ['m1']), N('Squeeze', ['zero', 'zero'], ['z']), N('Squeeze', ['one', 'zero'], ['o']), N('Range', ['z', 'm1', 'o'], ['r']), N('Gather', ['x', 'r'], ['y'], axis=1)],
    }
    for name, body in bodies.items():
        ins = dict(k, x=x)
        if name == 'tile':
            ins['last'] = B(0, 0, 0, 1)
        for how, shapes in (('', {}), ('_named', dims)):
            write(file, 'own_chain_%s%s' % (name, how), model(head + body, ins, {'y': T.FLOAT}, known=[i for i in ins if i != 'x'], shapes=shapes), ins if False else {'x': x})


def refusals(file):
    r = lambda part, op, *arrays, **more: refuse(file, part, op, *arrays, **more)
    x4, x3, x2 = real(1, 2, 4, 4), real(1, 2, 4), real(2, 3)
    def no_outputs(m): del m.graph.node[0].output[:], m.graph.output[:]
    def no_inputs(m): del m.graph.node[0].input[:]
    for op in ('Split', 'EyeLike', 'Shape', 'Relu', 'Constant', 'TopK', 'MaxPool', 'Dropout', 'LSTM', 'If'):
        r(op + ' has no outputs', op, x2, edit=no_outputs)
    for op in OPERATORS:
        if op not in ('Constant', 'Cast', 'Einsum', 'If', 'Scatter', 'Upsample'):
            r('Concat has no inputs' if op == 'Concat' else op + ' lacks its input' , op, x4, edit=no_inputs, opset=24)
    # attributes
    for op, name, value, wrong in (('Softmax', 'axis', 1, 1.5), ('Transpose', 'perm', [1, 0], 1), ('Elu', 'alpha', 1.0, 'a'), ('Cast', 'to', 1, [1.5]), ('Gemm', 'alpha', 1.0, 1), ('LeakyRelu', 'alpha', 1.0, [1.0])):
        r("attribute '%s' is of another kind than %s" % (name, op), op, x2, x2, **{name: wrong})
    r("the attribute 'kernel_shape' is of another kind", 'MaxPool', x4, kernel_shape=2), r("the attribute 'equation' is of another kind", 'Einsum', x2, equation=3), r("the attribute 'value_ints' is of another kind", 'Constant', value_ints=3)
    r("the attribute 'scales' is of another kind", 'Upsample', x4, opset=7, scales=[1, 1, 2, 2]), r("the attribute 'value' is of another kind", 'Constant', value=3), r('must be known when the graph is built', 'If', B(1).reshape(()), then_branch=1)
    def twice_out(m): m.graph.node[0].output.append(m.graph.node[0].output[0])
    r('which is there already', 'Relu', x2, edit=twice_out)
    for op in ('Softmax', 'ArgMax', 'TopK', 'Split', 'Concat', 'Gather', 'GatherElements', 'LayerNormalization', 'RMSNormalization', 'LpNormalization', 'Hardmax', 'Flatten'):
        r('axis 7 of a value with 2 dimensions', op, x2, L(1).reshape(()) if op in ('TopK',) else x2 if 'Norm' in op else L(1).reshape(1, 1), x2, axis=7, opset=23)
        r('axis -3 of a value with 2 dimensions' if op != 'Flatten' else 'Flatten', op, x2, L(1).reshape(()) if op in ('TopK',) else x2 if 'Norm' in op else L(1).reshape(1, 1), x2, axis=-3, opset=23)
    r('axis 9 of', 'OneHot', L(1, 2), L(3).reshape(()), F(0, 1), axis=9), r('axis 5 of', 'CumSum', x2, L(5).reshape(())), r('axis 4 of', 'ReduceSum', x2, L(4)), r('names axis 1 twice', 'ReduceSum', x2, L(1, -1)), r('names axis 0 twice', 'Unsqueeze', x2, L(0, 0))
    r('axis 8 of', 'Squeeze', x2, L(8)), r('axis 3 of', 'Slice', x2, L(0), L(1), L(3)), r('axis 2 of', 'Pad', x2, L(1, 1), None, L(2)), r('axis 2 of', 'CenterCropPad', x2, L(1), axes=[2]), r('axis 6 of', 'MeanVarianceNormalization', x2, axes=[6]), r('names axis 0 twice', 'MeanVarianceNormalization', x2, axes=[0, 0])
    r('axis 4 of', 'Resize', x4, None, None, L(4), axes=[4]), r('axis 9 of', 'ScatterElements', x2, L(0).reshape(1, 1), F(0).reshape(1, 1), axis=9), r('Transpose orders', 'Transpose', x2, perm=[0]), r('names axis 0 twice', 'Transpose', x2, perm=[0, 0]), r('Transpose has axis 2', 'Transpose', x2, perm=[0, 2])
    # lists
    r('should be a short list of integers', 'Reshape', x2, F(1, 2)), r('should be a short list of integers', 'Tile', x2, ints(1, 2, 70)), r("list 'axes' is too long", 'Squeeze', x2, opset=11, axes=[0] * 70), r('must be known when the graph is built', 'Reshape', x2, L(3, 2), known=False)
    r('should be a single number', 'TopK', x2, L(1, 2), n_out=2), r('should be a single number', 'OneHot', L(1), L(1, 2), F(0, 1)), r('Split has 3 sizes for 2 outputs', 'Split', x2, L(1, 1, 1), n_out=2, axis=1), r('Split cuts more', 'Split', x2, L(2, 2), n_out=2, axis=1), r('Split cuts more', 'Split', x2, L(-1, 4), n_out=2, axis=1)
    r('Split into 3 has 2 outputs', 'Split', x2, n_out=2, axis=1, num_outputs=3), r('lists of different lengths', 'Slice', x2, L(0, 1), L(1)), r('step of 0', 'Slice', x2, L(0), L(1), L(0), L(0)), r('Pad has 3 numbers for 2 axes', 'Pad', x2, L(1, 1, 1)), r('pads that large', 'Pad', x2, L(2**60, 0, 0, 0))
    r('that mode', 'Pad', x2, L(1, 0, 0, 0), mode='corner'), r('those pads', 'Pad', x2, L(2**27, 0, 0, 0), mode='edge'), r('Tile has 1 repeats for 2', 'Tile', x2, L(2)), r('cannot be repeated', 'Tile', x2, L(2**62, 1)), r('cannot be repeated', 'Tile', x2, L(-2, 1)), r('sizes for 2 axes', 'CenterCropPad', x2, L(1)), r('to a size of -1', 'CenterCropPad', x2, L(-1, 2))
    r('makes more than 8 dimensions', 'Unsqueeze', x2, L(*range(7))), r('makes more than 8 dimensions', 'ConstantOfShape', L(*[1] * 9), known=False, shapes={}) if False else None
    r('Reshape copies dimension 2', 'Reshape', x2, L(3, 2, 0)), r('has a dimension of -5', 'Reshape', x2, L(-5, 2)), r('which do not make', 'Reshape', x2, L(4, 2)), r('makes more than 8 dimensions', 'Reshape', x2, L(*[1] * 9)), r('two dimensions of -1', 'Reshape', x2, L(-1, -1)), r('too large', 'Reshape', x2, L(2**40, 2**40))
    r('from 3 to 4', 'Expand', x2, L(2, 4)), r('larger than any memory', 'Expand', real(1, 1), L(2**30, 2**30)), r('has a dimension of', 'Expand', x2, L(-7, 1))
    # types
    r('Add of float32 and int64', 'Add', x2, L(1)), r('Cast to string', 'Cast', x2, to=8), r('Cast to a type of a newer ONNX', 'Cast', x2, to=99), r('Cast to undefined', 'Cast', x2), r('EyeLike with int8', 'EyeLike', x2, dtype=3), r('that size or type', 'HannWindow', L(-1).reshape(()), output_datatype=1, known=False) if False else None
    # windows
    r('has 1 strides for 2 spatial axes', 'MaxPool', x4, kernel_shape=[2, 2], strides=[1]), r('has 3 pads for 2 spatial axes', 'Conv', x4, real(2, 2, 2, 2), pads=[1, 1, 1]), r('should have a kernel_shape', 'MaxPool', x4, kernel_shape=[2]), r('should have a kernel_shape', 'AveragePool', x4)
    for k, s, p, d in ((0, 1, 0, 1), (-1, 1, 0, 1), (2**62, 1, 0, 2**62), (2, 0, 0, 1), (2, -2**63, 0, 1), (2, 1, -1, 1), (2, 1, 2**40, 1), (2, 1, 0, 0), (2, 1, 0, 2**62)):
        r('cannot be expressed', 'MaxPool', x4, kernel_shape=[k, 2], strides=[s, 1], pads=[p, 0, 0, 0], dilations=[d, 1]), r('cannot be expressed', 'LpPool', x3, kernel_shape=[k], strides=[s], pads=[p, 0], dilations=[d])
    r('larger than the', 'MaxPool', x4, kernel_shape=[9, 9]), r('larger than the', 'MaxPool', x4, kernel_shape=[3, 3], dilations=[2, 2], strides=[1, 1]), r('larger than the', 'MaxPool', x4, kernel_shape=[9, 9], n_out=2), r('too large', 'MaxPool', x4, kernel_shape=[2**19, 2**19], dilations=[2, 2], strides=[1, 1], shapes={'x0': (1, 1, 2**21, 2**21)})
    r('cannot be expressed', 'MaxPool', x2, kernel_shape=[2, 2]), r('cannot be expressed', 'Conv', x2, real(2, 2)), r('cannot be expressed', 'Conv', x4, real(2, 2, 2)), r('cannot be expressed', 'ConvTranspose', real(1, 1, 2, 2, 2), real(1, 1, 1, 1, 1))
    r('Conv', 'Conv', x4, real(2, 2, 2, 2), group=-3), r('Conv', 'Conv', x4, real(2, 2, 2, 2), group=2**40), r('Conv', 'Conv', x4, real(3, 1, 2, 2), group=2), r('Conv', 'Conv', x4, real(2, 2, 9, 9)), r('that many places', 'MaxPool', x4, kernel_shape=[2, 2], n_out=2, shapes={'x0': (1, 1, 2**20, 2**20)})
    w22 = real(2, 2, 2, 2)
    r('make no sense', 'ConvTranspose', x4, w22, group=0), r('make no sense', 'ConvTranspose', x4, w22, group=2**62), r('make no sense', 'ConvTranspose', x4, w22, output_padding=[1]), r('make no sense', 'ConvTranspose', x4, w22, output_shape=[1]), r('that output_padding', 'ConvTranspose', x4, w22, output_padding=[-1, 0])
    r('those sizes', 'ConvTranspose', x4, w22, output_shape=[0, 3]), r('those sizes', 'ConvTranspose', x4, w22, output_shape=[-2**63, 3]), r('those sizes', 'ConvTranspose', x4, w22, output_shape=[2**62, 3]), r('those sizes', 'ConvTranspose', x4, w22, pads=[9, 9, 9, 9])
    # others
    r('that k', 'TopK', x2, L(0).reshape(()), n_out=2, type=[T.FLOAT, T.INT64]), r('that k', 'TopK', x2, L(2**40).reshape(()), n_out=2, type=[T.FLOAT, T.INT64]), r('TopK', 'TopK', x2, L(7).reshape(()), n_out=2, type=[T.FLOAT, T.INT64]), r('that depth', 'OneHot', L(1), L(0).reshape(()), F(0, 1)), r('that depth', 'OneHot', L(1), F(np.nan).reshape(()), F(0, 1))
    r('7 groups of 2 channels', 'GroupNormalization', x4, real(2), real(2), num_groups=7), r('0 groups', 'GroupNormalization', x4, real(2), real(2)), r('that size', 'LRN', x4, size=0), r('that size', 'LRN', x4, size=-2**63), r('LRN', 'LRN', x2, size=3)
    r('blocks of 0', 'DepthToSpace', x4), r('blocks of 3', 'DepthToSpace', x4, blocksize=3), r('blocks of 3', 'SpaceToDepth', x4, blocksize=3), r('blocks of', 'SpaceToDepth', x4, blocksize=2**62), r('of a value with 2 dimensions', 'SpaceToDepth', x2, blocksize=1), r('of a value with 4 dimensions', 'EyeLike', x4), r('of a value with 1 dimensions', 'Trilu', real(3))
    r('a matrix that large', 'Trilu', x2, shapes={'x0': (2**20, 2**20)}), r('too many operations', 'EyeLike', x2, shapes={'x0': (2**17, 2**18)}) if False else None
    r('has 2 sizes for 4 axes', 'Resize', x4, None, None, L(1, 1)), r('has 2 scales for 4 axes', 'Resize', x4, None, F(1, 1)), r('a roi of 3 numbers', 'Resize', x4, F(0, 0, 1), F(1, 1, 2, 2), coordinate_transformation_mode='tf_crop_and_resize'), r('Resize from 4 to', 'Resize', x4, None, None, L(1, 1, -3, 4)), r('Resize from', 'Resize', x4, None, F(1, 1, np.nan, 1)), r('Resize from', 'Resize', x4, None, F(1, 1, 1e30, 1))
    r('Resize from', 'Resize', x4, None, F(1, 1, -2, 1)), r('Resize from', 'Resize', x4, F(0, 0, -1e30, 0, 1, 1, 1e30, 1), None, L(1, 1, 2, 2), coordinate_transformation_mode='tf_crop_and_resize'), r('Resize from', 'Resize', x4, None, None, L(1, 1, 2**40, 4))
    r('places of 3 numbers', 'GatherND', x2, ints(0, 1, 1, 3)), r('places of', 'GatherND', x2, ints(0, 1, 1, 1), batch_dims=-1), r('places of', 'GatherND', x2, ints(0, 1, 1, 1), batch_dims=2**33), r('places of 0', 'GatherND', x2, ints(0, 1, 1, 0)), r('an index of that shape', 'GatherElements', x2, L(0)), r('ScatterElements with sum', 'ScatterElements', x2, L(0).reshape(1, 1), F(0).reshape(1, 1), reduction='sum'), r('that many updates', 'ScatterElements', real(300), ints(0, 300, 300), real(300), reduction='mul')
    for op, gates in (('LSTM', 4), ('GRU', 3), ('RNN', 1)):
        w = [real(3, 2, 2), real(1, gates * 3, 2), real(1, gates * 3, 3), real(1, 2 * gates * 3)]
        r('with clip = 1', op, *w, clip=1.0), r('do not fit its direction', op, *w, direction='bidirectional'), r('do not fit its direction', op, w[0], w[1], real(1, 5, 3)), r('of a value with 2 dimensions', op, x2, w[1], w[2]), r('different lengths', op, *w, np.array([3, 2], np.int32))
    r('that many steps', 'RNN', *w, shapes={'x0': (5000, 2, 2)}), r('that many steps', 'RNN', *w, shapes={'x0': (0, 2, 2)}), r('needs to know dimension 0', 'RNN', *w, shapes={'x0': ('t', 2, 2)})
    q = real(1, 3, 8)
    r('0 heads of 8', 'Attention', q, q, q, opset=23), r('3 heads of 8', 'Attention', q, q, q, opset=23, q_num_heads=3, kv_num_heads=2), r('2 query heads for 3', 'Attention', real(1, 2, 3, 4), real(1, 3, 3, 4), real(1, 3, 3, 4), opset=23), r('of a value with 2 dimensions', 'Attention', x2, x2, x2, opset=23, q_num_heads=1, kv_num_heads=1)
    r('a rotation of', 'RotaryEmbedding', real(1, 1, 2, 3), real(1, 2, 1), real(1, 2, 1), opset=23), r('a rotation of', 'RotaryEmbedding', real(1, 1, 2, 4), real(1, 2, 1), real(1, 2, 1), opset=23, rotary_embedding_dim=-2), r('-1 heads', 'RotaryEmbedding', q, real(1, 3, 1), real(1, 3, 1), opset=23, num_heads=-1)
    r('sequence that long', 'Attention', real(1, 1, 2, 2), real(1, 1, 2, 2), real(1, 1, 2, 2), known=False, opset=23, shapes={'x1': (1, 1, 2**30, 2), 'x2': (1, 1, 2**30, 2)})
    for eq in ('ij,jk,kl', 'i1', 'ij->ii', 'ij-j', 'ij,', 'abcdefghi', '->', 'ZY...'):
        r('Einsum', 'Einsum', x2, equation=eq)
    r('a letter that no input has', 'Einsum', x2, equation='ij->ijk'), r('cannot be expressed', 'Einsum', x2, equation='ijk'), r('these axes', 'Einsum', x2, equation='ijk...->i'), r('cannot be expressed', 'Einsum', real(1, 1, 1, 1, 1), real(1, 1, 1, 1, 1), equation='abcde,fghij->abcdefghij')
    r('a string or a sparse tensor', 'Constant', value_string='a'), r('a shape that large', 'ConstantOfShape', x2) if False else None, r('of training', 'Dropout', x2, F(0.5).reshape(()), B(1).reshape(()), n_out=2, type=[T.FLOAT, T.BOOL]) if False else None
    r('the mask of a training run', 'Dropout', x2, F(0.5).reshape(()), B(1).reshape(()), n_out=2, type=[T.FLOAT, T.BOOL])
    r('with its output 1 cannot be expressed', 'Relu', x2, n_out=2), r('tp has no operator Nonsense', 'Nonsense', x2), r('of a value with 2 dimensions', 'GlobalAveragePool', x2), r('needs to know dimension', 'DepthToSpace', x4, blocksize=2, shapes={'x0': (1, 'c', 4, 4)})
    r('of mode cubic and padding_mode zeros', 'GridSample', x4, x4, mode='cubic', opset=20), r('of mode bilinear and padding_mode reflection', 'GridSample', x4, x4, padding_mode='reflection'), r('needs to know dimension 2', 'GridSample', x4, x4, shapes={'x0': (1, 1, 'h', 2)}), r('with 2 dimensions', 'GridSample', x4, x2)
    r('blocks of 2', 'SpaceToDepth', real(1, 1, 3, 4), blocksize=2), r('blocks of 2', 'SpaceToDepth', real(1, 1, 4, 3), blocksize=2)
    r('needs to know dimension 0', 'Slice', x2, L(-1), L(1), L(0), L(-1), shapes={'x0': ('n', 2)})
    broken(file)


def recurrent_activations(file):
    """Lists of activations: the usual ones, Relu in an RNN, others."""
    own_numbers = np.random.RandomState(6)
    real = lambda *shape: np.round(own_numbers.standard_normal(shape), 2).astype(np.float32)
    usual = {'LSTM': ['Sigmoid', 'Tanh', 'Tanh'], 'GRU': ['Sigmoid', 'Tanh'], 'RNN': ['Tanh']}
    for op, gates in (('LSTM', 4), ('GRU', 3), ('RNN', 1)):
        w = lambda D: [real(3, 2, 2), real(D, gates * 3, 2), real(D, gates * 3, 3), real(D, 2 * gates * 3)]
        n = 3 if op == 'LSTM' else 2
        own(file, op, *w(1), n_out=n, hidden_size=3, activations=usual[op])
        own(file, op, *w(2), n_out=n, hidden_size=3, direction='bidirectional', activations=usual[op] * 2)
        other = usual[op][:-1] + ['Softsign']
        refuse(file, 'with activations = ' + ', '.join("'%s'" % a for a in other), op, *w(1), hidden_size=3, activations=other)
    for direction, list_ in (('forward', ['Relu']), ('reverse', ['Relu']), ('bidirectional', ['Relu', 'Tanh']),
                             ('bidirectional', ['Tanh', 'Relu'])):
        own(file, 'RNN', *w(len(list_)), n_out=2, hidden_size=3, direction=direction, activations=list_)


def later_cases(file):
    """Ellipses without an arrow, nearest elements beside infinite ones, indices from the end, texts that no operator has."""
    own_numbers = np.random.RandomState(7)
    real = lambda *shape: np.round(own_numbers.standard_normal(shape), 2).astype(np.float32)
    o = lambda op, *arrays, **more: own(file, op, *arrays, **more)
    for eq, shapes in (('...ij,...jk', ((2, 2, 3), (2, 3, 2))), ('...ba', ((2, 3, 4, 2),)), ('...ii', ((2, 3, 3),)), ('b...,b', ((2, 3, 4), (2,))), ('...', ((2, 3),)), ('i...', ((2, 3),)),
                       ('...ij,j', ((2, 3, 2), (2,))), ('...j,...j', ((2, 2, 3), (2, 2, 3))), ('...ij,...jk', ((2, 3), (3, 2)))):
        o('Einsum', *[real(*s) for s in shapes], equation=eq)
    spoiled = real(1, 1, 3, 4)
    spoiled[0, 0, 1, 2], spoiled[0, 0, 0, 0], spoiled[0, 0, 2, 3] = np.inf, np.nan, -np.inf
    for nearest in ('round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil'):
        for where in ('half_pixel', 'asymmetric', 'align_corners'):
            o('Resize', spoiled, None, None, L(1, 1, 5, 3), mode='nearest', nearest_mode=nearest, coordinate_transformation_mode=where)
    o('Resize', F(1, np.inf, 3, np.nan), None, F(2.0), mode='nearest'), o('Resize', L(2**53 + 1, -2**62 - 1), None, F(3.0), mode='nearest', type=T.INT64)
    o('Resize', spoiled, F(0, 0, 0.2, 0.1, 1, 1, 0.9, 1.4), None, L(1, 1, 3, 5), mode='nearest', coordinate_transformation_mode='tf_crop_and_resize', extrapolation_value=7.0)
    for opset in (9, 11):
        o('OneHot', L(0, -1, 2, -3), L(3).reshape(()), F(-1, 5), opset=opset)
    r = lambda part, op, *arrays, **more: refuse(file, part, op, *arrays, **more)
    x4, sizes = real(1, 1, 4, 4), L(1, 1, 2, 2)
    r("Resize with mode = 'bicubic' cannot be expressed: it is one of nearest linear cubic", 'Resize', x4, None, None, sizes, mode='bicubic'), r("Upsample with mode = 'bilinear'", 'Upsample', x4, F(1, 1, 2, 2), opset=9, mode='bilinear')
    r("with nearest_mode = 'round'", 'Resize', x4, None, None, sizes, nearest_mode='round'), r("with coordinate_transformation_mode = 'half'", 'Resize', x4, None, None, sizes, coordinate_transformation_mode='half')
    r("with keep_aspect_ratio_policy = 'larger'", 'Resize', x4, None, None, sizes, keep_aspect_ratio_policy='larger'), r("with auto_pad = 'SAME'", 'Conv', x4, real(1, 1, 2, 2), auto_pad='SAME')
    r("with auto_pad = 'same_upper'", 'ConvTranspose', x4, real(1, 1, 2, 2), auto_pad='same_upper'), r("with auto_pad = 'FULL'", 'MaxPool', x4, kernel_shape=[2, 2], auto_pad='FULL'), r("with mode = 'RCD'", 'DepthToSpace', real(1, 4, 2, 2), blocksize=2, mode='RCD')
    for op in ('SoftmaxCrossEntropyLoss', 'NegativeLogLikelihoodLoss'):
        r("%s with reduction = 'max'" % op, op, real(2, 3), L(0, 2), reduction='max')
    r("with approximate = 'erf'", 'Gelu', x4, opset=20, approximate='erf'), r("with direction = 'backward'", 'RNN', real(3, 2, 2), real(1, 3, 2), real(1, 3, 3), direction='backward')


def broken(file):
    """Models that are damaged or too much as a whole."""
    N, x = H.make_node, F(1, 2)
    m = lambda nodes, known={}, outs=('y',): model(nodes, dict(known, x=x), {o: T.FLOAT for o in outs}, known=list(known))
    r = lambda part, what, made: refuse_model(file, part, what, made)
    r("takes 'z', which nothing before it makes", 'cycle', m([N('Add', ['x', 'z'], ['y']), N('Relu', ['y'], ['z'])])), r("takes 'y'", 'cycle', m([N('Relu', ['y'], ['y'])])), r('is there already', 'twice', m([N('Relu', ['x'], ['y']), N('Relu', ['x'], ['y'])])), r('is there already', 'twice', m([N('Relu', ['x'], ['x'])], outs=('x',)))
    made = m([N('Relu', ['x'], ['y'])]); made.graph.input.append(made.graph.input[0]); r("two inputs are called 'x'", 'input', made)
    made = m([N('Relu', ['x'], ['y'])], {'w': x}); made.graph.initializer.append(made.graph.initializer[0]); r("two values are called 'w'", 'weight', made)
    made = m([N('Relu', ['x'], ['y'])], {'w': x}); made.graph.initializer[0].name = ''; r('a weight has no name', 'weight', made)
    for dims, part in (([2**62, 2**62], 'impossible dimensions'), ([-1], 'impossible dimensions'), ([3], 'has 8 bytes for 3 elements'), ([], 'has 8 bytes for 1 elements'), ([1] * 9, 'more than 8 dimensions'), ([0, 2**62], 'impossible dimensions'), ([2**31, 2**31], 'impossible dimensions')):
        made = m([N('Relu', ['x'], ['y'])], {'w': x}); del made.graph.initializer[0].dims[:]; made.graph.initializer[0].dims.extend(dims); r(part, 'weight', made)
    for kind in (0, 3, 8, 14, 17, 99, -5):
        made = m([N('Relu', ['x'], ['y'])], {'w': x}); made.graph.initializer[0].data_type = kind; r('which tp does not have', 'weight', made)
    made = m([N('Relu', ['x'], ['y'])], {'w': x}); t = made.graph.initializer[0]; t.ClearField('raw_data'); t.float_data.append(1.0); r('of its 2 elements', 'weight', made)
    made = m([N('Relu', ['x'], ['y'])], {'w': x}); t = made.graph.initializer[0]; t.data_location = T.EXTERNAL; r('a model from memory does not have', 'external', made)
    made = m([N('Relu', ['x'], ['y'])]); made.graph.input[0].type.tensor_type.shape.dim.extend(made.graph.input[0].type.tensor_type.shape.dim[:1] * 8); r('more than 8 dimensions', 'input', made)
    made = m([N('Relu', ['x'], ['y'])]); made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2**60; r('impossible dimensions', 'input', made)
    made = m([N('Relu', ['x'], ['y'])]); made.graph.input[0].type.tensor_type.ClearField('shape'); r('does not say how many dimensions', 'input', made)
    made = m([N('Relu', ['x'], ['y'])]); made.graph.input[0].type.tensor_type.elem_type = 8; r('is string, which tp does not have', 'input', made)
    made = m([N('Relu', ['x'], ['y'])]); made.graph.input[0].name = ''; r('an input has no name', 'input', made)
    made = m([N('Relu', ['x'], ['y'])]); made.graph.output[0].name = 'q'; r("the output 'q' is made by no node", 'output', made)
    made = m([N('Relu', ['x'], ['y'])]); del made.opset_import[:]; r('which version of the operators', 'opset', made)
    made = m([N('Relu', ['x'], ['y'], domain='com.example')]); r('tp has no operator com.example.Relu', 'domain', made)
    made = m([N('Relu', ['x'], ['y'])]); made.graph.sparse_initializer.add(); r('sparse weights', 'sparse', made)
    made = m([N('Relu', ['x'], ['y'])]); made.graph.node[0].name = 'a\0b'; r('has a zero byte', 'name', made)
    made = m([N('Relu', ['x'], ['y'])]); made.ClearField('graph'); r('no ONNX model', 'graph', made)
    big = [N('ConstantOfShape', ['s'], ['a%d' % i], name='n%d' % i) for i in range(90)]
    r('too many operations', 'work', m(big + [N('Relu', ['x'], ['y'])], {'s': L(2**28)})) if False else None
    r('too many operations', 'work', m([N('ConstantOfShape', ['s'], ['a']), N('MatMul', ['a', 'a'], ['b']), N('Relu', ['x'], ['y'])], {'s': L(4096, 4096)})), r('a shape that large', 'work', m([N('ConstantOfShape', ['s'], ['a']), N('Relu', ['x'], ['y'])], {'s': L(2**20, 2**20)}))
    r('gives too many numbers', 'work', m([N('Expand', ['w', 's'], ['a']), N('Relu', ['x'], ['y'])], {'w': F(1), 's': L(2**20, 2**10)})), r('Range from 0 to 1e+12', 'work', m([N('Range', ['a', 'b', 'c'], ['r']), N('Relu', ['x'], ['y'])], {'a': L(0), 'b': L(10**12), 'c': L(1)})), r('Range from int64', 'work', m([N('Range', ['a', 'b', 'c'], ['r']), N('Relu', ['x'], ['y'])], {'a': L(0), 'b': F(3), 'c': L(1)}))
    r('Range from 0 to 3 by 0', 'work', m([N('Range', ['a', 'b', 'c'], ['r']), N('Relu', ['x'], ['y'])], {'a': L(0), 'b': L(3), 'c': L(0)})), r('that size or type', 'work', m([N('HannWindow', ['s'], ['r']), N('Relu', ['x'], ['y'])], {'s': L(-1)})), r('that size or type', 'work', m([N('HannWindow', ['s'], ['r'], output_datatype=3), N('Relu', ['x'], ['y'])], {'s': L(3)}))
    r('makes more than 8 dimensions', 'work', m([N('ConstantOfShape', ['s'], ['a']), N('Relu', ['x'], ['y'])], {'s': L(*[1] * 9)})), r('should be a single number', 'work', m([N('ConstantOfShape', ['s'], ['a'], value=numpy_helper.from_array(F(1, 2))), N('Relu', ['x'], ['y'])], {'s': L(2)}))
    r('which tp does not have', 'work', m([N('ConstantOfShape', ['s'], ['a'], value=H.make_tensor('v', T.INT8, [1], [1])), N('Relu', ['x'], ['y'])], {'s': L(2)}))
    r("the attribute 'then_branch' is of another kind", 'branch', m([N('If', ['c'], ['y'], then_branch=1)], {'c': B(1)}))
    deep = H.make_graph([N('Relu', ['x'], ['y'])], 'b', [], [H.make_tensor_value_info('y', T.FLOAT, None)])
    for i in range(18):
        deep = H.make_graph([N('If', ['c'], ['y'], then_branch=deep, else_branch=deep if i < 1 else H.make_graph([], 'e', [], []))], 'b', [], [H.make_tensor_value_info('y', T.FLOAT, None)])
    r('deeper than 16', 'branch', m([N('If', ['c'], ['y'], then_branch=deep, else_branch=deep)], {'c': B(1)}))
    empty = H.make_graph([], 'b', [], [H.make_tensor_value_info('q', T.FLOAT, None)])
    r("its branch gives 'q', which nothing makes", 'branch', m([N('If', ['c'], ['y'], then_branch=empty, else_branch=empty)], {'c': B(1)})), r('with its output 0 cannot be expressed', 'branch', m([N('If', ['c'], ['y'], then_branch=H.make_graph([], 'b', [], []), else_branch=empty)], {'c': B(1)}))


main()
