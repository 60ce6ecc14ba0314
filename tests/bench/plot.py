#!/usr/bin/env python3
"""Draws tests/bench/speed.svg, the README's picture: PyTorch's time of a step divided by tp's, from the newest table of RESULTS.md that
has both (columns workload, threads, ours, PyTorch, ratio ...; the last column holds the ratio of a second run).

    python3 tests/bench/plot.py            writes the picture
    python3 tests/bench/plot.py --check    fails if it is not what the table says"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
NAMES = {"mnistcnn.b128": "MNIST convnet, batch 128", "resnet20.b128": "ResNet-20, batch 128", "mlp.b128": "MLP, batch 128",
         "mlp.b16": "MLP, batch 16", "mlp.b1": "MLP, batch 1", "lstm128.b128": "LSTM 128, batch 128",
         "lstm256.b128": "LSTM 256, batch 128", "gpt.tiny": "small GPT", "infer.mnistcnn": "inference, MNIST convnet",
         "infer.resnet20": "inference, ResNet-20", "infer.mlp": "inference, MLP"}
COLOURS = {"1": "#3b6ea8", "2": "#9db8d6"}
LEFT, SCALE, BAR = 190, 42, 11


def ratios():
    rows = {}
    for line in (HERE / "RESULTS.md").read_text().splitlines():
        cell = [c.strip() for c in line.strip("|").split("|")]
        if len(cell) == 10 and cell[0] in NAMES and (cell[0], cell[1]) not in rows:
            second = re.findall(r"[\d.]+", cell[9])[-1]
            rows[cell[0], cell[1]] = (float(cell[4]) + float(second)) / 2
    return rows


def picture(rows):
    out, y = [], 34
    for name, title in NAMES.items():
        if (name, "1") not in rows:
            continue
        out.append(f'<text x="{LEFT - 8}" y="{y + BAR + 4}" text-anchor="end">{title}</text>')
        for threads in "12":
            ratio = rows[name, threads]
            out.append(f'<rect x="{LEFT}" y="{y}" width="{ratio * SCALE:.1f}" height="{BAR}" fill="{COLOURS[threads]}"/>')
            out.append(f'<text x="{LEFT + ratio * SCALE + 4:.1f}" y="{y + BAR - 2}" class="n">{ratio:.1f}</text>')
            y += BAR + 1
        y += 8
    one = LEFT + SCALE
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="680" height="{y + 8}" font-family="sans-serif" font-size="12">\n'
            "<style>.n { font-size: 10px }</style>\n"
            f'<rect width="680" height="{y + 8}" fill="#ffffff"/>\n'
            f'<rect x="{LEFT}" y="12" width="10" height="10" fill="{COLOURS["1"]}"/><text x="{LEFT + 14}" y="21">1 thread</text>\n'
            f'<rect x="{LEFT + 80}" y="12" width="10" height="10" fill="{COLOURS["2"]}"/><text x="{LEFT + 94}" y="21">2 threads</text>\n'
            f'<text x="{LEFT + 180}" y="21">how many times as fast as PyTorch (line: as fast)</text>\n')
    line = f'<path d="M{one} 28V{y}" stroke="#a03030" stroke-dasharray="3 3"/>\n'
    return head + "\n".join(out) + "\n" + line + "</svg>\n"


if __name__ == "__main__":
    new, path = picture(ratios()), HERE / "speed.svg"
    if "--check" in sys.argv:
        if not path.exists() or path.read_text() != new:
            sys.exit("tests/bench/speed.svg is not what RESULTS.md says: python3 tests/bench/plot.py")
    else:
        path.write_text(new)
