#!/usr/bin/env bash
# The report page in a real browser: charts are drawn, the numbers under the pointer are those of stats.json, the console is silent,
# nothing is asked for outside of the file. Screenshots, at desktop and phone width, light and dark, of a training that runs
# and of one that is over, lie in build/test/report/shots; nobody compares them, people look at them.
# Without a browser (chromium, google-chrome, or $TP_TEST_BROWSER) it is skipped; tests/test_report.c asks the same page in node.
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
mkdir -p "$dir/shots" "$dir/profile"
gcc -std=c11 -O1 -I. tests/report_demo.c -o "$dir/demo" -lm -lpthread
"$dir/demo" "$dir/log" >"$dir/demo.out" 2>&1 || { tail "$dir/demo.out"; exit 1; }
see() { # <file> <what else>: the browser, with a profile of its own and no way out
    local page=$1
    shift
    timeout 120 "$browser" --headless=new --no-sandbox --disable-gpu --user-data-dir="$dir/profile" --no-first-run \
        --disable-background-networking --disable-component-update --host-resolver-rules="MAP * ~NOTFOUND" \
        --hide-scrollbars --virtual-time-budget=4000 --enable-logging=stderr "$@" "file://$page" 2>"$dir/stderr"
}
silent() { # <what>: no error, warning or refusal on the console
    if grep -E 'CONSOLE' "$dir/stderr" | grep -iE 'error|refused|violat|uncaught|warning'; then echo "$1: the console is not silent"; exit 1; fi
}
# 1. what it shows: a copy of the page that moves a pointer over each chart and writes down what stands below it
{
    sed 's|</body>||; s|</html>||' "$dir/log/second/report.html"
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
      const points = under(page.charts[el.dataset.plot].curves.slice(0, 1), page.charts[el.dataset.plot].at);
      const b = el.parentElement.querySelectorAll('.read b');
      said.push([name, Number(b[0].textContent), b[1].textContent, points.length]);
    }
  });
  const paint = performance.getEntriesByType('paint').map(p => p.name + ' ' + Math.round(p.startTime) + ' ms').join(', ');
  document.getElementById('asked').textContent = JSON.stringify({ said, svgs: document.querySelectorAll('svg').length, wide: document.documentElement.scrollWidth, paint });
}, 500);
</script>
</body>
</html>
JS
} >"$dir/asked.html"
see "$dir/asked.html" --window-size=1280,2000 --dump-dom >"$dir/dom.html"
silent "the page"
python3 - "$dir" <<'PY'
import html, json, re, sys
d = sys.argv[1]
asked = json.loads(html.unescape(re.search(r'<pre id="asked">(.*?)</pre>', open(d + "/dom.html").read(), re.S).group(1)))
records = json.load(open(d + "/log/second/stats.json"))
assert asked["svgs"] >= 15, "%d drawings" % asked["svgs"]
assert len(asked["said"]) >= 40, "%d numbers" % len(asked["said"])
assert asked["wide"] <= 1280, "the page is wider than its window"
for name, step, text, _ in asked["said"]:
    values = [r[name] for r in records if r["global_step"] == step and name in r]
    same = values and (float(text) == values[-1] or (text == "NaN" and values[-1] != values[-1]))
    assert same, "%s shows %s at step %s, stats.json has %s" % (name, text, step, values)
print("%d numbers under the pointer are those of stats.json; %s" % (len(asked["said"]), asked["paint"]))
PY
# 2. what it looks like
shot() { # <page> <name> <width> <height> <theme>
    local set="try { sessionStorage.setItem('tp:' + location.pathname, '{\"theme\":\"$5\",\"follow\":false}') } catch (e) { }"
    sed "s|<head>|<head><script>$set</script>|" "$1" >"$dir/shot.html"
    if [ "$3" -lt 500 ]; then # no window is as narrow as a phone; a frame is
        echo "<body style='margin:0'><iframe src='shot.html' width=$3 height=$4 style='border:0'></iframe></body>" >"$dir/frame.html"
    else
        cp "$dir/shot.html" "$dir/frame.html"
    fi
    see "$dir/frame.html" --window-size="$3,$4" --screenshot="$dir/shots/$2-$5.png" >/dev/null
    silent "$2, $5"
    [ "$(head -c 4 "$dir/shots/$2-$5.png" | tail -c 3)" = PNG ] || { echo "no picture of $2, $5"; exit 1; }
}
for theme in light dark; do
    shot "$dir/log/running.html" desktop-running 1280 900 "$theme"
    shot "$dir/log/second/report.html" desktop-whole 1280 5200 "$theme"
    shot "$dir/log/second/report.html" phone 390 7000 "$theme"
done
see "$dir/log/second/report.html" --print-to-pdf="$dir/shots/print.pdf" >/dev/null
silent "printing"
echo "screenshots in $dir/shots"
