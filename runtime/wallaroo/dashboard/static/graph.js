// The application's graph as SVG: columns by the longest way from a source, one lane a pipeline.
const WIDTH = 178, HEIGHT = 62, GAP_X = 92, GAP_Y = 16, TITLE = 22, PAD = 14;
const SVG = "http://www.w3.org/2000/svg";

export function drawGraph(application, into) {
  const { groups, states, edges } = application;
  const ways = edges.filter((edge) => edge.kind === "messages");
  const columns = columnsOf(groups.flatMap((group) => group.nodes), ways);
  const places = new Map();
  const svg = made("svg", { role: "img", "aria-label": described(application) });
  const below = made("g"), above = made("g");
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
      places.set(node.id, [PAD + column * (WIDTH + GAP_X), y + TITLE + row * (HEIGHT + GAP_Y)]);
    }
    const height = Math.max(...rows.values()) * (HEIGHT + GAP_Y) - GAP_Y;
    const lane = { x: 2, y, width: (widest + 1) * (WIDTH + GAP_X) - GAP_X + 2 * PAD - 4, height: height + TITLE + PAD, rx: 8 };
    below.append(made("rect", { class: "lane", ...lane }));
    below.append(text(PAD, y + 15, `pipeline ${group.pipelines.join(", ")}`, "group"));
    y += height + TITLE + PAD + 20;
    const here = states.filter((state) => ofGroup(firstUser(state)) === number);
    const taken = new Set();
    for (const state of here) {
      let column = columns.get(firstUser(state));
      while (taken.has(column)) column += 1;
      taken.add(column);
      places.set(state.id, [PAD + column * (WIDTH + GAP_X), y]);
    }
    if (here.length) y += HEIGHT + 20;
  });
  const right = Math.max(...[...places.values()].map(([x]) => x)) + WIDTH + PAD;
  svg.setAttribute("viewBox", `0 0 ${right} ${y - 8}`);
  svg.style.maxWidth = `${right * 1.15}px`;

  const rates = new Map();
  for (const edge of edges) {
    const [start, end] = [places.get(edge.start), places.get(edge.end)];
    if (edge.kind === "state") {
      const down = end[1] > start[1];
      const [x1, y1, x2, y2] = [start[0] + WIDTH / 2, start[1] + (down ? HEIGHT : 0), end[0] + WIDTH / 2, end[1] + (down ? 0 : HEIGHT)];
      below.append(made("path", { class: "use", d: `M${x1} ${y1}L${x2} ${y2}` }));
      continue;
    }
    const [x1, y1, x2, y2] = [start[0] + WIDTH, start[1] + HEIGHT / 2, end[0], end[1] + HEIGHT / 2];
    const bend = Math.max(30, (x2 - x1) / 2);
    const way = made("path", { class: "way", "marker-end": "url(#head)", d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2 - 5} ${y2}` });
    const rate = text(x1 + GAP_X / 2 - 2, (y1 + (x2 - x1 > GAP_X + 1 ? y1 : y2)) / 2 - 8, "", "rate", "middle");
    const label = text(x1 + GAP_X / 2 - 2, (y1 + y2) / 2 + 17, short(edge.label, 14), "detail", "middle");
    below.append(way);
    above.append(rate, label);
    if (!rates.has(edge.start)) rates.set(edge.start, []);
    rates.get(edge.start).push({ way, rate });
  }
  const figures = new Map();
  for (const node of [...groups.flatMap((group) => group.nodes), ...states]) {
    const [x, top] = places.get(node.id);
    const kind = { "stateful step": "stateful", state: "store" }[node.kind] ?? node.kind;
    const shape = made("g", { class: `node ${kind}`, transform: `translate(${x} ${top})`, "data-node": node.id });
    const title = made("title");
    title.textContent = `${node.kind} ${node.name}: ${node.place}`;
    const box = node.kind === "state"
      ? made("path", { d: `M0 8c0-10 ${WIDTH}-10 ${WIDTH} 0V${HEIGHT - 8}c0 10-${WIDTH} 10-${WIDTH} 0Z` })
      : made("rect", { width: WIDTH, height: HEIGHT, rx: node.kind.includes("step") ? 9 : 3 });
    const figure = text(WIDTH / 2, 53, "", "figure", "middle");
    shape.append(title, box, text(WIDTH / 2, 21, short(node.name, 24), "", "middle"),
      text(WIDTH / 2, 37, short(node.detail, 27), "detail", "middle"), figure);
    above.append(shape);
    figures.set(node.id, { figure, kind });
  }
  into.replaceChildren(svg);
  return { rates, figures };
}

export function showFigures({ rates, figures }, nodes, format) {
  for (const [start, ways] of rates) {
    const rate = nodes[start]?.rate ?? 0;
    for (const { way, rate: label } of ways) {
      label.textContent = `${format.count(rate)}/s`;
      way.classList.toggle("flows", rate > 0);
      way.style.strokeWidth = String(1.4 + Math.log10(1 + rate) / 2);
    }
  }
  for (const [id, { figure, kind }] of figures) {
    const of = nodes[id] ?? {};
    const parts = [];
    if (kind === "store") parts.push(`${format.count(of.entities ?? 0)} entities`);
    else if (of.microseconds != null) parts.push(`${format.micros(of.microseconds)}${of.set_aside ? "" : " a message"}`);
    if (of.set_aside) parts.push(`${format.count(of.set_aside)} set aside`);
    figure.textContent = parts.join(" · ");
    figure.classList.toggle("problem", Boolean(of.set_aside));
  }
}

function columnsOf(nodes, ways) {
  const columns = new Map(nodes.map((node) => [node.id, 0]));
  for (let round = 0; round < nodes.length; round += 1) {
    for (const { start, end } of ways) {
      columns.set(end, Math.max(columns.get(end), columns.get(start) + 1));
    }
  }
  return columns;
}

function described({ name, groups }) {
  const told = groups.map((group) => `${group.pipelines.join(", ")}: ${group.nodes.map((node) => node.name).join(", then ")}`);
  return `${name}. ${told.join(". ")}`;
}

function arrowHead() {
  const marker = made("marker", { id: "head", viewBox: "0 0 8 8", refX: 4, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" });
  marker.append(made("path", { d: "M0 0 8 4 0 8Z", fill: "var(--accent)" }));
  const defs = made("defs");
  defs.append(marker);
  return defs;
}

function text(x, y, content, kind, anchor = "start") {
  const element = made("text", { x, y, class: kind, "text-anchor": anchor });
  element.textContent = content;
  return element;
}

function made(name, attributes = {}) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

function short(content, most) {
  return content.length > most ? `${content.slice(0, most - 1)}…` : content;
}
