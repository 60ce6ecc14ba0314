"""Writes ref_regex.txt: what Python's re says of generated patterns and texts. test_regex.c compares.

A line is: mode (s search, m match, f fullmatch), pattern, text, answer, with tabs between. In a pattern and a text, bytes below
33, above 126 and % are %xx. The answer is E (no regular expression), - (no match), or begin,end in bytes for the whole match and
for each group (- for one that took no part).

    python3 tests/ref_regex.py [number of cases, 10000] [seed, 1] > tests/ref_regex.txt
"""
import random
import re
import signal
import sys
import warnings

try:
    from re import _parser as parser
except ImportError:
    import sre_parse as parser

warnings.simplefilter("ignore")

LITERALS = ["a", "b", "c", "0", "1", "/", "_", "W", "A", "B", " ", "\n", "-", "é", "É", "ä", "я", "中", "😀", "]", "}", ",", ":", "#", "="]
WEIGHTS = [12, 9, 5, 4, 3, 4, 3, 3, 3, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
ESCAPES = [r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\n", r"\t", r"\x61", r"\u00e9", r"\U0001f600", r"\.", r"\/", r"\\", r"\0",
           r"\141", r"\-", r"\_", r"\ ", r"\é"]
ANCHORS = ["^", "$", r"\b", r"\B", r"\A", r"\Z"]
COUNTS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,3}", "{2,}", "{,2}", "{1,3}?", "{0,2}?", "{2,}?", "{,}", "{0}", "{0,0}?"]
NAMES = ["conv0/W:0", "conv0/b", "conv1/W", "conv12/W", "fc0/W", "fc0/b", "fc1/W/Momentum", "bn1/gamma", "bn1/mean/EMA", "tower0/conv0/W",
         "group0/block1/conv2/W", "linear/W", "learning_rate", "global_step", "gen/conv0/W", "discrim/fc/W", "embedding/table", "lstm/W_h",
         "InferenceTower/cost", "cost", "train-error-top1", "val-error-top5", "param-summary/conv0/W-rms", "EMA/cost/biased"]
NAME_PATTERNS = [r"conv\d+/W", r"conv\d/W", r".*/W", r"fc.*/W", r"(?:conv|fc)\d*/W", r"^(?!gen/).*/W$", r"(?<=conv)\d+", r"\bW\b", r".*?/b",
                 r"(?i)CONV\d+/w", r"(?P<layer>\w+)/(?P<what>[Wb])(?::\d+)?", r".*/(gamma|beta)", r"(?!.*EMA).*", r"gen/.*", r"conv.*|fc$",
                 r"[^/]+/W", r"group\d+/block\d+/.*", r"(conv|fc)(\d)/(W|b)", r".*(?<!/b)", r"[a-z]+\d?/\w+", r"train-\w+-top\d", r"tower\d+/",
                 r"(?:[^/]+/)*W", r"(?:\w+/)+?W", r"(?x) conv \d+ / W  # a comment", r".{4}/W", r"(?s).*", r"W(?=:0)", r"W(?!:0)", r"\w*error\w*",
                 r"conv[0-9]{1,2}/[^b]", r"(?:(a)|b|(c))*", r"/?W/?", r"(?-i:conv)(?i:0)/w", r"(([a-z]+)(\d*))/"]
