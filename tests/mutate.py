#!/usr/bin/env python3
"""Small changes to the headers, at random: does a test notice?

    python3 -m venv build/venv && build/venv/bin/pip install libclang==14.0.6
    build/venv/bin/python tests/mutate.py [--seed 1] [--count 200] [--only tp_graph.h] [--jobs 1] [--show] [--check]

All changes are compiled into one build and switched at run time (tests/mutate.h). Each test case runs once by itself, which
tells the changes that it reaches and how long it takes; then, for each change, the cases that reach it run, the quickest
first, until one fails, crashes or takes too long. Tests that need a library are used where it is installed; the test of GPUs runs
with the stand-in for CUDA, test_mpi on three ranks too. What no case notices runs once more with the address and undefined
behaviour sanitizers. Printed are the changes that were not noticed, and the share by header. Changes in
tests/mutate_equivalent.txt (header, function, text, changed text, reason; by tabs) do not change behaviour and do not count.

The changes: a comparison turned, a bound moved by one, && for ||, + for -, a statement dropped, a constant changed, a
returned value changed, a condition negated; places by clang's syntax tree (pip install libclang), inside of functions, not
in macros, nor in tp_cuda.cu. As root the tests run as nobody: a changed program may remove what it should not.
"""
import argparse, concurrent.futures, os, pathlib, random, re, resource, shutil, signal, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "build/mutate"
HEADERS = sorted(p.name for p in ROOT.glob("tp_*.h"))
QUIET = "-w"


class Mutant:
    def __init__(self, header, function, line, start, end, kind, old, new, text):
        self.header, self.function, self.line = header, function, line
        self.start, self.end, self.kind = start, end, kind
        self.old, self.new, self.text = one_line(old), one_line(new), text  # text(n): what stands there instead
        self.killed_by = None

    def __str__(self):
        return f"{self.header}:{self.line}: {self.function}: {self.kind}: `{self.old}` -> `{self.new}`"


def one_line(s):
    return " ".join(re.sub(r"/\*.*?\*/", " ", s, flags=re.S).split())


