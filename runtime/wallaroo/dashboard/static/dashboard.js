// The page: draws the snapshots that the server sends as events.
import { $, body, clock, code, element, number, row, stepOf, when } from "./dom.js";
import { drawCharts, initCharts, makeCharts } from "./charts.js";
import { drawGraph, showMetrics } from "./graph.js";
import { initDeadLetters, updateDeadLetters } from "./letters.js";
import { initPause, noticesOf, showNotices, updatePause } from "./pause.js";
import { initStateForm } from "./state.js";

const MAX_POINTS = 700;

const format = {
  count(value) {
    if (value >= 1e6) return `${(value / 1e6).toFixed(value >= 1e7 ? 1 : 2)} M`;
    if (value >= 1e4) return `${(value / 1e3).toFixed(value >= 1e5 ? 0 : 1)} k`;
    return value >= 10 || Number.isInteger(value) ? Math.round(value).toLocaleString("en") : value.toFixed(1);
  },
  exact: (value) => Math.round(value).toLocaleString("en"),
  seconds(value) {
    if (value == null) return "–";
    if (value < 1) return `${value < 0.01 ? (value * 1000).toFixed(1) : Math.round(value * 1000)} ms`;
    if (value < 60) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
    if (value < 3600) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
    return `${Math.floor(value / 3600)} h ${Math.round((value % 3600) / 60)} min`;
  },
  micros: (value) => (value < 10 ? `${value.toFixed(1)} µs` : value < 1e4 ? `${Math.round(value)} µs` : `${(value / 1e3).toFixed(0)} ms`),
  bytes(value) {
    const units = ["B", "KiB", "MiB", "GiB"];
    let unit = 0;
    while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
    return `${value.toFixed(unit && value < 100 ? 1 : 0)} ${units[unit]}`;
  },
};

const application = await (await fetch("application")).json();
document.title = `${application.name} · Wallaroo`;
$("name").textContent = application.name;
const phases = ["run", "commit"];
const graph = drawGraph(application, $("graph"));
initDeadLetters(application.changeable);
initPause(application.changeable);
initStateForm(application.histories);
initCharts(application, format);
let points = [];
let snapshot = null;

$("pipeline").addEventListener("change", () => redraw());
const themes = [...$("theme").querySelectorAll("button")];
for (const button of themes) {
  button.addEventListener("click", () => dispatchEvent(new CustomEvent("choose-theme", { detail: button.value })));
}
addEventListener("theme", showTheme);
showTheme();

const events = new EventSource("events");
events.addEventListener("history", (event) => { points = JSON.parse(event.data); redraw(); });
events.addEventListener("snapshot", (event) => take(JSON.parse(event.data)));
events.addEventListener("error", () => {
  setState("bad", "not connected");
  if (events.readyState === EventSource.CLOSED) poll(); // refused, such as while too many pages are open
});

function take(latest) {
  if (latest.version !== application.version) return location.reload(); // the run goes on as another application
  snapshot = latest;
  const point = snapshot.away ? { time: snapshot.time, pipelines: {} } : snapshot.point;
  if (point.time > (points.at(-1)?.time ?? 0)) points.push(point); // or it is in the history
  if (points.length > MAX_POINTS) points.splice(0, points.length - MAX_POINTS);
  show();
}

async function poll() {
  try {
    const response = await fetch("snapshot");
    if (!response.ok) throw new Error(response.statusText);
    const latest = await response.json();
    if (latest.time !== snapshot?.time) take(latest);
  } catch {
    setState("bad", "not connected");
  }
  setTimeout(poll, 2000);
}

let resizing = 0;
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(remake, 150); });

function showTheme() {
  for (const button of themes) button.ariaPressed = String(button.value === document.documentElement.dataset.choice);
  remake(); // canvases do not follow the style
}

function remake() {
  makeCharts();
  redraw();
}

function redraw() { drawCharts(points, snapshot); }

function setState(kind, text) {
  const state = $("state");
  if (state.textContent !== text) state.textContent = text; // or screen readers would read it every second
  state.className = `state ${kind}`;
}

