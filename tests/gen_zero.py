#!/usr/bin/env python3
"""What zero means in each option: every field of every descriptor of the headers has its row in tests/zero_options.tsv.

    python3 tests/gen_zero.py           says what is missing in the table
    python3 tests/gen_zero.py --check   the same, as tests/check_zero.sh runs it
    python3 tests/gen_zero.py --write   writes tests/zero_named.h, from which tests/test_named.c is made

A row is: struct.field, spelling, note. The spelling is how an explicit zero is written where zero can be meant and unset is
something else: TP_ZERO, TP_NONE, (uint64_t)TP_NONE, TP_NO, or another field's name. It is "-" where no spelling is needed, and
the note says why: zero is what unset does, or means nothing. Each spelling stands at its field in the header, and
tests/test_zero.c, or tests/test_zmq.c, has a ZERO(struct, field) that shows what it does."""
import os
import re
import sys

TESTS = os.path.dirname(os.path.abspath(__file__))
HEADERS = ["tensor", "graph", "layers", "optim", "input", "callbacks", "train", "export", "import"]
SPELLINGS = {"TP_ZERO", "TP_NONE", "(uint64_t)TP_NONE", "TP_NO", "TP_NO_STEPS"}


def fields_of(body):
    """(name, type, comment) of each field; a comment belongs to the declaration that it stands behind, or else before."""
    body = body.strip("\n")
    body = re.sub(r"(?m)^\s*(/\*(?:(?!\*/).)*\*/)\s*\n\s*([^;]*;)", r" \2 \1\n", body, flags=re.S)
    for m in re.finditer(r"([^;]+);[ \t]*(/\*.*?\*/)?", body, re.S):
        text = " ".join(re.sub(r"/\*.*?\*/", " ", m.group(1), flags=re.S).split())
        if not text:
            continue
        pointer = re.search(r"\(\*(\w+)\)", text)
        if pointer:
            yield pointer.group(1), "function", m.group(2) or ""
            continue
        first, *more = text.split(",")
        kind, name = re.match(r"(.*?)(\w+)(?:\[[^\]]*\])?$", first.strip()).groups()
        yield name, kind.strip() + ("[]" if "[" in first else ""), m.group(2) or ""
        for other in more:
            yield re.search(r"(\w+)", other).group(1), kind.strip(), m.group(2) or ""


header_of = {}  # of a struct


def options():
    found = {}
    for h in HEADERS:
        text = open(os.path.join(TESTS, "..", "tp_%s.h" % h)).read()
        structs = list(re.finditer(r"^typedef struct(?: \w+)? \{(.*?)^\} (tp_[a-z]\w*_(?:desc|config|attrs));", text, re.M | re.S))
        ends = re.findall(r"^\} tp_[a-z]\w*_(?:desc|config|attrs);", text, re.M)
        if len(structs) != len(ends):
            sys.exit("gen_zero.py: tp_%s.h has %d descriptors, %d were read" % (h, len(ends), len(structs)))
        for m in structs:
            body = m.group(1).split("typedef struct")[-1]  # a smaller struct right before
            body = body[body.index("{") + 1:] if "{" in body else body
            for name, kind, comment in fields_of(body):
                if name != "at_":
                    found["%s.%s" % (m.group(2), name)] = (kind, comment)
                    header_of[m.group(2)] = h
    return found


def rows():
    table = {}
    for i, line in enumerate(open(os.path.join(TESTS, "zero_options.tsv"))):
        if line.startswith("#"):
            continue
        cells = line.rstrip("\n").split("\t")
        if len(cells) != 3 or not all(cells) or cells[0] in table:
            sys.exit("zero_options.tsv:%d: three cells, each option once" % (i + 1))
        table[cells[0]] = cells[1:]
    return table


NAMED = os.path.join(TESTS, "zero_named.h")


def named(table):
    """The options with a spelling, for the test that names them with a zero."""
    lines = ["/* Each option of tests/zero_options.tsv whose zero has a spelling. Written by tests/gen_zero.py --write. */"]
    for name, (spelling, _) in table.items():
        if spelling in SPELLINGS:
            struct, field = name.split(".")
            lines.append("NAMED(%s, %s, %s, %s)" % (header_of[struct], struct, field, spelling))
    return "\n".join(lines) + "\n"


def main():
    there, table, wrong = options(), rows(), []
    if sys.argv[1:] == ["--write"]:
        open(NAMED, "w").write(named(table))
    elif open(NAMED).read() != named(table):
        wrong.append("tests/zero_named.h is not of this table: python3 tests/gen_zero.py --write")
    shown = set()
    for name in ("test_zero.c", "test_zmq.c"):  # what sockets show is in the second
        shown |= set(re.findall(r"^ZERO\((\w+), (\w+)\)", open(os.path.join(TESTS, name)).read(), re.M))
    shown = {"%s.%s" % pair for pair in shown}
    for name, (kind, comment) in there.items():
        if name not in table:
            wrong.append("%s (%s) has no row in zero_options.tsv: say how a zero is written, or - and why none is needed"
                         % (name, kind))
            continue
        spelling = table[name][0]
        if spelling == "-":
            if "*" not in kind and re.search(r"TP_ZERO|TP_NONE|default TP_YES|0 = TP_YES", comment, re.I):
                wrong.append("%s: its comment has a spelling of zero, its row has none" % name)
            if name in shown:
                wrong.append("%s: test_zero.c shows it, its row has no spelling" % name)
            continue
        if name not in shown:
            wrong.append("%s: no ZERO(%s) in test_zero.c shows that %s works" % (name, name.replace(".", ", "), spelling))
        if spelling == "TP_NO":
            if kind not in ("int", "tp_tri"):
                wrong.append("%s is %s: it has no TP_NO" % (name, kind))
        elif spelling in SPELLINGS:
            if spelling not in comment and "seed" not in name and "see tp_train_config" not in comment:
                wrong.append("%s: its comment in the header does not name %s" % (name, spelling))
        elif name.split(".")[0] + "." + spelling not in there:
            wrong.append("%s: %s is neither a spelling nor a field of the same struct" % (name, spelling))
    wrong += ["%s: a row, but no such field" % name for name in table if name not in there]
    wrong += ["%s: a ZERO in test_zero.c, but no such field" % name for name in shown if name not in there]
    print("\n".join(wrong) or "%d options, %d with a spelling of zero" % (len(there), len(shown)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