def candidates(header_texts):
    """Every place that can be changed, and how."""
    from clang.cindex import Index, CursorKind as K, TypeKind as T, StorageClass

    source = OUT / "all.c"
    source.write_text("#define TP_IMPLEMENTATION\n" + "".join(f'#include "{h}"\n' for h in HEADERS))
    # libclang comes without clang's own headers
    include = subprocess.run(["clang", "-print-resource-dir"], capture_output=True, text=True).stdout.strip() + "/include"
    tu = Index.create().parse(str(source), args=["-std=gnu11", f"-I{ROOT}", f"-isystem{include}"])
    bad = [d for d in tu.diagnostics if d.severity >= 3]
    if bad:
        print("clang:", *bad[:5], sep="\n  ")
    found = []
    turned = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
    moved = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}

    def visit_function(fn, header, text):
        def piece(c):
            a, b = c.extent.start, c.extent.end
            if not a.file or os.path.basename(a.file.name) != header or not b.file or b.file.name != a.file.name:
                return None
            return (a.offset, b.offset) if a.offset < b.offset else None

        def add(c_line, start, end, kind, old, new, make):
            found.append(Mutant(header, fn.spelling, c_line, start, end, kind, old, new, make))

        def operator(c, kids):
            if len(kids) != 2:
                return None
            whole, l, r = piece(c), piece(kids[0]), piece(kids[1])
            if not (whole and l and r and whole[0] == l[0] and whole[1] == r[1] and l[1] <= r[0]):
                return None
            return one_line(text[l[1]:r[0]]), whole, text[l[0]:l[1]], text[r[0]:r[1]]

        def expression(line, whole, kind, old, new):
            add(line, *whole, kind, old, new,
                lambda n: f"(TP_MUTANT({n}) ? ({one_line(new)}) : ({old}))")

        def visit(c, parent):
            kids = list(c.get_children())
            kind, line = c.kind, c.location.line
            if kind == K.VAR_DECL and c.storage_class == StorageClass.STATIC:
                return
            if kind in (K.ENUM_DECL, K.STRUCT_DECL, K.UNION_DECL, K.CXX_UNARY_EXPR, K.TYPEDEF_DECL):
                return  # constant expressions; sizeof
            if kind == K.BINARY_OPERATOR:
                o = operator(c, kids)
                if o:
                    op, whole, l, r = o
                    for table, name in ((turned, "comparison turned"), (moved, "bound moved"),
                                        ({"&&": "||", "||": "&&"}, "&& / ||"), ({"+": "-", "-": "+"}, "+ / -")):
                        if op in table:
                            fix = (lambda s: f"({s})") if name == "&& / ||" else (lambda s: s)
                            expression(line, whole, name, text[slice(*whole)], f"{fix(l)} {table[op]} {fix(r)}")
            if kind == K.COMPOUND_ASSIGNMENT_OPERATOR:
                o = operator(c, kids)
                if o and o[0] in ("+=", "-="):
                    new = {"+=": "-=", "-=": "+="}[o[0]]
                    expression(line, o[1], "+ / -", text[slice(*o[1])], f"{o[2]} {new} {o[3]}")
            if kind in (K.INTEGER_LITERAL, K.FLOATING_LITERAL):
                w = piece(c)
                if w and re.fullmatch(r"[0-9][0-9a-fA-FxX.eE+uUlLf-]*", text[slice(*w)]):
                    old = text[slice(*w)]
                    new = f"{old} + 1" if kind == K.INTEGER_LITERAL else f"{old} * 2 + 1"
                    expression(line, w, "constant", old, new)
            if kind == K.RETURN_STMT and kids:
                w = piece(kids[0])
                t = fn.result_type.get_canonical().kind
                spelled = fn.result_type.spelling
                if w:
                    old = text[slice(*w)]
                    if t == T.BOOL: new = f"!({old})"
                    elif spelled == "tp_status": new = "TP_ERR" if old == "TP_OK" else "TP_OK"
                    elif t in (T.POINTER,): new = "0" if old != "NULL" else None
                    elif t in (T.RECORD, T.VECTOR, T.ENUM): new = None
                    else: new = f"({old}) + 1"
                    if new:
                        cast = f"({spelled})" if t == T.POINTER else ""
                        add(line, *w, "returned value", "return " + old, "return " + new,
                            lambda n: f"(TP_MUTANT({n}) ? {cast}({one_line(new)}) : ({old}))")
            if kind in (K.IF_STMT, K.CONDITIONAL_OPERATOR, K.WHILE_STMT) and kids:
                w = piece(kids[0])
                if w and w != piece(c) and not (kind == K.CONDITIONAL_OPERATOR and w[0] != (piece(c) or (0,))[0]):
                    old = text[slice(*w)]
                    before, after = text[:w[0]].rstrip()[-1:], text[w[1]:].lstrip()[:1]
                    if (kind == K.CONDITIONAL_OPERATOR and after == "?") or (before == "(" and after == ")"):
                        add(line, *w, "condition negated", old, f"!({old})",
                            lambda n: f"(TP_MUTANT({n}) ? !({one_line(old)}) : !!({old}))")
            body = parent is not None and parent.kind in (K.COMPOUND_STMT, K.IF_STMT, K.FOR_STMT, K.WHILE_STMT)
            if body and (kind in (K.CALL_EXPR, K.UNARY_OPERATOR, K.COMPOUND_ASSIGNMENT_OPERATOR) or
                         kind == K.BINARY_OPERATOR and (operator(c, kids) or "?")[0] == "="):
                w = piece(c)
                after = re.match(r"\s*;", text[w[1]:w[1] + 80]) if w else None
                before = re.sub(r"/\*.*?\*/\s*$", "", text[max(0, w[0] - 400):w[0]].rstrip(), flags=re.S).rstrip() if w else ""
                if after and (before[-1:] in ";{}):" or before.endswith(("else", "do"))) and \
                        not re.match(r"\(void\)", text[w[0]:]):
                    end = w[1] + after.end()
                    old = text[w[0]:end]
                    add(line, w[0], end, "statement dropped", old, ";",
                        lambda n: f"{{ if (!TP_MUTANT({n})) {old} }}")
            array = kind == K.VAR_DECL and c.type.get_canonical().kind in (T.CONSTANTARRAY, T.INCOMPLETEARRAY)
            for i, k in enumerate(kids):
                if kind == K.CASE_STMT and i == 0 or array and k.kind != K.INIT_LIST_EXPR:
                    continue
                visit(k, c)

        body = [k for k in fn.get_children() if k.kind == K.COMPOUND_STMT]
        if body:
            visit(body[0], None)

    for c in tu.cursor.get_children():
        if c.kind == K.FUNCTION_DECL and c.is_definition() and c.location.file:
            header = os.path.basename(c.location.file.name)
            if header in header_texts:
                visit_function(c, header, header_texts[header])
    return found


