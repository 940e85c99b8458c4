// What all parts of the page make their elements with. Text stays text: nothing is read as HTML.
export const $ = (id) => document.getElementById(id);

export function clock(at) { return new Date(at * 1000).toLocaleTimeString("en", { hour12: false }); }

// Day and time, for what may be from another day.
export function moment(at) {
  const parts = { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" };
  return new Date(at * 1000).toLocaleString("en", { hour12: false, ...parts });
}

export function body(id, rows) { $(id).tBodies[0].replaceChildren(...rows); }

export function row(cells) {
  const made = element("tr");
  made.append(...cells.map((cell) => {
    if (cell instanceof HTMLTableCellElement) return cell;
    const of = element("td");
    of.append(cell);
    return of;
  }));
  return made;
}

export function number(content) { return element("td", content, "number"); }
export function code(content) { return element("code", content); }

export function element(name, content = "", kind = "") {
  const made = document.createElement(name);
  if (content) made.textContent = content;
  if (kind) made.className = kind;
  return made;
}

// What the server answers; an answer that says what went wrong is thrown in its words.
export async function ask(path, options) {
  const answer = await fetch(path, options);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}
