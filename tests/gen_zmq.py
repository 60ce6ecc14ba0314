#!/usr/bin/env python3
"""Writes tests/zmq_vectors.h: messages of tensorpack's zmq_ops and what is in them, by Python's struct and numpy alone.

    python3 tests/gen_zmq.py

A message is int32 n, then n times {int32 dtype, int32 ndim, int32 dim[ndim], int64 nbytes, data}, little-endian, nothing
aligned; dtypes are numbered as in TensorFlow. What tp makes of a component is numpy's astype of it."""
import os
import struct

import numpy as np

# numpy's dtype: its number in the format, the dtype that tp reads it as
TYPES = {
    "float32": (1, "float32"), "float64": (2, "float64"), "int32": (3, "int32"), "uint8": (4, "uint8"),
    "int16": (5, "int32"), "int8": (6, "int32"), "complex64": (8, None), "int64": (9, "int64"), "bool": (10, "bool"),
    "uint16": (17, "int32"), "complex128": (18, None), "float16": (19, "float16"), "uint32": (22, "int64"),
    "uint64": (23, "int64"),
}
NAMES = {"float32": "TP_F32", "float64": "TP_F64", "float16": "TP_F16", "bfloat16": "TP_BF16", "int32": "TP_I32",
         "int64": "TP_I64", "uint8": "TP_U8", "bool": "TP_BOOL"}


def component(code, shape, data):
    return struct.pack("<ii", code, len(shape)) + struct.pack("<%di" % len(shape), *shape) + struct.pack("<q", len(data)) + data


def message(*parts):
    return struct.pack("<i", len(parts)) + b"".join(parts)


