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

async function read(path) {
  const reply = await fetch(path);
  if (reply.status === 401) { askLogin(); throw new Error("log in"); }
  if (!reply.ok) throw new Error((await reply.text()).trim());
  return reply.json();
}

const sources = ["local", "peer", "se", "remote"];
const sourceNames = {local: "own cache", peer: "other pilots", se: "storage element", remote: "other sites' storage"};
const add = (numbers) => numbers.reduce((a, b) => a + b, 0);
const rate = (value) => (look, before) => before ? Math.max(0, (value(look) - value(before)) * 1000 / (look.t - before.t)) : null;
const link = (path, text) => el("a", {href: `#/${path.map(encodeURIComponent).join("/")}`}, text);
const confinements = ["NONE", "LANDLOCK", "NAMESPACES", "CONTAINER"]; // as task.ConfinementNames
const short = (id) => String(id).replace(/^w-[a-z2-7]+\//, "");

function siteRows(look) {
  return look.sites.map((s) => {
    const reads = add(s.reads);
    return [link(["site", s.name], s.name), s.mode, s.note || "-", number(s.pilots), `${number(s.slots - s.free)} / ${number(s.slots)}`,
      parts([["run", s.slots - s.free]], s.slots), number(s.running), number(s.waiting), number(s.done), number(s.failed),
      percent(s.reads[0] + s.reads[1], reads), percent(s.reads[0], reads)];
  });
}
const siteHead = ["site", "mode", "state", {t: "pilots", n: 1}, {t: "slots busy", n: 1}, "", {t: "running", n: 1}, {t: "held, waiting", n: 1}, {t: "done", n: 1}, {t: "failed attempts", n: 1}, {t: "hits", n: 1}, {t: "local hits", n: 1}];

// delay is the mean time between two payloads of a slot, between two looks.
const delay = (of) => (look, before) => {
  if (!before || of(look).delays <= of(before).delays) return null;
  return (of(look).delaysum - of(before).delaysum) / (of(look).delays - of(before).delays);
};

// eventList shows what has happened, newest first.
function eventList() {
  const node = el("div"), known = [];
  return {
    node,
    add(events) {
      known.unshift(...[...events].reverse());
      known.length = Math.min(known.length, 100);
      node.replaceChildren(table(["time", "what", "site", "of", {t: "text", long: 1}], known.slice(0, 40).map((e) => [
        clock(e.t), el("span", {class: e.warns ? "tag warns" : "tag"}, e.kind), e.site ? link(["site", e.site], e.site) : "-",
        e.task ? link(["task", e.task], short(e.task)) : e.workflow ? link(["workflow", e.workflow], e.workflow) : e.pilot ? [link(["pilot", e.pilot], e.pilot), e.node ? ` on ${e.node}` : ""] : e.node || "-", e.text || "-"]), "Nothing yet."));
    },
  };
}

function overview() {
  let asked = 0;
  const cards = el("div", {class: "cards"}), sites = el("div"), used = el("div"), events = eventList();
  const charts = [
    chart("Tasks that wait or run", [{name: "blocked", colour: "blocked", value: (l) => l.blocked}, {name: "ready", colour: "ready", value: (l) => l.ready}, {name: "held by sites", colour: "waiting", value: (l) => l.total.waiting}, {name: "running", colour: "running", value: (l) => l.total.running}]),
    chart("Slots", [{name: "busy", colour: "running", value: (l) => l.total.slots - l.total.free}, {name: "all", colour: "all", value: (l) => l.total.slots}]),
    chart("Tasks done a second", [{name: "done", colour: "local", value: rate((l) => l.total.done)}, {name: "failed attempts", colour: "bad", value: rate((l) => l.total.failed)}]),
    chart("Inter-task delay, mean", [{name: "delay", colour: "se", value: delay((l) => l.total)}], {text: seconds}),
    chart("Calls of pilots a second", [{name: "calls", colour: "peer", value: rate((l) => l.total.requests)}]),
    chart("Inputs from caches, in %", [{name: "hits", colour: "local", value: hits((n) => n[0] + n[1])}, {name: "local hits", colour: "peer", value: hits((n) => n[0])}], {most: 100}),
  ];
  return {
    title: "Overview", node: el("div", {}, el("h1", {}, "Overview"), cards, el("h2", {}, "The last hour"), el("div", {class: "charts"}, charts.map((c) => c.figure)), el("h2", {}, "Sites"), sites, el("h2", {}, "Used and wasted since yesterday, UTC"), used, el("h2", {}, "What has happened"), events.node),
    events: events.add,
    async refresh() {
      if (Date.now() - asked < 15000) return;
      asked = Date.now();
      const {usage} = await call("TaskService", "GetUsage", {by: "BY_SITE", since: new Date(asked - 864e5).toISOString().slice(0, 10)});
      used.replaceChildren(table(["site", {t: "tasks", n: 1}, {t: "failed attempts", n: 1}, {t: "CPU time", n: 1}, {t: "wall time", n: 1}, {t: "wasted", n: 1}, "useful and wasted"], (usage || []).map((u) => [
        link(["site", u.site], u.site), number(u.tasks), number(u.failures), seconds(span(u.cpu)), seconds(span(u.wall)), percent(span(u.wasted), span(u.wall)), parts([["run", span(u.wall) - span(u.wasted)], ["bad", span(u.wasted)]])]), "Nothing yet."));
    },
    look(looks) {
      const l = looks[looks.length - 1], all = l.total;
      cards.replaceChildren(card(number(l.blocked), "blocked"), card(number(l.ready), "tasks ready"), card(number(all.waiting), "held by sites, waiting"), card(number(all.running), "running"),
        card(percent(all.slots - all.free, all.slots), `of ${number(all.slots)} slots busy`), card(number(all.pilots), "pilots"), card(number(all.done), "tasks done"), card(number(all.failed), "failed attempts"), card(number(l.unstored), "outputs to be stored"));
      sites.replaceChildren(table(siteHead, siteRows(l), "No site yet: pilotage site add NAME --se URL."));
      charts.forEach((c) => c.draw(looks));
    },
  };
}

// hits is a share of the inputs, or of their bytes, that were read between two looks.
function hits(of, what = "reads") {
  return (l, b) => {
    if (!b) return null;
    const now = sources.map((_, i) => l.total[what][i] - b.total[what][i]), all = add(now);
    return all > 0 ? 100 * of(now) / all : null;
  };
}

function data() {
  const cards = el("div", {class: "cards"}), sites = el("div"), files = el("div"), alone = el("div");
  let names = [];
  const charts = [
    ...[["reads", "Inputs by source, in %"], ["bytes", "Bytes by source, in %"]].map(([what, title]) => chart(title, sources.map((name, i) => ({name: sourceNames[name], colour: name, value: hits((n) => n[i], what)})), {most: 100})),
    chart("Bytes read a second", sources.map((name, i) => ({name: sourceNames[name], colour: name, value: rate((l) => l.total.bytes[i])})), {text: bytes}),
    chart("Between nodes, bytes a second", [{name: "read from other pilots", colour: "peer", value: rate((l) => l.total.bytes[1])}], {text: bytes}),
    chart("Evictions a second", [{name: "evicted", colour: "bad", value: rate((l) => l.total.evicted)}]),
  ];
  return {
    title: "Data", node: el("div", {}, el("h1", {}, "Where inputs come from"), cards, el("h2", {}, "The last hour"), el("div", {class: "charts"}, charts.map((c) => c.figure)), el("h2", {}, "Sites, since they were added"), sites,
      el("h2", {}, "The last hour by site, and what only caches have"), alone, el("h2", {}, "Files with most readers, since the queue began"), files),
    look(looks) {
      const l = looks[looks.length - 1], count = l.total.reads, size = l.total.bytes, all = add(count), whole = add(size);
      const first = names.length === 0;
      names = l.sites.slice(0, 12).map((s) => s.name);
      if (first && names.length) refresh();
      cards.replaceChildren(card(percent(count[0] + count[1], all), "total hit ratio, files"), card(percent(count[0], all), "local hit ratio, files"), card(percent(size[0] + size[1], whole), "total hit ratio, bytes"),
        card(bytes(size[0] + size[1]), "kept off storage elements"), card(bytes(size[1]), "from node to node"), card(bytes(size[2] + size[3]), "read from storage elements"), card(number(l.total.evicted), "evicted by live pilots"));
      sites.replaceChildren(table(["site", "reads by source", {t: "files", n: 1}, "bytes by source", {t: "bytes", n: 1}, {t: "kept off its storage", n: 1}, {t: "evicted", n: 1}, {t: "caches used", n: 1}], l.sites.map((s) => [
        link(["site", s.name], s.name), parts(sources.map((name, i) => [name, s.reads[i]])), number(add(s.reads)),
        parts(sources.map((name, i) => [name, s.bytes[i]])), bytes(add(s.bytes)), bytes(s.bytes[0] + s.bytes[1]), number(s.evicted), `${bytes(s.used)} of ${bytes(s.cache)}`])));
      charts.forEach((c) => c.draw(looks));
    },
    async refresh() {
      const hot = await read("/files");
      files.replaceChildren(table([{t: "file", long: 1}, {t: "bytes", n: 1}, {t: "reads", n: 1}, "by source", {t: "from caches", n: 1}], hot.map((f) => [
        f.lfn, bytes(f.size), number(add(f.reads)), parts(sources.map((name, i) => [name, f.reads[i]])), percent(f.reads[0] + f.reads[1], add(f.reads))]), "No input was read yet."));
      const all = await Promise.all(names.map((name) => call("SiteService", "GetSite", {name, since: "3600s"})));
      alone.replaceChildren(table(["site", {t: "hits", n: 1}, {t: "evicted", n: 1}, {t: "files that only caches have", n: 1}, {t: "why hits are low", long: 1}], all.map((r, i) => {
        const w = r.window?.reads || {}, local = Number(w.localReads || 0), peer = Number(w.peerReads || 0), every = local + peer + Number(w.seReads || 0) + Number(w.remoteReads || 0);
        return [link(["site", names[i]], names[i]), percent(local + peer, every), number(r.window?.evictions), r.soleCopies >= 1000 ? "1,000 or more" : number(r.soleCopies), r.window?.whyFewHits || "-"];
      })));
    },
  };
}

function site(name) {
  const cards = el("div", {class: "cards"}), about = el("div"), pilots = el("div"), masters = el("div"), nodes = el("div"), waits = el("div"), factories = el("div"), events = eventList();
  const gantt = new Gantt((task) => { if (task) location.hash = `#/task/${encodeURIComponent(task)}`; });
  const one = (l) => l.sites.find((s) => s.name === name) || {slots: 0, free: 0, reads: [0, 0, 0, 0], bytes: [0, 0, 0, 0], done: 0, delays: 0, delaysum: 0};
  let pages = [""], page = 0, asked = 0;
  const charts = [
    chart("Slots", [{name: "busy", colour: "running", value: (l) => one(l).slots - one(l).free}, {name: "all", colour: "all", value: (l) => one(l).slots}]),
    chart("Tasks done a second", [{name: "done", colour: "local", value: rate((l) => one(l).done)}, {name: "failed attempts", colour: "bad", value: rate((l) => one(l).failed)}]),
    chart("Inter-task delay, mean", [{name: "delay", colour: "se", value: delay(one)}], {text: seconds}),
  ];
  // A page of pilots at a time: a site has thousands, and a viewer gets little.
  async function list() {
    const reply = await call("PilotService", "ListPilots", {site: name, pageSize: 200, pageToken: pages[page]});
    const found = reply.pilots || [];
    for (const p of found) gantt.hosts.set(p.contact.pilot, p.host);
    if (reply.nextPageToken) pages[page + 1] = reply.nextPageToken; else pages.length = page + 1;
    const turn = (by) => el("button", {type: "button", disabled: !(pages[page + by] !== undefined && page + by >= 0), onclick: () => { page += by; list().catch(show); }}, by < 0 ? "pilots before" : "pilots behind");
    pilots.replaceChildren(table(["pilot", "node", "state", {t: "slots busy", n: 1}, {t: "done", n: 1}, {t: "failed", n: 1}, {t: "local hits", n: 1}, "batch job", "payloads confined by", {t: "note", long: 1}], found.map((p) => [
      link(["pilot", p.contact.pilot], p.contact.pilot + (p.master ? " (master)" : "")), p.host, tag(p.state), `${p.running} / ${p.slots}`, number(p.done), number(p.failed),
      percent(Number(p.localReads), Number(p.reads)), p.batchJob || "-", confinements[p.confinement] || "-", p.stopped || p.lastError || "-"]), "No pilot is alive here."), pages.length > 1 ? el("div", {class: "tools"}, turn(-1), turn(1)) : "");
  }
  return {
    title: name, site: name, gantt,
    node: el("div", {}, el("h1", {}, `Site ${name}`), cards, el("h2", {}, "Slots, by node and pilot"), gantt.tools(), el("figure", {}, barLegend(["out", "stage-out, beside the next task"]), gantt.canvas),
      el("h2", {}, "The last hour"), el("div", {class: "charts"}, charts.map((c) => c.figure)), el("h2", {}, "Pilots"), pilots, el("h2", {}, "Nodes that get no tasks for a while"), nodes, el("h2", {}, "What waits for pilots of this site"), waits, el("h2", {}, "Factories"), factories,
      el("h2", {}, "Settings and state"), about, el("h2", {}, "Masters"), masters, el("h2", {}, "What has happened here"), events.node),
    bars(bars, outs) { gantt.add(bars); gantt.stored(outs); },
    events: events.add,
    look(looks) {
      const s = one(looks[looks.length - 1]), reads = add(s.reads);
      cards.replaceChildren(card(`${number(s.slots - s.free)} / ${number(s.slots)}`, "slots busy"), card(number(s.pilots), "pilots"), card(number(s.running), "running"), card(number(s.waiting), "held, waiting"),
        card(percent(s.reads[0] + s.reads[1], reads), "hits"), card(percent(s.reads[0], reads), "local hits"), card(seconds(s.delay_p50), "inter-task delay, median"), card(number(s.set_back), "nodes set back"));
      charts.forEach((c) => c.draw(looks));
      gantt.draw();
    },
    async refresh() {
      if (pages.length > 1 && Date.now() - asked < 15000) return;
      asked = Date.now();
      const [{site: s, nodes: held, soleCopies}, demand] = await Promise.all([call("SiteService", "GetSite", {name}), call("SiteService", "GetDemand", {site: name}), list()]);
      nodes.replaceChildren(table(["node", {t: "for", n: 1}, {t: "last error", long: 1}], (held || []).map((n) => [n.name, span(n.left) > 0 ? seconds(span(n.left)) : "on trial", n.error || "-"]), "All nodes get tasks."));
      const jobs = (demand.pilots || []).filter((p) => p.job);
      waits.replaceChildren(table([{t: "tasks", n: 1}, "each asks for", {t: "requirement", long: 1}, {t: "walltime", n: 1}, "cores, memory and life of live pilots"], (demand.classes || []).map((c) => [
        number(c.tasks), `${c.resources?.cores ?? 1} core${c.resources?.cores > 1 ? "s" : ""}, ${bytes(c.resources?.memoryBytes)}`, c.require || "-", span(c.walltime) ? seconds(span(c.walltime)) : "-", c.live ? "suffice" : "do not suffice"]), "Nothing waits for more pilots here."),
      el("p", {class: "note"}, jobs.length ? `Of its pilots of the last hour ${number(jobs.length)} came from jobs of a factory, of which ${number(jobs.filter((p) => p.alive).length)} live and ${number(jobs.filter((p) => p.error).length)} died.` : "No pilot of the last hour came from a job of a factory."));
      factories.replaceChildren(table(["factory", "at", {t: "pending jobs", n: 1}, {t: "running", n: 1}, "last submission", {t: "batch system listed", n: 1}, {t: "paused", long: 1}, {t: "why no more", long: 1}, {t: "nodes left out", long: 1}], (demand.factories || []).map((f) => [
        f.name, f.host, number(f.pending), number(f.running), f.lastSubmission ? when(f.lastSubmission) : "-", span(f.listingAge) < 1e6 ? `${seconds(span(f.listingAge))} ago` : "never", f.paused || "-", f.reason || "-", (f.nodes || []).map((n) => `${n.name}${span(n.left) > 0 ? ` for ${seconds(span(n.left))}` : ", on trial"}: ${n.error}`).join("; ") || "-"]), "No factory has asked for the last minute: pilotage factory --batch slurm, at the site."));
      about.replaceChildren(facts([["storage element", s.settings.storageUrl || "none"], ["mode", s.settings.mode.replace("SITE_MODE_", "").toLowerCase()], s.fallback && ["fallen back", s.fallback],
        ["solver", s.settings.solver || "greedy"], ["rank", s.settings.rank || "locality"], ["master", s.master ? link(["pilot", s.master], s.master) : "-"], ["term", s.term || "-"], ["calls to the queue", number(s.queueRequests)],
        ["evictions", number(s.evictions)], ["files that only caches have", soleCopies >= 1000 ? "1,000 or more" : number(soleCopies)], ["rotted cache files", number(s.damaged)], s.stoppedPilots > 0 && ["pilots that take no work", `${s.stoppedPilots}: ${s.stoppedWhy}`],
        (s.refused || []).length > 0 && ["classes that no pilot can run", s.refused.map((r) => r.require || "resources").join("; ")]]));
      masters.replaceChildren(table(["since", "term", "pilot", {t: "why", long: 1}], [...(s.history || [])].reverse().slice(0, 20).map((m) => [when(m.since), m.term, link(["pilot", m.pilot], m.pilot), m.why])));
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
      const reply = await call("TaskService", "ListWorkflows", {pageSize: 100});
      list.replaceChildren(table(["workflow", "name", "owner", "state", "progress", {t: "done", n: 1}, {t: "failed", n: 1}, "since"], (reply.workflows || []).map((w) => [
        link(["workflow", w.id], w.id), w.name, w.owner || "-", tag(w.state.replace("WORKFLOW_STATE_", "")), parts(counts(w), total(w)), `${number(w.done)} / ${number(total(w))}`, number(w.failed + w.quarantined), when(w.created)]),
      "No workflow yet: pilotage submit -f workflow.yaml."), reply.nextPageToken ? el("p", {class: "note"}, "The newest 100 are shown.") : "");
    },
  };
}

const taskStates = ["BLOCKED", "READY", "LEASED", "DONE", "FAILED", "CANCELLED", "QUARANTINED"];
const stepHead = ["step", "progress", {t: "tasks", n: 1}, {t: "done", n: 1}, {t: "held or running", n: 1}, {t: "ready", n: 1}, {t: "blocked", n: 1}, {t: "failed", n: 1}, {t: "cancelled", n: 1}, {t: "stage-in", n: 1}, {t: "run, median", n: 1}, {t: "reads from", long: 1}];
const stepRow = (s) => [s.name, parts([["ok", s.done], ["run", s.leased], ["wait", s.ready], ["bad", s.failed + s.cancelled]], s.tasks), number(s.tasks), number(s.done), number(s.leased), number(s.ready), number(s.blocked), number(s.failed), number(s.cancelled),
  s.runSeconds ? seconds(s.stageInSeconds) : "-", s.runSeconds ? seconds(s.runSeconds) : "-", (s.after || []).join(", ") || "-"];
const failureHead = [{t: "tasks", n: 1}, {t: "reason", long: 1}, "steps", "one of them"];

function workflow(id) {
  const head = el("div"), failures = el("div"), drawing = el("div"), steps = el("div"), tasks = el("div");
  let state = "";
  const choose = el("select", {"aria-label": "State of the tasks", onchange: (e) => { state = e.target.value; fill().catch(show); }}, el("option", {value: ""}, "all states"), taskStates.map((s) => el("option", {value: s}, s)));
  async function fill() {
    const states = state ? [`TASK_STATE_${state}`] : [];
    const reply = await call("TaskService", "ListTasks", {workflow: id, states, pageSize: 100});
    tasks.replaceChildren(table(["task", "state", "site", {t: "failures", n: 1}, "changed", {t: "reason", long: 1}], (reply.tasks || []).map((t) => [
      link(["task", t.task.id], short(t.task.id)), tag(t.state.replace("TASK_STATE_", "")), t.site || "-", t.failures, when(t.changed), t.reason || "-"])),
    reply.nextPageToken ? el("p", {class: "note"}, "The first 100 are shown.") : "");
  }
  return {
    title: id, node: el("div", {}, el("h1", {}, `Workflow ${id}`), head, el("h2", {}, "Steps"), drawing, steps, el("h2", {}, "Failures by text"), failures, el("h2", {}, "Tasks"), el("div", {class: "tools"}, choose), tasks),
    async refresh() {
      const [{workflow: w}, sums] = await Promise.all([call("TaskService", "GetWorkflow", {workflow: id}), call("TaskService", "GetWorkflowSteps", {workflow: id}), fill()]);
      const all = total(w);
      head.replaceChildren(parts(counts(w), all), facts([["name", w.name], ["owner", w.owner || "-"], ["state", tag(w.state.replace("WORKFLOW_STATE_", ""))], ["done", `${number(w.done)} of ${number(all)}, ${percent(w.done, all)}`], ["expected to take further", sums.left ? `about ${seconds(span(sums.left))}` : "-"], ["running or held", number(w.leased)], ["ready", number(w.ready)], ["blocked", number(w.blocked)],
        ["failed", number(w.failed)], ["cancelled", number(w.cancelled)], ["quarantined", number(w.quarantined)], ["outputs to be stored", number(w.outputsPending)], w.reason && ["reason", w.reason], ["since", when(w.created)], w.ended && ["ended", when(w.ended)]]));
      failures.replaceChildren(table(failureHead, (sums.failures || []).map((f) => [number(f.tasks), f.reason || "-", (f.steps || []).join(", "), link(["task", f.task], short(f.task))]), "No task has failed."));
      drawing.replaceChildren(graph(sums.steps || []));
      steps.replaceChildren(el("details", {open: (sums.steps || []).length <= 12}, el("summary", {}, `${number((sums.steps || []).length)} steps in words`), table(stepHead, (sums.steps || []).slice(0, 300).map(stepRow))),
        sums.partial ? el("p", {class: "note"}, "Of the first 100,000 tasks.") : "");
    },
  };
}

const text64 = (data) => data ? new TextDecoder().decode(Uint8Array.from(atob(data), (c) => c.charCodeAt(0))) : "";

const sourceOf = (read) => String(read.source || "").replace(/^\w*SOURCE_/, "").toLowerCase();

// mainSource is where most of an attempt's bytes came from.
function mainSource(reads) {
  const sizes = [0, 0, 0, 0];
  for (const r of reads) { const at = sources.indexOf(sourceOf(r)); if (at >= 0) sizes[at] += 1 + Number(r.sizeBytes); }
  return sizes.indexOf(Math.max(...sizes));
}

// explanation says why a task waits: what it lacks, and what each site says.
function explanation(e) {
  return el("div", {}, facts([["tasks that come first", number(e.ahead)], span(e.backoff) > 0 && ["it is tried again in", seconds(span(e.backoff))]]),
    (e.missing || []).length > 0 && table([{t: "input that is missing", long: 1}, "made by", "which is", {t: "why", long: 1}], e.missing.map((m) => [m.lfn, m.producer ? link(["task", m.producer], short(m.producer)) : "-", m.producer ? tag(m.producerState.replace("TASK_STATE_", "")) : "-", m.why || "-"])),
    table(["site", "may run it", {t: "pilots", n: 1}, {t: "free slots", n: 1}, {t: "held there, waiting", n: 1}, {t: "why", long: 1}], (e.sites || []).map((s) => [link(["site", s.site], s.site), s.eligible ? "yes" : "no", number(s.pilots), number(s.freeSlots), number(s.waiting),
      [s.why, s.fallback].filter((t) => t).join("; ") || "-"])));
}

function task(id) {
  const head = el("div"), attempts = el("div"), inputs = el("div"), explained = el("div"), logs = el("div"), times = el("canvas", {role: "img", "aria-label": "Attempts over time; the table says the same"});
  const drawn = el("figure", {hidden: true}, barLegend(), times);
  return {
    title: short(id), node: el("div", {}, el("h1", {}, `Task ${id}`), head, el("h2", {}, "Attempts"), drawn, attempts, el("h2", {}, "Inputs of the newest attempt"), inputs, el("h2", {}, "Why it waits"), explained, el("h2", {}, "Output"), logs),
    async refresh() {
      const {task: t} = await call("TaskService", "GetTask", {taskId: id});
      const state = t.state.replace("TASK_STATE_", ""), d = t.task;
      head.replaceChildren(facts([["state", tag(state)], ["workflow", link(["workflow", id.split("/")[0]], id.split("/")[0])], ["command", el("code", {}, d.shell || (d.argv || []).join(" "))], ["site", t.site ? link(["site", t.site], t.site) : "-"], ["cores", d.resources?.cores ?? "-"],
        ["memory", bytes(d.resources?.memoryBytes)], ["requirement", d.require || "-"], ["rank", d.rank || "the site's"], ["failures", t.failures], t.reason && ["reason", t.reason], t.upstream && ["cancelled by", link(["task", t.upstream], short(t.upstream))]]));
      const outcomes = (t.attempts || []).map((a) => ({...a, ...(a.outcome || {})}));
      attempts.replaceChildren(table([{t: "no", n: 1}, "state", "pilot", "node's start", {t: "stage-in", n: 1}, {t: "run", n: 1}, {t: "delay before", n: 1}, {t: "exit", n: 1}, {t: "reason", long: 1}], outcomes.map((o) => [
        o.number, tag(String(o.state || "").replace("ATTEMPT_STATE_", "")), o.attempt ? link(["pilot", o.attempt.pilot], o.attempt.pilot) : "-", when(o.started), seconds(span(o.stageIn)), seconds(span(o.run)), o.delay ? seconds(span(o.delay)) : "-", o.exitCode ?? "-", o.reason || "-"]), "It has not been started."));
      const ran = outcomes.filter((o) => o.started);
      drawn.hidden = ran.length === 0;
      timeline(times, ran.map((o) => [`a${o.number} ${o.attempt?.pilot || ""}`, {start: Date.parse(o.started), in: span(o.stageIn) * 1000, run: o.ended ? Math.max(1, span(o.run) * 1000) : 0, ok: o.ok, source: mainSource(o.reads || [])}]));
      const last = outcomes[outcomes.length - 1];
      inputs.replaceChildren(table([{t: "file", long: 1}, {t: "bytes", n: 1}, "from"], (last?.reads || []).map((r) => [r.lfn, bytes(r.sizeBytes), sourceNames[sourceOf(r)] || "-"]), "None is known."));
      if (["READY", "BLOCKED", "LEASED"].includes(state)) {
        const e = await call("TaskService", "ExplainTask", {taskId: id});
        explained.replaceChildren(explanation(e));
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
  const about = el("div"), attempts = el("div"), times = el("canvas", {role: "img", "aria-label": "Its attempts over time; the table says the same"});
  const drawn = el("figure", {hidden: true}, barLegend(), times);
  let asked = 0;
  return {
    title: id, node: el("div", {}, el("h1", {}, `Pilot ${id}`), about, el("h2", {}, "Its newest attempts"), drawn, attempts),
    async refresh() {
      const {pilot: p} = await call("PilotService", "GetPilot", {pilotId: id});
      if (Date.now() - asked > 15000) {
        asked = Date.now();
        const bars = (await read(`/history?site=${encodeURIComponent(p.site)}&pilot=${encodeURIComponent(id)}`)).bars.sort((a, b) => b.start - a.start).slice(0, 20);
        drawn.hidden = bars.length === 0;
        timeline(times, bars.map((b) => [short(b.task), b]));
        attempts.replaceChildren(table(["task", "began", {t: "stage-in", n: 1}, {t: "run", n: 1}, "most bytes from", "ended"], bars.map((b) => [b.task ? link(["task", b.task], b.task) : "of somebody else", when(b.start), seconds(b.in / 1000), b.run ? seconds(b.run / 1000) : "-", sourceNames[sources[b.source]], b.run ? b.ok ? "well" : "failed" : "runs"]), "None is remembered."));
      }
      about.replaceChildren(facts([["site", link(["site", p.site], p.site)], ["state", tag(p.state)], (p.reason || p.stopped) && ["why", p.reason || p.stopped], ["node", p.host], ["master", p.master ? "yes" : "no"], ["slots busy", `${p.running} of ${p.slots}`],
        ["cores", p.resources.cores], ["memory", bytes(p.resources.memoryBytes)], ["disk", bytes(p.resources.diskBytes)], ["features", (p.features || []).join(", ") || "-"], ["payloads confined by", [confinements[p.confinement] || "-", p.sandbox ? `: ${p.sandbox}` : ""]],
        ["batch job", p.batchJob || "-"], ["attempts", `${number(p.done)} done, ${number(p.failed)} failed`], ["last error", p.lastError || "-"], ["inputs", `${number(p.reads)}: ${percent(Number(p.localReads), Number(p.reads))} from its own cache, ${percent(Number(p.peerReads), Number(p.reads))} from other pilots`],
        ["addresses", (p.contact.addresses || []).join(" ")], ["version", p.version], ["registered", when(p.registered)], ["ends", when(p.ends)]]));
    },
  };
}
