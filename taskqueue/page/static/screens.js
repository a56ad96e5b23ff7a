"use strict";
// The screens. Each is made once ({node, ...}); look(looks) is called with each new
// look, and refresh() every few seconds for what the looks do not have.

async function call(service, method, request) {
  const reply = await fetch(`/call/${service}/${method}`, {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(request || {})});
  if (reply.status === 401) { askLogin(); throw new Error("log in"); }
  const text = await reply.text();
  if (!reply.ok) throw new Error(text.trim() || reply.statusText);
  return JSON.parse(text);
}

const sources = ["local", "peer", "se", "remote"];
const sourceNames = {local: "own cache", peer: "other pilots", se: "storage element", remote: "other sites' storage"};
const sum = (sites, value) => sites.reduce((total, site) => total + value(site), 0);
const rate = (value) => (look, before) => before ? Math.max(0, (value(look) - value(before)) * 1000 / (look.t - before.t)) : null;
const link = (path, text) => el("a", {href: `#/${path.map(encodeURIComponent).join("/")}`}, text);
const short = (id) => String(id).replace(/^w-[a-z2-7]+\//, "");

function siteRows(look) {
  return look.sites.map((s) => {
    const reads = s.reads.reduce((a, b) => a + b, 0);
    return [link(["site", s.name], s.name), s.mode, s.note || "-", number(s.pilots), `${number(s.slots - s.free)} / ${number(s.slots)}`,
      parts([["run", s.slots - s.free]], s.slots), number(s.running), number(s.waiting), number(s.done), number(s.failed),
      percent(s.reads[0] + s.reads[1], reads), percent(s.reads[0], reads)];
  });
}
const siteHead = ["site", "mode", "state", {t: "pilots", n: 1}, {t: "slots busy", n: 1}, "", {t: "running", n: 1}, {t: "held, waiting", n: 1}, {t: "done", n: 1}, {t: "failed attempts", n: 1}, {t: "hits", n: 1}, {t: "local hits", n: 1}];

function overview() {
  const cards = el("div", {class: "cards"}), sites = el("div");
  const charts = [
    chart("Tasks that wait or run", [{name: "ready", colour: "ready", value: (l) => l.ready}, {name: "held by sites", colour: "waiting", value: (l) => l.waiting}, {name: "running", colour: "running", value: (l) => l.running}]),
    chart("Slots", [{name: "busy", colour: "running", value: (l) => sum(l.sites, (s) => s.slots - s.free)}, {name: "all", colour: "idle", value: (l) => sum(l.sites, (s) => s.slots)}]),
    chart("Tasks done a second", [{name: "done", colour: "local", value: rate((l) => l.done)}, {name: "failed attempts", colour: "bad", value: rate((l) => l.failed)}]),
    chart("Calls of pilots a second", [{name: "calls", colour: "peer", value: rate((l) => l.requests)}]),
  ];
  return {
    title: "Overview", node: el("div", {}, el("h1", {}, "Overview"), cards, el("h2", {}, "The last hour"), el("div", {class: "charts"}, charts.map((c) => c.figure)), el("h2", {}, "Sites"), sites),
    look(looks) {
      const l = looks[looks.length - 1], slots = sum(l.sites, (s) => s.slots), free = sum(l.sites, (s) => s.free);
      cards.replaceChildren(card(number(l.ready), "tasks ready"), card(number(l.waiting), "held by sites, waiting"), card(number(l.running), "running"),
        card(percent(slots - free, slots), `of ${number(slots)} slots busy`), card(number(sum(l.sites, (s) => s.pilots)), "pilots"), card(number(l.done), "tasks done"), card(number(l.failed), "failed attempts"));
      sites.replaceChildren(table(siteHead, siteRows(l), "No site yet: pilotage site add NAME --se URL."));
      charts.forEach((c) => c.draw(looks));
    },
  };
}

function data() {
  const cards = el("div", {class: "cards"}), sites = el("div"), files = el("div");
  const hit = (of) => (l, b) => {
    if (!b) return null;
    const now = sources.map((_, i) => sum(l.sites, (s) => s.reads[i]) - sum(b.sites, (s) => s.reads[i])), all = now.reduce((x, y) => x + y, 0);
    return all > 0 ? 100 * of(now) / all : null;
  };
  const charts = [
    chart("Hit ratio of reads, in %", [{name: "total", colour: "local", value: hit((n) => n[0] + n[1])}, {name: "local", colour: "peer", value: hit((n) => n[0])}], {most: 100}),
    chart("Bytes read a second", sources.map((name, i) => ({name: sourceNames[name], colour: name, value: rate((l) => sum(l.sites, (s) => s.bytes[i]))})), {text: bytes}),
  ];
  return {
    title: "Data", node: el("div", {}, el("h1", {}, "Where inputs come from"), cards, el("h2", {}, "The last hour"), el("div", {class: "charts"}, charts.map((c) => c.figure)), el("h2", {}, "Sites, since they were added"), sites, el("h2", {}, "Files with most readers"), files),
    look(looks) {
      const l = looks[looks.length - 1], count = sources.map((_, i) => sum(l.sites, (s) => s.reads[i])), size = sources.map((_, i) => sum(l.sites, (s) => s.bytes[i]));
      const all = count.reduce((a, b) => a + b, 0), whole = size.reduce((a, b) => a + b, 0);
      cards.replaceChildren(card(percent(count[0] + count[1], all), "total hit ratio, files"), card(percent(count[0], all), "local hit ratio, files"), card(percent(size[0] + size[1], whole), "total hit ratio, bytes"),
        card(bytes(size[0] + size[1]), "kept off storage elements"), card(bytes(size[2] + size[3]), "read from storage elements"));
      sites.replaceChildren(table(["site", "reads by source", {t: "files", n: 1}, "bytes by source", {t: "bytes", n: 1}, {t: "kept off its storage", n: 1}, {t: "caches used", n: 1}], l.sites.map((s) => [
        link(["site", s.name], s.name), parts(sources.map((name, i) => [name, s.reads[i]])), number(s.reads.reduce((a, b) => a + b, 0)),
        parts(sources.map((name, i) => [name, s.bytes[i]])), bytes(s.bytes.reduce((a, b) => a + b, 0)), bytes(s.bytes[0] + s.bytes[1]), `${bytes(s.used)} of ${bytes(s.cache)}`])));
      charts.forEach((c) => c.draw(looks));
    },
    async refresh() {
      const reply = await call("FileService", "ListFiles", {pageSize: 500, prefix: "vo:"});
      const found = (reply.files || []).sort((a, b) => Number(b.sizeBytes) - Number(a.sizeBytes)).slice(0, 20);
      files.replaceChildren(table([{t: "file", long: 1}, {t: "bytes", n: 1}, {t: "copies", n: 1}, "in caches of"], found.map((f) => [f.lfn, bytes(f.sizeBytes), (f.replicas || []).length, (f.announced || []).join(", ") || "-"]), "No external file is registered."));
    },
  };
}

function site(name) {
  const cards = el("div", {class: "cards"}), about = el("div"), pilots = el("div"), masters = el("div");
  const gantt = new Gantt((task) => { location.hash = `#/task/${encodeURIComponent(task)}`; });
  const one = (l) => l.sites.find((s) => s.name === name) || {slots: 0, free: 0, reads: [0, 0, 0, 0], bytes: [0, 0, 0, 0], done: 0};
  const charts = [
    chart("Slots", [{name: "busy", colour: "running", value: (l) => one(l).slots - one(l).free}, {name: "all", colour: "idle", value: (l) => one(l).slots}]),
    chart("Tasks done a second", [{name: "done", colour: "local", value: rate((l) => one(l).done)}]),
  ];
  return {
    title: name, site: name,
    node: el("div", {}, el("h1", {}, `Site ${name}`), cards, el("h2", {}, "Slots, by node and pilot"),
      el("div", {class: "tools"}, el("button", {type: "button", onclick: () => gantt.zoom(.5)}, "closer"), el("button", {type: "button", onclick: () => gantt.zoom(2)}, "wider"),
        el("span", {class: "note"}, "A click opens the task.")),
      el("figure", {}, el("figcaption", {}, [["local", "stage-in from own cache"], ["peer", "from other pilots, and run"], ["se", "from storage"], ["remote", "from other sites"], ["bad", "failed"]].map(([k, t]) => el("span", {class: `key ${k}`}, t))), gantt.canvas),
      el("h2", {}, "The last hour"), el("div", {class: "charts"}, charts.map((c) => c.figure)), el("h2", {}, "Pilots"), pilots, el("h2", {}, "Settings and state"), about, el("h2", {}, "Masters"), masters),
    bars(bars) { gantt.add(bars); },
    look(looks) {
      const s = one(looks[looks.length - 1]), reads = s.reads.reduce((a, b) => a + b, 0);
      cards.replaceChildren(card(`${number(s.slots - s.free)} / ${number(s.slots)}`, "slots busy"), card(number(s.pilots), "pilots"), card(number(s.running), "running"), card(number(s.waiting), "held, waiting"),
        card(percent(s.reads[0] + s.reads[1], reads), "hits"), card(percent(s.reads[0], reads), "local hits"), card(seconds(s.delay_p50), "inter-task delay, median"), card(number(s.set_back), "nodes set back"));
      charts.forEach((c) => c.draw(looks));
      gantt.draw();
    },
    async refresh() {
      const [{site: s}, listed] = await Promise.all([call("SiteService", "GetSite", {name}), call("PilotService", "ListPilots", {site: name, pageSize: 1000})]);
      for (const p of listed.pilots || []) gantt.hosts.set(p.contact.pilot, p.host);
      pilots.replaceChildren(table(["pilot", "node", "state", {t: "slots busy", n: 1}, {t: "done", n: 1}, {t: "failed", n: 1}, {t: "local hits", n: 1}, "batch job", "payloads confined by", {t: "note", long: 1}], (listed.pilots || []).map((p) => [
        link(["pilot", p.contact.pilot], p.contact.pilot + (p.master ? " (master)" : "")), p.host, tag(p.state), `${p.running} / ${p.slots}`, number(p.done), number(p.failed),
        percent(Number(p.localReads), Number(p.reads)), p.batchJob || "-", p.sandbox || "-", p.stopped || p.lastError || "-"]), "No pilot is alive here."));
      about.replaceChildren(facts([["storage element", s.settings.storageUrl || "none"], ["mode", s.settings.mode.replace("SITE_MODE_", "").toLowerCase()], s.fallback && ["fallen back", s.fallback],
        ["solver", s.settings.solver || "greedy"], ["rank", s.settings.rank || "locality"], ["master", s.master || "-"], ["term", s.term || "-"], ["calls to the queue", number(s.queueRequests)],
        ["evictions", number(s.evictions)], ["rotted cache files", number(s.damaged)], s.stoppedPilots > 0 && ["pilots that take no work", `${s.stoppedPilots}: ${s.stoppedWhy}`],
        (s.refused || []).length > 0 && ["classes that no pilot can run", s.refused.map((r) => r.require || "resources").join("; ")]]));
      masters.replaceChildren(table(["since", "term", "pilot", {t: "why", long: 1}], [...(s.history || [])].reverse().slice(0, 20).map((m) => [when(m.since), m.term, m.pilot, m.why])));
    },
  };
}

const counts = (w) => [["ok", w.done], ["run", w.leased], ["wait", w.ready], ["bad", w.failed + w.cancelled + w.quarantined]];
const total = (w) => w.blocked + w.ready + w.leased + w.done + w.failed + w.cancelled + w.quarantined;

function workflows() {
  const list = el("div");
  return {
    title: "Workflows", node: el("div", {}, el("h1", {}, "Workflows"), list),
    async refresh() {
      const reply = await call("TaskService", "ListWorkflows", {pageSize: 200});
      list.replaceChildren(table(["workflow", "name", "owner", "state", "progress", {t: "done", n: 1}, {t: "failed", n: 1}, "since"], (reply.workflows || []).map((w) => [
        link(["workflow", w.id], w.id), w.name, w.owner || "-", tag(w.state.replace("WORKFLOW_STATE_", "")), parts(counts(w), total(w)), `${number(w.done)} / ${number(total(w))}`, number(w.failed + w.quarantined), when(w.created)]),
      "No workflow yet: pilotage submit -f workflow.yaml."));
    },
  };
}

const taskStates = ["BLOCKED", "READY", "LEASED", "DONE", "FAILED", "CANCELLED", "QUARANTINED"];

function workflow(id) {
  const head = el("div"), failures = el("div"), graph = el("div"), tasks = el("div");
  let state = "", seen = null;
  const choose = el("select", {"aria-label": "State of the tasks", onchange: (e) => { state = e.target.value; fill().catch(show); }}, el("option", {value: ""}, "all states"), taskStates.map((s) => el("option", {value: s}, s)));
  async function fill() {
    const states = state ? [`TASK_STATE_${state}`] : [];
    const reply = await call("TaskService", "ListTasks", {workflow: id, states, pageSize: 200});
    tasks.replaceChildren(table(["task", "state", "site", {t: "failures", n: 1}, "changed", {t: "reason", long: 1}], (reply.tasks || []).map((t) => [
      link(["task", t.task.id], short(t.task.id)), tag(t.state.replace("TASK_STATE_", "")), t.site || "-", t.failures, when(t.changed), t.reason || "-"])),
    reply.nextPageToken ? el("p", {class: "note"}, "The first 200 are shown.") : "");
  }
  return {
    title: id, node: el("div", {}, el("h1", {}, `Workflow ${id}`), head, el("h2", {}, "Steps"), graph, el("h2", {}, "Failures by text"), failures, el("h2", {}, "Tasks"), el("div", {class: "tools"}, choose), tasks),
    async refresh() {
      const {workflow: w} = await call("TaskService", "GetWorkflow", {workflow: id});
      const now = Date.now(), done = w.done, all = total(w);
      let left = "-";
      if (seen && done > seen.done && done < all) left = seconds((all - done) * (now - seen.t) / (done - seen.done) / 1000);
      if (!seen) seen = {t: now, done};
      head.replaceChildren(parts(counts(w), all), facts([["name", w.name], ["state", tag(w.state.replace("WORKFLOW_STATE_", ""))], ["done", `${number(done)} of ${number(all)}`], ["running or held", number(w.leased)], ["ready", number(w.ready)], ["blocked", number(w.blocked)],
        ["failed", number(w.failed)], ["cancelled", number(w.cancelled)], ["quarantined", number(w.quarantined)], ["outputs to be stored", number(w.outputsPending)], ["expected to take further", left], w.reason && ["reason", w.reason], ["since", when(w.created)], w.ended && ["ended", when(w.ended)]]));
      const bad = await call("TaskService", "ListTasks", {workflow: id, states: ["TASK_STATE_FAILED", "TASK_STATE_QUARANTINED"], pageSize: 1000});
      const grouped = new Map();
      for (const t of bad.tasks || []) { const g = grouped.get(t.reason) || []; g.push(t); grouped.set(t.reason, g); }
      failures.replaceChildren(table([{t: "tasks", n: 1}, {t: "reason", long: 1}, "one of them"], [...grouped.entries()].sort((a, b) => b[1].length - a[1].length).map(([reason, group]) => [group.length, reason || "-", link(["task", group[0].task.id], short(group[0].task.id))]), "No task has failed."));
      const every = await call("TaskService", "ListTasks", {workflow: id, pageSize: 1000});
      const groups = new Map();
      for (const t of every.tasks || []) {
        const name = short(t.task.id).replace(/\[.*\]$/, ""), g = groups.get(name) || {all: 0};
        const s = t.state.replace("TASK_STATE_", "");
        g.all++; g[s] = (g[s] || 0) + 1;
        groups.set(name, g);
      }
      graph.replaceChildren(table(["step", "progress", {t: "tasks", n: 1}, {t: "done", n: 1}, {t: "held or running", n: 1}, {t: "ready", n: 1}, {t: "blocked", n: 1}, {t: "failed", n: 1}], [...groups.entries()].map(([name, g]) => [
        name, parts([["ok", g.DONE || 0], ["run", g.LEASED || 0], ["wait", g.READY || 0], ["bad", (g.FAILED || 0) + (g.QUARANTINED || 0) + (g.CANCELLED || 0)]], g.all), g.all, g.DONE || 0, g.LEASED || 0, g.READY || 0, g.BLOCKED || 0, (g.FAILED || 0) + (g.QUARANTINED || 0)])),
      every.nextPageToken ? el("p", {class: "note"}, "Of the first 1,000 tasks.") : "");
      await fill();
    },
  };
}

const text64 = (data) => data ? new TextDecoder().decode(Uint8Array.from(atob(data), (c) => c.charCodeAt(0))) : "";

function task(id) {
  const head = el("div"), attempts = el("div"), inputs = el("div"), explained = el("div"), logs = el("div");
  return {
    title: short(id), node: el("div", {}, el("h1", {}, `Task ${id}`), head, el("h2", {}, "Attempts"), attempts, el("h2", {}, "Inputs of the newest attempt"), inputs, el("h2", {}, "Why it waits"), explained, el("h2", {}, "Output"), logs),
    async refresh() {
      const {task: t} = await call("TaskService", "GetTask", {taskId: id});
      const state = t.state.replace("TASK_STATE_", ""), d = t.task;
      head.replaceChildren(facts([["state", tag(state)], ["workflow", link(["workflow", id.split("/")[0]], id.split("/")[0])], ["command", el("code", {}, d.shell || (d.argv || []).join(" "))], ["site", t.site ? link(["site", t.site], t.site) : "-"], ["cores", d.resources?.cores ?? "-"],
        ["memory", bytes(d.resources?.memoryBytes)], ["requirement", d.require || "-"], ["rank", d.rank || "the site's"], ["failures", t.failures], t.reason && ["reason", t.reason], t.upstream && ["cancelled by", link(["task", t.upstream], short(t.upstream))]]));
      const outcomes = (t.attempts || []).map((a) => ({...a, ...(a.outcome || {})}));
      attempts.replaceChildren(table([{t: "no", n: 1}, "state", "pilot", "node's start", {t: "stage-in", n: 1}, {t: "run", n: 1}, {t: "delay before", n: 1}, {t: "exit", n: 1}, {t: "reason", long: 1}], outcomes.map((o) => [
        o.number, tag(String(o.state || "").replace("ATTEMPT_STATE_", "")), o.attempt ? link(["pilot", o.attempt.pilot], o.attempt.pilot) : "-", when(o.started), seconds(span(o.stageIn)), seconds(span(o.run)), o.delay ? seconds(span(o.delay)) : "-", o.exitCode ?? "-", o.reason || "-"]), "It has not been started."));
      const last = outcomes[outcomes.length - 1];
      inputs.replaceChildren(table([{t: "file", long: 1}, {t: "bytes", n: 1}, "from"], (last?.reads || []).map((r) => [r.lfn, bytes(r.sizeBytes), String(r.source || "").replace(/^\w*SOURCE_/, "").toLowerCase()]), "None is known."));
      if (["READY", "BLOCKED", "LEASED"].includes(state)) {
        const e = await call("TaskService", "ExplainTask", {taskId: id});
        explained.replaceChildren(el("pre", {}, JSON.stringify(e, null, 2)));
      } else explained.replaceChildren(el("p", {class: "note"}, "It does not wait."));
      if (outcomes.length) {
        try {
          const l = await call("TaskService", "GetTaskLogs", {taskId: id});
          logs.replaceChildren(el("pre", {}, `${text64(l.stdout)}${l.stderr ? `\n--- standard error\n${text64(l.stderr)}` : ""}`.trim() || "(empty)"));
        } catch (e) { logs.replaceChildren(el("p", {class: "note"}, e.message)); }
      } else logs.replaceChildren(el("p", {class: "note"}, "None yet."));
    },
  };
}

function pilot(id) {
  const about = el("div");
  return {
    title: id, node: el("div", {}, el("h1", {}, `Pilot ${id}`), about),
    async refresh() {
      const {pilot: p} = await call("PilotService", "GetPilot", {pilotId: id});
      about.replaceChildren(facts([["site", link(["site", p.site], p.site)], ["state", tag(p.state)], (p.reason || p.stopped) && ["why", p.reason || p.stopped], ["node", p.host], ["master", p.master ? "yes" : "no"], ["slots busy", `${p.running} of ${p.slots}`],
        ["cores", p.resources.cores], ["memory", bytes(p.resources.memoryBytes)], ["disk", bytes(p.resources.diskBytes)], ["features", (p.features || []).join(", ") || "-"], ["payloads confined by", p.sandbox || "-"],
        ["batch job", p.batchJob || "-"], ["attempts", `${number(p.done)} done, ${number(p.failed)} failed`], ["last error", p.lastError || "-"], ["inputs", `${number(p.reads)}: ${percent(Number(p.localReads), Number(p.reads))} from its own cache, ${percent(Number(p.peerReads), Number(p.reads))} from other pilots`],
        ["addresses", (p.contact.addresses || []).join(" ")], ["version", p.version], ["registered", when(p.registered)], ["ends", when(p.ends)]]));
    },
  };
}
