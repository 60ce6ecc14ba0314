#!/usr/bin/env python3
"""The other end of a ZeroMQ connection, without ZeroMQ's library: ZMTP 3.0 over a socket, NULL security, PUSH or PULL.

    python3 tests/zmq_peer.py push <address> <file> [bind]       sends the messages of the file
    python3 tests/zmq_peer.py pull <address> <file> <n> [bind]   writes n messages into the file

A file is messages after each other, each after its length, 8 bytes, little-endian. Address: tcp://host:port, ipc://path,
ipc://@name. By default it connects, and tries for 20 seconds. tests/test_zmq.c holds tp against it; nothing here comes from tp.

ZMTP (rfc.zeromq.org/spec/23): 64 bytes of greeting each way; a READY command each way; then frames, whose first byte says
1: more frames of this message follow, 2: the length has 8 bytes, big-endian, instead of 1, 4: a command."""
import socket
import struct
import sys
import time

MORE, LONG, COMMAND = 1, 2, 4


def open_socket(address, bind):
    kind, _, rest = address.partition("://")
    if kind == "ipc":
        family, place = socket.AF_UNIX, "\0" + rest[1:] if rest.startswith("@") else rest
    else:
        host, _, port = rest.rpartition(":")
        family, place = socket.AF_INET, ("0.0.0.0" if host == "*" else host, int(port))
    end = time.time() + 20
    while True:
        s = socket.socket(family, socket.SOCK_STREAM)
        s.settimeout(20)
        try:
            if not bind:
                s.connect(place)
                return s
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(place)
            s.listen(1)
            return s.accept()[0]
        except OSError:
            s.close()
            if bind or time.time() > end:
                raise
            time.sleep(0.02)


def read(s, n):
    parts = b""
    while len(parts) < n:
        part = s.recv(n - len(parts))
        if not part:
            sys.exit("zmq_peer.py: the other end closed the connection, %d of %d bytes came" % (len(parts), n))
        parts += part
    return parts


def send_frame(s, flags, body):
    if len(body) <= 255:
        s.sendall(bytes([flags, len(body)]) + body)
    else:
        s.sendall(bytes([flags | LONG]) + struct.pack(">Q", len(body)) + body)


def read_frame(s):
    flags = read(s, 1)[0]
    if flags & ~(MORE | LONG | COMMAND):
        sys.exit("zmq_peer.py: reserved flags 0x%02x" % flags)
    n = struct.unpack(">Q", read(s, 8))[0] if flags & LONG else read(s, 1)[0]
    if flags & LONG and n <= 255:
        sys.exit("zmq_peer.py: a long frame of %d bytes" % n)
    return flags, read(s, n)


def ready(kind):
    def item(name, value):
        return bytes([len(name)]) + name + struct.pack(">I", len(value)) + value
    return b"\x05READY" + item(b"Socket-Type", kind)


def shake_hands(s, kind):
    s.sendall(b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31))
    greeting = read(s, 64)
    if greeting[0] != 0xff or greeting[9] != 0x7f or greeting[10] != 3 or greeting[12:32].rstrip(b"\0") != b"NULL":
        sys.exit("zmq_peer.py: another greeting: %s" % greeting.hex())
    send_frame(s, COMMAND, ready(kind))
    flags, body = read_frame(s)
    wanted = {b"PUSH": b"PULL", b"PULL": b"PUSH"}[kind]
    if flags != COMMAND or not body.startswith(b"\x05READY") or b"\x0bSocket-Type\0\0\0\4" + wanted not in body:
        sys.exit("zmq_peer.py: no READY of a %s socket: %r" % (wanted.decode(), body))


def push(address, file, bind):
    s = open_socket(address, bind)
    shake_hands(s, b"PUSH")
    with open(file, "rb") as f:
        while True:
            head = f.read(8)
            if not head:
                break
            send_frame(s, 0, f.read(struct.unpack("<Q", head)[0]))
    s.shutdown(socket.SHUT_WR)
    try:  # the other end has read all when it hangs up
        while s.recv(4096):
            pass
    except OSError:
        pass


def pull(address, file, n, bind):
    s = open_socket(address, bind)
    shake_hands(s, b"PULL")
    with open(file, "wb") as f:
        while n > 0:
            flags, body = read_frame(s)
            if flags & COMMAND:
                continue
            if flags & MORE:
                sys.exit("zmq_peer.py: a message of several frames")
            f.write(struct.pack("<Q", len(body)) + body)
            n -= 1


def main():
    a = sys.argv[1:]
    bind = a[-1] == "bind"
    if a[0] == "push":
        push(a[1], a[2], bind)
    else:
        pull(a[1], a[2], int(a[3]), bind)


main()
