"""What tests/bench/jpeg.c does, by Pillow and numpy in processes, or by torchvision in a DataLoader: one JSON line.

    python3 tests/bench/jpeg_peer.py pil|torch <folder of class folders> <workers> <seconds>

Batches of 128 of uint8: decoded, padded by 4, cropped to 32x32, flipped, brightness +-63, contrast 0.2 to 1.8. A task is a whole
batch, so that processes seldom speak to each other. Exit 77: what it needs is not installed."""
import glob
import json
import multiprocessing
import os
import sys
import time

BATCH = 128


def pil_batch(task):
    seed, files = task
    r = np.random.default_rng(seed)
    out = np.empty((len(files), 32, 32, 3), np.uint8)
    for i, f in enumerate(files):
        with Image.open(f) as image:
            x = np.asarray(image.convert('RGB'))
        x = np.pad(x, ((4, 4), (4, 4), (0, 0)))
        y0, x0 = r.integers(0, 9, 2)
        x = x[y0:y0 + 32, x0:x0 + 32]
        if r.random() < 0.5:
            x = x[:, ::-1]
        x = np.clip(x.astype(np.float32) + r.uniform(-63, 63), 0, 255)
        mean = x.mean((0, 1))
        out[i] = np.clip((x - mean) * r.uniform(0.2, 1.8) + mean, 0, 255)
    return out


def pil_batches(files, workers):
    def tasks():
        for k in range(1 << 30):
            order = np.random.default_rng(k).permutation(len(files))
            for i in range(len(files) // BATCH):
                yield (k, i), [files[j] for j in order[i * BATCH:(i + 1) * BATCH]]
    with multiprocessing.Pool(workers) as pool:
        waiting, source = [], tasks()
        while True:
            while len(waiting) < 4 * workers:
                waiting.append(pool.apply_async(pil_batch, (next(source),)))
            yield len(waiting.pop(0).get())


def torch_batches(folder, workers):
    t = transforms.Compose([transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(),
                            transforms.ColorJitter(brightness=0.25, contrast=(0.2, 1.8)), transforms.PILToTensor()])
    loader = torch.utils.data.DataLoader(datasets.ImageFolder(folder, t), BATCH, shuffle=True, num_workers=workers, drop_last=True,
                                         persistent_workers=True)
    while True:
        for x, _ in loader:
            yield len(x)


if __name__ == '__main__':
    which, folder, workers, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    try:
        if which == 'pil':
            import numpy as np
            import PIL
            from PIL import Image
            name = 'Pillow %s, numpy %s' % (PIL.__version__, np.__version__)
        else:
            import torch
            import torchvision
            from torchvision import datasets, transforms
            name = 'torchvision %s, PyTorch %s' % (torchvision.__version__, torch.__version__)
    except ImportError as e:
        sys.stderr.write('left out: %s\n' % e)
        sys.exit(77)
    files = sorted(glob.glob(os.path.join(folder, '*', '*')))
    batches = pil_batches(files, workers) if which == 'pil' else torch_batches(folder, workers)
    for _ in range(4 * workers):
        next(batches)
    n, start = 0, time.monotonic()
    while time.monotonic() - start < seconds:
        n += next(batches)
    rate = n / (time.monotonic() - start)
    print(json.dumps(dict(pipeline=name, workers=workers, images_per_s=round(rate))), flush=True)
    os._exit(0) if which == 'torch' else batches.close()
