// report_page.js - runs the script of a report.html in a small stand-in for a browser, and asks it what it shows
//
//     node tests/report_page.js report.html [stats.json] [--svg folder] [--width pixels] [--visible n] [--add other-file]...
//
// It checks that the page is one balanced document that asks for nothing outside of itself, that the script runs without an error,
// that each curve has the numbers of stats.json, and that what it says under the cursor (moved by a pointer and by keys) is the number
// that stats.json has for that step. --visible n: only so many charts are in view, and the others are not drawn. --svg writes each drawing to a file. The last line is "ok"; a mistake ends it with status 1.
'use strict';
const fs = require('fs'), path = require('path'), vm = require('vm');

let failures = 0;
function check(yes, what) {
  if (yes) return;
  if (failures++ < 20) console.log('FAILED: ' + what);
}

// ---- a document: elements, attributes, text; selectors of the kinds that the page uses; events that bubble

const VOID = new Set(['meta', 'link', 'input', 'br', 'img', 'hr']), RAW = new Set(['script', 'style', 'title']);
const NAMED = { amp: '&', lt: '<', gt: '>', quot: '"', nbsp: '\u00a0', '#39': "'" };
function unescapeText(s) {
  return s.replace(/&(#?\w+);/g, (all, name) => { check(name in NAMED, 'an entity &' + name + ';'); return NAMED[name] || all; });
}

class Text { constructor(data) { this.data = data; } get textContent() { return this.data; } }
class Element {
  constructor(tag) { this.tag = tag; this.attributes = {}; this.children_ = []; this.parentElement = null; this.style = {}; this.listeners = []; this.clientWidth = Element.width; this.clientHeight = 210; }
  get children() { return this.children_.filter(c => c instanceof Element); }
  get firstElementChild() { return this.children[0]; }
  get textContent() { return this.children_.map(c => c.textContent).join(''); }
  set textContent(s) { this.children_ = [new Text(String(s))]; }
  get innerHTML() { return this.source || ''; }
  set innerHTML(s) { this.source = String(s); this.children_ = []; parse(this.source, this); }
  get dataset() {
    const at = this.attributes, key = k => 'data-' + k.replace(/[A-Z]/g, c => '-' + c.toLowerCase());
    return new Proxy({}, { get: (_, k) => at[key(k)], set: (_, k, v) => { at[key(k)] = String(v); return true; } });
  }
  get classList() {
    const list = () => (this.attributes.class || '').split(/\s+/).filter(Boolean), put = l => { this.attributes.class = l.join(' '); };
    return { add: c => put([...new Set(list().concat(c))]), remove: c => put(list().filter(k => k !== c)), contains: c => list().includes(c), toggle: (c, on) => put(on ? [...new Set(list().concat(c))] : list().filter(k => k !== c)) };
  }
  get id() { return this.attributes.id; }
  get className() { return this.attributes.class || ''; }
  set className(c) { this.attributes.class = c; }
  get hidden() { return 'hidden' in this.attributes; }
  set hidden(v) { if (v) this.attributes.hidden = ''; else delete this.attributes.hidden; }
  setAttribute(k, v) { this.attributes[k] = String(v); }
  getAttribute(k) { return k in this.attributes ? this.attributes[k] : null; }
  getBoundingClientRect() { return { left: 0, top: 0, width: this.clientWidth, height: this.clientHeight }; }
  matches(selector) {
    const m = /^([\w-]*)((?:[.#][\w-]+|\[[^\]]+\])*)$/.exec(selector);
    if (!m) throw new Error('no such selector here: ' + selector);
    if (m[1] && this.tag !== m[1]) return false;
    return (m[2].match(/[.#][\w-]+|\[[^\]]+\]/g) || []).every(p => {
      if (p[0] === '.') return this.classList.contains(p.slice(1));
      if (p[0] === '#') return this.id === p.slice(1);
      const [k, v] = p.slice(1, -1).split('=');
      return k in this.attributes && (v === undefined || this.attributes[k] === v);
    });
  }
  closest(selector) { for (let e = this; e; e = e.parentElement) if (e.matches && e.matches(selector)) return e; return null; }
  all(out) { for (const c of this.children) { out.push(c); c.all(out); } return out; }
  querySelectorAll(selector) {
    const parts = selector.split(' '), last = parts.pop();
    return this.all([]).filter(e => e.matches(last) && parts.every(p => e.parentElement && e.parentElement.closest(p)));
  }
  querySelector(selector) { return this.querySelectorAll(selector)[0] || null; }
  addEventListener(what, fn) { this.listeners.push([what, fn]); }
  fire(what, fields) {
    const e = Object.assign({ type: what, target: this, preventDefault() { this.prevented = true; } }, fields);
    for (let at = this; at; at = at.parentElement) { e.currentTarget = at; for (const [w, fn] of at.listeners) if (w === what) fn(e); }
    return e;
  }
  click() { this.fire('click', { button: 0 }); }
}

// Elements into `root`; complains about what does not close, closes twice, or has an attribute twice.
function parse(html, root) {
  let at = 0, open = root;
  const add = node => { node.parentElement = open; open.children_.push(node); };
  while (at < html.length) {
    const lt = html.indexOf('<', at);
    if (lt !== at) { const text = html.slice(at, lt < 0 ? html.length : lt); if (text) add(new Text(unescapeText(text))); if (lt < 0) break; at = lt; }
    if (html.startsWith('<!--', at)) { at = html.indexOf('-->', at) + 3; continue; }
    if (/^<!doctype /i.test(html.slice(at, at + 10))) { at = html.indexOf('>', at) + 1; continue; }
    const tag = /^<(\/?)([a-zA-Z][\w-]*)((?:\s+[\w:-]+(?:="[^"]*"|=[^\s>"]+)?)*)\s*(\/?)>/.exec(html.slice(at, at + 200000));
    if (!tag) { check(false, 'markup that is no tag: ' + html.slice(at, at + 60)); return; }
    at += tag[0].length;
    const name = tag[2];
    if (tag[1]) {
      check(open.tag === name, '</' + name + '> closes <' + open.tag + '>');
      open = open.parentElement || root;
      continue;
    }
    const e = new Element(name);
    for (const a of tag[3].matchAll(/([\w:-]+)(?:="([^"]*)"|=([^\s>"]+))?/g)) {
      check(!(a[1] in e.attributes), 'the attribute ' + a[1] + ' twice');
      e.attributes[a[1]] = unescapeText(a[2] !== undefined ? a[2] : a[3] || '');
    }
    if ('value' in e.attributes) e.value = e.attributes.value;
    e.checked = 'checked' in e.attributes;
    add(e);
    if (VOID.has(name) || tag[4]) continue;
    if (RAW.has(name)) {
      const end = html.indexOf('</' + name + '>', at);
      check(end >= 0, '<' + name + '> has no end');
      e.children_.push(new Text(html.slice(at, end < 0 ? html.length : end)));
      at = end < 0 ? html.length : end + name.length + 3;
      continue;
    }
    open = e;
  }
  check(open === root, '<' + open.tag + '> is not closed');
}

