#!/usr/bin/env bash
# The report page in a real browser: charts are drawn, the numbers under the pointer are those of stats.json, there is no error,
# nothing is asked for outside of the file. Screenshots, at desktop and phone width, light and dark, of a training that runs
# and of one that is over, lie in build/test/report/shots; nobody compares them, people look at them.
# Without a browser (chromium, google-chrome, or $TP_TEST_BROWSER) that shows a page of one line it is skipped; tests/test_report.c
# asks the same page in node.
set -eu
cd "$(dirname "$0")/.."
dir=$PWD/build/test/report
python3 tests/gen_report.py --check # the header holds the page as it is
browser=${TP_TEST_BROWSER:-}
for b in chromium chromium-browser google-chrome google-chrome-stable chrome; do
    [ -n "$browser" ] || browser=$(command -v "$b" || true)
done
[ -n "$browser" ] || { echo "there is no browser (Debian package chromium)"; exit 77; }
rm -rf "$dir"
mkdir -p "$dir/shots"
starts=0
# see <file> <what else>: the browser, in a home of its own each time, since one that is not quite gone would take the page over; it
# needs no sandbox, no large /dev/shm and no network. What it prints is in $dir/out, what it tells in $dir/stderr; one that hangs or
# crashes gets a second try. No clock of the page runs while it works: 4 s of its time are what its timers wait for.
see() {
    local page=$1 try home
    shift
    for try in 1 2; do
        starts=$((starts + 1)) home=$dir/home$((starts + 1))
        mkdir -p "$home"
        if HOME=$home XDG_CONFIG_HOME=$home XDG_CACHE_HOME=$home timeout -k 5 60 "$browser" --headless=new --no-sandbox --disable-gpu \
            --disable-dev-shm-usage --user-data-dir="$home/profile" --no-first-run --no-default-browser-check --disable-extensions \
            --disable-background-networking --disable-component-update --disable-sync --host-resolver-rules="MAP * ~NOTFOUND" \
            --hide-scrollbars --virtual-time-budget=4000 --enable-logging=stderr "$@" "file://$page" >"$dir/out" 2>"$dir/stderr"; then
            return
        fi
    done
    echo "the browser failed at $page $*:"
    tail -n 5 "$dir/stderr"
    return 1
}
# The console, where the browser's log has it: no error of a page. Other lines of the log are about the machine: no bus, no GPU.
silent() { # <what>
    if grep 'CONSOLE' "$dir/stderr" | grep -iE 'error|refused|violat|uncaught|warning|failed|not allowed|unsafe'; then
        echo "$1: the console is not silent"
        exit 1
    fi
}
# 0. a browser that cannot show this is no judge
echo '<!DOCTYPE html><p id="p"></p><script>document.getElementById("p").textContent = 6 * 7; console.log("is it heard?");</script>' >"$dir/plain.html"
if ! see "$dir/plain.html" --dump-dom >"$dir/why" || ! grep -q '<p id="p">42</p>' "$dir/out"; then
    echo "$browser does not run here: $(grep -v '^ *$' "$dir/stderr" | tail -n 1 | head -c 200)"
    exit 77
