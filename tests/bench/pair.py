"""Ours and every variant of the peer, interleaved: ours A ours B ours A ...; medians of the rounds' medians.
usage: pair.py python peer.py workload threads rounds seconds      VARIANTS="eager;compile --channels-last": only these"""
import json, os, statistics, subprocess, sys

python, peer, workload, threads, rounds, seconds = sys.argv[1:7]


def last_json(cmd):
    run = subprocess.run(cmd, capture_output=True, text=True)
    for line in reversed(run.stdout.strip().splitlines()):
        if line.startswith('{'):
            return json.loads(line)
    sys.stderr.write(' '.join(cmd) + '\n' + run.stderr[-600:] + '\n')
    return None


def ours():
    return last_json(['build/bench', workload, threads, seconds])


variants = [['--mode', 'eager'], ['--mode', 'compile'], ['--mode', 'eager', '--foreach']]
if workload.split('.')[0] in ('mnistcnn', 'resnet20') or workload.startswith('infer.'):
    variants += [['--mode', 'eager', '--channels-last'], ['--mode', 'compile', '--channels-last']]
if workload.startswith('infer.'):
    variants += [['--mode', 'jit']]
if os.environ.get('VARIANTS'):
    variants = [['--mode'] + v.split() for v in os.environ['VARIANTS'].split(';')]
mine, theirs = [], {}
for _ in range(int(rounds)):
    for v in variants:
        key = ' '.join(v)
        if key in theirs and not theirs[key]:
            continue  # this variant does not run here
        r = ours()
        if r is None:
            sys.exit('ours does not run')
        mine.append(r)
        p = last_json([python, peer, '--workload', workload, '--threads', threads, '--seconds', seconds] + v)
        theirs.setdefault(key, [])
        if p is not None:
            theirs[key].append(p)
ms = statistics.median(r['ours_ms'] for r in mine)
base = dict(mine[0])
lines = []
for key, runs in theirs.items():
    if not runs:
        continue
    peer_ms = statistics.median(p['ms'] for p in runs)
    lines.append(dict(workload=workload, threads=int(threads), isa=base['isa'], ours_ms=round(ms, 4), peer=runs[0]['peer'], peer_ms=round(peer_ms, 4),
                      ratio=round(peer_ms / ms, 3), roofline_ms=round(statistics.median(r['roofline_ms'] for r in mine), 4),
                      ours_rss_mb=base['rss_mb'], peer_rss_mb=runs[0].get('rss_mb'), first_step_s=base['first_step_s'], rounds=int(rounds)))
for line in sorted(lines, key=lambda l: -l['peer_ms']):
    print(json.dumps(line))
