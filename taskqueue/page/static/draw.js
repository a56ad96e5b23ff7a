"use strict";
// What draws: elements, charts of lines, and the chart of slots. Text from outside is
// only ever set as text.

function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else e.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false) e.append(child.nodeType ? child : document.createTextNode(String(child)));
  }
  return e;
}

const number = (n) => Number(n || 0).toLocaleString("en", {maximumFractionDigits: 0});

function bytes(n) {
  n = Number(n || 0);
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (n < 1024 || unit === "TiB") return `${n < 10 && unit !== "B" ? n.toFixed(1) : Math.round(n)} ${unit}`;
    n /= 1024;
  }
}

function seconds(s) {
  s = Number(s || 0);
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 120) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  return `${(s / 3600).toFixed(1)} h`;
}

const span = (text) => Number(String(text || "0s").replace("s", "")); // of protobuf's durations
const percent = (part, all) => all > 0 ? `${(100 * part / all).toFixed(1)} %` : "-";
const clock = (t) => new Date(t).toLocaleTimeString("en-GB");
const when = (t) => t ? new Date(t).toLocaleString("en-GB") : "-";
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function table(head, rows, empty) {
  if (!rows.length) return el("p", {class: "note"}, empty || "None.");
  return el("div", {class: "scroll"}, el("table", {},
    el("thead", {}, el("tr", {}, head.map((h) => el("th", {class: h.n ? "n" : null, scope: "col"}, h.t || h)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, i) => el("td", {class: head[i].n ? "n" : head[i].long ? "text" : null}, cell)))))));
}

