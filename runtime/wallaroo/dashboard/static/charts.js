// The charts of the last ten minutes. A chart with nothing to show says why.
import { $, clock, element } from "./dom.js";

const PARTS = ["p50", "p95", "p99"];
const LEAST_S = 60;
const WHOLE = Array.from({ length: 40 }, (_, place) => [1, 2, 5][place % 3] * 10 ** Math.floor(place / 3));
const plots = {}, lasting = {};
let application, format;

export function initCharts(described, formats) {
  [application, format] = [described, formats];
  for (const name of application.pipelines) $("pipeline").add(new Option(name, name));
  for (const id of ["rate", "latency", "backlog"]) {
    lasting[id] = element("p", "", "nothing");
    $(id).append(lasting[id]);
  }
}

export function makeCharts() {
  plot("rate", application.pipelines, format.count);
  plot("latency", PARTS, format.seconds, logarithmic());
  plot("backlog", ["messages", "outputs"], format.count);
}

export function drawCharts(points, snapshot) {
  const times = points.map((point) => point.time);
  const selected = $("pipeline").value;
  const column = (value) => points.map((point) => value(point) ?? null); // nothing is drawn where nothing is known
  plots.rate.setData([times, ...application.pipelines.map((name) => column((point) => point.pipelines[name]?.in))]);
  plots.latency.setData([times, ...PARTS.map((part) => column((point) => point.pipelines[selected]?.[part]))]);
  plots.backlog.setData([times, column((point) => point.backlog), column((point) => point.undelivered)]);
  const known = points.findLastIndex((point) => point.pipelines[selected]), last = points[known];
  if (!last) {
    for (const id of Object.keys(plots)) say(id, "", "No figures yet: the application has not answered.");
    return;
  }
  queueMicrotask(() => { // after the plots have processed the data
    for (const plot of Object.values(plots)) {
      if (plot.cursor.idx == null) plot.setLegend({ idx: known });
    }
  });
  const has = (value) => points.some((point) => value(point) > 0);
  const why = snapshot ? whyNothing(snapshot) : "";
  say("rate", application.pipelines.map((name) => `${name}: ${format.count(last.pipelines[name].in)} messages per second`).join(", "),
    has((point) => Math.max(...application.pipelines.map((name) => point.pipelines[name]?.in ?? 0))) ? "" : why);
  say("latency", PARTS.map((part) => `${part} ${format.seconds(last.pipelines[selected][part])}`).join(", "),
    has((point) => point.pipelines[selected]?.p50) ? "" : why);
  say("backlog", `${format.count(last.backlog)} messages and ${format.count(last.undelivered)} outputs waiting`,
    has((point) => point.backlog + point.undelivered) ? "" : waitsNothing(snapshot, why));
}

export function valuesOf(id) { return plots[id].data[1]; }

export function axisOf(id) { return plots[id].axes[1]; }

export function scaleOf(id) {
  const { distr, min, max } = plots[id].scales.y;
  return { distribution: distr, low: min, high: max };
}

// Why no message was processed in the time that the charts show.
function whyNothing({ paused_since: paused, interruption, sources, point, backlog }) {
  const wait = backlog.messages === 1 ? "One message waits" : `${format.count(backlog.messages)} messages wait`;
  if (backlog.messages && paused !== null) return `${wait}: the run is paused.`;
  if (backlog.messages && interruption) return `${wait}: ${interruption}.`;
  if (backlog.messages) return `${wait}, and none has been processed in this time.`;
  if (Object.values(point.pipelines).some((one) => one.messages)) return "No message has arrived in this time.";
  const places = sources.map((source) => source.where).join(", ");
  return `No message has arrived at ${places} yet.`;
}

function waitsNothing(snapshot, why) {
  const some = snapshot && Object.values(snapshot.point.pipelines).some((one) => one.messages);
  return some ? "Nothing has waited in this time." : why;
}

function say(id, figures, nothing) {
  lasting[id].textContent = nothing;
  $(id).ariaLabel = [figures, nothing].filter(Boolean).join(". ");
}

function plot(id, names, values, scale = linear()) {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
  plots[id]?.destroy();
  const target = $(id);
  const series = names.map((name, place) => ({
    label: name, stroke: colour(`--c${place % 6}`), width: 2, spanGaps: false,
    dash: place > 5 ? [6, 4] : undefined, points: { show: false },
    value: (_, value) => (value == null ? "–" : values(value)),
  }));
  plots[id] = new uPlot({
    width: target.clientWidth, height: 190, legend: { live: true },
    cursor: { drag: { setScale: false } },
    scales: { x: { range: span }, y: scale.scale },
    padding: [null, 26, null, null], // room for half of the last label
    axes: [{ ...axis, space: 60, values: (_, ticks) => ticks.map(clock) }, { ...axis, size: 66, ...scale.axis(values) }],
    series: [{ value: (_, at) => (at == null ? "" : clock(at)) }, ...series],
  }, [[], ...names.map(() => [])], target);
}

// The time of all points, and a minute at least.
function span(plot) {
  const times = plot.data[0], last = times.at(-1) ?? Date.now() / 1000;
  return [Math.min(times[0] ?? last, last - LEAST_S), last];
}

function linear() {
  return {
    scale: { range: (_, low, high) => [0, Math.max((high ?? 0) * 1.1, 1)] },
    axis: (values) => ({ incrs: WHOLE, values: (_, ticks) => ticks.map(values) }),
  };
}

// Whole decades, so that the axis has at least two labels.
function logarithmic() {
  const floor = (value) => 10 ** Math.floor(Math.log10(value));
  return {
    scale: {
      distr: 3, log: 10,
      range: (_, low, high) => (low > 0 ? [floor(low), Math.max(floor(high * 0.9999) * 10, floor(low) * 10)] : [1e-3, 1]),
    },
    axis: () => ({
      splits: (_, axis, low, high) => decades(low, high),
      filter: (_, ticks) => ticks, // or every second one would be null
      values: (_, ticks) => ticks.map(round),
    }),
  };
}

function decades(low, high) {
  const [first, last] = [low, high].map((value) => Math.round(Math.log10(value)));
  return Array.from({ length: last - first + 1 }, (_, place) => 10 ** (first + place));
}

function round(seconds) {
  return seconds < 1 ? `${+(seconds * 1000).toPrecision(2)} ms` : `${(+seconds.toPrecision(2)).toLocaleString("en")} s`;
}
