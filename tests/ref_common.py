"""Writes reference cases for test_ops.c: what an independent program says an op of the table gives.

A case is
    case <op> <n_in> <n_out>
    tol <number>                     allowed error, relative to the magnitude (default 1e-5 for float32)
    nograd <why>                     no finite differences here (a kink, a rounding)
    nograd2 <why>                    none of the second derivative
    attr <name> <value...>           numbers; a dtype's name; a shape as ndim dims...; a string to the end of the line
    in <dtype> <ndim> <dims...> <values...>
    var <dtype> ...                  a variable that the op writes, its value before
    out <dtype> ...                  or `out skip`: not compared
    newvar <dtype> ...               the variables after
in that order. Instead of values, `rand <low> <high>` are seeded random numbers; a case with n_out 0 compares the fast
kernels with the naive ones, and several threads with one.
"""
import numpy as np

NAMES = {"float32": "float32", "float64": "float64", "int32": "int32", "int64": "int64", "uint8": "uint8", "bool": "bool"}


def _value(v):
    if isinstance(v, (bool, np.bool_)):
        return "1" if v else "0"
    if isinstance(v, (int, np.integer)):
        return str(int(v))
    return "%.9g" % float(v)


def _array(kind, a):
    a = np.asarray(a)
    name = NAMES[a.dtype.name]
    flat = a.reshape(-1)
    fmt = "%.17g" if name == "float64" else "%.9g"
    values = [fmt % v for v in flat] if a.dtype.kind == "f" else [str(int(v)) for v in flat]
    return " ".join([kind, name, str(a.ndim)] + [str(d) for d in a.shape] + values)


class Writer:
    def __init__(self, path, seed):
        self.file = open(path, "w")
        self.rng = np.random.RandomState(seed)

    def normal(self, *shape, scale=1.0, dtype="float32"):
        return np.array(self.rng.standard_normal(shape) * scale, dtype)

    def uniform(self, low, high, *shape, dtype="float32"):
        return np.array(low + (high - low) * self.rng.random_sample(shape), dtype)

    def away(self, *shape, kinks=(0.0,), distance=0.05, scale=1.5):
        """Random numbers that keep clear of the kinks, so that finite differences are allowed."""
        x = self.normal(*shape, scale=scale)
        for k in kinks:
            near = np.abs(x - k) < distance
            x[near] = k + np.where(x[near] >= k, 1, -1) * 2 * distance
        return x

    def ints(self, low, high, *shape, dtype="int32"):
        return self.rng.randint(low, high, size=shape).astype(dtype)

    def bools(self, *shape):
        return self.rng.randint(0, 2, size=shape).astype(bool)

    def distinct(self, *shape):
        """No two alike: for maxima without ties."""
        n = int(np.prod(shape))
        return (self.rng.permutation(n).reshape(shape) * 0.37 - 0.11 * n).astype("float32")

    def case(self, op, ins, outs, tol=None, nograd=None, nograd2=None, var=(), newvar=(), **attrs):
        lines = ["case %s %d %d" % (op, len(ins), len(outs))]
        if tol:
            lines.append("tol %g" % tol)
        if nograd:
            lines.append("nograd " + nograd)
        if nograd2:
            lines.append("nograd2 " + nograd2)
        for name, v in attrs.items():
            if isinstance(v, str):
                lines.append("attr %s %s" % (name, v))
            else:
                v = v if isinstance(v, (list, tuple)) else [v]
                lines.append(" ".join(["attr", name] + [_value(x) for x in v]))
        lines += [_array("in", a) for a in ins]
        lines += [_array("var", a) for a in var]
        lines += ["out skip" if o is None else _array("out", o) for o in outs]
        lines += [_array("newvar", a) for a in newvar]
        self.file.write("\n".join(lines) + "\n")

    def big(self, op, ins, **attrs):
        """Fast against naive: ins are (dtype, shape, low, high)."""
        lines = ["case %s %d 0" % (op, len(ins))]
        for name, v in attrs.items():
            v = v if isinstance(v, (list, tuple)) else [v]
            lines.append(" ".join(["attr", name] + [x if isinstance(x, str) else _value(x) for x in v]))
        for dtype, shape, low, high in ins:
            lines.append(" ".join(["in", dtype, str(len(shape))] + [str(d) for d in shape] + ["rand", repr(low), repr(high)]))
        self.file.write("\n".join(lines) + "\n")

    def close(self):
        self.file.close()
