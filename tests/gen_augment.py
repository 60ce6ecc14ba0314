#!/usr/bin/env python3
"""Writes tests/augment_vectors.h: what augmentors must make of small images, computed without the library.

    python3 tests/gen_augment.py            needs numpy and Pillow

Each case is a C expression that makes the augmentor, and beside it the same in Python: random numbers from the definition in
tp_tensor.h (Philox), pixels from Pillow where Pillow does the same, from numpy where numpy does, and else from the formulas that
OpenCV documents (resize, warpAffine, getRotationMatrix2D, cvtColor, GaussianBlur), in float64. OpenCV itself is not used."""
import colorsys
import io
import math
import os

import numpy as np
from PIL import Image

KEY, INDEX = 0x0123456789ABCDEF, 5


# ---- random numbers -------------------------------------------------------------------------------------------------
def philox(key, lo, hi):
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    c = [lo & 0xFFFFFFFF, lo >> 32, hi & 0xFFFFFFFF, hi >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k0, b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k1, a & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def random_key(seed, stream):
    r = philox(seed, stream, 0xFFFFFFFFFFFFFFFF)
    return r[1] << 32 | r[0]


class Draw:
    """The numbers of the augmentor at a place."""

    def __init__(self, place=0, index=INDEX):
        self.key, self.n, self.index = random_key(KEY, place), 0, index

    def u32(self):
        self.n += 1
        return philox(self.key, (self.n - 1) // 4, self.index)[(self.n - 1) % 4]

    def uniform(self, low=0.0, high=1.0):
        return low + (high - low) * ((self.u32() >> 8) / 16777216.0)

    def randint(self, low, high):
        return low + (self.u32() * (high - low) >> 32)

    def element(self, i):
        return (philox(self.key, i // 4, self.index)[i % 4] >> 8) / 16777216.0

    def normal(self, i):
        r = philox(self.key, i // 2, self.index)
        a, b = (r[1] << 32 | r[0]) >> 11, (r[3] << 32 | r[2]) >> 11
        radius, angle = math.sqrt(-2 * math.log((a + 1) / 2**53)), 2 * math.pi * b / 2**53
        return radius * (math.sin(angle) if i % 2 else math.cos(angle))


def f32(x):
    return float(np.float32(x))


# ---- images ---------------------------------------------------------------------------------------------------------
def picture(h, w, c, seed):
    y, x = np.mgrid[0:h, 0:w].astype(float)
    planes = [127 + 90 * np.sin(0.5 * x + k + seed) * np.cos(0.4 * y - k) + 38 * ((7 * x + 3 * y + 5 * k) % 11 < 4) for k in range(c)]
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


IMAGES = [("rgb", picture(9, 7, 3, 0)), ("grey", picture(9, 14, 1, 2)), ("large", picture(19, 17, 3, 1))]
RGB, GREY, LARGE = (i[1] for i in IMAGES)
H, W = RGB.shape[:2]
FLOATS = RGB.astype(np.float32) * np.float32(0.75) + np.float32(0.125)


def nearest(x):
    return np.clip(np.floor(np.asarray(x, float) + 0.5), 0, 255).astype(np.uint8)


def cut(x):
    return np.clip(x, 0, 255).astype(np.uint8)


# ---- resize: dense matrices of weights ------------------------------------------------------------------------------
def cubic(x, a):
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def weights(n_in, n_out, kind):
    m, scale = np.zeros((n_out, n_in)), n_in / n_out
    for o in range(n_out):
        if kind == "area":
            for i in range(n_in):
                m[o, i] = max(0.0, min(i + 1, (o + 1) * scale) - max(i, o * scale))
        else:
            at = (o + 0.5) * scale - 0.5
            for i in range(math.floor(at) - 6, math.floor(at) + 8):
                d = at - i
                w = {"linear": max(0.0, 1 - abs(d)), "cubic": cubic(d, -0.75),
                     "lanczos": float(np.sinc(d) * np.sinc(d / 4)) if abs(d) < 4 else 0.0}[kind]
                m[o, min(max(i, 0), n_in - 1)] += w
        m[o] /= m[o].sum()
    return m


def resize(img, h, w, kind):
    x = np.einsum("oi,ijc->ojc", weights(img.shape[0], h, kind), img.astype(float))
    return np.einsum("pj,ojc->opc", weights(img.shape[1], w, kind), x)


def pil(img):
    return Image.fromarray(img[..., 0] if img.shape[2] == 1 else img)


def unpil(im):
    a = np.asarray(im)
    return a[..., None] if a.ndim == 2 else a


def pil_resize(img, h, w, how):
    """Each channel as floats, which Pillow does not round between its two passes."""
    planes = [Image.fromarray(img[..., k].astype(np.float32)).resize((w, h), how) for k in range(img.shape[2])]
    return nearest(np.stack([np.asarray(x) for x in planes], -1))


# ---- warping --------------------------------------------------------------------------------------------------------
def edge(i, n, border):
    if 0 <= i < n:
        return i
    if border == "constant":
        return None
    mode = {"replicate": "edge", "reflect": "symmetric", "reflect_101": "reflect", "wrap": "wrap"}[border]
    return int(np.pad(np.arange(n), (200, 200), mode=mode)[200 + i])


def rotation(cx, cy, degrees, scale):
    a, b = scale * math.cos(math.radians(degrees)), scale * math.sin(math.radians(degrees))
    return np.array([[a, b, (1 - a) * cx - b * cy], [-b, a, b * cx + (1 - a) * cy], [0, 0, 1]])


def warp(img, m, kind="linear", border="replicate", value=0.0):
    v, (h, w, c) = np.linalg.inv(m), img.shape
    out = np.zeros((h, w, c))
    support = {"nearest": 0, "linear": 1, "cubic": 2}[kind]
    for y in range(h):
        for x in range(w):
            sx, sy, _ = v @ [x, y, 1]
            if kind == "nearest":
                taps = [(math.floor(sy + 0.5), math.floor(sx + 0.5), 1.0)]
            else:
                one = (lambda d: max(0.0, 1 - abs(d))) if kind == "linear" else (lambda d: cubic(d, -0.75))
                x0, y0 = math.floor(sx), math.floor(sy)
                taps = [(j, i, one(sy - j) * one(sx - i)) for j in range(y0 - support + 1, y0 + support + 1)
                        for i in range(x0 - support + 1, x0 + support + 1)]
            for j, i, weight in taps:
                j, i = edge(j, h, border), edge(i, w, border)
                out[y, x] += weight * (value if i is None or j is None else img[j, i].astype(float))
    return out


# ---- colours --------------------------------------------------------------------------------------------------------
def grey_of(img):
    return img.astype(float) @ [0.299, 0.587, 0.114]


def grey_byte(img):
    return np.asarray(pil(img).convert("L"))


def hue(img, by):
    out = np.zeros(img.shape)
    for p in np.ndindex(img.shape[:2]):
        h, s, v = colorsys.rgb_to_hsv(*(img[p].astype(float) / 255))
        out[p] = np.array(colorsys.hsv_to_rgb((h + by / 180) % 1, s, v)) * 255
    return out


def hsv(img, scales):
    out = np.zeros(img.shape)
    for p in np.ndindex(img.shape[:2]):
        out[p] = np.array(colorsys.rgb_to_hsv(*(img[p].astype(float) / 255))) * scales
    return out


def blur(img, size, sigma):
    def kernel(n, s):
        small = {1: [1], 3: [1, 2, 1], 5: [1, 4, 6, 4, 1], 7: [1, 3.5, 7, 9, 7, 3.5, 1]}
        if s <= 0 and n in small:
            k = np.array(small[n], float)
        else:
            s = s if s > 0 else 0.3 * ((n - 1) * 0.5 - 1) + 0.8
            k = np.exp(-((np.arange(n) - (n - 1) / 2) ** 2) / (2 * s * s))
        return k / k.sum()
    for axis in (0, 1):
        n = size[1 - axis]
        k, pad = kernel(n, sigma[1 - axis]), [(0, 0)] * 3
        pad[axis] = (n // 2, n // 2)
        x = np.pad(img.astype(float), pad, mode="edge")
        img = sum(k[i] * np.take(x, range(i, i + img.shape[axis]), axis) for i in range(n))
    return img


def jpeg(img, quality, subsampling):
    f = io.BytesIO()
    pil(img).save(f, "JPEG", quality=quality, subsampling=subsampling)
    return unpil(Image.open(io.BytesIO(f.getvalue())))


def jpeg_exact(img, quality):
    """A grey image, by the definition: table K.1, and the cosine transform in float64."""
    table = """16 11 10 16 24 40 51 61 12 12 14 19 26 58 60 55 14 13 16 24 40 57 69 56 14 17 22 29 51 87 80 62
        18 22 37 56 68 109 103 77 24 35 55 64 81 104 113 92 49 64 78 87 103 121 120 101 72 92 95 98 112 100 103 99"""
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    q = np.clip((np.array(table.split(), int) * scale + 50) // 100, 1, 255).reshape(8, 8)
    c = np.array([[math.cos((2 * x + 1) * u * math.pi / 16) * (0.5 if u else math.sqrt(1 / 8)) for x in range(8)] for u in range(8)])
    h, w = img.shape[:2]
    x = np.pad(img[..., 0].astype(float), ((0, -h % 8), (0, -w % 8)), mode="edge") - 128
    for i in range(0, x.shape[0], 8):
        for j in range(0, x.shape[1], 8):
            k = np.round(c @ x[i:i + 8, j:j + 8] @ c.T / q)
            x[i:i + 8, j:j + 8] = c.T @ (k * q) @ c
    return nearest(x + 128)[:h, :w, None]


def even(x):
    return float(np.round(x))


CASES = []


def case(expression, image, result, most=1, mean=0.02):
    """most: the largest difference of an element; mean: the mean of them."""
    CASES.append((expression, image, np.asarray(result), most, mean))


def crops():
    d = Draw()
    y, x = d.randint(0, H - 5 + 1), d.randint(0, W - 4 + 1)
    case("tp_aug_random_crop(5, 4)", RGB, RGB[y:y + 5, x:x + 4], 0, 0)
    case("tp_aug_center_crop(5, 4)", RGB, RGB[2:7, 1:5], 0, 0)
    d = Draw()
    h, w = d.randint(3, H + 1), d.randint(2, 6)
    y = 0 if h == H else d.randint(0, H - h)
    x = 0 if w == W else d.randint(0, W - w)
    case("tp_aug_random_crop_random_shape(.wmin = 2, .hmin = 3, .wmax = 5)", RGB, RGB[y:y + h, x:x + w], 0, 0)
    d = Draw()
    h, w = d.randint(2, 6), 4
    x, y = d.randint(0, W + 1 - w), d.randint(0, H + 1 - h)
    out = RGB.copy()
    out[y:y + h, x:x + w] = 77
    case("tp_aug_random_cutout(.h_range = {2, 6}, .w_range = {4}, .fill = 77)", RGB, out, 0, 0)
    for name, mode in (("REPLICATE", "edge"), ("REFLECT", "symmetric"), ("REFLECT_101", "reflect"), ("WRAP", "wrap")):
        case("tp_aug_pad(.pad = 1, .top = 2, .right = 4, .border = TP_EDGE_%s)" % name, RGB,
             np.pad(RGB, ((3, 1), (1, 5), (0, 0)), mode=mode), 0, 0)
    case("tp_aug_pad(.pad = 2, .border_value = 9)", RGB, np.pad(RGB, ((2, 2), (2, 2), (0, 0)), constant_values=9), 0, 0)
    case("tp_aug_center_paste(.h = 14, .w = 8, .fill = 30)", RGB,
         np.pad(RGB, ((2, 3), (0, 1), (0, 0)), constant_values=30), 0, 0)
    d = Draw()
    y, x = int(d.uniform(0, 5)), int(d.uniform(0, 4))
    case("tp_aug_random_paste(.h = 14, .w = 11)", RGB, np.pad(RGB, ((y, 5 - y), (x, 4 - x), (0, 0))), 0, 0)
    d = Draw()  # googlenet
    for _ in range(10):
        area = d.uniform(f32(0.08), 1.0) * LARGE[..., 0].size
        ratio = d.uniform(f32(0.75), f32(1.333))
        w, h = int(math.sqrt(area * ratio) + 0.5), int(math.sqrt(area / ratio) + 0.5)
        if d.uniform() < 0.5:
            w, h = h, w
        if h <= 19 and w <= 17:
            x, y = d.randint(0, 17 - w + 1), d.randint(0, 19 - h + 1)
            break
    case("tp_aug_google_net_random_crop_and_resize(.target_shape = 9)", LARGE,
         nearest(resize(LARGE[y:y + h, x:x + w], 9, 9, "linear")))


def sizes():
    how = Image.Resampling
    case("tp_aug_resize(.h = 5, .w = 11, .interp = TP_INTER_NEAREST)", RGB, pil_resize(RGB, 5, 11, how.NEAREST), 0, 0)
    for kind in ("linear", "cubic", "lanczos", "area"):
        name = "TP_INTER_" + kind.upper()
        case("tp_aug_resize(.h = 5, .w = 11, .interp = %s)" % name, RGB, nearest(resize(RGB, 5, 11, kind)), 1, 0.04)
        case("tp_aug_resize(.h = 20, .w = 6, .interp = %s)" % name, GREY, nearest(resize(GREY, 20, 6, kind)))
    case("tp_aug_resize(.h = 5, .w = 11)", FLOATS, resize(FLOATS, 5, 11, "linear").astype(np.float32), 1e-3, 1e-4)
    case("tp_aug_resize(.h = 3, .w = 1, .interp = TP_INTER_AREA)", RGB, pil_resize(RGB, 3, 1, how.BOX))
    for kind, pillow in (("LINEAR", how.BILINEAR), ("CUBIC", how.BICUBIC), ("LANCZOS", how.LANCZOS)):
        case("tp_aug_resize(.h = 7, .w = 13, .interp = TP_INTER_%s, .antialias = TP_YES)" % kind, LARGE,
             pil_resize(LARGE, 7, 13, pillow))
        case("tp_aug_resize(.h = 12, .w = 16, .interp = TP_INTER_%s, .antialias = TP_YES)" % kind, RGB,
             pil_resize(RGB, 12, 16, pillow))
    case("tp_aug_resize_shortest_edge(.size = 6)", GREY, nearest(resize(GREY, 6, int(6 / 9 * 14 + 0.5), "linear")))
    d = Draw()
    low, high = f32(0.7), f32(1.4)
    while True:
        w, h = int(d.uniform(low, high) * W + 0.5), int(d.uniform(low, high) * H + 0.5)
        if abs(w / h - W / H) / (W / H) < f32(0.15) + 1e-5:
            break
    case("tp_aug_random_resize(.xrange = {0.7f, 1.4f})", RGB, nearest(resize(RGB, h, w, "linear")))
    d = Draw()
    x = d.uniform(5, 9)
    case("tp_aug_random_resize(.xrange = {5, 9}, .pixels = TP_YES, .aspect_ratio_thres = 0)", RGB,
         nearest(resize(RGB, int(x / W * H + 0.5), int(x + 0.5), "linear")))


def geometry():
    how = Image.Transpose
    case("tp_aug_flip(.horiz = TP_YES, .prob = 1)", RGB, unpil(pil(RGB).transpose(how.FLIP_LEFT_RIGHT)), 0, 0)
    case("tp_aug_flip(.vert = TP_YES, .prob = 1)", RGB, unpil(pil(RGB).transpose(how.FLIP_TOP_BOTTOM)), 0, 0)
    case("tp_aug_flip(.horiz = TP_YES, .prob = 1)", GREY, GREY[:, ::-1], 0, 0)
    case("tp_aug_flip(.horiz = TP_YES, .prob = 1)", FLOATS, FLOATS[:, ::-1], 0, 0)
    case("tp_aug_flip(.horiz = TP_YES, .prob = 0)", RGB, RGB, 0, 0)
    case("tp_aug_transpose(.prob = 1)", RGB, unpil(pil(RGB).transpose(how.TRANSPOSE)), 0, 0)
    for c_border, border in (("TP_EDGE_REPLICATE", "replicate"), ("TP_EDGE_WRAP", "wrap"), ("TP_EDGE_CONSTANT", "constant")):
        d = Draw()
        dx, dy = even(d.uniform(-f32(0.4) * W, f32(0.4) * W)), even(d.uniform(-f32(0.3) * H, f32(0.3) * H))
        m = np.array([[1, 0, dx], [0, 1, dy], [0, 0, 1]])
        case("tp_aug_shift(.horiz_frac = 0.4f, .vert_frac = 0.3f, .border = %s, .border_value = 50)" % c_border, RGB,
             nearest(warp(RGB, m, "nearest", border, 50)), 0, 0)
    for name, kind, border in (("LINEAR", "linear", "replicate"), ("CUBIC", "cubic", "reflect_101"),
                               ("LINEAR", "linear", "constant"), ("LINEAR", "linear", "reflect")):
        d = Draw()
        cx, cy = d.uniform() * W - 0.5, d.uniform() * H - 0.5
        m = rotation(cx, cy, d.uniform(-50, 50), 1)
        case("tp_aug_rotation(.max_deg = 50, .interp = TP_INTER_%s, .border = TP_EDGE_%s, .border_value = 200)"
             % (name, border.upper()), RGB, nearest(warp(RGB, m, kind, border, 200)))
    case("tp_aug_list(TP_AUGS(tp_aug_center_crop(13, 13), tp_aug_identity()))", LARGE, LARGE[3:16, 2:15], 0, 0)
    d = Draw(2)  # a square turned by right angles about its middle
    d.uniform(), d.uniform()
    turns = math.floor(d.uniform(-180, 180) / 90)
    case("tp_aug_list(TP_AUGS(tp_aug_center_crop(13, 13), tp_aug_rotation(.max_deg = 180, .center_range = {0.5f, 0.5f}, "
         ".step_deg = 90)))", LARGE, np.rot90(LARGE[3:16, 2:15], turns), 0, 0)
    d = Draw()
    m = rotation((W - 1) / 2, (H - 1) / 2, d.uniform(-40, 40), 1)
    degrees = Draw().uniform(-40, 40)
    w, h = largest(W, H, degrees)
    y, x = int(H / 2 - h * 0.5), int(W / 2 - w * 0.5)
    case("tp_aug_rotation_and_crop_valid(.max_deg = 40)", RGB,
         nearest(warp(RGB, m, "linear", "constant"))[y:y + h, x:x + w])
    d = Draw()
    scale = d.uniform(f32(0.8), f32(1.3))
    dx, dy = even(d.uniform(-f32(0.2) * W, f32(0.2) * W)), even(d.uniform(-f32(0.1) * H, f32(0.1) * H))
    shear, degrees = math.radians(d.uniform(-20, 20)), d.uniform(-30, 30)
    # about the middle: scale and turn after a shear along x
    to, back = np.eye(3), np.eye(3)
    to[:2, 2], back[:2, 2] = ((W - 1) / 2, (H - 1) / 2), ((1 - W) / 2, (1 - H) / 2)
    turn = rotation(0, 0, degrees, scale)
    m = to @ turn @ np.array([[1, math.sin(shear), 0], [0, math.cos(shear), 0], [0, 0, 1]]) @ back
    m[0, 2], m[1, 2] = m[0, 2] + dx, m[1, 2] + dy
    case("tp_aug_affine(.scale = {0.8f, 1.3f}, .translate_frac = {0.2f, 0.1f}, .rotate_max_deg = 30, .shear = 20)", RGB,
         nearest(warp(RGB, m)))


def largest(w, h, degrees):
    """The largest upright rectangle in a turned one, by trying all shapes."""
    c, s = abs(math.cos(math.radians(degrees))), abs(math.sin(math.radians(degrees)))
    best = (0, 0, 0)
    for i in range(1, 20001):
        x = w * i / 20000 if w < h else h * i / 20000  # one side; the other is as long as fits
        for a, b in ((x, min((w - x * c) / s, (h - x * s) / c)), (min((w - x * s) / c, (h - x * c) / s), x)):
            if a > 0 and b > 0 and a * b > best[0]:
                best = (a * b, a, b)
    return int(np.round(min(best[1], w))), int(np.round(min(best[2], h)))


def colours():
    v = Draw().uniform(-60, 60)
    case("tp_aug_brightness(.delta = 60)", RGB, cut(RGB + v), 0, 0)
    case("tp_aug_brightness(.delta = 60)", FLOATS, np.clip(FLOATS + v, 0, 255).astype(np.float32), 1e-4, 1e-4)
    case("tp_aug_brightness(.delta = 600, .clip = TP_NO)", FLOATS, (FLOATS + 10 * v).astype(np.float32), 1e-3, 1e-3)
    v = Draw().uniform(f32(0.6), f32(1.8))
    case("tp_aug_brightness_scale(.range = {0.6f, 1.8f})", RGB, cut(RGB * v))
    v = Draw().uniform(f32(0.2), f32(1.8))
    for image in (RGB, GREY):
        case("tp_aug_contrast(.factor_range = {0.2f, 1.8f})", image,
             cut(image * v + image.mean((0, 1), keepdims=True) * (1 - v)))
    case("tp_aug_contrast(.factor_range = {0.2f, 1.8f}, .rgb = TP_YES)", RGB, cut(RGB * v + grey_of(RGB).mean() * (1 - v)))
    case("tp_aug_contrast(.factor_range = {0.2f, 1.8f}, .rgb = TP_NO, .clip = TP_NO)", FLOATS,
         (FLOATS * v + grey_of(FLOATS[..., ::-1]).mean() * (1 - v)).astype(np.float32), 1e-3, 1e-4)
    v = 1 + Draw().uniform(-f32(0.4), f32(0.4))
    case("tp_aug_saturation()", RGB, cut(RGB * v + grey_byte(RGB)[..., None].astype(float) * (1 - v)))
    v = 1 + Draw().uniform(-f32(0.9), f32(0.9))
    case("tp_aug_saturation(.alpha = 0.9f, .rgb = TP_NO)", RGB,
         cut(RGB * v + grey_byte(RGB[..., ::-1].copy())[..., None].astype(float) * (1 - v)))
    v = Draw().uniform(0, 180)
    case("tp_aug_hue()", RGB, nearest(hue(RGB, v)))
    v = Draw().uniform(-30, -10)
    case("tp_aug_hue(.range = {-30, -10}, .rgb = TP_NO)", RGB, nearest(hue(RGB[..., ::-1], v))[..., ::-1])
    v = Draw().uniform(-0.5, 0.5)
    table = (((np.arange(256, dtype=np.float32) / 255) ** (1.0 / (1.0 + v))) * 255).astype(np.uint8)
    case("tp_aug_gamma()", RGB, table[RGB])
    case("tp_aug_clip(.min = 60, .max = 190)", RGB, np.clip(RGB, 60, 190), 0, 0)
    d = Draw()
    vector = np.float32([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]).astype(float)
    value = np.float32([0.2175, 0.0188, 0.0045]).astype(float) * 255
    noise = np.array([d.normal(i) for i in range(3)]) * f32(0.8)
    case("tp_aug_lighting(.std = 0.8f)", RGB, cut(RGB + vector @ (value * noise)))
    vector, value = np.arange(1, 10).reshape(3, 3) / 16, np.array([9.0, 20, 2])
    case("tp_aug_lighting(.std = 0.8f, .eigval = {9, 20, 2}, .eigvec = {0.0625f, 0.125f, 0.1875f, 0.25f, 0.3125f, 0.375f, "
         "0.4375f, 0.5f, 0.5625f})", RGB, cut(RGB + vector @ (value * noise)))
    x = RGB.astype(float)
    case("tp_aug_mean_variance_normalize()", RGB, ((x - x.mean()) / x.std()).astype(np.float32), 1e-5, 1e-6)
    case("tp_aug_mean_variance_normalize(.all_channel = TP_NO)", RGB,
         ((x - x.mean((0, 1))) / x.std((0, 1))).astype(np.float32), 1e-5, 1e-6)
    case("tp_aug_min_max_normalize(.min = -1, .max = 1)", RGB,
         (2 * (x - x.min()) / (x.max() - x.min()) - 1).astype(np.float32), 1e-5, 1e-6)
    low, high = x.min((0, 1)), x.max((0, 1))
    case("tp_aug_min_max_normalize(.all_channel = TP_NO)", RGB, (255 * (x - low) / (high - low)).astype(np.float32), 1e-4, 1e-5)
    case("tp_aug_grayscale(.rgb = TP_YES)", RGB, grey_byte(RGB)[..., None])
    case("tp_aug_grayscale(.rgb = TP_YES, .keepdims = TP_NO)", RGB, grey_byte(RGB))
    case("tp_aug_grayscale(.keepshape = TP_YES)", RGB, np.repeat(grey_byte(RGB[..., ::-1].copy())[..., None], 3, 2))
    case("tp_aug_color_space(.mode = TP_COLOR_RGB2BGR)", RGB, RGB[..., ::-1], 0, 0)
    case("tp_aug_color_space(.mode = TP_COLOR_GRAY2RGB)", GREY, np.repeat(GREY, 3, 2), 0, 0)
    x = nearest(hsv(RGB, (180, 255, 255)))
    x[..., 0] %= 180
    case("tp_aug_color_space(.mode = TP_COLOR_RGB2HSV)", RGB, x)
    case("tp_aug_color_space(.mode = TP_COLOR_BGR2HSV)", FLOATS, hsv(FLOATS[..., ::-1], (360, 1, 255)).astype(np.float32), 1e-2, 1e-4)
    # there and back; on bytes nothing but rounding is lost
    case("tp_aug_list(TP_AUGS(tp_aug_color_space(.mode = TP_COLOR_RGB2HSV), tp_aug_color_space(.mode = TP_COLOR_HSV2RGB)))",
         FLOATS, FLOATS, 1e-3, 1e-4)
    case("tp_aug_list(TP_AUGS(tp_aug_color_space(.mode = TP_COLOR_BGR2HSV), tp_aug_color_space(.mode = TP_COLOR_HSV2BGR)))",
         RGB, RGB, 5, 1.5)
    case("tp_aug_to_float32()", RGB, RGB.astype(np.float32), 0, 0)
    case("tp_aug_list(TP_AUGS(tp_aug_brightness(.delta = 600, .clip = TP_NO), tp_aug_to_uint8()))", FLOATS,
         cut(FLOATS + np.float32(Draw(1).uniform(-600, 600))), 0, 0)


def noises():
    for options, low, high, s_low, s_high, same in (("", 0, 3, 0, 0, True), (".size_range = {3, 6}", 3, 6, 0, 0, True),
                                                    (".size_range = {1, 4}, .sigma_range = {0.5f, 2}, .symmetric = TP_NO", 1, 4, 0.5, 2, False)):
        d = Draw()
        size = [2 * d.randint(low, high) + 1 for _ in range(2)]
        sigma = [d.uniform(s_low, s_high) for _ in range(2)]
        if same:
            size[1], sigma[1] = size[0], sigma[0]
        case("tp_aug_gaussian_blur(%s)" % options, RGB, nearest(blur(RGB, size, sigma)))
    for image in (LARGE, RGB, GREY):
        for low, high in ((10, 40), (40, 96)):
            q = Draw().randint(low, high)
            # libjpeg's transform is one of whole numbers: a coefficient near a half may be rounded to the other side
            case("tp_aug_jpeg_noise(.quality_range = {%d, %d})" % (low, high), image, jpeg(image, q, 2), 16, 0.6)
            if image is LARGE:
                case("tp_aug_jpeg_noise(.quality_range = {%d, %d}, .subsample = TP_NO)" % (low, high), image, jpeg(image, q, 0), 16, 0.6)
    q = Draw().randint(20, 80)
    case("tp_aug_jpeg_noise(.quality_range = {20, 80})", GREY, jpeg_exact(GREY, q))
    d = Draw()
    noise = np.array([d.normal(i) for i in range(RGB.size)]).reshape(RGB.shape)
    case("tp_aug_gaussian_noise(.sigma = 20)", RGB, cut(RGB + 20 * noise))
    case("tp_aug_gaussian_noise(.clip = TP_NO)", FLOATS, (FLOATS + noise).astype(np.float32), 1e-4, 1e-5)
    u = np.array([d.element(i) for i in range(RGB.size)]).reshape(RGB.shape)
    case("tp_aug_salt_pepper_noise()", RGB, np.where(u < f32(0.05), 0, np.where(u > 1 - f32(0.05), 255, RGB)), 0, 0)
    case("tp_aug_salt_pepper_noise(.white_prob = 0.3f, .black_prob = 0)", RGB, np.where(u > 1 - f32(0.3), 255, RGB), 0, 0)


def lists():
    """Places are counted depth first: list 0, pad 1, crop 2, apply 3, flip 4, choose 5, its children 6 and 7, brightness 8."""
    x = np.pad(RGB, ((4, 4), (4, 4), (0, 0)))
    d = Draw(2)
    i, j = d.randint(0, 9), d.randint(0, 9)
    x = x[i:i + H, j:j + W]
    if Draw(3).uniform() < 0.7 and Draw(4).uniform() < 0.5:
        x = x[:, ::-1]
    x = x[::-1] if Draw(5).uniform() < 0.25 else cut(x * Draw(7).uniform(0.5, 1.5))
    x = cut(x + Draw(8).uniform(-30, 30))
    case("tp_aug_list(TP_AUGS(tp_aug_pad(.pad = 4), tp_aug_random_crop(9, 7), tp_aug_random_apply(tp_aug_flip(.horiz = TP_YES), 0.7), "
         "tp_aug_random_choose(TP_AUGS(tp_aug_flip(.vert = TP_YES, .prob = 1), tp_aug_brightness_scale(.range = {0.5f, 1.5f})), quarters), "
         "tp_aug_brightness(.delta = 30)))", RGB, x)


def main():
    for make in (crops, sizes, geometry, colours, noises, lists):
        make()
    out = ["/* What augmentors make of small images. Written by tests/gen_augment.py. */", "",
           "#define VECTOR_KEY   0x%016xu" % KEY, "#define VECTOR_INDEX %d" % INDEX, ""]
    names = {id(i): n for n, i in IMAGES}
    for n, i in IMAGES:
        out += ["static const char vector_%s[] =" % n] + text(i) + [""]
    out += ["typedef struct augment_vector {", "    const char *image; /* bytes in hexadecimal; in[] is its shape */",
            "    int in[3], floats;", "    int out[3], ndim, out_floats;",
            "    double most, mean; /* differences that are allowed */", "    const char *result;", "} augment_vector;",
            "static const augment_vector augment_vectors[] = {"]
    for expression, image, result, most, mean in CASES:
        floats = image is FLOATS
        base = RGB if floats else image
        shape = list(result.shape) + [1] * (3 - result.ndim)
        result = np.ascontiguousarray(result if result.dtype == np.float32 else result.astype(np.uint8))
        out += ["    {vector_%s, {%d, %d, %d}, %d, {%d, %d, %d}, %d, %d, %g, %g," % (
            (names[id(base)],) + base.shape + (floats,) + tuple(shape) + (result.ndim, result.dtype == np.float32, most, mean))]
        out += text(result)
        out[-1] = out[-1].rstrip(";") + "},"
    out += ["};", "", "static tp_augmentor *vector_augmentor(int i)", "{",
            "    static const double quarters[2] = {0.25, 0.75};", "    switch (i) {"]
    for i, (expression, *_) in enumerate(CASES):
        out.append("    case %d: return %s;" % (i, expression))
    out += ["    default: return NULL;", "    }", "}"]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "augment_vectors.h")
    open(path, "w").write("\n".join(["/* clang-format off */"] + out + ["/* clang-format on */"]) + "\n")
    print("%d cases, %d bytes" % (len(CASES), os.path.getsize(path)))


def text(a):
    digits = np.ascontiguousarray(a).tobytes().hex()
    lines = ['    "%s"' % digits[i:i + 120] for i in range(0, len(digits), 120)]
    lines[-1] += ";"
    return lines


if __name__ == "__main__":
    main()
