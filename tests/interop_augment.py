"""Augmentors on photographs, judged by Pillow, numpy and, where it is installed, OpenCV.

    interop_augment.py rows dir      writes dir/augment_rows.h and dir/augment_images.npz, for interop_augment.c
    interop_augment.py check dir     reads dir/augmented.npz, which that program wrote; a line for each row and judge

TP_TEST_IMAGES names a folder, or a .tar.gz, of JPEG or PNG files: those of CIFAR-10, say. A generated picture is there always, and
small parts of it where no photographs are named. Random numbers come from the definition in tp_tensor.h; see gen_augment.py,
which says the formulas and has them for small images in pure Python. Here they are written once more, over whole arrays."""
import io
import math
import os
import re
import sys
import tarfile

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

sys.dont_write_bytecode = True
import gen_augment as gen
from gen_augment import KEY, cut, f32, grey_of, jpeg, nearest, pil, pil_resize, random_key, resize, rotation, unpil

try:
    import cv2
except ImportError:
    cv2 = None


# ---- images ---------------------------------------------------------------------------------------------------------
def generated(h, w):
    """Clouds whose detail falls with the frequency, as in photographs, behind lit balls with sharp edges."""
    r = np.random.RandomState(1)
    f = np.hypot(*np.meshgrid(np.fft.fftfreq(h), np.fft.fftfreq(w), indexing="ij"))
    f[0, 0] = 1
    clouds = [np.fft.ifft2(np.fft.fft2(r.randn(h, w)) / f**1.2).real for _ in range(4)]
    clouds = [(c - c.mean()) / c.std() for c in clouds]
    x = np.stack([115 + 45 * clouds[0] + 18 * c for c in clouds[1:]], -1)
    j, i = np.meshgrid(np.arange(w), np.arange(h))
    for _ in range(14):
        cy, cx, radius = r.rand() * h, r.rand() * w, (0.04 + 0.16 * r.rand()) * h
        d = np.hypot(i - cy, j - cx) / radius
        light = np.sqrt(np.maximum(0, 1 - d * d)) * (0.7 + 0.3 * ((cx - j) + (cy - i)) / radius)
        x = np.where((d < 1)[..., None], 20 + light[..., None] * (60 + 190 * r.rand(3)), x)
    return nearest(x + 3 * r.randn(h, w, 3))