def equivalent_rows():
    """(header, function, text, changed text) of each row of mutate_equivalent.txt."""
    lines = (ROOT / "tests/mutate_equivalent.txt").read_text().splitlines()
    return [tuple(line.split("\t")[:4]) for line in lines if line and not line.startswith("#")]


def choose(found, count, rng, taken):
    """Kinds alike often, places that do not overlap."""
    kinds = sorted({m.kind for m in found})
    by_kind = {k: [m for m in found if m.kind == k] for k in kinds}
    for k in kinds:
        rng.shuffle(by_kind[k])
    chosen, i = [], 0
    while len(chosen) < count and any(by_kind.values()):
        pool = by_kind[kinds[i % len(kinds)]]
        i += 1
        while pool:
            m = pool.pop()
            if not any(t.header == m.header and m.start < t.end and t.start < m.end for t in taken + chosen):
                chosen.append(m)
                break
    return chosen, by_kind


def compile_all(flags, name, tests, jobs):
    """The implementation once, then each test; returns the programs."""
    folder = OUT / name
    folder.mkdir(exist_ok=True)
    implemented = [f"-DTP__{h[3:-2].upper()}_IMPLEMENTED" for h in HEADERS]
    cc = ["gcc", "-std=gnu11", QUIET, *flags, "-include", str(OUT / "tests/mutate.h"), f"-I{OUT}"]
    subprocess.run([*cc, "-c", str(OUT / "all.c"), "-o", str(folder / "all.o")], check=True)
    subprocess.run([*cc, "-c", str(OUT / "tests/mutate_switch.c"), "-o", str(folder / "switch.o")], check=True)

    def one(test):
        source, exe = OUT / "tests" / f"{test}.c", folder / test
        inside = re.search(r"^#define (TP_STATIC|TP_NAIVE)", source.read_text(), re.M)
        more = [] if inside else [*implemented, str(folder / "all.o")]
        needs = re.search(r"^/\* needs: (\S+) (.*) \*/$", source.read_text(), re.M)  # as in run.sh
        libraries = needs[2].split() if needs and inside and os.path.exists("/usr/include/" + needs[1]) else []
        r = subprocess.run([*cc, *[m for m in more if m.startswith("-D")], f"-I{OUT}/tests", str(source),
                            *[m for m in more if not m.startswith("-D")], str(folder / "switch.o"), "-o", str(exe), *libraries,
                            "-lm", "-lpthread"], capture_output=True, text=True)
        if r.returncode:
            sys.exit(f"{test} does not compile:\n{r.stderr[:3000]}")
        return test, [str(exe)]

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        programs = dict(pool.map(one, [t for t in tests if t not in (GPU, RANKS)]))
    if GPU in tests:
        programs[GPU] = gpu_program(cc, folder)
    if RANKS in tests:
        programs[RANKS] = ranks_program(cc, folder)
    return programs


GPU, RANKS = "gpu/test_cuda", "ranks/test_mpi"


def source_of(test):
    return f"tests/{'test_mpi' if test == RANKS else test}.c"


