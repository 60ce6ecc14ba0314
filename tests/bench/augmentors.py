"""Single augmentors, here (augmentors.c) and as tensorpack has them, by OpenCV and numpy, in turn, one thread.

    make build/augmentors
    python tests/bench/augmentors.py [part of a name] [--rounds 3] [--seconds 0.2]

Prints one line of JSON for each case: microseconds of an image (medians of the rounds), and the peer's divided by ours; at last the
geometric mean and the least, of uint8 and of float32 images."""
import argparse
import json
import math
import statistics
import subprocess
import time

import cv2
import numpy as np

SIDE = 256
CASES = {}
rng = np.random.RandomState(1)


def case(name):
    def add(f):
        CASES[name] = f
        return f
    return add


def limited(x, dtype):
    return np.clip(x, 0, 255).astype(dtype)


def resize(x, size, how):
    return cv2.resize(x, (size, size), interpolation=how)


for _name, _how, _up, _down in (("nearest", cv2.INTER_NEAREST, 320, 160), ("linear", cv2.INTER_LINEAR, 320, 160),
                                ("cubic", cv2.INTER_CUBIC, 320, 160), ("lanczos", cv2.INTER_LANCZOS4, 320, 160)):
    case("resize_%s_up" % _name)(lambda x, how=_how, size=_up: resize(x, size, how))
    case("resize_%s_down" % _name)(lambda x, how=_how, size=_down: resize(x, size, how))
case("resize_area_160")(lambda x: resize(x, 160, cv2.INTER_AREA))
case("resize_area_64")(lambda x: resize(x, 64, cv2.INTER_AREA))
case("resize_shortest_edge")(lambda x: resize(x, 224, cv2.INTER_LINEAR))
case("center_crop")(lambda x: x[16:240, 16:240].copy())


@case("random_crop")
def random_crop(x):
    y0, x0 = rng.randint(0, 33), rng.randint(0, 33)
    return x[y0:y0 + 224, x0:x0 + 224].copy()


@case("google_net")
def google_net(x):
    h, w = x.shape[:2]
    for _ in range(10):
        target, aspect = rng.uniform(0.08, 1) * h * w, rng.uniform(0.75, 1.333)
        ww, hh = int(math.sqrt(target * aspect) + 0.5), int(math.sqrt(target / aspect) + 0.5)
        if rng.uniform() < 0.5:
            ww, hh = hh, ww
        if hh <= h and ww <= w:
            x1, y1 = rng.randint(0, w - ww + 1), rng.randint(0, h - hh + 1)
            return cv2.resize(x[y1:y1 + hh, x1:x1 + ww], (224, 224), interpolation=cv2.INTER_LINEAR)
    return resize(x, 224, cv2.INTER_LINEAR)


case("flip_horiz")(lambda x: cv2.flip(x, 1))
case("flip_vert")(lambda x: cv2.flip(x, 0))
case("transpose")(lambda x: cv2.transpose(x))
case("pad_constant")(lambda x: cv2.copyMakeBorder(x, 16, 16, 16, 16, cv2.BORDER_CONSTANT))
case("pad_reflect")(lambda x: cv2.copyMakeBorder(x, 16, 16, 16, 16, cv2.BORDER_REFLECT))


@case("center_paste")
def center_paste(x):
    background = np.zeros((320, 320, 3), x.dtype)
    background[32:288, 32:288] = x
    return background


def warp(x, m, how=cv2.INTER_LINEAR, border=cv2.BORDER_REPLICATE):
    return cv2.warpAffine(x, m, (SIDE, SIDE), flags=how, borderMode=border)


@case("shift")
def shift(x):
    dx, dy = (np.round(rng.uniform(-0.2 * SIDE, 0.2 * SIDE)) for _ in range(2))
    return warp(x, np.array([[1, 0, dx], [0, 1, dy]], np.float32))


def rotation(x, how=cv2.INTER_LINEAR, border=cv2.BORDER_REPLICATE):
    center = rng.uniform(0, 1, 2) * SIDE - 0.5
    return warp(x, cv2.getRotationMatrix2D(tuple(center), rng.uniform(-30, 30), 1), how, border)


case("rotation_nearest")(lambda x: rotation(x, cv2.INTER_NEAREST))
case("rotation_linear")(rotation)
case("rotation_cubic")(lambda x: rotation(x, cv2.INTER_CUBIC))
case("rotation_constant")(lambda x: rotation(x, border=cv2.BORDER_CONSTANT))
case("rotation_reflect")(lambda x: rotation(x, border=cv2.BORDER_REFLECT_101))


