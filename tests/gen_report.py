#!/usr/bin/env python3
"""Puts tests/report_page.html into tp_callbacks.h, as strings of C (the section >>report page).

    python3 tests/gen_report.py          writes them
    python3 tests/gen_report.py --check  fails where they are not what the page is

The page is written and read as a page. The header holds it as text, a literal for each line, so that a program needs no
file but the headers. Neighbouring lines form one string, because each string costs a pointer and a relocation. The line
@DATA@ is where tp_monitor_report puts the data.
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
HEADER = HERE.parent / "tp_callbacks.h"
BEGIN = "/* tests/gen_report.py writes the lines from here on. */\n/* clang-format off */\n"
END = "/* clang-format on */\n/* The last line written by tests/gen_report.py. */\n"
MOST = 4000  # bytes of a string that every compiler takes


def c_string(line):
    out = ""
    for byte in (line + "\n").encode():
        c = chr(byte)
        if c == "\n":
            out += "\\n"
        elif c in '"\\':
            out += "\\" + c
        elif c == "?" and out.endswith("?"):  # no trigraphs
            out += "\\?"
        elif 32 <= byte < 127:
            out += c
        else:
            out += "\\%03o" % byte
    assert len(line) < MOST, line
    return '    "' + out + '"'


def c_strings(lines):
    """A literal for each line, and a comma where the next line would make the string too long."""
    text, size = "", 0
    for line in lines:
        n = len((line + "\n").encode())
        if size:
            text += ",\n" if size + n > MOST else "\n"
        size = n if size + n > MOST else size + n
        text += c_string(line)
    return text


def section(page):
    head, tail = page.split("@DATA@\n")
    text = BEGIN
    for name, part in (("head", head), ("tail", tail)):
        text += "static const char *const tp__report_%s[] = {\n" % name
        text += c_strings(part.splitlines())
        text += "\n};\n"
    return text + END


def main():
    header = HEADER.read_text()
    before, rest = header.split(BEGIN)
    after = rest.split(END)[1]
    new = before + section((HERE / "report_page.html").read_text()) + after
    if "--check" in sys.argv:
        if new != header:
            sys.exit("tp_callbacks.h does not hold tests/report_page.html as it is: python3 tests/gen_report.py")
    elif new != header:
        HEADER.write_text(new)


main()