def ranks_program(cc, folder):
    """test_mpi on three ranks."""
    subprocess.run(["mpicc", *cc[1:], "-DTP_MPI", f"-I{OUT}/tests", str(OUT / source_of(RANKS)), str(folder / "switch.o"), "-o",
                    str(folder / "ranks"), "-lm", "-lpthread"], check=True)
    start = subprocess.run(["bash", "-c", ". tests/mpi.sh; echo $start; env | grep -E '^(OMPI|PMIX)_MCA'"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.splitlines()
    return ["env", *start[1:], *start[0].split(), "-np", "3", str(folder / "ranks")]


def gpu_program(cc, folder):
    """The test of GPUs, with the stand-in for CUDA (tests/gpu/shim.sh), which is not changed."""
    shim, objects = ROOT / "tests/gpu/shim", [folder / "test_cuda.o", folder / "switch.o"]
    for source in [ROOT / "tp_cuda.cu", shim / "shim.cpp", shim / "libraries.cpp"]:
        objects.append(folder / (source.stem + ".o"))
        subprocess.run(["g++", "-x", "c++", "-std=c++17", "-O2", "-w", "-DTP_CUDA_SHIM", f"-I{shim}", f"-I{ROOT}", "-c", str(source),
                        "-o", str(objects[-1])], check=True)
    subprocess.run([*cc, "-DTP_CUDA_SHIM", "-DTP_NAIVE", f"-I{shim}", "-c", str(OUT / f"tests/{GPU}.c"), "-o", str(objects[0])], check=True)
    subprocess.run(["g++", *map(str, objects), "-o", str(folder / "test_cuda"), "-lm", "-lpthread"], check=True)
    return [str(folder / "test_cuda")]


def run(exe, case, tmp, seconds, mutant=0, reached=None, asan=False):
    """Status (None: too long) and seconds."""
    env = dict(os.environ, TP_TEST_QUICK="1", TMPDIR=str(tmp), TP_MUTANT=str(mutant))
    env["HOME"] = str(tmp)
    env.pop("TP_TEST_PYTHON", None)
    if reached:
        env["TP_MUTANTS_REACHED"] = str(reached)
    env["ASAN_OPTIONS"] = "hard_rss_limit_mb=4096"

    def limits():
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if not asan:
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        if os.getuid() == 0:
            os.setgroups([]), os.setgid(65534), os.setuid(65534)

    t = time.monotonic()
    p = subprocess.Popen([*exe, "=" + case], cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL, preexec_fn=limits)
    try:
        status = p.wait(seconds)
    except subprocess.TimeoutExpired:
        status = None
    try:
        os.killpg(p.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    p.wait()
    return status, time.monotonic() - t


class Suite:
    """Programs of one build, their cases, what each reaches and how long it takes alone."""

    def __init__(self, programs, cases, tmp, jobs, asan, most):
        self.tmp, self.asan, self.programs, self.most = tmp, asan, programs, most
        self.reach = {}

        def record(tc):
            test, case = tc
            file = pathlib.Path(tmp) / f"reached.{test.replace('/', '.')}.{case}"
            status, seconds = run(programs[test], case, tmp, 300, reached=file, asan=asan)
            ids = set(map(int, file.read_text().split())) if file.exists() else set()
            return tc, status, seconds, ids

        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for tc, status, seconds, ids in pool.map(record, cases):
                if status == 0:
                    self.reach[tc] = (seconds, ids)
                else:
                    print(f"not used: {tc[0]}/{tc[1]} fails alone, without a change (status {status})")

    def killer(self, n):
        cases = sorted((s, tc) for tc, (s, ids) in self.reach.items() if n in ids)
        end = time.monotonic() + self.most
        for s, (test, case) in cases:
            if time.monotonic() > end:
                break
            status, _ = run(self.programs[test], case, self.tmp, 5 + 10 * s, mutant=n, asan=self.asan)
            if status != 0:
                return f"{test}/{case}" + (" (too long)" if status is None else ""), len(cases)
        return None, len(cases)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--count", type=int, default=200)
    ap.add_argument("--only", default="", help="headers whose name contains one of these (by commas)")
    ap.add_argument("--function", default="", help="functions whose name matches this regex")
    ap.add_argument("--tests", default="", help="tests whose name contains this")
    ap.add_argument("--jobs", type=int, default=1)
    ap.add_argument("--most", type=float, default=60, help="seconds for one change (and as many with sanitizers)")
    ap.add_argument("--no-sanitizers", action="store_true")
    ap.add_argument("--check", action="store_true", help="name the rows of mutate_equivalent.txt whose code is no longer there, run nothing")
    ap.add_argument("--show", action="store_true", help="show the changes and compile, run nothing")
    a = ap.parse_args()
    began = time.monotonic()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    shutil.copytree(ROOT / "tests", OUT / "tests")
    # offsets are of bytes: one byte is one character here
    header_texts = {h: (ROOT / h).read_bytes().decode("latin-1") for h in HEADERS}
    found = candidates(header_texts)
    if a.check:
        places = {(m.header, m.function, m.old, m.new) for m in found}
        stale = [row for row in equivalent_rows() if row not in places]
        print(*("no such place: " + "  ".join(row) for row in stale), f"{len(stale)} rows are stale", sep="\n")
        return len(stale) > 0
    print(f"seed {a.seed}, {a.count} changes", flush=True)
    found = [m for m in found if any(o in m.header for o in a.only.split(",")) and re.search(a.function, m.function)]
    print(f"{len(found)} places", flush=True)
    rng = random.Random(a.seed)
    chosen, rest = choose(found, a.count, rng, [])
    mutants = dict(enumerate(chosen, 1))
    number = len(mutants)

    def write(texts, ms):
        for h, text in texts.items():
            for n, m in sorted(((n, m) for n, m in ms.items() if m.header == h), key=lambda p: -p[1].start):
                text = text[:m.start] + m.text(n) + text[m.end:]
            (OUT / h).write_bytes(text.encode("latin-1"))

    while True:  # what does not compile is replaced by another
        write(header_texts, mutants)
        r = subprocess.run(["gcc", "-std=gnu11", QUIET, "-include", str(OUT / "tests/mutate.h"), f"-I{OUT}", "-fsyntax-only",
                            str(OUT / "all.c")], capture_output=True, text=True)
        if r.returncode == 0:
            break
        bad = {(os.path.basename(f), int(l)) for f, l in re.findall(r"^(\S+?):(\d+):\d+: error", r.stderr, re.M)}
        wrong = [n for n, m in mutants.items()
                 if any(m.header == f and m.line - 1 <= l <= m.line + 8 for f, l in bad)]
        if not wrong:
            sys.exit("the changed headers do not compile:\n" + r.stderr[:3000])
        for n in wrong:
            kind = mutants[n].kind
            del mutants[n]
            while rest[kind]:
                m = rest[kind].pop()
                if not any(t.header == m.header and m.start < t.end and t.start < m.end for t in mutants.values()):
                    number += 1
                    mutants[number] = m
                    break
    print(f"{len(mutants)} changes compile", flush=True)
    if a.show:
        for n, m in sorted(mutants.items(), key=lambda p: (p[1].header, p[1].line)):
            print(n, m)
        return 0
    equivalent = set(equivalent_rows())
    tests = [t for t in [*sorted(p.stem for p in (ROOT / "tests").glob("test_*.c")), GPU, RANKS] if a.tests in t]
    if not shutil.which("mpicc"):
        tests.remove(RANKS)
    cases = [(t, c) for t in tests for c in re.findall(r"^TEST\((\w+)\)", (ROOT / source_of(t)).read_text(), re.M)]
    tmp = tempfile.mkdtemp(prefix="mutate.")
    os.chmod(tmp, 0o777)
    try:
        plain = Suite(compile_all(["-O1"], "plain", tests, a.jobs), cases, tmp, a.jobs, False, a.most)
        print(f"{len(plain.reach)} test cases, {sum(s for s, _ in plain.reach.values()):.0f} s; "
              f"{time.monotonic() - began:.0f} s until here", flush=True)
        judge(plain, mutants, a.jobs)
        left = {n: m for n, m in mutants.items() if not m.killed_by}
        print(f"{len(left)} left for the sanitizers; {time.monotonic() - began:.0f} s until here", flush=True)
        if left and not a.no_sanitizers:
            flags = ["-O1", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
            needed = {tc for tc, (_, ids) in plain.reach.items() if ids & set(left) and tc[0] not in (GPU, RANKS)}
            programs = compile_all(flags, "asan", sorted({t for t, _ in needed}), a.jobs)
            judge(Suite(programs, sorted(needed), tmp, a.jobs, True, a.most), left, a.jobs)
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
    left = {n: m for n, m in mutants.items() if not m.killed_by}
    same = {n for n, m in left.items() if (m.header, m.function, m.old, m.new) in equivalent}
    reached = set().union(*(ids for _, ids in plain.reach.values()))
    print("\nnot noticed:")
    for n, m in sorted(left.items(), key=lambda p: (p[1].header, p[1].line)):
        if n not in same:
            print(f"  {m}" + ("" if n in reached else "   (no test comes here)"))
    print(f"\nof no effect, by tests/mutate_equivalent.txt: {len(same)}\n")
    for h in HEADERS + ["all"]:
        of = {n for n, m in mutants.items() if h in (m.header, "all")} - same
        if of:
            seen = len(of - set(left))
            print(f"{h:16} {seen:4} of {len(of):4}  {100 * seen / len(of):5.1f}%")
    print(f"{time.monotonic() - began:.0f} s, seed {a.seed}")
    return 0


def judge(suite, mutants, jobs):
    def one(p):
        n, m = p
        m.killed_by, cases = suite.killer(n)
        return n, m, cases

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for n, m, cases in pool.map(one, list(mutants.items())):
            print(f"{n:4} {'noticed by ' + m.killed_by if m.killed_by else 'NOT NOTICED'} ({cases} cases): {m}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
