"""Adds up what gcov counted in several programs: see tests/coverage.sh."""
import collections, json, os, pathlib, subprocess, sys

folder = pathlib.Path(sys.argv[1])
lines = collections.defaultdict(dict)  # header -> line -> [times run, {branch: times taken}]
for counts in sorted(folder.glob("*.gcda")):
    out = subprocess.run(["gcov", "-b", "--json-format", "--stdout", str(counts)], capture_output=True, text=True).stdout
    for text in out.splitlines():
        for f in json.loads(text)["files"]:
            name = os.path.basename(f["file"])
            if not (name.startswith("tp_") and name.endswith(".h") and pathlib.Path(name).exists()):
                continue  # not one of the library's headers
            for l in f["lines"]:
                at = lines[name].setdefault(l["line_number"], [0, {}])
                at[0] += l["count"]
                # a function that is inlined, or in a macro, has its line several times: told apart by name and place
                for i, b in enumerate(l["branches"]):
                    key = (l.get("function_name"), len(l["branches"]), i)
                    at[1][key] = at[1].get(key, 0) + b["count"]
total = [0, 0, 0, 0]
print(f"{'':18} {'lines':>8} {'run %':>8}   {'branches':>8} {'taken %':>8}")
for name in sorted(lines):
    n = [0, 0, 0, 0]
    missing = []
    for number, (count, branches) in sorted(lines[name].items()):
        n[0] += 1
        n[1] += count > 0
        # where two builds differ in what a line is made of, the one with more of it taken counts
        forms = collections.defaultdict(list)
        for (function, size, _), taken in branches.items():
            forms[function, size].append(taken > 0)
        best = max(forms.values(), key=lambda taken: sum(taken) / len(taken), default=[])
        n[2] += len(best)
        n[3] += sum(best)
        if not count or not all(best):
            missing.append((number, "not run" if not count else f"{len(best) - sum(best)} of {len(best)} branches not taken"))
    source = pathlib.Path(name).read_text().splitlines()
    (folder / (name + ".missing")).write_text("".join(f"{k}: {why}: {source[k - 1].strip()}\n" for k, why in missing))
    total = [a + b for a, b in zip(total, n)]
    print(f"{name:18} {n[0]:8} {100 * n[1] / n[0]:8.1f}   {n[2]:8} {100 * n[3] / max(n[2], 1):8.1f}")
print(f"{'all':18} {total[0]:8} {100 * total[1] / total[0]:8.1f}   {total[2]:8} {100 * total[3] / total[2]:8.1f}")