fi
grep 'CONSOLE' "$dir/stderr" | grep -q 'is it heard?' || echo "the browser's log does not have the console: the page alone tells of its errors"
gcc -std=c11 -O1 -I. tests/report_demo.c -o "$dir/demo" -lm -lpthread
"$dir/demo" "$dir/log" >"$dir/demo.out" 2>&1 || { tail "$dir/demo.out"; exit 1; }
# 1. what it shows: a copy of the page that moves a pointer over each chart and writes down what stands below it; and what went wrong
first='const wrong = []; addEventListener("error", e => wrong.push(String(e.message || e.target)), true);'
first="$first addEventListener(\"unhandledrejection\", e => wrong.push(String(e.reason)));"
first="$first document.addEventListener(\"securitypolicyviolation\", e => wrong.push(\"refused: \" + e.violatedDirective + \" \" + e.blockedURI));"
first="$first for (const k of [\"error\", \"warn\"]) console[k] = (...what) => wrong.push(k + \": \" + what.join(\" \"));"
{
    awk -v first="$first" '{ gsub(/<\/body>|<\/html>/, ""); print } /^<title>/ { print "<script>" first "</script>" }' "$dir/log/second/report.html"
    cat <<'JS'
<pre id="asked"></pre>
<script>
setTimeout(() => {
  const said = [];
  document.querySelectorAll('details').forEach(d => { d.open = true; });
  redraw(true);
  document.querySelectorAll('[data-plot]').forEach(el => {
    const box = el.getBoundingClientRect(), name = page.charts[el.dataset.plot].name;
    for (const part of [0.2, 0.4, 0.5, 0.7, 0.9]) {
      el.dispatchEvent(new PointerEvent('pointermove', { bubbles: true, clientX: box.left + part * box.width, clientY: box.top + 50 }));
      const b = el.parentElement.querySelectorAll('.read b');
      said.push([name, Number(b[0].textContent), b[1].textContent]);
    }
  });
  const outside = performance.getEntriesByType('resource').map(r => r.name).filter(n => !/^(data|blob):/.test(n));
  const charts = document.querySelectorAll('[data-plot]').length, drawn = document.querySelectorAll('[data-plot] svg path').length;
  document.getElementById('asked').textContent =
    JSON.stringify({ said, charts, drawn, svgs: document.querySelectorAll('svg').length, wide: document.documentElement.scrollWidth, outside, wrong });
}, 500);
</script>
</body>
</html>
JS
} >"$dir/asked.html"
grep -q '^<script>const wrong' "$dir/asked.html"
see "$dir/asked.html" --window-size=1280,2000 --dump-dom
silent "the page"
python3 - "$dir" <<'PY'
import html, json, re, sys
d = sys.argv[1]
found = re.search(r'<pre id="asked">(.+?)</pre>', open(d + "/out", encoding="utf-8").read(), re.S)
assert found, "the page did not answer: its script did not come to an end"
asked = json.loads(html.unescape(found.group(1)))
records = json.load(open(d + "/log/second/stats.json", encoding="utf-8"))
names = {k for r in records for k in r} - {"epoch_num", "global_step"}
assert not asked["wrong"], "errors: %s" % asked["wrong"]
assert not asked["outside"], "it asked for %s" % asked["outside"]
assert asked["charts"] == len(names), "%d charts of %d statistics" % (asked["charts"], len(names))
assert asked["drawn"] > 5 * asked["charts"], "%d lines in the charts" % asked["drawn"]
assert asked["svgs"] >= asked["charts"] + 4, "%d drawings with histograms, model and kernels" % asked["svgs"]
assert len(asked["said"]) == 5 * len(names), "%d numbers" % len(asked["said"])
assert asked["wide"] <= 1280, "the page is %d wide, wider than its window" % asked["wide"]
for name, step, text in asked["said"]:
    values = [r[name] for r in records if r["global_step"] == step and name in r]
    same = values and (float(text) == values[-1] or (text == "NaN" and values[-1] != values[-1]))
    assert same, "%s shows %s at step %s, stats.json has %s" % (name, text, step, values)
print("%d numbers under the pointer are those of stats.json" % len(asked["said"]))
PY
# 2. in real time: nothing is wider than a phone, the Tab key reaches every part and shows where it is, a running training is followed
python3 tests/browser.py phone "$dir/log/second/report.html"
python3 tests/browser.py follow "$dir/log/running.html" "$dir/log/second/report.html"
# 3. what it looks like: the theme is put into a copy of the page, which does not follow its training
shot() { # <page> <name> <width> <height> <theme>
    sed "s|theme: 'system', follow: true|theme: '$5', follow: false|" "$1" >"$dir/shot.html"
    grep -q "theme: '$5', follow: false" "$dir/shot.html"
    local page=$dir/shot.html
    if [ "$3" -lt 500 ]; then # no window is as narrow as a phone; a frame is
        page=$dir/frame.html
        echo "<!DOCTYPE html><body style='margin:0'><iframe src='shot.html' width=$3 height=$4 style='border:0'></iframe></body>" >"$page"
    fi
    see "$page" --window-size="$3,$4" --screenshot="$dir/shots/$2-$5.png"
    silent "$2, $5"
    [ "$(head -c 4 "$dir/shots/$2-$5.png" | tail -c 3)" = PNG ] || { echo "no picture of $2, $5"; exit 1; }
}
for theme in light dark; do
    shot "$dir/log/running.html" desktop-running 1280 900 "$theme"
    shot "$dir/log/second/report.html" desktop-whole 1280 5200 "$theme"
    shot "$dir/log/second/report.html" phone 390 7000 "$theme"
done
see "$dir/log/second/report.html" --print-to-pdf="$dir/shots/print.pdf"
silent "printing"
[ "$(head -c 4 "$dir/shots/print.pdf")" = %PDF ] || { echo "nothing was printed"; exit 1; }
rm -rf "$dir"/home*
echo "screenshots in $dir/shots"