function show() {
  const { point, backlog, workers } = snapshot;
  const pipelines = Object.values(point.pipelines);
  const entering = pipelines.reduce((sum, one) => sum + one.in, 0);
  const slow = Math.max(...pipelines.map((one) => one.p99 ?? -1));
  const middle = Math.max(...pipelines.map((one) => one.p50 ?? -1));
  const [source, sink] = [snapshot.sources, snapshot.sinks].map((ends) => ends.find((end) => end.problem));
  const waits = snapshot.sources.some((one) => one.waits);
  if (snapshot.away) setState("bad", "gateway away");
  else if (snapshot.paused_since !== null) setState("waiting", "paused");
  else if (snapshot.interruption) setState("bad", "query not running");
  else if (source) setState("bad", `source ${source.name} is failing`);
  else if (sink) setState("bad", `sink ${sink.name} takes nothing`);
  else if (waits) setState("waiting", "reading tables");
  else if (workers.alive < workers.wanted) setState("waiting", "workers missing");
  else if (backlog.seconds > 60) setState("waiting", "falling behind");
  else setState("good", entering > 0 ? "running" : "idle");
  const times = snapshot.query_restarts === 1 ? "once" : `${snapshot.query_restarts} times`;
  const restarts = snapshot.query_restarts ? `, query restarted ${times}` : "";
  $("about").textContent = `up ${format.seconds(snapshot.time - snapshot.began)}${restarts}`;
  tiles([
    ["in", `${format.count(entering)}/s`],
    ["out", `${format.count(snapshot.sinks.reduce((sum, sink) => sum + sink.rate, 0))}/s`],
    ["latency p50", format.seconds(middle < 0 ? null : middle)],
    ["latency p99", format.seconds(slow < 0 ? null : slow)],
    ["backlog", format.count(backlog.messages), `${format.bytes(backlog.bytes)} · ${format.seconds(backlog.seconds)}`, backlog.seconds > 60],
    ["workers", `${workers.alive ?? "–"}`, `of ${workers.wanted ?? "–"}`, workers.alive < workers.wanted],
    ["connections", format.count(snapshot.connections)],
    ["dead-lettered", format.count(snapshot.set_aside), snapshot.unknown_key ? `${format.count(snapshot.unknown_key)} dropped` : "", snapshot.set_aside > 0],
    ...(snapshot.windows === null ? [] : [
      [snapshot.windows.of_joins ? "kept messages" : "open windows", format.count(snapshot.windows.open), watermark(snapshot.windows.watermark_s)],
      ["late", format.count(snapshot.late), "messages"],
    ]),
    ["last publication", format.seconds(snapshot.publication_age_s), "ago"],
  ]);
  showMetrics(graph, snapshot.nodes, format);
  updatePause(snapshot);
  showNotices(noticesOf(snapshot));
  ends();
  keys();
  errors();
  restarted();
  updateDeadLetters(snapshot);
  publications();
  epochs();
  $("late").hidden = !snapshot.late;
  redraw();
}

function watermark(seconds) {
  const time = new Date(seconds * 1000);
  if (seconds === null || Number.isNaN(time.getTime())) return "";
  return `until ${time.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

function tiles(entries) {
  $("tiles").replaceChildren(...entries.map(([name, value, detail, bad]) => {
    const tile = element("div", "", bad ? "bad" : ""), content = element("dd", value);
    if (detail) content.append(" ", element("small", detail));
    tile.append(element("dt", name), content);
    return tile;
  }));
}

function ends() {
  const source = (one) => row([end(one, one.name), number(`${format.count(one.rate)}/s`), total(one.accepted), number(format.count(one.backlog))]);
  const sink = (one) => row([end(one, `→ ${one.name}`), number(`${format.count(one.rate)}/s`), total(one.delivered), number(format.count(one.waiting))]);
  body("ends", [...snapshot.sources.map(source), ...snapshot.sinks.map(sink)]);
}

function total(count) {
  const cell = number(format.count(count));
  cell.title = format.exact(count);
  return cell;
}

function end({ where, problem, ended, waits }, name) {
  const cell = element("td", name);
  cell.append(element("div", where, "quiet"));
  if (problem) cell.append(element("div", problem, "problem"));
  else if (waits) cell.append(element("div", waits, "quiet"));
  else if (ended) cell.append(element("div", "ended", "quiet"));
  return cell;
}

function keys() {
  body("keys", snapshot.hot_keys.slice(0, 10).map(({ state, key, messages, share }) => {
    const drawn = element("td", "", "bars"), bar = element("span", "", "bar");
    bar.style.width = `${100 * share}%`;
    drawn.append(bar);
    return row([code(key), state, number(format.count(messages)), number(`${(100 * share).toFixed(1)} %`), drawn]);
  }));
}

function errors() {
  body("errors", snapshot.errors.map((one) => row([
    number(format.exact(one.count)), when(one.last), when(one.first), stepOf(one), one.error, code(one.message),
  ])));
}

function restarted() {
  body("restarts", snapshot.restarts.map((one) => row([when(one.at), one.part, one.reason])));
}

function publications() {
  const last = snapshot.publications.slice(-12).reverse();
  const total = (one) => phases.reduce((sum, phase) => sum + (one.phases[phase] ?? 0), 0);
  const longest = Math.max(...last.map(total), 0.001);
  body("publications", last.map((one) => {
    const spans = element("div", "", "spans");
    for (const phase of phases) {
      const span = element("span", "", phase);
      span.style.width = `${(100 * (one.phases[phase] ?? 0)) / longest}%`;
      span.title = `${phase}: ${format.seconds(one.phases[phase] ?? 0)}`;
      spans.append(span);
    }
    spans.role = "img";
    spans.ariaLabel = phases.map((phase) => `${phase} ${format.seconds(one.phases[phase] ?? 0)}`).join(", ");
    const cell = element("td", "", "bars");
    cell.append(spans);
    return row([String(one.number), number(format.exact(one.messages)), number(format.seconds(total(one))), cell]);
  }));
}

function epochs() {
  const known = snapshot.epochs;
  if (!known) return;
  const stood = known.ended ? `${known.ended === 1 ? "one epoch has" : `${format.exact(known.ended)} epochs have`} ended, for which the stream stood ${format.seconds(known.stood_s / known.ended)} on average` : "no epoch has ended";
  $("epochs").textContent = `Since the start, ${stood}. This epoch began ${format.seconds(known.age_s)} ago.`;
}
