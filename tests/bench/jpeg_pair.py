"""JPEG pipelines in turn: a line of JSON for each, with the medians of the rounds.
usage: jpeg_pair.py python folder workers rounds seconds"""
import json
import os
import statistics
import subprocess
import sys

python, folder, workers, rounds, seconds = sys.argv[1:6]
packed = 'build/jpeg.tfrecord'
subprocess.run(['build/jpeg', folder, '1', '1', 'pack', packed], check=True)
ours = ['build/jpeg'] + (['build/jpeg_libjpeg'] if os.path.exists('build/jpeg_libjpeg') else [])
alone = ['build/jpeg_stb'] + (['build/jpeg_alone'] if len(ours) > 1 else [])
commands = [[a, folder, workers, seconds] + more for a in alone for more in ([], ['read'])]
base = len(commands) + 1 # ours, u8, from files, by stb_image
commands += [['build/jpeg', folder, workers, seconds, what] for what in ('decode', 'u8', 'f32')]
commands += [[o, packed, workers, seconds, 'u8'] for o in ours]
commands += [[o, folder, workers, seconds, 'u8'] for o in ours[1:]]
commands += [[o, folder, workers, seconds, 'u8', 'cached'] for o in ours]
commands += [[python, 'tests/bench/jpeg_peer.py', which, folder, workers, seconds] for which in ('pil', 'torch')]
runs = [[] for _ in commands]
for _ in range(int(rounds)):
    for command, got in zip(commands, runs):
        r = subprocess.run(command, capture_output=True, text=True)
        line = r.stdout.strip().splitlines()[-1:]
        if r.returncode == 0 and line:
            got.append(json.loads(line[0]))
        elif not got:
            sys.stderr.write(' '.join(command) + ': ' + r.stderr[-300:])
speed = [statistics.median(l['images_per_s'] for l in got) if got else None for got in runs]
for got, mine in zip(runs, speed):
    if not got:
        continue
    line = dict(got[0], images_per_s=round(mine), rounds=len(got), ours_u8_ratio=round(speed[base] / mine, 3))
    if 'cpu_us' in line:
        line['cpu_us'] = statistics.median(l['cpu_us'] for l in got)
    print(json.dumps(line))
