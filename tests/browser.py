#!/usr/bin/env python3
"""A page in headless Chromium, in real time: for tests/check_report.sh and tests/bench/report.c

    python3 tests/browser.py paint page.html               milliseconds to the first paint, and what hovering and scrolling take
    python3 tests/browser.py follow running.html over.html  a page of a running training shows by itself what replaces its file
    python3 tests/browser.py phone page.html               nothing is wider than a phone; keys reach everything

The browser (chromium, google-chrome, or $TP_TEST_BROWSER) is spoken to through a pipe, in the DevTools protocol. A finding ends it with
status 1 and a sentence.
"""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
OPTIONS = ("--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-extensions --hide-scrollbars "
           "--disable-background-networking --disable-component-update --disable-sync --host-resolver-rules=MAP*~NOTFOUND "
           "--remote-debugging-pipe").replace("MAP*~", "MAP * ~")


class Browser:
    """One page. What the browser tells without being asked is in events."""

    def __init__(self):
        name = os.environ.get("TP_TEST_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
        if not name:
            sys.exit("there is no browser (Debian package chromium)")
        self.home, self.buffer, self.events, self.number, self.session = tempfile.mkdtemp(), b"", [], 0, None
        theirs, self.to = os.pipe()
        self.of, back = os.pipe()

        def connect():  # the browser reads from 3 and writes to 4
            os.dup2(theirs, 103)
            os.dup2(back, 104)
            os.dup2(103, 3)
            os.dup2(104, 4)

        options = OPTIONS.split(" --")
        options = [options[0]] + ["--" + o for o in options[1:]] + ["--user-data-dir=" + self.home + "/profile", "about:blank"]
        env = dict(os.environ, HOME=self.home, XDG_CONFIG_HOME=self.home, XDG_CACHE_HOME=self.home)
        self.process = subprocess.Popen([name] + options, env=env, close_fds=False, preexec_fn=connect,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs)
        os.close(back)
        page = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"][0]
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")

    def read(self, seconds=60):
        """The next message; None when none comes."""
        while b"\0" not in self.buffer:
            if not select.select([self.of], [], [], seconds)[0]:
                return None
            got = os.read(self.of, 1 << 20)
            if not got:
                sys.exit("the browser has ended")
            self.buffer += got
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer is None:
                sys.exit("the browser does not answer to " + method)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError("%s: %s" % (method, answer["error"]))
                return answer["result"]
            self.events.append(answer)

    def sleep(self, seconds):
        end = time.time() + seconds
        while time.time() < end:
            event = self.read(max(0.01, end - time.time()))
            if event:
                self.events.append(event)

    def go(self, path):
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        end = time.time() + 60
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            if time.time() > end:
                sys.exit("the page was not loaded in 60 s")
            self.sleep(0.05)

    def ask(self, code):
        answer = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", "") + " in " + code)
        return answer["result"].get("value")

    def size(self, width, height, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1, mobile=phone)

    def theme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def key(self, name, code):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code)

    def picture(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def wrong(self):
        """What the console says, exceptions, and requests for anything but the page."""
        told = [e for e in self.events if e.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")]
        asked = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return told + [u for u in asked if not u.startswith(("file:", "data:"))]

    def close(self):
        try:
            self.call("Browser.close")
        except OSError:
            pass
        self.process.wait(20)
        shutil.rmtree(self.home, ignore_errors=True)


def need(yes, sentence):
    if not yes:
        sys.exit(sentence)


# Frames while the pointer goes over the charts or the page is scrolled: the milliseconds between two of them.
FRAMES = """new Promise(done => {
  const gaps = []; let last = 0, n = 0;
  const plots = [...document.querySelectorAll('[data-plot]')].filter(p => p.inView);
  const frame = now => {
    if (last) gaps.push(now - last);
    last = now;
    if (++n > 90) { gaps.sort((a, b) => a - b); done([gaps[gaps.length >> 1], gaps[Math.floor(gaps.length * 0.95)], gaps[gaps.length - 1]]); return; }
    WHAT
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
})"""
HOVER = """const p = plots[n % plots.length], box = p.getBoundingClientRect();
    p.dispatchEvent(new PointerEvent('pointermove', { bubbles: true, clientX: box.left + 60 + n * 3, clientY: box.top + 40 }));"""
SCROLL = "window.scrollBy({ top: 120, behavior: 'instant' });"


def paint(page):
    first = []
    for _ in range(3):
        b = Browser()
        b.size(1280, 900)
        b.go(page)
        b.sleep(1)
        first.append(b.ask("performance.getEntriesByType('paint').find(e => e.name === 'first-contentful-paint').startTime"))
        drawn = b.ask("[...document.querySelectorAll('[data-plot] svg')].length")
        charts = b.ask("page.charts.length")
        hover, scroll = (b.ask(FRAMES.replace("WHAT", what)) for what in (HOVER, SCROLL))
        heap = b.call("Runtime.getHeapUsage")["usedSize"]
        need(not b.wrong(), "the page is not silent: %s" % b.wrong())
        b.close()
    say = lambda t: dict(zip(("median", "p95", "most"), (round(x, 1) for x in t)))
    print(json.dumps({"first_paint_ms": [round(t) for t in first], "charts": charts, "drawn": drawn, "hover_frame_ms": say(hover),
                      "scroll_frame_ms": say(scroll), "heap_mb": round(heap / 1e6, 1)}))


def follow(running, over):
    with tempfile.TemporaryDirectory() as d:
        page = d + "/report.html"
        shutil.copy(running, page)
        b = Browser()
        b.size(1280, 900)
        b.go(page)
        before = b.ask("byId('progress').textContent")
        b.ask("window.scrollTo({ top: 400, behavior: 'instant' }); byId('log').click(); byId('smooth').focus({ preventScroll: true }); 0")
        shutil.copy(over, page + ".new")
        os.replace(page + ".new", page)
        end = time.time() + 40
        while True:
            b.sleep(0.5)
            try:
                after = b.ask("typeof page === 'object' && page.data && page.data.status !== 'running' ? byId('progress').textContent : ''")
            except RuntimeError:  # between two pages
                after = ""
            if after:
                break
            need(time.time() < end, "the page still shows the running training after 40 s")
        b.sleep(0.5)
        kept = b.ask("[Math.round(scrollY), byId('log').checked, document.activeElement.id, byId('status').textContent]")
        need(after != before and kept[3] == "finished", "the page shows %s, %s" % (after, kept))
        need(abs(kept[0] - 400) < 150 and kept[1] is True and kept[2] == "smooth", "scroll, log scale and focus are now %s" % kept[:3])
        need(not b.wrong(), "the page is not silent: %s" % b.wrong())
        b.close()
    print("the page followed its training by itself, at its place, with its settings and its focus")


def phone(page):
    b = Browser()
    for width in (320, 390):
        b.size(width, 844, True)
        b.go(page)
        b.sleep(0.5)
        b.ask("document.querySelectorAll('details').forEach(d => { d.open = true; }); redraw(true); 0")
        wide = b.ask("document.documentElement.scrollWidth")
        need(wide <= width, "at %d pixels the page is %d wide" % (width, wide))
    b.size(1280, 900)
    b.go(page)
    b.sleep(0.5)
    seen = []
    for _ in range(400):
        b.key("Tab", 9)
        at = b.ask("(e => e === document.body ? '' : [e.id || Object.keys(e.dataset).map(k => k + e.dataset[k]).join('') || e.tagName + e.textContent, "
                   "getComputedStyle(e).outlineStyle, getComputedStyle(e).outlineWidth].join(' ').trim())(document.activeElement)")
        if not at or at in seen:
            break
        seen.append(at)
    for part in ("theme", "filter", "smooth", "axis", "plot0", "ridge0", "drawing", "scope", "by-time", "block0", "log-box"):
        need(any(s.startswith(part) for s in seen), "the Tab key does not reach %s: %s" % (part, seen))
    bare = [s for s in seen if s.endswith(("none 0px", " none 3px")) and not s.startswith(("scope", "block"))]
    need(not bare, "nothing shows that these have the focus: %s" % bare)
    need(not b.wrong(), "the page is not silent: %s" % b.wrong())
    b.close()
    print("at 320 and 390 pixels nothing is wider than the page; Tab reaches %d places, each shows it" % len(seen))


if __name__ == "__main__":
    jobs = {"paint": paint, "follow": follow, "phone": phone}
    if len(sys.argv) < 3 or sys.argv[1] not in jobs:
        sys.exit(__doc__)
    jobs[sys.argv[1]](*sys.argv[2:])
