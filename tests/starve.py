#!/usr/bin/env python3
"""Every test case with one allocation that fails: does the library crash?

    make test ONLY=asan/                    builds the tests with sanitizers
    python3 tests/starve.py [--seed 1] [--times 5] [--only test_graph] [--programs build/test/asan-test_*]

A case runs once to count its allocations, then --times times, each time with one of them failing, drawn at random. What the case
checks does not count, because most cases expect success: only a crash or a finding of a sanitizer does, and only if the library
is where it happened. (A test that goes on with a NULL that it did not expect ends the run too; that is no defect.)
"""
import argparse, glob, os, random, re, subprocess, tempfile


def run(exe, case, n, seconds):
    env = dict(os.environ, TP_TEST_STARVE=str(n), TP_TEST_QUICK="1",
               ASAN_OPTIONS="detect_leaks=0:exitcode=99:allocator_may_return_null=1:handle_abort=1",
               UBSAN_OPTIONS="print_stacktrace=1:exitcode=99")
    with tempfile.TemporaryDirectory() as tmp:
        env["TMPDIR"] = tmp
        try:
            p = subprocess.run([exe, "=" + case], env=env, capture_output=True, timeout=seconds, errors="replace", text=True)
            return p.returncode, p.stdout, p.stderr
        except subprocess.TimeoutExpired as e:
            return "hangs", (e.stdout or b"").decode(errors="replace"), (e.stderr or b"").decode(errors="replace")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--times", type=int, default=5)
    ap.add_argument("--only", default="")
    ap.add_argument("--seconds", type=float, default=60)
    ap.add_argument("--programs", nargs="*", default=sorted(glob.glob("build/test/asan-test_*")))
    a = ap.parse_args()
    rng, runs, found, places = random.Random(a.seed), 0, 0, set()
    for exe in a.programs:
        if not os.access(exe, os.X_OK) or a.only not in exe or os.path.isdir(exe):
            continue
        source = "tests/" + re.sub(r".*-(test_\w+)$", r"\1", exe) + ".c"
        for case in re.findall(r"^TEST\((\w+)\)", open(source).read(), re.M):
            rc, out, err = run(exe, case, 0, a.seconds)
            count = re.findall(r"^(\d+) allocations", out, re.M)
            if rc == "hangs" or not count or int(count[-1]) == 0:
                continue
            for n in sorted(rng.sample(range(1, int(count[-1]) + 1), min(a.times, int(count[-1])))):
                rc, out, err = run(exe, case, n, a.seconds)
                runs += 1
                if rc in (0, 1):
                    continue
                stack = re.findall(r"^\s*#\d+ 0x\w+ in (\S+) (\S+)", err, re.M)
                where = next((f"{f} {p}" for f, p in stack if re.search(r"/?(tp_|test)\w+\.[hc]:", p)), "?")
                if re.search(r"/?tests/|^\? *$|test_\w+\.c", where) and rc != "hangs":
                    continue  # the test itself
                found += 1
                if where in places:
                    continue
                places.add(where)
                what = re.findall(r"(ERROR: .*|runtime error: .*)", err)
                print(f"{exe} ={case}, allocation {n}: {rc}, {where}: {what[:1]}", flush=True)
    print(f"{runs} runs, {found} findings at {len(places)} places")
    raise SystemExit(found > 0)


main()