NASTY = [r"(a*)*", r"(a*)+", r"(a*?)*", r"(a|b*)*", r"(a|)*", r"(|a)*", r"(|a)+", r"(a||b)*", r"(?:a?){3}", r"(?:a?)*?b", r"((a*)*)*", r"((a*)+)?",
         r"(a?b?)*c?", r"(?:a*b*)*c", r"(a+)+b", r"(a|aa)+$", r"(a|a)*b", r"(?=(a+))a*b", r"(?=(a+))\w*", r"(?!(a))b", r"((?=a)|b)*", r"(?:(?=(a))a|b)*",
         r"(?<=(a))b", r"(?<!(a))b", r"(?<=a|b)c", r"(?<=a|bc)d", r"(?<=a*)b", r"(?<=(?:))a", r"(a)|b", r"(?:(a)|b)*", r"(?:(a)|(b)|c)*", r"(?:(a)b|a)*",
         r"((a)|b)*", r"(a{0,2}?)*b", r"(a{2,}?)+", r"(a{1,2}){2}", r"(a{,2}){,2}", r"(?:a{2}){2}", r"(?:(a?)b?){2,3}", r"(?:(a?)(b?)){2,}c",
         r"(?:a|b)*?c", r"(?:)*", r"(?:)+", r"(){3}", r"()*a", r"(?:^)*a", r"(?:$)+", r"(?:\b)*a", r"(?:(?=a))*a", r"^*", r"$+", r"\b?", r"a**", r"a+*",
         r"a???", r"a{2}{3}", r"(?:a{2}){3}", r"*a", r"|*", r"(*)", r"(", r")", r"a)", r"(a", r"[", r"[a", r"[]", r"[]a]", r"[^]a]", r"[^]", r"[a-]", r"[-a]",
         r"[a-c-e]", r"[c-a]", r"[\d-a]", r"[a-\d]", r"[\w-]", r"[\]]", r"[\\]", r"[\b]", r"[\A]", r"[\8]", r"[\101]", r"[[:alpha:]]", r"[a-z&&[b]]", r"\q",
         r"\e", r"\x6", r"\x", r"\u12", r"\U00110000", "\\", "a\\", r"[\\", "[a\\", r"{", r"{1", r"{1}", r"a{", r"a{1", r"a{1,", r"a{,", r"a{}", r"a{,}", r"a{1,2",
         r"a{2,1}", r"a{x}", r"a{ 1}", r"(?", r"(?a", r"(?:", r"(?:a", r"(?i", r"(?i)", r"a(?i)", r"(?i)(?s).", r"(?i)(?i:a)", r"(?im-s:^a.)", r"(?-:a)", r"(?i-)",
         r"(?i-i:a)", r"(?au)a", r"(?-a:a)", r"(?L)a", r"(?z)", r"(?<a)", r"(?<", r"(?<=", r"(?P", r"(?P<", r"(?P<>a)", r"(?P<a", r"(?P<1>a)", r"(?P<a>b)(?P<a>c)",
         r"(?P<a b>c)", r"(?P<n1>a)|(?P<n2>b)", r"(?Pa)", r"(?#", r"(?#a", r"(?#a)", r"(?#a\))b)", r"a(?#x)*", r"(?#x)*", r"(?x)a b # c", "(?x) a # x\n b", r"(?x)a\ b",
         r"(?x)[ ]", r"(?x: a b ) c", r"(?x-x: a )", r"(?-x: a )", r"(?x)a #\\", r"(?x) (?i)A", r" (?x)a", r"(?i)|a", r"a|(?i)b", r"(?m)^a$", r"(?m)^", r"(?m)$", r"(?s).",
         r"(?!)", r"(?!)|a", r"(?=)", r"(?<=)", r"(?<!)", r"a|(?!)", r"(?i)[^a]", r"(?i)[A-b]", r"(?i)[^\W]", r"(?a)\w", r"(?a:\w)\w", r"(?u)\w", r"(?a)\b.", r"(?i)é",
         r"(?i)[à-ï]", r"[^\n]", r"[\s\S]", r"[^\s\S]", r"\Aa\Z", r"a$", r"a$\n", r"\Z\n?", r"$\n\Z", r"^\b", r"\B", r"\B.", r"a\Bb", r"(?<=\b)a", r"(?<!\w)a", r"(?<=^)a",
         r"(?<=(?=a))a", r"(?<=.)\w", r"(?<=é)a", r"(?<=中.)b", r"(?<=😀)a", r"(?<!😀)a", r"(?<=a{2})b", r"(?<=(?:a|b){2})c", r"(?<=a?)b", r"(?:(?<=a)b|a)*", r"(?=a)*", r"(?=a){2}a",
         r"(?:(?=(a|b))\w)*", r"(?:(?!(c))\w)*", r"((?=(b)?)a|b)*", r"(?:(a)|(?=(b))b)*", r"(((a)))", r"(a)(b)?(c)?", r"(?:(a)(b)?)*", r"(?:(a)?(b)?)*",
         r"(a(b)?)+", r"(a(b)?)+?$", r"(?:(a)|ab)(?:(c)|bcd)(d*)", r"(a+|b+|c+)*c", r"(a+?|b??)*c", r"(?:a*?)*?b", r"(?:a|a?)+b", r"(?:(?:a?)*)*b", r"(?:(?:a|b?)+?)+c",
         r"(?:(?:a??)+)+b", r"((a?)*|b)*c", r"((a?)+|b)+c", r"(((a?)*)*b?)*c", r"(?:(?:(a)?){2}b?){2}", r"(?:x|(?:a?){2,3}){2,}b"]


def literal(r):
    c = r.choices(LITERALS, WEIGHTS)[0]
    return c


def klass(r):
    s = "[" + ("^" if r.random() < 0.25 else "")
    for _ in range(r.randint(1, 3)):
        k = r.random()
        if k < 0.3:
            lo, hi = sorted([r.choice("abcAZ019é"), r.choice("bczBW59ï")])
            s += lo + "-" + hi
        elif k < 0.5:
            s += r.choice(ESCAPES[:8] + [r"\]", r"\\", r"\b"])
        else:
            s += literal(r)
    return s + "]"


