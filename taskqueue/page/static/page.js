"use strict";
// The page: which screen is shown, the stream of looks, and the login.

const screens = {"": overview, workflows, data, site, workflow, task, pilot};
const fixed = [["", "Overview"], ["workflows", "Workflows"], ["data", "Data"]];
let shown = null, looks = [], stream = null, timer = null;

function show(error) {
  document.getElementById("state").textContent = error.message;
  document.getElementById("state").className = "away";
}

function navigation(path) {
  const names = looks.length ? looks[looks.length - 1].sites.slice(0, 12).map((s) => [`site/${encodeURIComponent(s.name)}`, s.name]) : [];
  const nav = document.getElementById("nav");
  const key = JSON.stringify([path, names]);
  if (nav.dataset.key === key) return;
  nav.dataset.key = key;
  nav.replaceChildren(...[...fixed, ...names].map(([to, text]) => el("a", {href: `#/${to}`, "aria-current": to === path ? "page" : null}, text)));
}

const path = () => location.hash.replace(/^#\/?/, "");

async function refresh() {
  if (!shown || !shown.refresh || document.hidden) return;
  const mine = shown;
  try { await mine.refresh(); applyFilter(); } catch (error) { if (mine === shown) show(error); }
}

async function open() {
  const [name, ...rest] = path().split("/");
  const make = screens[name] || overview;
  shown = make(...rest.map(decodeURIComponent));
  document.title = `${shown.title} - Pilotage`;
  navigation(path());
  document.getElementById("main").replaceChildren(shown.node);
  document.getElementById("main").focus({preventScroll: true});
  scrollTo(0, 0);
  await listen(shown.site || "");
  clearInterval(timer);
  timer = setInterval(refresh, 4000);
  await refresh();
}

function tell() {
  if (!looks.length) return;
  navigation(path());
  if (shown.look) shown.look(looks);
  applyFilter();
}

// applyFilter hides the rows of all tables that lack the text of the filter.
function applyFilter() {
  const wanted = document.getElementById("filter").value.trim().toLowerCase();
  for (const row of document.querySelectorAll("main tbody tr")) row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
}

const help = [["1", "overview"], ["2", "workflows"], ["3", "data"], ["4 to 9", "the first sites"], ["/", "filter the rows of tables"], ["Esc", "leave the filter, or this list"], ["+ - arrows Home Enter", "in the chart of slots: zoom, move, follow the time, open a task"], ["?", "this list"]];

function showHelp() {
  const dialog = el("dialog", {"aria-label": "Keys"}, el("h2", {}, "Keys"), facts(help.map(([k, t]) => [el("kbd", {}, k), t])), el("form", {method: "dialog"}, el("button", {}, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener("keydown", (e) => {
  const filter = document.getElementById("filter");
  if (e.key === "Escape" && e.target === filter) { filter.value = ""; applyFilter(); return document.getElementById("main").focus(); }
  if (e.ctrlKey || e.altKey || e.metaKey || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName) || document.querySelector("dialog")) return;
  const links = document.querySelectorAll("#nav a");
  if (e.key === "?") showHelp();
  else if (e.key === "/") { filter.focus(); e.preventDefault(); }
  else if (/^[1-9]$/.test(e.key) && links[e.key - 1]) location.hash = links[e.key - 1].getAttribute("href");
});
document.getElementById("filter").addEventListener("input", applyFilter);
document.getElementById("keys").addEventListener("click", showHelp);

async function listen(of) {
  if (stream) stream.close();
  const reply = await fetch(`/history?site=${encodeURIComponent(of)}`);
  if (reply.status === 401) return askLogin();
  const history = await reply.json();
  document.body.classList.add("in");
  looks = history.looks;
  if (shown.bars) shown.bars(history.bars, history.outs || []);
  if (shown.events) shown.events(history.events || []);
  tell();
  stream = new EventSource(`/live?site=${encodeURIComponent(of)}&after=${history.newest}&told=${history.told}`);
  stream.addEventListener("look", (e) => {
    const look = JSON.parse(e.data);
    // Charts need no point each second: the newest one moves until 5 s have passed.
    if (looks.length > 1 && look.t - looks[looks.length - 2].t < 5000) looks[looks.length - 1] = look; else looks.push(look);
    if (looks.length > 720) looks.shift();
    const state = document.getElementById("state");
    state.className = "";
    state.textContent = `as of ${clock(look.t)}`;
    if (!document.hidden) tell();
  });
  stream.addEventListener("bars", (e) => { if (shown.bars) shown.bars(JSON.parse(e.data), []); });
  stream.addEventListener("outs", (e) => { if (shown.bars) shown.bars([], JSON.parse(e.data)); });
  stream.addEventListener("events", (e) => { if (shown.events) shown.events(JSON.parse(e.data)); });
  stream.addEventListener("error", () => { show(new Error("the queue does not answer; trying again")); });
}

function askLogin() {
  if (stream) stream.close();
  clearInterval(timer);
  document.body.classList.remove("in");
  const said = el("p", {class: "wrong", role: "alert"}), area = el("textarea", {id: "token", autocomplete: "off", spellcheck: "false"});
  const form = el("form", {class: "login"}, el("h1", {}, "Log in"), el("label", {for: "token"}, "Paste an access file (pilotage access create --role read-only), or its token:"), area, el("button", {type: "submit"}, "Log in"), said);
  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    let token = area.value.trim();
    try { token = JSON.parse(token).token || token; } catch { /* it is the token alone */ }
    const reply = await fetch("/login", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({token})});
    if (reply.ok) return open().catch(show);
    said.textContent = (await reply.text()).trim();
  });
  document.getElementById("main").replaceChildren(form);
  area.focus();
}

document.getElementById("logout").addEventListener("click", async () => { await fetch("/logout", {method: "POST"}); askLogin(); });
addEventListener("hashchange", () => open().catch(show));
addEventListener("resize", () => { if (shown) tell(); });
open().catch(show);
