#!/usr/bin/env bash
# Every name of tp that a comment of the headers mentions exists in their code: a renamed function leaves no comment behind.
set -eu
cd "$(dirname "$0")/.."
command -v python3 >/dev/null || { echo "python3 is missing"; exit 77; }
python3 - <<'PY'
import glob, re, sys

LITERAL_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|/\*.*?\*/|//[^\n]*', re.S)
NAME = re.compile(r'\b(?:tp|TP)_\w+')
PASTED = re.compile(r'_(f32|f64|sse2|avx2|avx512|neon)$')  # suffixes that a macro adds
code, mentioned = [], []
for path in sorted(glob.glob('tp_*.h') + ['tp_cuda.cu']):
    def take(match, path=path):
        text = match.group()
        if text[0] != '/':
            return text
        line = match.string.count('\n', 0, match.start()) + 1
        mentioned.extend((m.group(), path, line + text.count('\n', 0, m.start())) for m in NAME.finditer(text))
        return ' '
    code.append(LITERAL_OR_COMMENT.sub(take, open(path, encoding='utf-8').read()))
known = set(NAME.findall('\n'.join(code))) | {'tp__' + n for n in re.findall(r'\bTP__F\((\w+)\)', '\n'.join(code))}
unknown = 0
for name, path, line in mentioned:
    stem = PASTED.sub('', name)
    if name in known or stem in known or name + '_' in known or name.endswith('_') and any(k.startswith(name) for k in known):
        continue
    print(f'{path}:{line}: there is no {name}')
    unknown += 1
if len(mentioned) < 1000 or len(known) < 1000:
    sys.exit('the headers were not read')
sys.exit(unknown > 0)
PY
echo ok