def atom(r, depth):
    k = r.random()
    if depth <= 0 or k < 0.45:
        return literal(r)
    if k < 0.52:
        return "."
    if k < 0.60:
        return klass(r)
    if k < 0.67:
        return r.choice(ESCAPES)
    if k < 0.71:
        return r.choice(ANCHORS)
    inner = alternatives(r, depth - 1)
    if k < 0.83:
        return "(" + inner + ")"
    if k < 0.90:
        return "(?:" + inner + ")"
    if k < 0.93:
        return "(?=" + inner + ")"
    if k < 0.95:
        return "(?!" + inner + ")"
    if k < 0.965:
        return "(?<=" + inner + ")"
    if k < 0.98:
        return "(?<!" + inner + ")"
    if k < 0.985:
        return "(?P<n%d>" % r.randint(0, 9) + inner + ")"
    return "(?" + r.choice(["i", "s", "m", "x", "is", "i-s", "-i", "m-x", "a", "u"]) + ":" + inner + ")"


def sequence(r, depth):
    s = ""
    for _ in range(r.choices([0, 1, 2, 3, 4], [1, 6, 6, 4, 2])[0]):
        s += atom(r, depth)
        if r.random() < 0.35:
            s += r.choice(COUNTS)
    return s


def alternatives(r, depth):
    return "|".join(sequence(r, depth) for _ in range(r.choices([1, 2, 3], [7, 3, 1])[0]))


def soup(r):
    return "".join(r.choice("ab0()[]{}*+?|^$\\.-,:=!<>Pi#s1dwx \n") for _ in range(r.randint(1, 10)))


def mutated(r, pattern):
    p = list(pattern)
    for _ in range(r.randint(1, 2)):
        i = r.randrange(len(p) + 1)
        k = r.random()
        if k < 0.4 and p:
            del p[min(i, len(p) - 1)]
        elif k < 0.8:
            p.insert(i, r.choice("ab()[]{}*+?|^$\\.-?:=!"))
        elif p:
            p.insert(i, r.choice(p))
    return "".join(p)


def some_text(r):
    k = r.random()
    if k < 0.5:
        return "".join(r.choice("aaabbc") for _ in range(r.randint(0, 10)))
    if k < 0.85:
        return "".join(literal(r) for _ in range(r.randint(0, 12)))
    return r.choice(NAMES)


def case(r):
    k = r.random()
    if k < 0.50:
        pattern = r.choice(["", "", "", "", "(?i)", "(?s)", "(?m)", "(?x)", "(?a)"]) + alternatives(r, 3)
        text = some_text(r)
    elif k < 0.65:
        pattern, text = r.choice(NAME_PATTERNS), r.choice(NAMES)
    elif k < 0.85:
        pattern, text = r.choice(NASTY), some_text(r)
    elif k < 0.93:
        pattern, text = soup(r), some_text(r)
    else:
        pattern, text = mutated(r, r.choice(NAME_PATTERNS + NASTY)), r.choice([r.choice(NAMES), some_text(r)])
    return r.choices("smf", [5, 3, 2])[0], pattern, text


def constructs(p):
    """Which of those that tp does not know does a parsed pattern have?"""
    for op, av in p:
        name = str(op)
        if name.startswith("GROUPREF"):
            yield name
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            yield from constructs(av[2])
            if av[0] > 100 or (av[1] > 100 and str(av[1]) != "MAXREPEAT"):
                yield "count"
        elif name == "BRANCH":
            for q in av[1]:
                yield from constructs(q)
        elif name == "SUBPATTERN":
            yield from constructs(av[3])
        elif name in ("ASSERT", "ASSERT_NOT"):
            yield from constructs(av[1])
        elif name == "ATOMIC_GROUP":
            yield from constructs(av)


def answer(mode, pattern, text):
    """None: not to be compared."""
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, ValueError):
        return "E"
    if set(constructs(parser.parse(pattern))):
        return None
    try:
        signal.setitimer(signal.ITIMER_REAL, 20)
        m = {"s": compiled.search, "m": compiled.match, "f": compiled.fullmatch}[mode](text)
    except TimeoutError:
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if not m:
        return "-"

    def bytes_before(i):
        return len(text[:i].encode())
    return " ".join("-" if a < 0 else "%d,%d" % (bytes_before(a), bytes_before(b)) for a, b in m.regs)


def coded(s):
    return "".join(chr(b) if 33 <= b <= 126 and b != 37 else "%%%02x" % b for b in s.encode())


def late(signum, frame):
    raise TimeoutError


def main():
    signal.signal(signal.SIGALRM, late)
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 10000
    r = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    seen = set()
    for pattern in NASTY + NAME_PATTERNS:  # each at least once
        for mode, text in (("s", "aabbc"), ("f", "ab")):
            seen.add((mode, pattern, text))
    cases = sorted(seen)
    while len(cases) < n:
        c = case(r)
        if c in seen or "(?L" in c[1] or "t" in c[1].split(")")[0].split(":")[0][2:] and c[1].startswith("(?"):
            continue
        seen.add(c)
        cases.append(c)
        if answer(*c) is None:
            cases.pop()
    for c in cases[:n]:
        a = answer(*c)
        if a is not None:
            print(c[0], coded(c[1]), coded(c[2]), a, sep="\t")


main()
