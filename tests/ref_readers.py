#!/usr/bin/env python3
"""Files as other programs write them, and what those programs read from them, for tests/test_readers.c.

    python3 tests/ref_readers.py            writes tests/ref_readers.h; needs numpy, Pillow, protobuf and tensorboard

Images are written and decoded by Pillow, TFRecord frames by TensorBoard, tf.train.Example by protobuf from its schema, npz by
numpy, csv and pickle by Python. The rules for ids of characters and words are those of tensorpack's char-rnn and of the Penn
Treebank reader, written down here once more in Python."""
import collections
import csv
import io
import os
import pickle
import struct

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from PIL import Image, ImageOps
from tensorboard.summary.writer.record_writer import RecordWriter

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ref_readers.h")
lines = ["/* Written by tests/ref_readers.py. */", "/* clang-format off */"]


def put(name, data, kind="unsigned char"):
    items = ["%d" % x for x in data]
    rows = [", ".join(items[i:i + 24]) for i in range(0, len(items), 24)]
    lines.append("static const %s %s[%d] = {\n    %s};" % (kind, name, len(items), ",\n    ".join(rows)))


def schema():
    f = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")
    F = descriptor_pb2.FieldDescriptorProto

    def message(name, *fields):
        m = f.message_type.add(name=name)
        for number, (field, label, kind, type_name) in enumerate(fields, 1):
            m.field.add(name=field, number=number, label=label, type=kind, type_name=type_name)
        return m
    many, one = F.LABEL_REPEATED, F.LABEL_OPTIONAL
    message("BytesList", ("value", many, F.TYPE_BYTES, None))
    message("FloatList", ("value", many, F.TYPE_FLOAT, None))
    message("Int64List", ("value", many, F.TYPE_INT64, None))
    m = message("Feature", ("bytes_list", one, F.TYPE_MESSAGE, ".t.BytesList"), ("float_list", one, F.TYPE_MESSAGE, ".t.FloatList"),
                ("int64_list", one, F.TYPE_MESSAGE, ".t.Int64List"))
    m.oneof_decl.add(name="kind")
    for field in m.field:
        field.oneof_index = 0
    m = message("Features", ("feature", many, F.TYPE_MESSAGE, ".t.Features.FeatureEntry"))
    e = m.nested_type.add(name="FeatureEntry")
    e.options.map_entry = True
    e.field.add(name="key", number=1, label=one, type=F.TYPE_STRING)
    e.field.add(name="value", number=2, label=one, type=F.TYPE_MESSAGE, type_name=".t.Feature")
    message("Example", ("features", one, F.TYPE_MESSAGE, ".t.Features"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(f)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Example"))


def examples():
    Example = schema()
    records = []
    for i in range(3):
        e = Example()
        e.features.feature["image"].bytes_list.value.append(bytes(range(10 * i, 10 * i + 6)))
        e.features.feature["label"].int64_list.value.append(i - 1)
        e.features.feature["ids"].int64_list.value.extend([-1, 2 ** 40, 300][:i])
        e.features.feature["weights"].float_list.value.extend([0.5, -1.25 * i, 1e-3])
        records.append(e.SerializeToString(deterministic=True))
    for i, r in enumerate(records):
        put("ref_example%d" % i, r)
    f = io.BytesIO()
    w = RecordWriter(f)
    for r in records + [b""]:
        w.write(r)
    put("ref_tfrecord", f.getvalue())


def picture(h, w, channels):
    y, x = np.mgrid[0:h, 0:w].astype(float)
    planes = [127 + 120 * np.sin(x / 5 + c) * np.cos(y / 7 - c) for c in range(channels)]
    return np.stack(planes, 2).round().astype(np.uint8)


def images():
    rgb, names = picture(17, 23, 3), []
    kinds = [("jpeg444", "JPEG", "RGB", dict(quality=90, subsampling=0)), ("jpeg420", "JPEG", "RGB", dict(quality=90, subsampling=2)),
             ("jpeg_progressive", "JPEG", "RGB", dict(quality=85, progressive=True, subsampling=0)),
             ("jpeg_grey", "JPEG", "L", dict(quality=90)), ("png_rgb", "PNG", "RGB", {}), ("png_grey", "PNG", "L", {}),
             ("png_palette", "PNG", "P", {}), ("png_rgba", "PNG", "RGBA", {}), ("bmp", "BMP", "RGB", {}), ("bmp_grey", "BMP", "L", {}),
             ("gif", "GIF", "P", {})]
    for name, form, mode, options in kinds:
        im = Image.fromarray(rgb)
        im = im.quantize(16) if mode == "P" else im.convert(mode)
        f = io.BytesIO()
        im.save(f, form, **options)
        data = f.getvalue()
        put("ref_%s" % name, data)
        read = Image.open(io.BytesIO(data))
        if name != "gif":
            put("ref_%s_rgb" % name, np.asarray(read.convert("RGB")).ravel())
        if mode == "L":
            put("ref_%s_l" % name, np.asarray(read).ravel())
        names.append(name)
    # palettes: one with less entries than four bits name, and one of OS/2, whose header is shorter
    f = io.BytesIO()
    im = Image.fromarray(rgb).quantize(12)
    im.save(f, "PNG")
    assert b"PLTE" in f.getvalue() and f.getvalue()[f.getvalue().index(b"PLTE") - 1] == 36
    put("ref_png_palette12", f.getvalue())
    put("ref_png_palette12_rgb", np.asarray(Image.open(f).convert("RGB")).ravel())
    h, w, index = 17, 23, (picture(17, 23, 1)[:, :, 0] // 2 + 128)  # uses the upper half of the palette
    index[0, :4] = [252, 253, 254, 255]
    colours = np.stack([np.arange(256), np.arange(256)[::-1], np.arange(256) * 7 % 256], 1).astype(np.uint8)
    rows = b"".join(bytes(r) + b"\0" * (-w % 4) for r in index[::-1].astype(np.uint8))
    head = struct.pack("<2sIHHIIHHHH", b"BM", 26 + 768 + len(rows), 0, 0, 26 + 768, 12, w, h, 1, 8)
    data = head + colours.tobytes() + rows
    put("ref_bmp_os2", data)
    put("ref_bmp_os2_rgb", np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).ravel())
    f = io.BytesIO()  # a bomb: 100 megapixels of one colour, in 100 kilobytes; only its beginning is kept
    Image.new("L", (10000, 10000)).save(f, "PNG")
    put("ref_bomb_head", f.getvalue()[:64])


def orientations():
    """One picture with each orientation of EXIF, 1 to 8, and what Pillow makes of it: turned upright."""
    files, upright = [], []
    for orientation in range(1, 9):
        f, note = io.BytesIO(), Image.Exif()
        note[0x0112] = orientation
        Image.fromarray(picture(3, 5, 3)).save(f, "PNG", exif=note)
        files.append(f.getvalue())
        upright.append(np.asarray(ImageOps.exif_transpose(Image.open(f))))
    assert len(set(len(f) for f in files)) == 1 and upright[5].shape == (5, 3, 3)
    put("ref_orientations", b"".join(files))
    put("ref_upright", np.concatenate([u.ravel() for u in upright]))


def arrays():
    f = io.BytesIO()
    X = (np.arange(5 * 2 * 3) * 7 % 256).astype(np.uint8).reshape(5, 2, 3)
    np.savez(f, X=X, y=np.array([3, 1, 4, 1, 5]), other=np.zeros(2, np.float32))
    put("ref_npz", f.getvalue())


def table():
    f = io.StringIO()
    w = csv.writer(f)  # CRLF
    w.writerow(["name", "age", "weight", "big"])
    w.writerow(["plain", 1, 0.1, -9223372036854775808])
    w.writerow(['a "quoted", field', -2147483648, 1e-300, 9223372036854775807])
    w.writerow(["two\nlines", 2147483647, "  2.5 ", 0])
    w.writerow(["", 7, "nan", 1])
    put("ref_csv", f.getvalue().encode())


def texts():
    text = "the cat sat on the mat\nthe dog\u00e9 \u20ac sat\n\n on a Mat the end\n"
    put("ref_text", text.encode())
    counts = collections.Counter(text)
    chars = [c for c, _ in sorted(counts.items(), key=lambda x: x[1], reverse=True)]
    index = {c: i for i, c in enumerate(chars)}
    put("ref_char_ids", [index[c] for c in text], "int")
    put("ref_char_count", [len(chars)], "int")
    words = text.replace("\n", " <eos> ").split()
    for least in (1, 2):
        counts = collections.Counter(words)
        kept = {w: c for w, c in counts.items() if c >= least}
        kept["<unk>"] = sum(c for w, c in counts.items() if c < least)
        order = [w for w, c in sorted(kept.items(), key=lambda x: (-x[1], x[0]))]
        ids = [order.index(w if w in kept else "<unk>") for w in words]
        put("ref_word_ids%d" % least, ids, "int")
        put("ref_word_count%d" % least, [len(order)], "int")
    # ptb_producer with batch_size 2 and 3 steps
    data = np.array(ids)
    rows = data[:len(data) // 2 * 2].reshape(2, -1)
    xs = [rows[:, i * 3:i * 3 + 3] for i in range((rows.shape[1] - 1) // 3)]
    ys = [rows[:, i * 3 + 1:i * 3 + 4] for i in range((rows.shape[1] - 1) // 3)]
    put("ref_ptb_x", np.concatenate([x.ravel() for x in xs]), "int")
    put("ref_ptb_y", np.concatenate([y.ravel() for y in ys]), "int")


def keys():
    made = b"\x80\x03](" + b"".join(b"C\x08%08d" % i for i in range(3)) + b"e."
    assert pickle.loads(made) == [b"%08d" % i for i in range(3)]
    put("ref_keys", made)


examples()
images()
orientations()
arrays()
table()
texts()
keys()
open(OUT, "w").write("\n".join(lines) + "\n")