def files(path):
    """Names and bytes of at most 12 pictures, spread over all."""
    if os.path.isdir(path):
        names = sorted(os.path.join(d, f) for d, _, fs in os.walk(path) for f in fs)
        read = lambda name: open(name, "rb").read()
    else:
        tar = tarfile.open(path)
        names = sorted(m.name for m in tar if m.isfile())
        read = lambda name: tar.extractfile(name).read()
    names = [n for n in names if n.lower().endswith((".jpg", ".jpeg", ".png"))]
    return [(n, read(n)) for n in names[:: max(1, len(names) // 12)][:12]]


def images():
    photo = generated(192, 256)
    path = os.environ.get("TP_TEST_IMAGES")
    if path:
        small = [Image.open(io.BytesIO(data)).convert("RGB") for _, data in files(path)]
        if not small:
            sys.exit("TP_TEST_IMAGES: no JPEG or PNG file in " + path)
        small = [np.asarray(im if im.size == (32, 32) else ImageOps.fit(im, (32, 32))) for im in small]
        small = (small * 12)[:12]
    else:
        small = [photo[y:y + 32, x:x + 32] for y in (0, 70, 150) for x in (5, 60, 130, 220)]
    mosaic = np.concatenate([np.concatenate(small[4 * i:4 * i + 4], 1) for i in range(3)])
    enlarged = np.asarray(Image.fromarray(small[0]).resize((128, 128), Image.Resampling.LANCZOS))
    rgb = small[:6] + [mosaic, enlarged, photo]
    grey = [unpil(pil(x).convert("L")) for x in (small[6], mosaic, photo)]
    floats = [x.astype(np.float32) * np.float32(0.75) + np.float32(0.125) for x in (small[7], photo)]
    return dict([("rgb/%d" % i, x) for i, x in enumerate(rgb)] + [("grey/%d" % i, x) for i, x in enumerate(grey)]
                + [("float/%d" % i, x) for i, x in enumerate(floats)])


# ---- the formulas over whole arrays -----------------------------------------------------------------------------------
def philox(key, n):
    """Blocks 0 to n-1 of the index that is set, as (n,4) words."""
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    low = np.uint64(0xFFFFFFFF)
    at = np.arange(n, dtype=np.uint64)
    c = [at & low, at >> np.uint64(32), np.full(n, Draw.image, np.uint64), np.zeros(n, np.uint64)]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(b >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), b & low, (a >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), a & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c, -1)


class Draw(gen.Draw):
    """The numbers of the augmentor at a place, for the image that is judged now."""
    image = 0

    def __init__(self, place=0):
        super().__init__(place, Draw.image)

    def elements(self, shape):
        n = int(np.prod(shape))
        return ((philox(self.key, -(-n // 4)).ravel()[:n] >> np.uint64(8)) / 16777216.0).reshape(shape)

    def normals(self, shape):
        n = int(np.prod(shape))
        r = philox(self.key, -(-n // 2))
        a, b = (((r[:, 2 * i + 1] << np.uint64(32)) | r[:, 2 * i]) >> np.uint64(11) for i in range(2))
        radius, angle = np.sqrt(-2 * np.log((a + 1) / 2.0**53)), 2 * math.pi * b / 2.0**53
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1).ravel()[:n].reshape(shape)


MODES = {"replicate": "edge", "reflect": "symmetric", "reflect_101": "reflect", "wrap": "wrap"}


def beyond(i, n, border):
    """Indices inside the image, and where there are none."""
    if border == "constant":
        return np.clip(i, 0, n - 1), (i < 0) | (i >= n)
    reach = int(max(0, -i.min(), i.max() - n + 1)) + 1
    return np.pad(np.arange(n), reach, mode=MODES[border])[i + reach], np.zeros(i.shape, bool)


def keys_cubic(d):
    d = np.abs(d)
    return np.where(d <= 1, (1.25 * d - 2.25) * d * d + 1, np.where(d < 2, ((-0.75 * d + 3.75) * d - 6) * d + 3, 0))


def places(shape, m):
    """For each pixel of the result, where it comes from."""
    v = np.linalg.inv(m)
    y, x = np.mgrid[0:shape[0], 0:shape[1]].astype(float)
    return v[0, 0] * x + v[0, 1] * y + v[0, 2], v[1, 0] * x + v[1, 1] * y + v[1, 2]


def warp(img, m, kind="linear", border="replicate", value=0.0):
    h, w = img.shape[:2]
    sx, sy = places(img.shape, m)
    if kind == "nearest":
        taps, one = (0,), lambda d: np.ones(d.shape)
        sx, sy = np.floor(sx + 0.5), np.floor(sy + 0.5)
    elif kind == "linear":
        taps, one = (0, 1), lambda d: 1 - np.abs(d)
    else:
        taps, one = (-1, 0, 1, 2), keys_cubic
    x0, y0 = np.floor(sx).astype(int), np.floor(sy).astype(int)
    out = np.zeros(img.shape)
    for a in taps:
        for b in taps:
            (j, no_row), (i, no_column) = beyond(y0 + a, h, border), beyond(x0 + b, w, border)
            pixels = np.where((no_row | no_column)[..., None], value, img[j, i].astype(float))
            out += (one(sy - y0 - a) * one(sx - x0 - b))[..., None] * pixels
    return out


def pil_warp(img, m):
    """Linear, where all that Pillow reads lies inside; NaN elsewhere."""
    v = np.linalg.inv(m)
    a, b, c, d, e, f = v[:2].ravel()
    data = (a, b, c + 0.5 - 0.5 * (a + b), d, e, f + 0.5 - 0.5 * (d + e))
    planes = [np.asarray(Image.fromarray(img[..., k].astype(np.float32)).transform(
        img.shape[1::-1], Image.Transform.AFFINE, data, Image.Resampling.BILINEAR)) for k in range(img.shape[2])]
    sx, sy = places(img.shape, m)
    inside = (sx >= 0) & (sy >= 0) & (sx < img.shape[1] - 1) & (sy < img.shape[0] - 1)
    return np.where(inside[..., None], nearest(np.stack(planes, -1)).astype(float), np.nan)


def to_hsv(img):
    """Hue in turns, saturation, value, of an image in 0..255."""
    x = img.astype(float) / 255
    v, c = x.max(-1), x.max(-1) - x.min(-1)
    r, g, b = np.moveaxis(x, -1, 0)
    some = np.where(c > 0, c, 1)
    h = np.where(v == r, (g - b) / some % 6, np.where(v == g, 2 + (b - r) / some, 4 + (r - g) / some)) / 6
    return np.where(c > 0, h, 0), np.where(v > 0, c / np.where(v > 0, v, 1), 0), v


def from_hsv(h, s, v):
    channel = lambda n: v - v * s * np.clip(np.minimum((n + 6 * h) % 6, 4 - (n + 6 * h) % 6), 0, 1)
    return 255 * np.stack([channel(n) for n in (5, 3, 1)], -1)


def hue(img, degrees):
    h, s, v = to_hsv(img)
    return from_hsv((h + degrees / 180) % 1, s, v)


def blur(img, nx, ny, sigma_x, sigma_y):
    def kernel(n, s):
        small = {1: [1], 3: [1, 2, 1], 5: [1, 4, 6, 4, 1], 7: [1, 3.5, 7, 9, 7, 3.5, 1]}
        if s <= 0 and n in small:
            return np.array(small[n], float) / sum(small[n])
        s = s if s > 0 else 0.3 * ((n - 1) * 0.5 - 1) + 0.8
        k = np.exp(-((np.arange(n) - n // 2) ** 2) / (2 * s * s))
        return k / k.sum()
    x = np.pad(img.astype(float), ((ny // 2, ny // 2), (nx // 2, nx // 2), (0, 0)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(x, (ny, nx), axis=(0, 1))
    return np.einsum("hwcyx,y,x->hwc", windows, kernel(ny, sigma_y), kernel(nx, sigma_x), optimize=True)


def jpeg_tables(quality):
    """Tables K.1 and K.2 of the standard, scaled as libjpeg does."""
    light = """16 11 10 16 24 40 51 61 12 12 14 19 26 58 60 55 14 13 16 24 40 57 69 56 14 17 22 29 51 87 80 62
        18 22 37 56 68 109 103 77 24 35 55 64 81 104 113 92 49 64 78 87 103 121 120 101 72 92 95 98 112 100 103 99"""
    colour = np.full((8, 8), 99)
    colour[:4, :4] = [[17, 18, 24, 47], [18, 21, 26, 66], [24, 26, 56, 99], [47, 66, 99, 99]]
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    return [np.clip((t * scale + 50) // 100, 1, 255) for t in (np.array(light.split(), int).reshape(8, 8), colour)]


def jpeg_exact(img, quality):
    """By the definition in float64, colour at full size."""
    to_ycc = np.array([[0.299, 0.587, 0.114], [-0.168735892, -0.331264108, 0.5], [0.5, -0.418687589, -0.081312411]])
    to_rgb = np.array([[1, 0, 1.402], [1, -0.344136286, -0.714136286], [1, 1.772, 0]])
    offset = np.array([0, 128, 128])
    h, w, c = img.shape
    planes = img.astype(float) if c == 1 else nearest(img @ to_ycc.T + offset).astype(float)
    planes = np.pad(planes, ((0, -h % 8), (0, -w % 8), (0, 0)), mode="edge") - 128
    cosine = np.array([[math.cos((2 * x + 1) * u * math.pi / 16) * (0.5 if u else math.sqrt(1 / 8)) for x in range(8)] for u in range(8)])
    blocks = planes.reshape(planes.shape[0] // 8, 8, -1, 8, c)
    k = np.einsum("ui,aibjc,vj->aubvc", cosine, blocks, cosine, optimize=True)
    q = np.stack([jpeg_tables(quality)[min(i, 1)] for i in range(c)], -1)[None, :, None]
    x = np.einsum("ui,aubvc,vj->aibjc", cosine, np.round(k / q) * q, cosine, optimize=True)
    x = nearest(x + 128).reshape(planes.shape)[:h, :w]
    return x if c == 1 else nearest((x - offset.astype(float)) @ to_rgb.T)


# ---- rows -----------------------------------------------------------------------------------------------------------
ROWS = []


class Judge:
    """most, mean: the differences that are allowed, of an element and in the mean. turn: values that are this far apart are one."""

    def __init__(self, name, compute, most=1.0, mean=0.02, turn=None):
        self.name, self.compute, self.most, self.mean, self.turn = name, compute, most, mean, turn


def row(expression, kind, *judges):
    ROWS.append((expression, kind, [j for j in judges if j]))


def exact(compute, name="numpy"):
    return Judge(name, compute, 0, 0)


def opencv(compute, most=1.0, mean=0.3, turn=None):
    """OpenCV computes with whole numbers: rounding to the other side is common."""
    def three_axes(x):
        y = compute(x)
        return y[..., None] if y.ndim == 2 and x.ndim == 3 else y
    return Judge("opencv", three_axes, most, mean, turn) if cv2 else None


def crops():
    def random_crop(x):
        d = Draw()
        y0, x0 = d.randint(0, x.shape[0] - 24 + 1), d.randint(0, x.shape[1] - 20 + 1)
        return x[y0:y0 + 24, x0:x0 + 20]
    row("tp_aug_random_crop(24, 20)", "rgb", exact(random_crop))

    def center_crop(x):
        y0, x0 = (x.shape[0] - 25) // 2, (x.shape[1] - 18) // 2
        return x[y0:y0 + 25, x0:x0 + 18]
    row("tp_aug_center_crop(25, 18)", "rgb", exact(center_crop))

    def random_shape(x):
        d = Draw()
        h, w = d.randint(12, 33), d.randint(10, 30)
        y0 = 0 if h == x.shape[0] else d.randint(0, x.shape[0] - h)
        x0 = 0 if w == x.shape[1] else d.randint(0, x.shape[1] - w)
        return x[y0:y0 + h, x0:x0 + w]
    row("tp_aug_random_crop_random_shape(.wmin = 10, .hmin = 12, .wmax = 29, .hmax = 32)", "rgb", exact(random_shape))

    def cutout(x):
        d, y = Draw(), x.copy()
        h, w = d.randint(5, 14), 8
        x0, y0 = d.randint(0, x.shape[1] + 1 - w), d.randint(0, x.shape[0] + 1 - h)
        y[y0:y0 + h, x0:x0 + w] = 77
        return y
    row("tp_aug_random_cutout(.h_range = {5, 14}, .w_range = {8}, .fill = 77)", "rgb", exact(cutout))

    def googlenet(x):
        d, (h, w) = Draw(), x.shape[:2]
        for _ in range(10):
            area, ratio = d.uniform(f32(0.08), 1.0) * h * w, d.uniform(f32(0.75), f32(1.333))
            cw, ch = int(math.sqrt(area * ratio) + 0.5), int(math.sqrt(area / ratio) + 0.5)
            if d.uniform() < 0.5:
                cw, ch = ch, cw
            if ch <= h and cw <= w:
                x0, y0 = d.randint(0, w - cw + 1), d.randint(0, h - ch + 1)
                return nearest(resize(x[y0:y0 + ch, x0:x0 + cw], 48, 48, "linear"))
        raise SystemExit("none of 10 crops fits")
    row("tp_aug_google_net_random_crop_and_resize(.target_shape = 48)", "rgb", Judge("numpy", googlenet))


def borders():
    for name, mode in MODES.items():
        row("tp_aug_pad(.pad = 5, .top = 2, .right = 9, .border = TP_EDGE_%s)" % name.upper(), "rgb",
            exact(lambda x, mode=mode: np.pad(x, ((7, 5), (5, 14), (0, 0)), mode=mode)),
            opencv(lambda x, name=name: cv2.copyMakeBorder(x, 7, 5, 5, 14, getattr(cv2, "BORDER_" + name.upper())), 0, 0))
    row("tp_aug_pad(.pad = 4, .left = 3, .border_value = 9)", "rgb",
        exact(lambda x: unpil(ImageOps.expand(pil(x), (7, 4, 4, 4), (9, 9, 9))), "pillow"))

    def pasted(x, y0, x0, fill):
        im = Image.new("RGB", (310, 300), (fill,) * 3)
        im.paste(pil(x), (x0, y0))
        return unpil(im)
    row("tp_aug_center_paste(.h = 300, .w = 310, .fill = 30)", "rgb",
        exact(lambda x: pasted(x, (300 - x.shape[0]) // 2, (310 - x.shape[1]) // 2, 30), "pillow"))

    def random_paste(x):
        d = Draw()
        y0, x0 = int(d.uniform(0, 300 - x.shape[0])), int(d.uniform(0, 310 - x.shape[1]))
        return pasted(x, y0, x0, 0)
    row("tp_aug_random_paste(.h = 300, .w = 310)", "rgb", exact(random_paste, "pillow"))


def nearest_pixel(x, h, w):
    i, j = ((2 * np.arange(n) + 1) * size // (2 * n) for n, size in ((h, x.shape[0]), (w, x.shape[1])))
    return x[i][:, j]


def but_ties(y, x, h, w):
    """NaN where a centre falls between two pixels: Pillow and OpenCV take either."""
    between = [(2 * np.arange(n) + 1) * size % (2 * n) == 0 for n, size in ((h, x.shape[0]), (w, x.shape[1]))]
    y = y.astype(float)
    y[between[0]] = np.nan
    y[:, between[1]] = np.nan
    return y


def pil_nearest(x, h, w):
    return but_ties(unpil(pil(x).resize((w, h), Image.Resampling.NEAREST)), x, h, w)


def cv_nearest(x, h, w):
    return but_ties(cv2.resize(x, (w, h), interpolation=cv2.INTER_NEAREST_EXACT), x, h, w)


def sizes():
    how = Image.Resampling
    for h, w in ((45, 29), (150, 201)):
        to = ".h = %d, .w = %d" % (h, w)
        row("tp_aug_resize(%s, .interp = TP_INTER_NEAREST)" % to, "rgb", exact(lambda x, h=h, w=w: nearest_pixel(x, h, w)),
            exact(lambda x, h=h, w=w: pil_nearest(x, h, w), "pillow"),
            opencv(lambda x, h=h, w=w: cv_nearest(x, h, w), 0, 0))
        for kind, flag in (("linear", "LINEAR"), ("cubic", "CUBIC"), ("lanczos", "LANCZOS4")):
            for images in ("rgb", "grey"):
                row("tp_aug_resize(%s, .interp = TP_INTER_%s)" % (to, kind.upper()), images,
                    Judge("numpy", lambda x, h=h, w=w, kind=kind: nearest(resize(x, h, w, kind))),
                    opencv(lambda x, h=h, w=w, flag=flag: cv2.resize(x, (w, h), interpolation=getattr(cv2, "INTER_" + flag)), 2))
        row("tp_aug_resize(%s, .interp = TP_INTER_AREA)" % to, "rgb", Judge("numpy", lambda x, h=h, w=w: nearest(resize(x, h, w, "area"))))
        row("tp_aug_resize(%s)" % to, "float",
            Judge("numpy", lambda x, h=h, w=w: resize(x, h, w, "linear").astype(np.float32), 2e-3, 1e-4))
        for kind, pillow in (("LINEAR", how.BILINEAR), ("CUBIC", how.BICUBIC), ("LANCZOS", how.LANCZOS)):
            row("tp_aug_resize(%s, .interp = TP_INTER_%s, .antialias = TP_YES)" % (to, kind), "rgb",
                Judge("pillow", lambda x, h=h, w=w, pillow=pillow: pil_resize(x, h, w, pillow)),
                # Pillow's own way with bytes rounds between its two passes, and limits what overshoots at a sharp edge
                Judge("pillow", lambda x, h=h, w=w, pillow=pillow: unpil(pil(x).resize((w, h), pillow)), 1 if kind == "LINEAR" else 16, 0.3))
    row("tp_aug_resize(.h = 16, .interp = TP_INTER_AREA)", "rgb", Judge("pillow", lambda x: pil_resize(x, 16, 16, how.BOX)),
        opencv(lambda x: cv2.resize(x, (16, 16), interpolation=cv2.INTER_AREA)))

    def shortest(x):
        h, w = x.shape[:2]
        s = 50 / min(h, w)
        return nearest(resize(x, int(s * h + 0.5), int(s * w + 0.5), "linear"))
    row("tp_aug_resize_shortest_edge(.size = 50)", "rgb", Judge("numpy", shortest))

    def random_resize(x):
        d, (h, w) = Draw(), x.shape[:2]
        for _ in range(50):
            nw, nh = (int(d.uniform(f32(0.7), f32(1.4)) * n + 0.5) for n in (w, h))
            if abs(nw / nh - w / h) / (w / h) < f32(0.15) + 1e-6:
                return nearest(resize(x, nh, nw, "linear"))
        return x
    row("tp_aug_random_resize(.xrange = {0.7f, 1.4f})", "rgb", Judge("numpy", random_resize))


def cv_warp(x, m, kind, border, value):
    flags = {"linear": "LINEAR", "cubic": "CUBIC", "nearest": "NEAREST"}[kind]
    return cv2.warpAffine(x, m[:2], x.shape[1::-1], flags=getattr(cv2, "INTER_" + flags),
                          borderMode=getattr(cv2, "BORDER_" + border.upper()), borderValue=(value,) * 3)


def geometry():
    how = Image.Transpose
    for options, pillow, code in ((".horiz = TP_YES", how.FLIP_LEFT_RIGHT, 1), (".vert = TP_YES", how.FLIP_TOP_BOTTOM, 0)):
        for images in ("rgb", "grey"):
            row("tp_aug_flip(%s, .prob = 1)" % options, images, exact(lambda x, p=pillow: unpil(pil(x).transpose(p)), "pillow"),
                opencv(lambda x, c=code: cv2.flip(x, c), 0, 0))
    row("tp_aug_flip(.horiz = TP_YES, .prob = 1)", "float", exact(lambda x: x[:, ::-1]))
    row("tp_aug_flip(.horiz = TP_YES)", "rgb", exact(lambda x: x[:, ::-1] if Draw().uniform() < 0.5 else x))
    row("tp_aug_transpose(.prob = 1)", "rgb", exact(lambda x: unpil(pil(x).transpose(how.TRANSPOSE)), "pillow"))
    row("tp_aug_identity()", "rgb", exact(lambda x: x))

    def shifted(x, border):
        d, (h, w) = Draw(), x.shape[:2]
        dx, dy = (int(np.round(d.uniform(-f32(f) * n, f32(f) * n))) for f, n in ((0.4, w), (0.3, h)))
        if border == "wrap":
            return np.roll(x, (dy, dx), (0, 1))
        pad = {"mode": MODES[border]} if border != "constant" else {"constant_values": 50}
        return np.pad(x, ((h, h), (w, w), (0, 0)), **pad)[h - dy:2 * h - dy, w - dx:2 * w - dx]
    for border in ("replicate", "wrap", "constant", "reflect", "reflect_101"):
        row("tp_aug_shift(.horiz_frac = 0.4f, .vert_frac = 0.3f, .border = TP_EDGE_%s, .border_value = 50)" % border.upper(), "rgb",
            exact(lambda x, b=border: shifted(x, b)))

    def turn(x):
        d = Draw()
        cx, cy = d.uniform() * x.shape[1] - 0.5, d.uniform() * x.shape[0] - 0.5
        return rotation(cx, cy, d.uniform(-50, 50), 1)
    # OpenCV's weights are multiples of 1/32; at a sharp edge that is some steps of 255
    for kind, border in (("linear", "replicate"), ("cubic", "reflect_101"), ("linear", "constant"), ("linear", "reflect"), ("cubic", "wrap")):
        row("tp_aug_rotation(.max_deg = 50, .interp = TP_INTER_%s, .border = TP_EDGE_%s, .border_value = 200)"
            % (kind.upper(), border.upper()), "rgb",
            Judge("numpy", lambda x, k=kind, b=border: nearest(warp(x, turn(x), k, b, 200))),
            Judge("pillow", lambda x: pil_warp(x, turn(x))) if kind == "linear" else None,
            opencv(lambda x, k=kind, b=border: cv_warp(x, turn(x), k, b, 200), 16, 0.6))
    # a place between two pixels may be taken for either: one pixel in 500
    row("tp_aug_rotation(.max_deg = 50, .interp = TP_INTER_NEAREST)", "rgb",
        Judge("numpy", lambda x: warp(x, turn(x), "nearest").astype(np.uint8), 255, 0.1))

    def right_angles(x):
        d = Draw(2)
        d.uniform(), d.uniform()
        y0, x0 = (x.shape[0] - 31) // 2, (x.shape[1] - 31) // 2
        return unpil(pil(x[y0:y0 + 31, x0:x0 + 31]).rotate(90 * math.floor(d.uniform(-180, 180) / 90)))
    row("tp_aug_list(TP_AUGS(tp_aug_center_crop(31, 31), tp_aug_rotation(.max_deg = 180, .center_range = {0.5f, 0.5f}, "
        ".step_deg = 90)))", "rgb", exact(right_angles, "pillow"))

    def crop_valid(x):
        h, w = x.shape[:2]
        degrees = Draw().uniform(-40, 40)
        vw, vh = gen.largest(w, h, degrees)
        y0, x0 = int(h / 2 - vh * 0.5), int(w / 2 - vw * 0.5)
        return nearest(warp(x, rotation((w - 1) / 2, (h - 1) / 2, degrees, 1), "linear", "constant"))[y0:y0 + vh, x0:x0 + vw]
    row("tp_aug_rotation_and_crop_valid(.max_deg = 40)", "rgb", Judge("numpy", crop_valid))

    def affine(x):
        d, (h, w) = Draw(), x.shape[:2]
        scale = d.uniform(f32(0.8), f32(1.3))
        dx, dy = (float(np.round(d.uniform(-f32(f) * n, f32(f) * n))) for f, n in ((0.2, w), (0.1, h)))
        shear, degrees = math.radians(d.uniform(-20, 20)), d.uniform(-30, 30)
        to, back = np.eye(3), np.eye(3)
        to[:2, 2], back[:2, 2] = ((w - 1) / 2, (h - 1) / 2), ((1 - w) / 2, (1 - h) / 2)
        m = to @ rotation(0, 0, degrees, scale) @ np.array([[1, math.sin(shear), 0], [0, math.cos(shear), 0], [0, 0, 1]]) @ back
        m[:2, 2] += dx, dy
        return m
    row("tp_aug_affine(.scale = {0.8f, 1.3f}, .translate_frac = {0.2f, 0.1f}, .rotate_max_deg = 30, .shear = 20)", "rgb",
        Judge("numpy", lambda x: nearest(warp(x, affine(x)))), Judge("pillow", lambda x: pil_warp(x, affine(x))),
        opencv(lambda x: cv_warp(x, affine(x), "linear", "replicate", 0), 16, 0.6))


def byte_grey(x):
    return np.asarray(pil(np.ascontiguousarray(x)).convert("L"))


def light():
    one = lambda low, high: Draw().uniform(f32(low), f32(high))
    row("tp_aug_brightness(.delta = 60)", "rgb", exact(lambda x: cut(x + one(-60, 60))))
    row("tp_aug_brightness(.delta = 60)", "float", Judge("numpy", lambda x: np.clip(x + one(-60, 60), 0, 255).astype(np.float32), 1e-4, 1e-5))
    row("tp_aug_brightness_scale(.range = {0.6f, 1.8f})", "rgb", Judge("numpy", lambda x: cut(x * one(0.6, 1.8))),
        Judge("pillow", lambda x: unpil(ImageEnhance.Brightness(pil(x)).enhance(one(0.6, 1.8)))))
    for images in ("rgb", "grey"):
        row("tp_aug_contrast(.factor_range = {0.2f, 1.8f})", images,
            Judge("numpy", lambda x: cut(x * one(0.2, 1.8) + x.mean((0, 1), keepdims=True) * (1 - one(0.2, 1.8)))))
    row("tp_aug_contrast(.factor_range = {0.2f, 1.8f}, .rgb = TP_YES)", "rgb",
        Judge("numpy", lambda x: cut(x * one(0.2, 1.8) + grey_of(x).mean() * (1 - one(0.2, 1.8)))),
        # Pillow rounds the mean: half a step, times up to 0.8
        Judge("pillow", lambda x: unpil(ImageEnhance.Contrast(pil(x)).enhance(one(0.2, 1.8))), 1, 0.45))
    row("tp_aug_contrast(.factor_range = {0.2f, 1.8f}, .rgb = TP_NO, .clip = TP_NO)", "float",
        Judge("numpy", lambda x: (x * one(0.2, 1.8) + grey_of(x[..., ::-1]).mean() * (1 - one(0.2, 1.8))).astype(np.float32), 1e-3, 1e-4))
    mixed = lambda x, grey, v: cut(grey[..., None] + (x - grey[..., None].astype(float)) * v)
    row("tp_aug_saturation()", "rgb", Judge("numpy", lambda x: mixed(x, byte_grey(x), 1 + one(-0.4, 0.4))),
        Judge("pillow", lambda x: unpil(ImageEnhance.Color(pil(x)).enhance(1 + one(-0.4, 0.4)))))
    row("tp_aug_saturation(.alpha = 0.9f, .rgb = TP_NO)", "rgb",
        Judge("numpy", lambda x: mixed(x, byte_grey(x[..., ::-1]), 1 + one(-0.9, 0.9))))
    table = lambda g: (((np.arange(256, dtype=np.float32) / 255) ** (1.0 / (1.0 + g))) * 255).astype(np.uint8)
    row("tp_aug_gamma()", "rgb", Judge("numpy", lambda x: table(one(-0.5, 0.5))[x]))
    row("tp_aug_clip(.min = 60, .max = 190)", "rgb", exact(lambda x: np.clip(x, 60, 190)))
    vector = np.float32([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]).astype(float)
    value = np.float32([0.2175, 0.0188, 0.0045]).astype(float) * 255
    row("tp_aug_lighting(.std = 0.8f)", "rgb", Judge("numpy", lambda x: cut(x + vector @ (value * Draw().normals(3) * f32(0.8)))))
    over = lambda each: (0, 1) if each else None
    for each in (False, True):
        options = ".all_channel = TP_NO" if each else ""
        row("tp_aug_mean_variance_normalize(%s)" % options, "rgb",
            Judge("numpy", lambda x, e=each: ((x - x.mean(over(e))) / x.std(over(e))).astype(np.float32), 1e-5, 1e-6))
        row("tp_aug_min_max_normalize(%s)" % options, "rgb",
            Judge("numpy", lambda x, e=each: (255 * (x - x.min(over(e)).astype(float)) / (x.max(over(e)).astype(float) - x.min(over(e)))
                                              ).astype(np.float32), 1e-4, 1e-5))
    row("tp_aug_to_float32()", "rgb", exact(lambda x: x.astype(np.float32)))
    row("tp_aug_list(TP_AUGS(tp_aug_brightness(.delta = 300, .clip = TP_NO), tp_aug_to_uint8()))", "float",
        exact(lambda x: cut(x + np.float32(Draw(1).uniform(-300, 300)))))


def colours():
    row("tp_aug_hue()", "rgb", Judge("numpy", lambda x: nearest(hue(x, Draw().uniform(0, 180)))))
    row("tp_aug_hue(.range = {-30, -10}, .rgb = TP_NO)", "rgb",
        Judge("numpy", lambda x: nearest(hue(x[..., ::-1], Draw().uniform(-30, -10)))[..., ::-1]))
    row("tp_aug_grayscale(.rgb = TP_YES)", "rgb", Judge("pillow", lambda x: byte_grey(x)[..., None]),
        opencv(lambda x: cv2.cvtColor(x, cv2.COLOR_RGB2GRAY)))
    row("tp_aug_grayscale(.keepshape = TP_YES)", "rgb", Judge("pillow", lambda x: np.repeat(byte_grey(x[..., ::-1])[..., None], 3, 2)))
    row("tp_aug_color_space(.mode = TP_COLOR_BGR2GRAY)", "rgb", Judge("pillow", lambda x: byte_grey(x[..., ::-1])[..., None]),
        opencv(lambda x: cv2.cvtColor(x, cv2.COLOR_BGR2GRAY)))
    row("tp_aug_color_space(.mode = TP_COLOR_RGB2BGR)", "rgb", exact(lambda x: x[..., ::-1]))
    row("tp_aug_color_space(.mode = TP_COLOR_GRAY2RGB)", "grey", exact(lambda x: np.repeat(x, 3, 2)))

    def hsv_bytes(x):
        h, s, v = to_hsv(x)
        return np.stack([nearest(180 * h) % 180, nearest(255 * s), nearest(255 * v)], -1)

    def pillow_hsv(x):
        """Its saturation and value; its hue counts 255 for a turn."""
        y = np.asarray(pil(x).convert("HSV")).astype(float)
        y[..., 0] *= 180 / 255
        return y
    row("tp_aug_color_space(.mode = TP_COLOR_RGB2HSV)", "rgb", Judge("numpy", hsv_bytes, turn=180),
        Judge("pillow", pillow_hsv, 1.5, 0.6, turn=180), opencv(lambda x: cv2.cvtColor(x, cv2.COLOR_RGB2HSV), turn=180))
    scaled = lambda x: np.stack([np.float32(360) * to_hsv(x)[0], to_hsv(x)[1], 255 * to_hsv(x)[2]], -1).astype(np.float32)
    row("tp_aug_color_space(.mode = TP_COLOR_BGR2HSV)", "float", Judge("numpy", lambda x: scaled(x[..., ::-1]), 1e-2, 1e-4, turn=360),
        opencv(lambda x: cv2.cvtColor(x, cv2.COLOR_BGR2HSV), 1e-2, 1e-3, turn=360))
    row("tp_aug_list(TP_AUGS(tp_aug_color_space(.mode = TP_COLOR_RGB2HSV), tp_aug_color_space(.mode = TP_COLOR_HSV2RGB)))", "float",
        Judge("the image", lambda x: x, 1e-3, 1e-4))

    def back(x):
        h, s, v = np.moveaxis(hsv_bytes(x).astype(float), -1, 0)
        return nearest(from_hsv(h / 180, s / 255, v / 255))
    # a hue or a saturation that is rounded to the other side is up to 255/30 in the colour
    row("tp_aug_list(TP_AUGS(tp_aug_color_space(.mode = TP_COLOR_RGB2HSV), tp_aug_color_space(.mode = TP_COLOR_HSV2RGB)))", "rgb",
        Judge("numpy", back, 9, 0.02))


def noises():
    for options, low, high, s_low, s_high, same in (("", 0, 3, 0, 0, True), (".size_range = {3, 6}", 3, 6, 0, 0, True),
                                                    (".size_range = {1, 4}, .sigma_range = {0.5f, 2}, .symmetric = TP_NO", 1, 4, 0.5, 2, False)):
        def drawn(low=low, high=high, s_low=s_low, s_high=s_high, same=same):
            d = Draw()
            nx, ny = (2 * d.randint(low, high) + 1 for _ in range(2))
            sx, sy = (d.uniform(s_low, s_high) for _ in range(2))
            return (nx, nx, sx, sx) if same else (nx, ny, sx, sy)
        row("tp_aug_gaussian_blur(%s)" % options, "rgb", Judge("numpy", lambda x, drawn=drawn: nearest(blur(x, *drawn()))),
            opencv(lambda x, drawn=drawn: cv2.GaussianBlur(x, drawn()[:2], drawn()[2], sigmaY=drawn()[3], borderType=cv2.BORDER_REPLICATE)))
    # A photograph that was a JPEG file before has coefficients in the middle between two steps of another table. They are rounded to
    # either side; and libjpeg's transform is one of whole numbers, which moves others over the middle too.
    for low, high in ((10, 40), (40, 96)):
        for images in ("rgb", "grey"):
            for subsample, code in ((", .subsample = TP_NO", 0), ("", 2)):
                quality = lambda low=low, high=high: Draw().randint(low, high)
                row("tp_aug_jpeg_noise(.quality_range = {%d, %d}%s)" % (low, high, subsample), images,
                    Judge("pillow", lambda x, q=quality, code=code: jpeg(x, q(), code), 40, 2.5),
                    Judge("numpy", lambda x, q=quality: jpeg_exact(x, q()), 16, 0.3) if images == "grey" or code == 0 else None)
    row("tp_aug_gaussian_noise(.sigma = 20)", "rgb", Judge("numpy", lambda x: cut(x + 20 * Draw().normals(x.shape))))
    row("tp_aug_gaussian_noise(.clip = TP_NO)", "float",
        Judge("numpy", lambda x: (x + Draw().normals(x.shape)).astype(np.float32), 1e-4, 1e-5))

    def salt(x):
        u = Draw().elements(x.shape)
        return np.where(u < f32(0.05), 0, np.where(u > 1 - f32(0.05), 255, x)).astype(np.uint8)
    row("tp_aug_salt_pepper_noise()", "rgb", exact(salt))


def lists():
    def usual(x):
        """Places are counted depth first: list 0, pad 1, crop 2, apply 3, flip 4, choose 5, its children 6 and 7, contrast 8."""
        x = np.pad(x, ((4, 4), (4, 4), (0, 0)))
        d = Draw(2)
        y0, x0 = d.randint(0, x.shape[0] - 31), d.randint(0, x.shape[1] - 31)
        x = x[y0:y0 + 32, x0:x0 + 32]
        if Draw(3).uniform() < 0.7 and Draw(4).uniform() < 0.5:
            x = x[:, ::-1]
        x = x[::-1] if Draw(5).uniform() < 0.25 else cut(x * Draw(7).uniform(0.5, 1.5))
        v = Draw(8).uniform(f32(0.2), f32(1.8))
        return cut(x * v + x.mean((0, 1), keepdims=True) * (1 - v))
    row("tp_aug_list(TP_AUGS(tp_aug_pad(.pad = 4), tp_aug_random_crop(32, 32), tp_aug_random_apply(tp_aug_flip(.horiz = TP_YES), 0.7), "
        "tp_aug_random_choose(TP_AUGS(tp_aug_flip(.vert = TP_YES, .prob = 1), tp_aug_brightness_scale(.range = {0.5f, 1.5f})), quarters), "
        "tp_aug_contrast(.factor_range = {0.2f, 1.8f})))", "rgb", Judge("numpy", usual))


for make in (crops, borders, sizes, geometry, light, colours, noises, lists):
    make()


# ---- what is done ---------------------------------------------------------------------------------------------------
def write_rows(folder):
    np.savez(os.path.join(folder, "augment_images.npz"), **images())
    lines = ["/* Written by interop_augment.py. */", "#define AUGMENT_ROWS %d" % len(ROWS), "#define AUGMENT_KEY  0x%016xu" % KEY,
             "static const char *const augment_kind[AUGMENT_ROWS] = {%s};" % ", ".join('"%s/"' % kind for _, kind, _ in ROWS),
             "static tp_augmentor *augment_row(int i)", "{", "    static const double quarters[2] = {0.25, 0.75};", "    switch (i) {"]
    lines += ["    case %d: return %s;" % (i, expression) for i, (expression, _, _) in enumerate(ROWS)]
    lines += ["    default: return NULL;", "    }", "}", ""]
    open(os.path.join(folder, "augment_rows.h"), "w").write("\n".join(lines))


def difference(judge, got, want):
    """The largest and the mean difference; infinite where type or shape are not the same. Where the judge says NaN, anything is right."""
    known = ~np.isnan(np.asarray(want, float))
    if got.shape != want.shape or (known.all() and want.dtype != np.float64 and got.dtype != want.dtype):
        return math.inf, math.inf
    d = np.abs(got.astype(float) - want.astype(float))
    if judge.turn:
        d = np.minimum(d, np.abs(judge.turn - d))
    return d[known].max(), d[known].mean()


def check(folder):
    with np.load(os.path.join(folder, "augment_images.npz")) as z:
        pictures = {k: z[k] for k in z.files}
    with np.load(os.path.join(folder, "augmented.npz")) as z:
        results = {k: z[k] for k in z.files}
    passed = failed = 0
    for i, (expression, kind, judges) in enumerate(ROWS):
        names = [k for k in pictures if k.startswith(kind + "/")]
        for judge in judges:
            most = mean = 0.0
            for name in names:
                Draw.image = int(name.split("/")[1])
                a, b = difference(judge, results["%d/%s" % (i, name)], np.asarray(judge.compute(pictures[name])))
                most, mean = max(most, a), max(mean, b)
            ok = most <= judge.most and mean <= judge.mean
            passed, failed = passed + ok, failed + (not ok)
            print("%s %-9s %d %s: at most %.3g (%g), mean %.2g (%g): %s"
                  % ("ok  " if ok else "FAIL", judge.name, len(names), kind, most, judge.most, mean, judge.mean, expression))
    header = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tp_input.h")).read()
    for name in re.findall(r"^TP_DEF tp_augmentor \*(tp_aug_\w+?)_?\(", header, re.M):
        # a function of the program; an order, which test_augment.c looks at
        if name not in ("tp_aug_map_image", "tp_aug_random_order") and not any(name + "(" in expression for expression, _, _ in ROWS):
            failed += 1
            print("FAIL", name, "is in no row")
    if not cv2:
        print("no opencv: its rows were not checked")
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(write_rows(sys.argv[2]) if sys.argv[1] == "rows" else check(sys.argv[2]))