const facts = (pairs) => el("dl", {}, pairs.filter((p) => p).map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
const card = (value, name) => el("div", {class: "card"}, el("b", {}, value), el("span", {}, name));
const tag = (text) => el("span", {class: `tag ${/^[A-Za-z]+$/.test(text) ? text : ""}`}, text);

// parts draws a bar of shares: [[class, amount], ...].
function parts(shares, all) {
  const total = all || shares.reduce((sum, [, n]) => sum + n, 0);
  const bar = el("div", {class: "bar", role: "img", "aria-label": shares.map(([name, n]) => `${name} ${n}`).join(", ")});
  for (const [name, n] of shares) {
    if (n <= 0 || total <= 0) continue;
    const part = el("i", {class: name});
    part.style.width = `${100 * n / total}%`;
    bar.append(part);
  }
  return bar;
}

function sharp(canvas, height) {
  const scale = window.devicePixelRatio || 1, width = canvas.clientWidth || 300;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const c = canvas.getContext("2d");
  c.scale(scale, scale);
  c.font = "11px system-ui, sans-serif";
  return [c, width];
}

// lines draws series over time: series are [{name, colour, value(look)}], stacked or not.
function lines(canvas, looks, series, options = {}) {
  const height = 150, [c, width] = sharp(canvas, height);
  const left = 44, bottom = 18, top = 6, right = 6;
  if (looks.length < 2) {
    c.fillStyle = colour("faint");
    c.fillText("waits for data", left, height / 2);
    return;
  }
  const from = looks[0].t, until = looks[looks.length - 1].t;
  const columns = looks.map((look, i) => series.map((s) => s.value(look, looks[i - 1])));
  let most = options.most || 0;
  if (!most) for (const column of columns) most = Math.max(most, options.stacked ? column.reduce((a, b) => a + (b || 0), 0) : Math.max(...column.map((v) => v || 0)));
  most = most || 1;
  const x = (t) => left + (width - left - right) * (t - from) / (until - from || 1);
  const y = (v) => height - bottom - (height - bottom - top) * Math.min(v, most) / most;
  c.strokeStyle = colour("line");
  c.fillStyle = colour("faint");
  for (const share of [0, .5, 1]) {
    c.beginPath(); c.moveTo(left, y(most * share)); c.lineTo(width - right, y(most * share)); c.stroke();
    const text = options.text ? options.text(most * share) : most < 10 ? (most * share).toFixed(1) : number(most * share);
    c.fillText(text, 2, y(most * share) + 4);
  }
  c.fillText(clock(from), left, height - 4);
  c.fillText(clock(until), width - right - c.measureText(clock(until)).width, height - 4);
  const base = looks.map(() => 0);
  series.forEach((s, k) => {
    c.beginPath();
    let started = false;
    looks.forEach((look, i) => {
      const v = columns[i][k];
      if (v === undefined || v === null || Number.isNaN(v)) { started = false; return; } // nothing is known of this time
      if (options.stacked) base[i] += v;
      const at = y(options.stacked ? base[i] : v);
      if (!started) c.moveTo(x(look.t) - 1, at);
      c.lineTo(x(look.t), at);
      started = true;
    });
    c.strokeStyle = colour(s.colour);
    c.lineWidth = 1.8;
    c.stroke();
  });
}

const chart = (title, series, options) => {
  const canvas = el("canvas", {role: "img", "aria-label": title});
  const figure = el("figure", {}, el("figcaption", {}, el("b", {}, title), series.map((s) => el("span", {class: `key ${s.colour}`}, s.name))), canvas);
  return {figure, draw: (looks) => lines(canvas, looks, series, options)};
};

// fill draws the parts of an attempt: stage-in, then run.
function fill(c, x, y, height, bar, until, left, width) {
  const end = bar.run ? bar.start + bar.run : until;
  const begin = Math.max(left, x(bar.start - bar.in)), run = Math.max(left, x(bar.start)), stop = Math.min(width, x(end));
  if (stop < left || begin > width) return null;
  c.fillStyle = colour(sourceColours[bar.source] || "se");
  c.fillRect(begin, y, Math.max(0, Math.min(run, width) - begin), height);
  c.fillStyle = colour(bar.run && !bar.ok ? "bad" : "run");
  c.globalAlpha = bar.run ? 1 : .6;
  if (run < width) c.fillRect(run, y, Math.max(1, stop - run - .5), height);
  c.globalAlpha = 1;
  return [begin, Math.max(stop, begin + 2)];
}
const sourceColours = ["local", "peer", "se", "remote"];
// stripe draws for how long outputs went to a storage element, beside the next attempt.
function stripe(c, x, y, height, bar, left, width) {
  const from = Math.max(left, x(bar.start + bar.run)), until = Math.min(width, x(bar.out || 0));
  if (!bar.run || until <= from) return;
  c.fillStyle = colour("out");
  c.fillRect(from, y + height * 2 / 3, Math.max(1, until - from), height / 3);
}
const barKeys = [["local", "stage-in from the own cache"], ["peer", "from other pilots"], ["se", "from the storage element"], ["remote", "from other sites"], ["run", "run"], ["bad", "failed"], ["idle", "idle"]];
const barLegend = (...more) => el("figcaption", {}, [...barKeys, ...more].map(([k, t]) => el("span", {class: `key ${k}`}, t)));

// Gantt draws attempts by node and pilot, each in the first row of its pilot that is
// free. It follows the time, or shows a part of it that was chosen.
class Gantt {
  constructor(onpick) {
    this.bars = new Map();
    this.hosts = new Map();
    this.range = null; // [from, until] if a part is chosen; else it follows the time
    this.minutes = 0; // while it follows: as far back as there is something, 10 at most
    this.canvas = el("canvas", {role: "img", tabindex: 0, "aria-label": "Attempts on slots over time. Keys: + and - zoom, arrows move, Home follows the time, Enter opens the newest task that failed, or else the newest. The table of pilots says the same in words."});
    this.canvas.addEventListener("mousedown", (e) => { this.drag = {x: e.offsetX}; });
    addEventListener("mouseup", (e) => this.drop(e, onpick));
    this.canvas.addEventListener("mousemove", (e) => this.move(e));
    this.canvas.addEventListener("mouseleave", () => hideHint());
    this.canvas.addEventListener("dblclick", () => this.now());
    this.canvas.addEventListener("wheel", (e) => { if (e.ctrlKey || e.shiftKey) { e.preventDefault(); this.zoom(e.deltaY + e.deltaX > 0 ? 1.3 : 1 / 1.3, this.timeAt(e.offsetX)); } }, {passive: false});
    this.canvas.addEventListener("keydown", (e) => {
      const act = {"+": () => this.zoom(.5), "-": () => this.zoom(2), ArrowLeft: () => this.pan(-.25), ArrowRight: () => this.pan(.25), Home: () => this.now(), Enter: () => this.newest(onpick)}[e.key];
      if (act) { act(); e.preventDefault(); }
    });
  }

  // tools are buttons for those who have neither wheel nor keys.
  tools(note = "Drag over a time to look closer at it; a click opens the task.") {
    const button = (text, act) => el("button", {type: "button", onclick: act}, text);
    return el("div", {class: "tools"}, button("closer", () => this.zoom(.5)), button("wider", () => this.zoom(2)), button("earlier", () => this.pan(-.5)), button("later", () => this.pan(.5)), button("now", () => this.now()),
      el("span", {class: "note"}, note));
  }

  add(bars) {
    for (const bar of bars) this.bars.set(bar.id, {...bar, out: this.bars.get(bar.id)?.out});
    if (this.bars.size > 12000) {
      const kept = [...this.bars.values()].sort((a, b) => b.start - a.start).slice(0, 8000);
      this.bars = new Map(kept.map((bar) => [bar.id, bar]));
    }
  }

  stored(outs) {
    for (const o of outs) { const bar = this.bars.get(o.id); if (bar) bar.out = Math.max(bar.out || 0, o.at); }
  }

  now() { this.range = null; this.minutes = 0; this.draw(); }
  zoom(by, around) {
    const [from, until] = this.shown;
    if (!this.range && around === undefined) { this.minutes = Math.min(120, Math.max(.05, (until - from) / 60000 * by)); return this.draw(); }
    const middle = around ?? (from + until) / 2;
    this.choose(middle - (middle - from) * by, middle + (until - middle) * by);
  }
  pan(by) { const [from, until] = this.shown; this.choose(from + (until - from) * by, until + (until - from) * by); }
  choose(from, until) {
    if (until - from < 200) return;
    this.range = from < until && until < Date.now() + 60000 ? [from, until] : null;
    this.draw();
  }
  newest(onpick) {
    const bars = [...this.bars.values()].sort((a, b) => b.start - a.start);
    const bar = bars.find((b) => b.run && !b.ok) || bars[0];
    if (bar) onpick(bar.task);
  }
  timeAt(x) { const [from, until] = this.shown; return from + (until - from) * Math.max(0, x - this.left) / (this.width - this.left); }

  draw() {
    const present = Date.now();
    let first = present - 30000;
    for (const bar of this.bars.values()) first = Math.min(first, bar.start - bar.in);
    const [from, until] = this.shown = this.range || [present - (this.minutes || Math.min(10, (present - first) / 60000)) * 60000, present];
    const pilots = new Map();
    for (const bar of [...this.bars.values()].sort((a, b) => a.start - b.start)) {
      const end = bar.run ? bar.start + bar.run : present;
      if (end < from || bar.start - bar.in > until) continue;
      if (!pilots.has(bar.pilot)) pilots.set(bar.pilot, []);
      const rows = pilots.get(bar.pilot);
      // Pilots' clocks and stage-in beside the payload before make bars touch.
      let row = rows.find((r) => r.until <= bar.start + 50);
      if (!row) rows.push(row = {bars: []});
      row.until = end;
      row.bars.push(bar);
    }
    const node = (p) => this.hosts.get(p) || "";
    const ordered = [...pilots.entries()].sort(([a], [b]) => node(a).localeCompare(node(b)) || a.localeCompare(b));
    const rows = ordered.flatMap(([pilot, slots]) => slots.map((slot, i) => ({pilot, first: i === 0, bars: slot.bars})));
    const step = rows.length > 400 ? 2 : rows.length > 120 ? 5 : rows.length > 40 ? 9 : 14, gap = step > 2 ? 2 : 0;
    const [c, width] = sharp(this.canvas, Math.max(60, Math.min(rows.length, 900) * step + 22));
    const height = Math.max(60, Math.min(rows.length, 900) * step + 22), left = step >= 9 ? Math.min(130, width / 3) : 10;
    const x = (t) => left + (width - left) * (t - from) / (until - from);
    [this.left, this.width, this.hits] = [left, width, []];
    rows.slice(0, 900).forEach((row, i) => {
      const y = i * step;
      if (step >= 9 && row.first) {
        c.fillStyle = colour("faint");
        c.fillText(`${node(row.pilot)} ${row.pilot}`.trim().slice(0, Math.floor(left / 6)), 0, y + step - 2);
      }
      c.fillStyle = colour("idle");
      c.fillRect(left, y + gap / 2, width - left, step - gap);
      for (const bar of row.bars) {
        const drawn = fill(c, x, y + gap / 2, step - gap, bar, present, left, width);
        if (drawn) this.hits.push([drawn[0], y, drawn[1], y + step, bar]);
      }
      for (const bar of row.bars) stripe(c, x, y + gap / 2, step - gap, bar, left, width);
    });
    if (this.drag?.to !== undefined) {
      c.fillStyle = colour("accent"); c.globalAlpha = .2;
      c.fillRect(Math.min(this.drag.x, this.drag.to), 0, Math.abs(this.drag.to - this.drag.x), height - 18);
      c.globalAlpha = 1;
    }
    c.fillStyle = colour("faint");
    c.fillText(clock(from), left, height - 6);
    c.fillText(clock(until), width - c.measureText(clock(until)).width - 2, height - 6);
    if (!rows.length) c.fillText("no attempts in this time", left, 30);
  }

  at(e) {
    const x = e.offsetX, y = e.offsetY;
    const hit = (this.hits || []).find(([a, b, c, d]) => x >= a && x <= c && y >= b && y < d);
    return hit && hit[4];
  }

  move(e) {
    if (this.drag && Math.abs(e.offsetX - this.drag.x) > 5) { this.drag.to = e.offsetX; hideHint(); return this.draw(); }
    const bar = this.at(e);
    if (!bar) return hideHint();
    showHint(e, `${bar.task || "a task of somebody else"} at ${bar.pilot}: stage-in ${seconds(bar.in / 1000)}, ${bar.run ? `ran ${seconds(bar.run / 1000)}${bar.ok ? "" : ", failed"}${bar.out ? `, stored ${seconds(Math.max(0, bar.out - bar.start - bar.run) / 1000)} later` : ""}` : "runs"}`);
  }

  drop(e, onpick) {
    const drag = this.drag;
    this.drag = null;
    if (!drag) return;
    if (drag.to !== undefined) return this.choose(this.timeAt(Math.min(drag.x, drag.to)), this.timeAt(Math.max(drag.x, drag.to)));
    const bar = e.target === this.canvas && this.at(e);
    if (bar) { hideHint(); onpick(bar.task); }
  }
}

// timeline draws attempts below each other: rows are [name, bar].
function timeline(canvas, rows) {
  const height = rows.length * 18 + 20, [c, width] = sharp(canvas, height), left = Math.min(130, width / 3), present = Date.now();
  if (!rows.length) return;
  const from = Math.min(...rows.map(([, b]) => b.start - b.in)), until = Math.max(from + 1, ...rows.map(([, b]) => b.run ? b.start + b.run : present));
  const x = (t) => left + (width - left) * (t - from) / (until - from);
  rows.forEach(([name, bar], i) => {
    c.fillStyle = colour("faint");
    c.fillText(name.slice(0, Math.floor(left / 6)), 0, i * 18 + 12);
    c.fillStyle = colour("idle");
    c.fillRect(left, i * 18 + 2, width - left, 13);
    fill(c, x, i * 18 + 2, 13, bar, present, left, width);
  });
  c.fillStyle = colour("faint");
  c.fillText(clock(from), left, height - 6);
  const end = `${clock(until)}, after ${seconds((until - from) / 1000)}`;
  c.fillText(end, width - c.measureText(end).width - 2, height - 6);
}

const svg = (tag, attributes, ...children) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  for (const child of children) e.append(child.nodeType ? child : document.createTextNode(String(child)));
  return e;
};