class BFloat16:
    """numpy has none: the upper halves of float32."""

    def __init__(self, x):
        self.shape = x.shape
        self.bytes = (x.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()


class OddBool:
    """Not from numpy: bytes that are neither 0 nor 1."""
    shape = (4,)


def wire(x):
    if isinstance(x, OddBool):
        return component(10, x.shape, b"\0\1\2\xff")
    if isinstance(x, BFloat16):
        return component(14, x.shape, x.bytes)
    little = x.astype(x.dtype.newbyteorder("<"))
    return component(TYPES[x.dtype.name][0], x.shape, little.tobytes())


def read(x):
    """dtype, shape and bytes that tp holds, on a little-endian machine."""
    if isinstance(x, OddBool):
        return NAMES["bool"], x.shape, b"\0\1\1\1"
    if isinstance(x, BFloat16):
        return NAMES["bfloat16"], x.shape, x.bytes
    name = TYPES[x.dtype.name][1]
    return NAMES[name], x.shape, x.astype(name).tobytes()


f4 = np.float32
rng = np.random.RandomState(7)
ends = {name: np.array([np.iinfo(name).min, -1 if name[0] == "i" else 1, 0, 1, np.iinfo(name).max // 3, np.iinfo(name).max], name)
        for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")}
floats = [0.0, -0.0, 1.0, -1.5, 1 / 3, 6e-8, 65504.0, np.inf, -np.inf, np.nan]
GOOD = [
    ("float32 and uint8", [np.array([[1, 2], [3, 4]], f4), np.array([7, 8, 9], "u1")]),
    ("a Python int", [np.asarray(5).astype("int32")]),
    ("a Python float", [np.asarray(0.1).astype("float32")]),
    ("no element", [np.zeros((2, 0), f4)]),
    ("no component", []),
    ("float16", [np.array(floats, "float16")]),
    ("float32", [np.array(floats, "float32")]),
    ("float64", [np.array(floats + [5e-324, 1.7e308], "float64")]),
    ("bfloat16", [BFloat16(np.array(floats[:6] + [np.inf, 3e38], "float32"))]),
    ("bool", [np.array([[True, False, True]])]),
    ("int8", [ends["int8"]]),
    ("int16", [ends["int16"]]),
    ("int32", [ends["int32"]]),
    ("int64", [ends["int64"]]),
    ("uint8", [ends["uint8"]]),
    ("uint16", [ends["uint16"]]),
    ("uint32", [ends["uint32"]]),
    ("uint64", [np.array([0, 1, 2 ** 63 - 1], "uint64")]),
    ("scalars of several types", [np.array(v, t) for v, t in
                                  ((200, "u1"), (-3, "i8"), (2.5, "f8"), (True, "?"), (-7, "i1"), (0.25, "f2"), (4e9, "u4"))]),
    ("8 dimensions", [np.arange(24, dtype="i4").reshape(1, 2, 1, 3, 1, 4, 1, 1)]),
    ("odd places", [np.array([1, 2, 3], "u1"), np.array([1.5, -2.5]), np.array([9], "u1"), np.array([2 ** 40], "i8"),
                    np.array([], "f8"), np.array([True])]),
    ("transposed", [np.ascontiguousarray(np.arange(6, dtype="f4").reshape(2, 3).T)]),
    ("a batch", [rng.randint(0, 256, (2, 5, 4, 3)).astype("u1"), np.array([3, 1], "i4")]),
    ("255 bytes", [np.arange(231).astype("u1")]),     # the longest that ZMTP sends as a short frame
    ("256 bytes", [np.arange(232).astype("u1")]),
    ("1000 bytes", [rng.rand(244).astype(f4)]),
    ("a bool that is 2", [OddBool()]),
]

one = wire(np.array([1], "u1"))
small = wire(np.array([[1, 2], [3, 4]], f4))


def changed(at, fmt, value, of=None):
    whole = bytearray(message(small) if of is None else of)
    struct.pack_into(fmt, whole, at, value)
    return bytes(whole)


BAD = [  # name, message, part of the sentence
    ("empty", b"", "is truncated"),
    ("3 bytes", b"\1\0\0", "is truncated"),
    ("two components said, one there", struct.pack("<i", 2) + small, "is truncated: it ends before its component 1"),
    ("a head only", struct.pack("<i", 1), "too few"),
    ("-1 components", struct.pack("<i", -1) + small, "4294967295 components"),
    ("2^31-1 components", struct.pack("<i", 2 ** 31 - 1) + small, "2147483647 components"),
    ("bytes behind", message(small) + b"\0", "1 bytes follow after its 1 components"),
    ("a component behind", struct.pack("<i", 1) + one + one, "bytes follow"),
    ("dtype 0", changed(4, "<i", 0), "dtype 0"),
    ("dtype 99", changed(4, "<i", 99), "dtype 99"),
    ("dtype -1", changed(4, "<i", -1), "dtype 4294967295"),
    ("string", changed(4, "<i", 7), "is string"),
    ("complex64", message(wire(np.array([1 + 2j], "complex64"))), "is complex64"),
    ("complex128", message(wire(np.array([1 + 2j], "complex128"))), "is complex128"),
    ("9 dimensions", message(component(4, (1,) * 9, b"\1")), "says 9 dimensions"),
    ("-1 dimensions", changed(8, "<i", -1), "4294967295 dimensions"),
    ("2^31-1 dimensions", changed(8, "<i", 2 ** 31 - 1), "2147483647 dimensions"),
    ("a negative dimension", changed(12, "<i", -2), "negative"),
    ("two negative dimensions", message(component(1, (-2, -2), b"\0" * 16)), "negative"),
    ("a dimension too large", changed(12, "<i", 3), "says 16 bytes, its shape (3,2) of 4-byte elements has 24"),
    ("a dimension too small", changed(12, "<i", 1), "says 16 bytes"),
    ("another dtype", changed(4, "<i", 2), "says 16 bytes"),
    ("bytes too many", changed(20, "<q", 17), "says 17 bytes"),
    ("bytes negative", changed(20, "<q", -1), "18446744073709551615 bytes"),
    ("bytes 2^63-1", changed(20, "<q", 2 ** 63 - 1), "says 9223372036854775807 bytes"),
    ("more than there", message(component(4, (100,), b"")[:-8] + struct.pack("<q", 100) + b"12345"), "has 100 bytes, 5 are there"),
    ("a huge shape without data", message(component(1, (2 ** 31 - 1,) * 8, b"")), "larger than memory"),
    ("a huge shape with a zero", message(component(1, (0,) + (2 ** 31 - 1,) * 7, b"")), "larger than memory"),
    ("a product that wraps round to 0", message(component(1, (2 ** 16,) * 4, b"")), "larger than memory"),
    ("a product that wraps round", message(component(4, (2 ** 30, 2 ** 30, 16), b"")), "larger than memory"),
    ("uint64 too large", message(wire(np.array([1, 2 ** 63], "uint64"))), "uint64 that int64 does not hold"),
]


def array(name, data):
    rows = ["    " + " ".join("%d," % b for b in data[i:i + 28]) for i in range(0, len(data), 28)]
    return "static const unsigned char %s[] = {\n%s\n};\n" % (name, "\n".join(rows) if rows else "    0,")


def quoted(text):
    return '"%s"' % text


def main():
    out = ["/* zmq_vectors.h - messages of zmq_ops, what is in them, and what is wrong with others; made by gen_zmq.py */\n",
           "/* clang-format off */\n",
           "typedef struct zmq_component {\n    tp_dtype dtype;\n    int ndim;\n    int dim[8];\n"
           "    const unsigned char *data;\n    size_t size;\n} zmq_component;\n",
           "typedef struct zmq_vector {\n    const char *name;\n    const unsigned char *bytes;\n    size_t size;\n"
           "    int writes; /* tp has all its dtypes, and writes the same bytes */\n    int n;\n    zmq_component c[8];\n} zmq_vector;\n",
           "typedef struct zmq_refused {\n    const char *name;\n    const unsigned char *bytes;\n    size_t size;\n"
           "    const char *sentence;\n} zmq_refused;\n"]
    good, bad = [], []
    for i, (name, parts) in enumerate(GOOD):
        data = message(*[wire(x) for x in parts])
        out.append(array("zmq_m%d" % i, data))
        rows = []
        for k, x in enumerate(parts):
            dtype, shape, held = read(x)
            out.append(array("zmq_m%d_%d" % (i, k), held))
            dims = ", ".join(str(d) for d in shape) or "0"
            rows.append("{%s, %d, {%s}, zmq_m%d_%d, %d}" % (dtype, len(shape), dims, i, k, len(held)))
        writes = all(isinstance(x, BFloat16) or (not isinstance(x, OddBool) and TYPES[x.dtype.name][1] == x.dtype.name) for x in parts)
        good.append("    {%s, zmq_m%d, %d, %d, %d, {%s}},\n" % (quoted(name), i, len(data), writes, len(parts),
                                                              ",\n      ".join(rows) or "{TP_F32, 0, {0}, NULL, 0}"))
    for i, (name, data, sentence) in enumerate(BAD):
        out.append(array("zmq_b%d" % i, data))
        bad.append("    {%s, zmq_b%d, %d, %s},\n" % (quoted(name), i, len(data), quoted(sentence)))
    out.append("static const zmq_vector zmq_vectors[] = {\n%s};\n" % "".join(good))
    out.append("static const zmq_refused zmq_refusals[] = {\n%s};\n" % "".join(bad))
    out.append("/* clang-format on */\n")
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "zmq_vectors.h"), "w") as f:
        f.write("\n".join(out))


main()