@case("rotation_crop")
def rotation_crop(x):
    degrees = rng.uniform(-15, 15)
    y = warp(x, cv2.getRotationMatrix2D((SIDE / 2 - 0.5, SIDE / 2 - 0.5), degrees, 1), border=cv2.BORDER_CONSTANT)
    a = math.radians(abs(degrees))
    side = int(SIDE / (math.cos(a) + math.sin(a)))
    y0 = (SIDE - side) // 2
    return y[y0:y0 + side, y0:y0 + side].copy()


def affine(x, translate, shear, degrees, how):
    m = cv2.getRotationMatrix2D((SIDE / 2 - 0.5, SIDE / 2 - 0.5), rng.uniform(-degrees, degrees), rng.uniform(0.9, 1.1))
    s = math.radians(rng.uniform(-shear, shear))
    m[0, 1], m[1, 1] = m[0, 1] + math.sin(s) * m[0, 0], m[1, 1] * math.cos(s) + m[1, 0] * math.sin(s)
    m[:, 2] += rng.uniform(-translate * SIDE, translate * SIDE, 2)
    return warp(x, m, how)


case("affine_linear")(lambda x: affine(x, 0.1, 10, 0, cv2.INTER_LINEAR))
case("affine_cubic")(lambda x: affine(x, 0, 0, 20, cv2.INTER_CUBIC))


@case("brightness")
def brightness(x):
    y = x.astype("float32")
    y += rng.uniform(-63, 63)
    return limited(y, x.dtype)


@case("brightness_scale")
def brightness_scale(x):
    y = x.astype("float32")
    y *= rng.uniform(0.6, 1.4)
    return limited(y, x.dtype)


@case("contrast")
def contrast(x):
    r, mean = rng.uniform(0.6, 1.4), np.mean(x, axis=(0, 1), keepdims=True)
    return limited(x * np.float32(r) + (mean * (1 - r)).astype("float32"), x.dtype)


@case("contrast_rgb")
def contrast_rgb(x):
    r, mean = rng.uniform(0.6, 1.4), np.mean(cv2.cvtColor(x, cv2.COLOR_RGB2GRAY))
    return limited(x * np.float32(r) + np.float32(mean * (1 - r)), x.dtype)


@case("saturation")
def saturation(x):
    v, grey = 1 + rng.uniform(-0.4, 0.4), cv2.cvtColor(x, cv2.COLOR_RGB2GRAY)
    return limited(x * np.float32(v) + (grey * np.float32(1 - v))[:, :, np.newaxis], x.dtype)


@case("hue")
def hue(x):
    hsv = cv2.cvtColor(x, cv2.COLOR_RGB2HSV)
    if x.dtype == np.uint8:
        hsv[..., 0] = (hsv[..., 0] + np.uint16(rng.uniform(0, 180))) % 180
    else:
        hsv[..., 0] = (hsv[..., 0] + np.float32(2 * rng.uniform(0, 180))) % 360
    return cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)


@case("gamma")
def gamma(x):
    table = ((np.arange(256, dtype="float32") / 255) ** (1.0 / (1.0 + rng.uniform(-0.5, 0.5))) * 255).astype("uint8")
    return cv2.LUT(x if x.dtype == np.uint8 else limited(x, "uint8"), table).astype(x.dtype)


case("clip")(lambda x: np.clip(x, 20, 200))
VALUES = np.float32([0.2175, 0.0188, 0.0045]) * 255
VECTORS = np.float32([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])


@case("lighting")
def lighting(x):
    plus = np.dot(VECTORS, np.float32(rng.randn(3) * 0.1) * VALUES)
    return limited(x.astype("float32") + plus, x.dtype)


def mean_variance(x, axes):
    y = x.astype("float32")
    deviation = np.maximum(np.std(y, axis=axes, keepdims=True), np.float32(1 / math.sqrt(y.size)))
    return (y - np.mean(y, axis=axes, keepdims=True)) / deviation


def min_max(x, axes):
    y = x.astype("float32")
    low, high = np.min(y, axis=axes, keepdims=True), np.max(y, axis=axes, keepdims=True)
    return np.float32(255) * (y - low) / (high - low)


