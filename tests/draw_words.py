#!/usr/bin/env python3
"""Draws comments and names at random, so that somebody can judge them as a new reader would.

    python3 tests/draw_words.py [--seed 19] [--count 40]

Prints COUNT comments and COUNT names of tp_*.h and tp_cuda.cu, each with file:line and without the code around it. The
same seed on the same files draws the same lines. Read each one alone and ask: does a person who knows C and deep
learning, but not this project, understand it at the first reading?

A comment of several lines is one comment. Not counted: comments that consist of a banner or rule (===, ---), comments
after #endif or #else, comments within rows of a table ({"name", ...}), and those for clang-format.

Names are functions, types, struct fields, enum values and macros' constants, and local variables and parameters of more
than two letters; each is counted once per function or struct. A name is printed with its declaration's type and with
the struct or function that it belongs to.
"""
import argparse
import glob
import os
import random
import re

LITERAL_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z])\'(?:\\.|[^\'\\\n])+\'|/\*.*?\*/|//[^\n]*', re.S)
TYPE = (r'(?:(?:const|static|unsigned|struct|enum|volatile|register)\s+)*'
        r'(?:tp_\w+|tp__\w+|\w+_t|void|bool|char|short|int|long long|long|float|double|unsigned|size_t|FILE|cuda\w+|cu\w+)')
DECLARATION = re.compile(r'(?:^\s*|[;{(,]\s*)(' + TYPE + r')\b((?:\s*\*+(?:\s*const\b)?)*\s*)(\w+)(?=\s*(?:[=;,)\[:]|$))')
MORE = re.compile(r',\s*(\**)(\w+)(?=\s*(?:[=;,\[]))')
KEYWORDS = set('return else const case goto sizeof void static struct unsigned int long char NULL true false'.split())


def blank(text):
    """Comments, strings and preprocessor lines become spaces, so that lines and columns stay."""
    def spaces(match):
        return re.sub(r'[^\n]', ' ', match.group())
    text = LITERAL_OR_COMMENT.sub(spaces, text)
    text = re.sub(r'__attribute__\(\(.*?\)\)|alignas\([^\n]*?\) ', spaces, text)
    return re.sub(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', spaces, text, flags=re.M)


def comments(path, text):
    for match in LITERAL_OR_COMMENT.finditer(text):
        found = match.group()
        if found[0] != '/':
            continue
        start = text.rfind('\n', 0, match.start()) + 1
        before = text[start:match.start()].strip()
        if before.startswith(('#endif', '#else', '{"')) or (before == '' and text[match.end():match.end() + 1] == '{'):
            continue
        words = re.sub(r'\s*\n\s*\*?\s*', ' ', found[2:-2] if found[1] == '*' else found[2:]).strip()
        if not re.search(r'[A-Za-z]{2}', words) or words.startswith(('clang-format', '====', '-- ')):
            continue
        yield f'{path}:{text.count(chr(10), 0, match.start()) + 1}', words


def names(path, text):
    seen = set()
    owner, depth, kind = '', 0, ''
    for number, line in enumerate(blank(text).split('\n'), 1):
        if line.startswith('extern'):
            continue
        if depth == 0:
            aggregate = re.match(r'(?:typedef\s+)?(struct|union|enum)\s*(\w*)', line)
            function = re.match(r'(?!typedef|struct \w+ \{|enum)[A-Za-z_].*?(\w+)\s*\((?!\*)', line)
            if aggregate and not line.rstrip().endswith(')') and ';' not in line:
                owner, kind = aggregate.group(2) or '(unnamed)', aggregate.group(1)
                found = [('type', aggregate.group(1), aggregate.group(2))] if aggregate.group(2) else []
            elif function and function.group(1).lower() == function.group(1):
                owner, kind = function.group(1), 'function'
                result = line[:function.start(1)].replace('TP_DEF', '').replace('static', '').strip()
                found = [('function', result, owner)]
            else:
                found = []
            for row in found:
                if row[2] and (row[0], row[2]) not in seen:
                    seen.add((row[0], row[2]))
                    yield f'{path}:{number}', f'{row[0]}  {row[1]} {row[2]}' + ('()' if row[0] == 'function' else '')
        if kind == 'enum' and depth > 0:
            rows = [('constant', '', name) for name in re.findall(r'(?:^|,|\{)\s*([A-Z]\w+)', line)]
        elif depth > 0 or kind == 'function':
            what = 'field' if kind in ('struct', 'union') else 'local'
            rows = []
            if what == 'field':
                rows += [(what, 'function pointer', name) for name in re.findall(r'\(\*(\w+)(?:\[\w*\])*\)\(', line)]
            for match in DECLARATION.finditer(line):
                if what == 'field' and '(' in line[:match.start(1)]:
                    break
                kind_of = re.sub(r'\s+', ' ', match.group(1) + ' ' + match.group(2)).strip()
                if line[match.end(3):].lstrip().startswith('['):
                    kind_of += '[]'
                rows.append((what, kind_of, match.group(3)))
                if '(' not in line[:match.start(1)] and ('(' not in line or what == 'field'):
                    rows += [(what, kind_of.rstrip(' *[]') + ' ' + m.group(1), m.group(2)) for m in MORE.finditer(line, match.end(3))]
        else:
            rows = []
        for what, kind_of, name in rows:
            short = len(name) < 3 and what == 'local'
            if short or name in KEYWORDS or not re.match('[A-Za-z_]', name) or (owner, name) in seen:
                continue
            seen.add((owner, name))
            yield f'{path}:{number}', f'{what}  {kind_of} {name}  of {owner}'.replace('  constant', 'constant')
        depth = max(0, depth + line.count('{') - line.count('}'))
        if depth == 0 and (';' in line or '}' in line):
            kind = ''


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--seed', type=int, default=19)
    parser.add_argument('--count', type=int, default=40)
    options = parser.parse_args()
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
    all_comments, all_names = [], []
    for full in sorted(glob.glob(os.path.join(root, 'tp_*.h'))) + [os.path.join(root, 'tp_cuda.cu')]:
        with open(full, encoding='utf-8') as file:
            text = file.read()
        all_comments += comments(os.path.basename(full), text)
        all_names += names(os.path.basename(full), text)
    draw = random.Random(options.seed)
    print(f'{len(all_comments)} comments, {len(all_names)} names, seed {options.seed}')
    for number, (place, words) in enumerate(draw.sample(all_comments, options.count), 1):
        print(f'C{number:02d} {place}: {words}')
    for number, (place, words) in enumerate(draw.sample(all_names, options.count), 1):
        print(f'N{number:02d} {place}: {words}')


if __name__ == '__main__':
    main()
