#!/usr/bin/env python3
"""The other end of a ZeroMQ connection by pyzmq and numpy, as tensorpack's own send_dataflow_zmq(format='zmq_ops') has it.

    python3 tests/zmq_pyzmq.py push <address> <file> [bind]            sends the messages of the file
    python3 tests/zmq_pyzmq.py pull <address> <file> <n> [bind]        writes n messages into the file
    python3 tests/zmq_pyzmq.py numbered <address> <who> <size> [bind]  sends [who, index, size floats made of both] until it is killed

Files as in tests/zmq_peer.py, which needs neither library. Exit 77: pyzmq or numpy is not installed."""
import struct
import sys

try:
    import numpy as np
    import zmq
except ImportError as e:
    sys.stderr.write("zmq_pyzmq.py: %s\n" % e)
    sys.exit(77)

NUMBERS = {"float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "int64": 9, "bool": 10, "uint16": 17,
           "float16": 19, "uint32": 22, "uint64": 23}  # of TensorFlow's dtypes


def dumps(components):
    parts = [struct.pack("<i", len(components))]
    for x in components:
        head = [NUMBERS[x.dtype.name], x.ndim] + list(x.shape)
        parts += [struct.pack("<%di" % len(head), *head), struct.pack("<q", x.nbytes), x.tobytes()]
    return b"".join(parts)


def open_socket(context, kind, address, bind):
    s = context.socket(kind)
    s.set_hwm(10)
    (s.bind if bind else s.connect)(address)
    return s


def numbered(s, who, size):
    index, places = 0, np.arange(size)
    while True:
        data = ((index * 7 + who * 1000 + places) % 65536).astype("float32")
        s.send(dumps([np.array(who, "int32"), np.array(index, "int64"), data]), copy=False)
        index += 1


def main():
    a = sys.argv[1:]
    bind = a[-1] == "bind"
    context = zmq.Context()
    s = open_socket(context, zmq.PULL if a[0] == "pull" else zmq.PUSH, a[1], bind)
    if a[0] == "numbered":
        numbered(s, int(a[2]), int(a[3]))
    elif a[0] == "push":
        with open(a[2], "rb") as f:
            for head in iter(lambda: f.read(8), b""):
                s.send(f.read(struct.unpack("<Q", head)[0]))
    else:
        with open(a[2], "wb") as f:
            for _ in range(int(a[3])):
                body = s.recv()
                f.write(struct.pack("<Q", len(body)) + body)
    s.close()
    context.term()  # waits until all is sent


main()