case("mean_variance")(lambda x: mean_variance(x, None))
case("mean_variance_channels")(lambda x: mean_variance(x, (0, 1)))
case("min_max")(lambda x: min_max(x, None))
case("min_max_channels")(lambda x: min_max(x, (0, 1)))
case("grayscale")(lambda x: cv2.cvtColor(x, cv2.COLOR_RGB2GRAY)[:, :, np.newaxis])
case("grayscale_keepshape")(lambda x: np.stack([cv2.cvtColor(x, cv2.COLOR_RGB2GRAY)] * 3, axis=2))
case("rgb2bgr")(lambda x: cv2.cvtColor(x, cv2.COLOR_RGB2BGR))
case("rgb2hsv")(lambda x: cv2.cvtColor(x, cv2.COLOR_RGB2HSV))
case("hsv2rgb")(lambda x: cv2.cvtColor(x, cv2.COLOR_HSV2RGB))
case("to_float32")(lambda x: x.astype("float32"))
case("to_uint8")(lambda x: limited(x, "uint8"))


def blur(x, n, sigma=0):
    return cv2.GaussianBlur(x, (n, n), sigmaX=sigma, sigmaY=sigma, borderType=cv2.BORDER_REPLICATE)


for _n in (3, 5, 7, 13):
    case("blur_%d" % _n)(lambda x, n=_n: blur(x, n))
case("blur_5_sigma")(lambda x: blur(x, 5, rng.uniform(1, 2)))


@case("jpeg_noise")
def jpeg_noise(x):
    return cv2.imdecode(cv2.imencode(".jpg", x, [cv2.IMWRITE_JPEG_QUALITY, int(rng.randint(40, 100))])[1], 1)


case("gaussian_noise")(lambda x: limited(x + rng.randn(*x.shape) * 5, x.dtype))


@case("salt_pepper")
def salt_pepper(x):
    u, y = rng.uniform(size=x.shape), x.copy()
    y[u > 0.95] = 255
    y[u < 0.05] = 0
    return y


@case("cutout")
def cutout(x):
    y0, x0, y = rng.randint(0, SIDE - 63), rng.randint(0, SIDE - 63), x.copy()
    y[y0:y0 + 64, x0:x0 + 64] = 0
    return y


@case("imagenet")
def imagenet(x):
    x = google_net(x)
    for i in rng.permutation(4):
        x = (brightness_scale, contrast_rgb, saturation, lighting)[i](x)
    return cv2.flip(x, 1) if rng.uniform() < 0.5 else x


def image(dtype):
    y, x, c = np.meshgrid(np.arange(SIDE), np.arange(SIDE), np.arange(3), indexing="ij")
    v = 120 + 60 * np.sin(0.11 * y + c) + 40 * np.cos(0.07 * x - 0.5 * c) + 16 * rng.uniform(size=y.shape)
    return np.floor(v).astype(dtype)


def peer_us(name, seconds):
    f, x = CASES[name.replace(".f32", "")], image("float32" if name.endswith(".f32") else "uint8")
    f(x)
    times, end = [], time.perf_counter() + seconds
    while len(times) < 20 or time.perf_counter() < end:
        begin = time.perf_counter()
        f(x)
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


def main():
    p = argparse.ArgumentParser()
    p.add_argument("name", nargs="?", default="")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=0.2)
    a = p.parse_args()
    cv2.setNumThreads(1)
    measured = {}
    for _ in range(a.rounds):
        out = subprocess.run(["build/augmentors", a.name, str(a.seconds)], check=True, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True)
        for line in out.stdout.splitlines():
            row = json.loads(line)
            measured.setdefault(row["op"], []).append((row["us"], peer_us(row["op"], a.seconds)))
    ratios = {"uint8": [], "float32": []}
    for name, rows in measured.items():
        us, peer = (statistics.median(r) for r in zip(*rows))
        ratios["float32" if name.endswith(".f32") else "uint8"].append((peer / us, name))
        print(json.dumps({"op": name, "us": round(us, 1), "peer_us": round(peer, 1), "ratio": round(peer / us, 2)}), flush=True)
    for what, values in ratios.items():
        if values:
            mean = math.exp(statistics.mean(math.log(r) for r, _ in values))
            print(json.dumps({"all": what, "cases": len(values), "geometric_mean": round(mean, 2),
                              "least": round(min(values)[0], 2), "of": min(values)[1]}))


main()
