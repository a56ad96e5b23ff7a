"use strict";
// The report of a finished workflow: the page's charts and tables of what a file holds.

(function report() {
  const r = JSON.parse(document.getElementById("data").textContent);
  const times = r.bars.flatMap((b) => [b.start - b.in, b.start + b.run]), whole = times.length ? [Math.min(...chunks(times, Math.min)), Math.max(...chunks(times, Math.max))] : [0, 1000];
  document.title = `Report of ${r.name}`;
  const gantt = new Gantt(() => {});
  gantt.hosts = new Map(Object.entries(r.hosts || {}));
  gantt.add(r.bars);
  gantt.now = () => { gantt.range = whole; gantt.draw(); };
  const wasted = Object.entries(r.wasted || {}), lost = add(wasted.map(([, w]) => w.seconds)), reads = add(r.reads);
  const taskRows = (tasks) => (tasks || []).map((t) => [t.id, t.site || "-", t.attempts, seconds(t.in), seconds(t.run), t.reason || "-"]);
  const taskHead = [{t: "task", long: 1}, "site", {t: "attempts", n: 1}, {t: "stage-in", n: 1}, {t: "run", n: 1}, {t: "reason", long: 1}];
  document.getElementById("main").replaceChildren(
    el("h1", {}, `Workflow ${r.name} (${r.id})`), facts(r.facts),
    el("div", {class: "cards"}, card(percent(r.reads[0] + r.reads[1], reads), "inputs from caches"), card(bytes(r.bytes[0] + r.bytes[1]), "kept off storage elements"), card(bytes(r.bytes[2] + r.bytes[3]), "read from storage elements"),
      card(seconds(r.useful), "of payloads that count"), card(seconds(lost), "wasted"), card(percent(lost, lost + r.useful), "of all is wasted")),
    el("h2", {}, "Steps"), graph(r.steps || []), table(stepHead, (r.steps || []).slice(0, 300).map(stepRow)),
    el("h2", {}, "Slots, by node and pilot"), gantt.tools("Drag over a time to look closer at it."), el("figure", {}, barLegend(), gantt.canvas),
    el("h2", {}, "Transfers"), table(["from", {t: "inputs", n: 1}, {t: "of all", n: 1}, {t: "bytes", n: 1}, {t: "of all", n: 1}], sources.map((name, i) => [el("span", {class: `key ${name}`}, sourceNames[name]), number(r.reads[i]), percent(r.reads[i], reads), bytes(r.bytes[i]), percent(r.bytes[i], add(r.bytes))])),
    table([{t: "file read most", long: 1}, {t: "bytes", n: 1}, {t: "reads", n: 1}, "by source"], (r.files || []).map((f) => [f.lfn, bytes(f.size), number(add(f.reads)), parts(sources.map((name, i) => [name, f.reads[i]]))])),
    el("h2", {}, "Wasted work"), table(["attempts that", {t: "attempts", n: 1}, {t: "time", n: 1}], wasted.map(([kind, w]) => [kind, number(w.attempts), seconds(w.seconds)]), "No attempt was in vain."),
    el("h2", {}, "Failures by text"), table([{t: "tasks", n: 1}, {t: "reason", long: 1}, "steps", "one of them"], (r.failures || []).map((f) => [number(f.tasks), f.reason || "-", (f.steps || []).join(", "), f.task]), "No task has failed."),
    el("h2", {}, "Slowest tasks"), table(taskHead, taskRows(r.slowest)), el("h2", {}, "Failed tasks"), table(taskHead, taskRows(r.failed), "None."));
  gantt.now();
  addEventListener("resize", () => gantt.draw());

  // chunks reduces a long list, of which a call takes only a part.
  function chunks(list, by) {
    const all = [];
    for (let i = 0; i < list.length; i += 5000) all.push(by(...list.slice(i, i + 5000)));
    return all;
  }
})();