// graph draws steps in layers, each behind all that it reads from. Steps of one layer
// that read from the same steps are one box when there are many.
function graph(steps) {
  const layer = new Map();
  for (let n = 0, moved = true; moved && n <= steps.length; n++) {
    moved = false;
    for (const s of steps) {
      const at = Math.max(0, ...(s.after || []).map((a) => (layer.get(a) ?? 0) + 1));
      if (at !== layer.get(s.name) && at <= steps.length) { layer.set(s.name, at); moved = true; }
    }
  }
  let boxes = steps.map((s) => ({...s, names: [s.name], layer: layer.get(s.name)}));
  if (boxes.length > 40) {
    const joined = new Map();
    for (const b of boxes) {
      const key = `${b.layer} ${(b.after || []).join(" ")}`, have = joined.get(key);
      if (!have) { joined.set(key, b); continue; }
      have.names.push(b.name);
      for (const k of ["tasks", "blocked", "ready", "leased", "done", "failed", "cancelled"]) have[k] += b[k];
    }
    boxes = [...joined.values()];
  }
  const boxOf = new Map(boxes.flatMap((b) => b.names.map((n) => [n, b]))), perLayer = [], w = 150, h = 46, dx = 200, dy = 62;
  for (const b of boxes) { const at = perLayer[b.layer] = (perLayer[b.layer] || 0) + 1; b.x = b.layer * dx + 2; b.y = (at - 1) * dy + 2; }
  const drawing = svg("svg", {width: perLayer.length * dx, height: Math.max(1, ...perLayer.map((n) => n || 0)) * dy, role: "img", "aria-label": "Steps and what they read from each other; the table below says the same in words"});
  for (const b of boxes) for (const from of new Set((b.after || []).map((n) => boxOf.get(n)))) {
    if (!from || from === b) continue;
    const x1 = from.x + w, y1 = from.y + h / 2, x2 = b.x, y2 = b.y + h / 2;
    drawing.append(svg("path", {d: `M${x1} ${y1}C${x1 + 30} ${y1} ${x2 - 30} ${y2} ${x2} ${y2}`, class: "edge"}));
  }
  for (const b of boxes) {
    const name = b.names.length > 1 ? `${b.names[0]} and ${b.names.length - 1} more` : b.names[0];
    const box = svg("g", {}, svg("title", {}, `${name}: ${b.done} of ${b.tasks} done, ${b.failed} failed`), svg("rect", {x: b.x, y: b.y, width: w, height: h, rx: 6, class: "box"}),
      svg("text", {x: b.x + 8, y: b.y + 17, class: "name"}, name.length > 20 ? `${name.slice(0, 19)}\u2026` : name), svg("text", {x: b.x + 8, y: b.y + 32}, `${number(b.done)} / ${number(b.tasks)}`));
    let at = b.x + 8;
    box.append(svg("rect", {x: at, y: b.y + 37, width: w - 16, height: 4, class: "idle"}));
    for (const [kind, n] of [["ok", b.done], ["run", b.leased], ["wait", b.ready], ["bad", b.failed + b.cancelled]]) {
      const part = (w - 16) * n / Math.max(1, b.tasks);
      if (part > 0) box.append(svg("rect", {x: at, y: b.y + 37, width: part, height: 4, class: kind}));
      at += part;
    }
    drawing.append(box);
  }
  return el("div", {class: "scroll graph"}, drawing);
}

function showHint(e, text) {
  let hint = document.getElementById("hint");
  if (!hint) document.body.append(hint = el("div", {id: "hint"}));
  hint.textContent = text;
  hint.style.left = `${Math.min(e.clientX + 12, innerWidth - 260)}px`;
  hint.style.top = `${e.clientY + 14}px`;
}

function hideHint() { document.getElementById("hint")?.remove(); }
