// Helpers that create elements. Text stays text: nothing is interpreted as HTML.
export const $ = (id) => document.getElementById(id);

export function clock(at) { return new Date(at * 1000).toLocaleTimeString("en", { hour12: false }); }

// Day and time, for times that may be on another day.
export function moment(at) {
  const parts = { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" };
  return new Date(at * 1000).toLocaleString("en", { hour12: false, ...parts });
}

// The same as an element, whose date is that of the machine.
export function when(at) {
  const time = element("time", moment(at));
  time.dateTime = new Date(at * 1000).toISOString();
  return time;
}

// A cell with a step, and below it the place in the code.
export function stepOf({ pipeline, step, place }) {
  const cell = element("td", `${pipeline} · ${step}`);
  cell.append(element("br"), code(place));
  return cell;
}

// The rows of a table. Narrow screens show the title of a column in its cells.
export function body(id, rows) {
  const titles = [...$(id).tHead.rows[0].cells].map((cell) => cell.textContent);
  for (const { cells } of rows) titles.forEach((title, place) => { cells[place].dataset.title = title; });
  $(id).tBodies[0].replaceChildren(...rows);
}

export function row(cells) {
  const tr = element("tr");
  tr.append(...cells.map((cell) => {
    if (cell instanceof HTMLTableCellElement) return cell;
    const td = element("td");
    td.append(cell);
    return td;
  }));
  return tr;
}

export function number(content) { return element("td", content, "number"); }
export function code(content) { return element("code", content); }

// A command to copy, which a click selects.
export function command(content) { return element("code", content, "command"); }

export function element(name, content = "", kind = "") {
  const created = document.createElement(name);
  if (content) created.textContent = content;
  if (kind) created.className = kind;
  return created;
}

// The server's response as JSON; an error response is thrown with its text as the message.
export async function request(path, options) {
  const response = await fetch(path, options);
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}
