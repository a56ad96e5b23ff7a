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
      if (v === undefined || v === null || Number.isNaN(v)) return;
      if (options.stacked) base[i] += v;
      const at = y(options.stacked ? base[i] : v);
      if (started) c.lineTo(x(look.t), at); else c.moveTo(x(look.t), at);
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

// Gantt draws attempts by pilot, each in the first row of its pilot that is free.
class Gantt {
  constructor(onpick) {
    this.bars = new Map();
    this.hosts = new Map();
    this.minutes = 0; // as far back as there is something, 10 at most
    this.canvas = el("canvas", {role: "img", tabindex: 0, "aria-label": "Attempts on slots over time; the table of the site's pilots says the same in words"});
    this.canvas.addEventListener("click", (e) => { const bar = this.at(e); if (bar) onpick(bar.task); });
    this.canvas.addEventListener("mousemove", (e) => this.hint(e));
    this.canvas.addEventListener("mouseleave", () => hideHint());
    this.canvas.addEventListener("keydown", (e) => { if (e.key === "+" || e.key === "-") { this.zoom(e.key === "+" ? .5 : 2); e.preventDefault(); } });
  }

  add(bars) {
    for (const bar of bars) this.bars.set(bar.id, bar);
    if (this.bars.size > 12000) {
      const kept = [...this.bars.values()].sort((a, b) => b.start - a.start).slice(0, 8000);
      this.bars = new Map(kept.map((bar) => [bar.id, bar]));
    }
  }

  zoom(by) { this.minutes = Math.min(120, Math.max(.2, this.shown * by)); this.draw(); }

  draw() {
    const until = Date.now();
    let first = until - 30000;
    for (const bar of this.bars.values()) first = Math.min(first, bar.start - bar.in);
    this.shown = this.minutes || Math.min(10, (until - first) / 60000);
    const from = until - this.shown * 60000;
    const pilots = new Map();
    for (const bar of [...this.bars.values()].sort((a, b) => a.start - b.start)) {
      const end = bar.run ? bar.start + bar.run : until;
      if (end < from) continue;
      if (!pilots.has(bar.pilot)) pilots.set(bar.pilot, []);
      const rows = pilots.get(bar.pilot);
      let row = rows.find((r) => r.until <= bar.start - bar.in + 50);
      if (!row) rows.push(row = {bars: []});
      row.until = end;
      row.bars.push([bar, end]);
    }
    const node = (p) => this.hosts.get(p) || "";
    const ordered = [...pilots.entries()].sort(([a], [b]) => node(a).localeCompare(node(b)) || a.localeCompare(b));
    const rows = ordered.flatMap(([pilot, slots]) => slots.map((slot, i) => ({pilot, first: i === 0, bars: slot.bars})));
    const step = rows.length > 400 ? 2 : rows.length > 120 ? 5 : rows.length > 40 ? 9 : 14;
    const height = Math.max(60, Math.min(rows.length, 900) * step + 22), left = step >= 9 ? 130 : 10;
    const [c, width] = sharp(this.canvas, height);
    const x = (t) => left + (width - left) * (t - from) / (until - from);
    this.hits = [];
    rows.slice(0, 900).forEach((row, i) => {
      const y = i * step;
      if (step >= 9 && row.first) {
        c.fillStyle = colour("faint");
        c.fillText(`${node(row.pilot)} ${row.pilot}`.trim().slice(0, 22), 0, y + step - 2);
      }
      c.fillStyle = colour("idle");
      c.fillRect(left, y + 1, width - left, Math.max(1, step - 2));
      for (const [bar, end] of row.bars) {
        const begin = Math.max(left, x(bar.start - bar.in)), run = Math.max(left, x(bar.start)), stop = Math.min(width, x(end));
        c.fillStyle = colour(["local", "peer", "se", "remote"][bar.source] || "in");
        c.fillRect(begin, y + 1, Math.max(0, run - begin), Math.max(1, step - 2));
        c.fillStyle = colour(bar.run && !bar.ok ? "bad" : "run");
        c.globalAlpha = bar.run ? 1 : .6;
        c.fillRect(run, y + 1, Math.max(1, stop - run - .5), Math.max(1, step - 2));
        c.globalAlpha = 1;
        this.hits.push([begin, y, Math.max(stop, begin + 2), y + step, bar]);
      }
    });
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

  hint(e) {
    const bar = this.at(e);
    if (!bar) return hideHint();
    showHint(e, `${bar.task} at ${bar.pilot}: stage-in ${seconds(bar.in / 1000)}, ${bar.run ? `ran ${seconds(bar.run / 1000)}${bar.ok ? "" : ", failed"}` : "runs"}`);
  }
}

function showHint(e, text) {
  let hint = document.getElementById("hint");
  if (!hint) document.body.append(hint = el("div", {id: "hint"}));
  hint.textContent = text;
  hint.style.left = `${Math.min(e.clientX + 12, innerWidth - 260)}px`;
  hint.style.top = `${e.clientY + 14}px`;
}

function hideHint() { document.getElementById("hint")?.remove(); }
