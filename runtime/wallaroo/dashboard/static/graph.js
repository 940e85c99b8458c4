// The application's graph as SVG: columns by the longest path from a source, one lane per pipeline.
const WIDTH = 178, HEIGHT = 62, GAP_X = 92, GAP_Y = 16, TITLE = 22, PAD = 14;
const SVG = "http://www.w3.org/2000/svg";

export function drawGraph(application, target) {
  const { groups, states, edges } = application;
  const flows = edges.filter((edge) => edge.kind === "messages");
  const columns = columnsOf(groups.flatMap((group) => group.nodes), flows);
  const positions = new Map();
  const svg = svgElement("svg", { role: "img", "aria-label": description(application) });
  const below = svgElement("g"), above = svgElement("g");
  svg.append(arrowHead(), below, above);

  const firstUser = (state) => edges.find((edge) => edge.kind === "state" && edge.end === state.id)?.start;
  const ofGroup = (id) => groups.findIndex((group) => group.nodes.some((node) => node.id === id));
  const widest = Math.max(...columns.values());
  let y = 4;
  groups.forEach((group, number) => {
    const rows = new Map();
    for (const node of group.nodes) {
      const column = columns.get(node.id), row = rows.get(column) ?? 0;
      rows.set(column, row + 1);
      positions.set(node.id, [PAD + column * (WIDTH + GAP_X), y + TITLE + row * (HEIGHT + GAP_Y)]);
    }
    const height = Math.max(...rows.values()) * (HEIGHT + GAP_Y) - GAP_Y;
    const lane = { x: 2, y, width: (widest + 1) * (WIDTH + GAP_X) - GAP_X + 2 * PAD - 4, height: height + TITLE + PAD, rx: 8 };
    below.append(svgElement("rect", { class: "lane", ...lane }));
    below.append(text(PAD, y + 15, short(`pipeline ${group.pipelines.join(", ")}`, lane.width / 7), "group"));
    y += height + TITLE + PAD + 20;
    const here = states.filter((state) => ofGroup(firstUser(state)) === number);
    const taken = new Set();
    for (const state of here) {
      let column = columns.get(firstUser(state));
      while (taken.has(column)) column += 1;
      taken.add(column);
      positions.set(state.id, [PAD + column * (WIDTH + GAP_X), y]);
    }
    if (here.length) y += HEIGHT + 20;
  });
  const right = Math.max(...[...positions.values()].map(([x]) => x)) + WIDTH + PAD;
  svg.setAttribute("viewBox", `0 0 ${right} ${y - 8}`);
  [svg.style.minWidth, svg.style.maxWidth] = [`${right * 0.9}px`, `${right * 1.15}px`]; // letters that can be read

  const rates = new Map();
  for (const edge of edges) {
    const [start, end] = [positions.get(edge.start), positions.get(edge.end)];
    if (edge.kind === "state") {
      const down = end[1] > start[1];
      const [x1, y1, x2, y2] = [start[0] + WIDTH / 2, start[1] + (down ? HEIGHT : 0), end[0] + WIDTH / 2, end[1] + (down ? 0 : HEIGHT)];
      below.append(svgElement("path", { class: "use", d: `M${x1} ${y1}L${x2} ${y2}` }));
      continue;
    }
    const [x1, y1, x2, y2] = [start[0] + WIDTH, start[1] + HEIGHT / 2, end[0], end[1] + HEIGHT / 2];
    const bend = Math.max(30, (x2 - x1) / 2);
    const path = svgElement("path", { class: "flow", "marker-end": "url(#head)", d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2 - 5} ${y2}` });
    const rate = text(x1 + GAP_X / 2 - 2, (y1 + (x2 - x1 > GAP_X + 1 ? y1 : y2)) / 2 - 8, "", "rate", GAP_X - 8);
    const label = text(x1 + GAP_X / 2 - 2, (y1 + y2) / 2 + 17, short(edge.label, 14), "detail", GAP_X - 8);
    below.append(path);
    above.append(rate, label);
    if (!rates.has(edge.start)) rates.set(edge.start, []);
    rates.get(edge.start).push({ path, rate });
  }
  const metrics = new Map();
  for (const node of [...groups.flatMap((group) => group.nodes), ...states]) {
    const [x, top] = positions.get(node.id);
    const kind = { "stateful step": "stateful", state: "store" }[node.kind] ?? node.kind;
    const shape = svgElement("g", { class: `node ${kind}`, transform: `translate(${x} ${top})`, "data-node": node.id });
    const title = svgElement("title");
    title.textContent = `${node.kind} ${node.name}: ${node.place}`;
    const box = node.kind === "state"
      ? svgElement("path", { d: `M0 8c0-10 ${WIDTH}-10 ${WIDTH} 0V${HEIGHT - 8}c0 10-${WIDTH} 10-${WIDTH} 0Z` })
      : svgElement("rect", { width: WIDTH, height: HEIGHT, rx: node.kind.includes("step") ? 9 : 3 });
    const metric = text(WIDTH / 2, 53, "", "metric", WIDTH - 12);
    shape.append(title, box, text(WIDTH / 2, 21, short(node.name, 24), "", WIDTH - 12),
      text(WIDTH / 2, 37, short(node.detail, 27), "detail", WIDTH - 12), metric);
    above.append(shape);
    metrics.set(node.id, { metric, kind });
  }
  target.replaceChildren(svg);
  svg.querySelectorAll("[data-room]").forEach(fit);
  return { rates, metrics };
}

export function showMetrics({ rates, metrics }, nodes, format) {
  for (const [start, outgoing] of rates) {
    const rate = nodes[start]?.rate ?? 0;
    for (const { path, rate: label } of outgoing) {
      label.textContent = `${format.count(rate)}/s`;
      path.classList.toggle("active", rate > 0);
      path.style.strokeWidth = String(1.4 + Math.log10(1 + rate) / 2);
    }
  }
  for (const [id, { metric, kind }] of metrics) {
    const node = nodes[id] ?? {};
    const parts = [];
    if (kind === "store" && node.kept_messages != null) parts.push(`${format.count(node.kept_messages)} kept of ${format.count(node.entities ?? 0)} keys`);
    else if (kind === "store") parts.push(node.open_windows == null ? `${format.count(node.entities ?? 0)} entities` : `${format.count(node.open_windows)} open of ${format.count(node.entities ?? 0)} keys`);
    else if (node.microseconds != null && !(node.set_aside && node.late)) parts.push(`${format.micros(node.microseconds)}${node.set_aside || node.late ? "" : " per message"}`);
    if (node.set_aside) parts.push(`${format.count(node.set_aside)} dead-lettered`);
    if (node.late) parts.push(`${format.count(node.late)} late`);
    metric.textContent = parts.join(" · ");
    metric.classList.toggle("problem", Boolean(node.set_aside));
    fit(metric);
  }
}

function columnsOf(nodes, flows) {
  const columns = new Map(nodes.map((node) => [node.id, 0]));
  for (let round = 0; round < nodes.length; round += 1) {
    for (const { start, end } of flows) {
      columns.set(end, Math.max(columns.get(end), columns.get(start) + 1));
    }
  }
  return columns;
}

function description({ name, groups }) {
  const lanes = groups.map((group) => `${group.pipelines.join(", ")}: ${group.nodes.map((node) => node.name).join(", then ")}`);
  return `${name}. ${lanes.join(". ")}`;
}

function arrowHead() {
  const marker = svgElement("marker", { id: "head", viewBox: "0 0 8 8", refX: 4, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" });
  marker.append(svgElement("path", { d: "M0 0 8 4 0 8Z", fill: "var(--accent)" }));
  const defs = svgElement("defs");
  defs.append(marker);
  return defs;
}

// A text that begins at a place; with room in which to fit, one that has its middle there.
function text(x, y, content, kind, room) {
  const element = svgElement("text", { x, y, class: kind, lengthAdjust: "spacingAndGlyphs" });
  if (room) [element.dataset.room, element.style.textAnchor] = [room, "middle"];
  element.textContent = content;
  return element;
}

function fit(element) {
  element.removeAttribute("textLength");
  if (element.getComputedTextLength() > element.dataset.room) element.setAttribute("textLength", element.dataset.room);
}

function svgElement(name, attributes = {}) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

function short(content, max) {
  return content.length > max ? `${content.slice(0, max - 1)}…` : content;
}