// ---- arguments

const files = [], added = [];
let svg = null, visible = 0;
Element.width = 640;
for (let i = 2; i < process.argv.length; i++) {
  const a = process.argv[i];
  if (a === '--svg') svg = process.argv[++i];
  else if (a === '--width') Element.width = Number(process.argv[++i]);
  else if (a === '--visible') visible = Number(process.argv[++i]);
  else if (a === '--add') added.push(process.argv[++i]);
  else files.push(a);
}
const html = fs.readFileSync(files[0], 'utf8');
const text = files[1] && fs.readFileSync(files[1], 'utf8');
const stats = text ? JSON.parse(text.replace(/: (NaN|-?Infinity)(?=[,}])/g, ': "$1"')) : [];

// ---- the page runs

check(!/\bhttps?:|\bftp:|\b(?:src|href)="(?!#|data:|'|")|@import|url\((?!#|')|\bfetch\(|XMLHttpRequest|importScripts|WebSocket|EventSource|sendBeacon/.test(html), 'the page may ask for something outside of itself');
const bare = html.length - html.slice(html.indexOf('id="data">'), html.indexOf('</script>', html.indexOf('id="data">'))).length;
check(bare < 300000, 'the page is ' + bare + ' bytes without data');
// The page in a browser of its own, with what an earlier one kept for it.
function load(store) {
  const root = new Element('#document'), timers = [], seen = { reloads: 0 };
  parse(html, root);
  const doc = {
    getElementById: id => root.querySelector('#' + id), querySelectorAll: s => root.querySelectorAll(s), querySelector: s => root.querySelector(s),
    addEventListener: (w, fn) => root.addEventListener(w, fn), documentElement: root.querySelector('html'), body: root.querySelector('body'),
    activeElement: null, hidden: false, title: '',
  };
  const context = vm.createContext({
    document: doc, window: { addEventListener() {}, scrollTo() {}, scrollY: 0 }, location: { pathname: '/report.html', reload() { seen.reloads++; } },
    console, atob, Date, Math, JSON, Number, String, Array, Object, Map, Set, Uint8Array, Uint32Array, Float32Array, Float64Array, Error, Infinity, NaN,
    sessionStorage: { getItem: k => (store.has(k) ? store.get(k) : null), setItem: (k, v) => store.set(k, v) },
    setTimeout: (fn, ms) => { timers.push([fn, ms]); return timers.length; }, clearTimeout() {}, setInterval: () => 0,
  });
  if (visible) context.IntersectionObserver = class {
    constructor(fn) { this.fn = fn; this.n = 0; }
    observe(target) { if (this.n++ < visible) this.fn([{ target, isIntersecting: true }]); }
    disconnect() { }
  };
  const begun = process.hrtime.bigint();
  const source = root.querySelectorAll('script').filter(e => !e.getAttribute('type')).map(e => e.textContent).join('\n');
  vm.runInContext(source + '\nglobalThis.page = page; globalThis.tools = { short, smooth, nearest, ticks, pathOf, chartSvg, flameTree, runOfFile, addRun, addFiles, showRuns, showCharts, showProgress, showFlame };', context);
  const parsed = Number(process.hrtime.bigint() - begun) / 1e6;
  while (timers.length && timers[0][1] === 0) timers.shift()[0]();
  return { root, timers, seen, doc, parsed, page: context.page, tools: context.tools };
}
const store = new Map();
const { root, timers, seen, doc, parsed, page, tools } = load(store);
check(page.data && page.runs.length > 0, 'the page has no data');
for (const f of added) tools.addRun(Object.assign(tools.runOfFile(path.basename(f), fs.readFileSync(f, 'utf8')), { added: true }));
if (added.length) { tools.showRuns(); tools.showCharts(); }

// its parts fit together: each id, colour and class that is used is there
const css = root.querySelector('style').textContent, script = root.querySelectorAll('script').map(e => (e.getAttribute('type') ? '' : e.textContent)).join('');
check(css.split('{').length === css.split('}').length, 'the braces of the style');
for (const m of (css + script).matchAll(/var\(--([a-z]+\d*)/g)) check(css.includes('--' + m[1] + ':') || m[1] === 'c', 'the colour ' + m[1] + ' is defined');
for (const m of script.matchAll(/(?:byId|\bon)\('([\w-]+)'/g)) check(root.querySelector('#' + m[1]), 'there is no element ' + m[1]);
for (const m of root.querySelectorAll('a')) check(m.getAttribute('href')[0] === '#' && root.querySelector(m.getAttribute('href')), 'a link leads nowhere');
for (const e of root.querySelectorAll('button')) check(e.textContent || e.getAttribute('aria-label'), 'a button without a name');
for (const e of root.querySelectorAll('img')) check(e.getAttribute('alt'), 'an image without a description');

// ---- its curves are those of stats.json

const expected = new Map();
for (const record of stats) for (const name of Object.keys(record)) {
  if (name === 'epoch_num' || name === 'global_step') continue;
  if (!expected.has(name)) expected.set(name, new Map());
  expected.get(name).set(record.global_step, Number(record[name]));
}
let points = 0, thinned = 0;
for (const [name, values] of expected) {
  const c = page.runs[0].curves.find(k => k.name === name);
  check(c, 'no curve for ' + JSON.stringify(name));
  if (!c) continue;
  for (let i = 0; i < c.x.length; i++, points++) {
    check(values.has(c.x[i]) && Object.is(values.get(c.x[i]), c.y[i]), name + ' at ' + c.x[i] + ' is ' + c.y[i] + ', in stats.json ' + values.get(c.x[i]));
    check(i === 0 || c.x[i] > c.x[i - 1], name + ': the steps are not in order');
  }
  if (c.x.length < values.size) thinned++;
  else check(c.x.length === values.size, name + ' has ' + c.x.length + ' points, stats.json ' + values.size);
  const finite = [...values.values()].filter(Number.isFinite), shown = [...c.y].filter(Number.isFinite); // no peak is lost
  const most = (list, better) => list.reduce((a, b) => (better(b, a) ? b : a), list[0]);
  for (const better of [(a, b) => a > b, (a, b) => a < b]) check(most(finite, better) === most(shown, better), name + ': an extreme value is not there');
  check(finite.length === values.size || shown.length < c.y.length, name + ': its NaN is not there');
}
if (files[1]) check(page.runs[0].curves.length === expected.size, page.runs[0].curves.length + ' curves, ' + expected.size + ' in stats.json');

// ---- what is under the cursor is what stats.json says

let asked = 0;
function said(plot) { // "step <b>12</b> .. <b>0.5</b>"
  const b = plot.parentElement.querySelector('.read').querySelectorAll('b').map(e => e.textContent);
  return { step: Number(b[0]), value: Number(b[1]) };
}
function ask(plot, name, how) {
  const s = said(plot), values = expected.get(name);
  asked++;
  check(values.has(s.step) && Object.is(values.get(s.step), s.value), name + ': ' + how + ' shows ' + s.value + ' at step ' + s.step + ', stats.json has ' + values.get(s.step));
  return s;
}
const plots = root.querySelectorAll('[data-plot]');
for (const plot of visible ? plots.slice(0, visible) : plots) {
  const title = plot.parentElement.querySelector('h3');
  check(title.children.length === 0 && title.textContent === page.charts[plot.dataset.plot].name, 'a name is text, whatever stands in it');
  const name = page.charts[plot.dataset.plot].name, values = expected.get(name);
  check(plot.querySelector('svg') && plot.querySelector('path'), name + ' is not drawn');
  check(!/NaN|undefined|Infinity(?!<)/.test(plot.innerHTML.replace(/<title>[^<]*<\/title>/g, '')), name + ': its drawing has a NaN');
  if (!values || values.size === 0) continue;
  for (const x of [60, 100, 217.5, 333, 400, 520]) { plot.fire('pointermove', { clientX: x }); ask(plot, name, 'the pointer'); }
  const steps = [...page.runs[0].curves.find(k => k.name === name).x];
  plot.fire('keydown', { key: 'Home' });
  check(ask(plot, name, 'Home').step === steps[0], name + ': Home goes to the first point');
  if (steps.length > 1) {
    check(plot.fire('keydown', { key: 'ArrowRight' }).prevented, 'an arrow key scrolls the page');
    check(ask(plot, name, 'ArrowRight').step === steps[1], name + ': ArrowRight goes to the second point');
    plot.fire('keydown', { key: 'End' });
    check(ask(plot, name, 'End').step === steps[steps.length - 1], name + ': End goes to the last point');
  }
}
const first = root.querySelector('[data-plot]');
if (first && page.charts[0].curves[0].x.length > 4) {
  const before = page.charts[0].layout.x1 - page.charts[0].layout.x0;
  first.fire('keydown', { key: '+' });
  check(page.charts[0].layout.x1 - page.charts[0].layout.x0 < before, '+ zooms in');
  check(!root.querySelector('#unzoom').hidden, 'the zoom can be taken back');
  first.fire('keydown', { key: '0' });
  check(page.charts[0].layout.x1 - page.charts[0].layout.x0 === before, '0 shows all again');
  first.fire('pointerdown', { clientX: 200, button: 0 });
  first.fire('pointermove', { clientX: 400 });
  first.fire('pointerup', { clientX: 400 });
  check(page.charts[0].layout.x1 - page.charts[0].layout.x0 < before, 'dragging zooms in');
  first.fire('dblclick', {});
  const log = root.querySelector('#log'), old = first.innerHTML;
  log.checked = true;
  log.fire('change', {});
  check(first.innerHTML !== old && !/NaN/.test(first.innerHTML.replace(/<title>[^<]*<\/title>/g, '')), 'a log scale draws another picture');
  log.checked = false;
  log.fire('change', {});
  const filter = root.querySelector('#filter');
  filter.value = page.charts[0].name.slice(0, 4);
  filter.fire('input', {});
  check(page.charts.length > 0 && page.charts.every(c => c.name.toLowerCase().includes(filter.value.toLowerCase())), 'the filter filters');
  filter.value = '';
  filter.fire('input', {});
}

// ---- the axis of epochs is there where all runs that are shown have epochs of one length

const axis = root.querySelector('#axis'), steps = page.runs[0].per;
const columns = () => [...root.querySelector('[data-plot]').innerHTML.matchAll(/text-anchor="middle">([^<]*)</g)].map(m => m[1]).join(' ');
if (first && steps > 1 && page.runs.every(r => r.per === steps)) {
  const inSteps = columns();
  axis.value = 'epoch';
  axis.fire('change', {});
  const inEpochs = columns();
  check(!axis.disabled && inEpochs !== inSteps, 'the axis counts epochs');
  for (const per of [steps + 1, 0, undefined]) {
    const n = page.runs.length;
    tools.addRun({ name: 'other epochs', per, added: true, curves: [] });
    tools.showRuns();
    tools.showCharts();
    check(axis.disabled && axis.value === 'step' && columns() === inSteps, 'there are no epochs of ' + steps + ' and of ' + per + ' steps on one axis');
    const box = root.querySelectorAll('[data-run]')[n];
    box.checked = false;
    box.fire('change', {});
    check(!axis.disabled && axis.value === 'epoch' && columns() === inEpochs, 'a run that is hidden does not count');
    box.checked = true;
    box.fire('change', {});
    page.runs.pop();
    tools.showRuns();
    tools.showCharts();
  }
  axis.value = 'step';
  axis.fire('change', {});
  check(columns() === inSteps, 'the axis counts steps again');
}
for (const [records, per] of [['1 5 2 10 3 15', 5], ['0 0 1 5 1 3', 5], ['1 5 2 7', 5], ['1 5 2 10 3 16', 0], ['1 5 3 10', 0], ['', 0], ['1 -', 0], ['- 5', 0]]) {
  const numbers = records.split(' '), list = [];
  for (let i = 0; i + 1 < numbers.length; i += 2) {
    list.push({ a: 1 });
    if (numbers[i] !== '-') list[i / 2].epoch_num = Number(numbers[i]);
    if (numbers[i + 1] !== '-') list[i / 2].global_step = Number(numbers[i + 1]);
  }
  const run = tools.runOfFile('stats.json', JSON.stringify(list));
  check(run.per === per, 'epochs of ' + run.per + ' steps in ' + records);
}

// ---- a file that is none is told, and stays told

const file = text => ({ name: 'wrong.json', text: () => ({ then(fn) { let wrong; try { fn(text); } catch (e) { wrong = e; } return { catch(fn) { if (wrong) fn(wrong); } }; } }) });
const told = root.querySelector('#not-added');
tools.addFiles([file('no JSON')]);
tools.showProgress();
check(/^wrong.json is no report.html and no stats.json: ./.test(told.textContent), 'a wrong file is told: ' + told.textContent);
tools.addFiles([]);
check(told.textContent === '', 'the sentence goes with the next file');

// ---- the other sections answer too

for (const scope of root.querySelectorAll('[data-scope]').slice(0, 1)) {
  const before = root.querySelector('#drawing').innerHTML;
  scope.fire('keydown', { key: 'Enter' });
  check(root.querySelector('#drawing').innerHTML !== before, 'a scope opens and closes by Enter');
}
const block = root.querySelectorAll('[data-block]')[1];
if (block) {
  block.fire('focusin', {});
  check(/%/.test(root.querySelector('#flame-read').textContent), 'the flame chart says what is under the focus');
  for (const id of ['ordered', 'by-bytes', 'by-time', 'merged']) root.querySelector('#' + id).click();
  const sum = page.data.trace.kernels.reduce((s, k) => s + k[4], 0);
  check(sum === page.data.trace.total && page.flameTotal === sum, 'the kernels add up to the step');
  const real = page.data.trace; // in order a scope may be there twice, and beside a kernel of its name: a click opens the one that was clicked
  page.data.trace = { step: 1, total: 70, kernels: [['op', 's/a', '', 0, 40, 1, 0], ['op', 's/a/x', '', 40, 10, 1, 0], ['op', 's/b/y', '', 50, 5, 1, 0], ['op', 's/a/z', '', 55, 15, 1, 0]] };
  for (const [order, values] of [['ordered', [10, 15]], ['merged', [25]]]) {
    root.querySelector('#' + order).click();
    const scopes = () => page.blocks.map((b, i) => i).filter(i => page.blocks[i].n.path === 's/a' && !page.blocks[i].n.leaf);
    check(scopes().length === values.length, order + ': blocks of one scope');
    values.forEach((v, i) => {
      root.querySelectorAll('[data-block]').find(b => Number(b.dataset.block) === scopes()[i]).click();
      check(page.blocks[0].n.path === 's/a' && page.blocks[0].n.value === v, order + ': a click shows ' + page.blocks[0].n.path + ' of ' + page.blocks[0].n.value + ' ns, not of ' + v);
      root.querySelector('#flame-up').click();
      check(page.blocks[0].n.value === 70, 'and back to the whole step');
    });
  }
  page.data.trace = real;
  tools.showFlame();
}
for (const ridge of root.querySelectorAll('[data-ridge]')) {
  const h = page.data.histograms[ridge.dataset.ridge], lows = h.min.filter(v => v !== null), highs = h.max.filter(v => v !== null);
  const low = Math.min(...lows), room = Math.max(...highs) > low ? 0 : 0.5, where = [...ridge.innerHTML.matchAll(/text-anchor="middle">([^<]*)</g)].map(m => Number(m[1]));
  check(!lows.length || (where.length > 1 && where.every(v => v >= low - room && v <= Math.max(...highs) + room)), h.name + ': the axis goes over ' + where.join(' '));
  for (let k = h.steps.length - 1; k >= 0; k--) {
    const say = ridge.parentElement.querySelector('.read').textContent;
    check(say.includes('step ' + h.steps[k]) && say.includes('no finite value') === (h.min[k] === null), h.name + ' says ' + say);
    check(!/NaN|null|Infinity/.test(ridge.innerHTML), 'a histogram has a NaN');
    ridge.fire('keydown', { key: 'ArrowUp' });
  }
  check(ridge.innerHTML.split('Z" fill').length - 1 === lows.length, h.name + ': a ridge for each step that has values');
}
for (const slider of root.querySelectorAll('[data-image]')) { slider.value = '0'; slider.fire('input', {}); }
check(/px|%/.test(root.querySelector('#bar').firstElementChild.style.width || '%'), 'the bar has a width');
for (const e of root.querySelectorAll('[aria-pressed]')) check(/^(true|false)$/.test(e.getAttribute('aria-pressed')), 'aria-pressed');

// ---- following a training; what the reader chose outlives a reload

check((page.data.status === 'running') === timers.length > 0, 'a running training is followed, and no other');
if (timers.length) {
  check(timers[0][1] < 2 ** 31 && timers[0][1] >= Math.min(2e6, page.data.every) * 1000, 'it waits ' + timers[0][1] + ' ms');
  const again = () => timers.shift()[0]();
  page.isBusy = () => true;
  again();
  page.isBusy = () => false;
  doc.hidden = true;
  again();
  check(seen.reloads === 0 && timers.length === 1, 'it waits while somebody is busy with it, and while nobody can see it');
  doc.hidden = false;
  const theme = root.querySelector('#theme'), log = root.querySelector('#log');
  theme.click();
  log.checked = true;
  log.fire('change', {});
  again();
  check(seen.reloads === 1, 'it loads itself again');
  const next = load(store);
  check(next.root.querySelector('#log').checked && next.page.state.theme === page.state.theme && next.doc.documentElement.dataset.theme === 'dark', 'it looks as it did before');
  next.root.querySelector('#follow').click();
  next.page.isBusy = () => false;
  next.timers.shift()[0]();
  check(next.seen.reloads === 0, 'it stays when it is told so');
}

// ---- its arithmetic, against the plain way

let seed = 7;
const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
const noise = Array.from({ length: 300 }, (_, i) => (i % 50 === 9 ? NaN : random())), smoothed = tools.smooth(noise, 0.9);
for (let i = 0; i < noise.length; i += 7) { // the weighted mean of all that came
  let sum = 0, weights = 0, w = 1;
  for (let k = i; k >= 0; k--) if (Number.isFinite(noise[k])) { sum += w * noise[k]; weights += w; w *= 0.9; }
  check(Number.isFinite(noise[i]) ? Math.abs(smoothed[i] - sum / weights) < 1e-12 : Number.isNaN(smoothed[i]), 'smoothing is a weighted mean');
}
const places = Array.from({ length: 100 }, () => Math.floor(random() * 1000)).sort((a, b) => a - b);
for (let v = -10; v < 1010; v += 3.7) {
  const best = Math.min(...places.map(p => Math.abs(p - v)));
  check(Math.abs(places[tools.nearest(places, v)] - v) === best, 'the nearest point is the nearest');
}
for (const [lo, hi] of [[0, 1], [-3.7, 12], [1e-7, 3e-7], [5e9, 5e9 + 12], [0.999, 1.001]]) {
  const t = tools.ticks(lo, hi, 5), step = t[1] - t[0], digit = Number(step.toExponential(6).split('e')[0]);
  check(t.length >= 2 && t.length <= 12 && t[0] >= lo - step * 1e-6 && t[t.length - 1] <= hi + step * 1e-6 && [1, 2, 5].some(d => Math.abs(digit - d) < 1e-3), 'ticks are round: ' + t.join(' '));
}
for (const [v, text] of [[0.00095, '9.5e-4'], [1e-7, '1e-7'], [2.004e-5, '2e-5'], [5e9, '5e9'], [1.25e12, '1.25e12'], [0, '0'], [1234.56, '1235'], [-0.5, '-0.5']])
  check(tools.short(v) === text, v + ' is said as ' + tools.short(v));
for (const [x0, x1, y0, y1, per] of [[0, 100, 0, 1, 1], [123456, 123460, 1, 1.0002, 1], [1234567890, 1234567898, 12345.6, 12345.61, 1], [5000, 5001, -1e6, -1e6 + 2, 10], [9990, 10020, 1e-7, 1.001e-7, 3], [0, 2e9, 1e-9, 1e9, 1], [7, 7, 3, 3, 1]])
  for (const log of [false, true]) { // neighbouring ticks say different numbers, as far from each other as they are, and none lies over another
    const view = { width: 380, height: 210, log, trim: false, zoom: null, per }, curve = { x: [x0, x1], y: [y0, y1], colour: 'red', label: 'a', total: 2, per };
    const drawing = tools.chartSvg([curve], view), left = Number(/translate\((\d+) /.exec(drawing)[1]);
    for (const anchor of ['middle', 'end']) {
      const found = [...drawing.matchAll(/<text class="tick" x="([-\d.]+)"[^>]*text-anchor="(\w+)">([^<]*)</g)].filter(m => m[2] === anchor);
      const says = found.map(m => m[3]), v = says.map(t => Number(t.replace(' k', 'e3').replace(' M', 'e6').replace(' G', 'e9'))), what = anchor + ' ' + [x0, x1, y0, y1, log] + ': ' + says.join(', ');
      check(new Set(says).size === says.length && says.length > 0, 'ticks that say the same, ' + what);
      if (anchor === 'middle' || !log) for (let i = 2; i < v.length; i++) check(Math.abs((v[i] - v[i - 1]) / (v[1] - v[0]) - 1) < 1e-3, 'ticks say uneven numbers, ' + what);
      const wide = t => t.length * 11 * 0.55;
      if (anchor === 'middle') for (let i = 1; i < found.length - 1; i++) check(found[i][1] - found[i - 1][1] >= (wide(says[i]) + wide(says[i - 1])) / 2, 'ticks lie over each other, ' + what);
      else for (const t of says) check(wide(t) + 7 <= left, 'a tick is cut off, ' + what);
    }
  }
const many = Float64Array.from({ length: 5000 }, (_, i) => (i === 3217 ? 40 : i === 1234 ? -40 : Math.sin(i / 90))), at = Float64Array.from(many, (_, i) => i);
const drawn = tools.pathOf(at, many, x => x / 10, y => y, 500).match(/-?[\d.]+ -?[\d.]+/g).map(p => p.split(' ').map(Number));
check(drawn.length <= 2000 && drawn.some(p => p[1] === 40) && drawn.some(p => p[1] === -40) && drawn.every((p, i) => i === 0 || p[0] >= drawn[i - 1][0]), 'a path has few points, in order, and every peak');

if (svg) {
  fs.mkdirSync(svg, { recursive: true });
  const save = (name, s) => fs.writeFileSync(path.join(svg, name + '.svg'), s);
  root.querySelectorAll('[data-plot]').forEach((p, i) => save('plot' + i, p.innerHTML));
  root.querySelectorAll('[data-ridge]').forEach((p, i) => save('ridge' + i, p.innerHTML));
  if (page.data.graph) save('model', root.querySelector('#drawing').innerHTML);
  if (page.data.trace) save('flame', root.querySelector('#flame').innerHTML);
}
console.log(page.runs[0].curves.length + ' curves, ' + points + ' points, ' + thinned + ' thinned, ' + asked + ' numbers under the cursor, ' + bare + ' bytes without data, ' + parsed.toFixed(0) + ' ms to the first picture');
if (failures) { console.log(failures + ' failures'); process.exit(1); }
console.log('ok');
