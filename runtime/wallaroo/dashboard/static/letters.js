// Dead letters: a list that is requested when it has changed, payloads on demand, and with a token
// replay and drop. A row stays as long as its dead letter exists, and keeps the keyboard's focus.
import { $, code, command, element, request, row, stepOf, when } from "./dom.js";

const rows = new Map();
let shown = "";

export function initDeadLetters(changeable) {
  $("letters-form").hidden = !changeable;
  $("letters-read-only").hidden = changeable;
  $("letters-form").addEventListener("submit", (event) => {
    event.preventDefault();
    change(event.submitter.value);
  });
  $("letters-all").addEventListener("change", (event) => {
    for (const box of boxes()) box.checked = event.target.checked;
  });
  if (!changeable) $("letters").classList.add("read-only");
}

export async function updateDeadLetters(snapshot) {
  const state = `${snapshot.dead_letters} ${snapshot.set_aside} ${snapshot.unknown_key}`;
  if (state === shown) return;
  shown = state;
  try {
    list(await request("dead-letters"), snapshot.dead_letters);
    $("letters-empty").textContent = "No dead letters.";
  } catch (problem) {
    shown = ""; // the next snapshot retries
    $("letters-empty").textContent = `They cannot be listed now: ${problem.message}`;
  }
}

function list(letters, total) {
  const present = new Set(letters.map((letter) => letter.id));
  for (const [id, elements] of rows) {
    if (!present.has(id)) {
      elements.forEach((one) => one.remove());
      rows.delete(id);
    }
  }
  const fresh = letters.filter((letter) => !rows.has(letter.id)).map(rowsOf);
  $("letters").tBodies[0].prepend(...fresh.flat());
  $("letters-more").textContent = total > letters.length
    ? `Showing the last ${letters.length} of ${total.toLocaleString("en")}. Use wallaroo dead-letters for the others.`
    : "";
}

function rowsOf(letter) {
  const name = `dead letter ${letter.id}`;
  const box = element("input");
  box.type = "checkbox";
  box.value = letter.id;
  box.ariaLabel = `Select ${name}`;
  const selection = element("td", "", "choice");
  selection.append(box);

  const about = element("td", letter.error);
  about.append(element("br"), code(letter.message));
  if (letter.traceback) about.append(tracebackOf(letter, name));
  if (letter.explain) about.append(historyOf(letter));
  const below = element("tr"), content = element("td");
  below.hidden = true;
  below.id = `payload-${letter.id}`;
  content.colSpan = 8;
  below.append(content);
  const payload = element("td", letter.replayable ? "" : "none", letter.replayable ? "" : "quiet");
  if (letter.replayable) payload.append(opener(letter.id, name, below, content));
  else payload.title = "It failed in a step after a state: it has no payload and cannot be replayed.";

  const elements = [
    row([selection, String(letter.id), when(letter.at), letter.source, code(letter.key ?? "–"), about, stepOf(letter), payload]),
    below,
  ];
  rows.set(letter.id, elements);
  return elements;
}

function tracebackOf(letter, name) {
  const details = element("details"), text = element("pre", letter.traceback);
  text.tabIndex = 0;
  text.role = "region";
  text.ariaLabel = `Traceback of ${name}`;
  details.append(element("summary", "traceback"), text);
  return details;
}

function historyOf(letter) {
  const details = element("details"), text = element("p", "This shows the messages of the key up to this one: ");
  text.append(command(letter.explain));
  details.append(element("summary", "history of the key"), text);
  return details;
}

function opener(id, name, below, content) {
  const button = element("button", "show");
  button.type = "button";
  button.ariaLabel = `Payload of ${name}`;
  button.ariaExpanded = "false";
  button.setAttribute("aria-controls", below.id);
  button.addEventListener("click", async () => {
    const opening = below.hidden;
    if (opening && !content.firstChild) {
      try {
        content.append(...payloadOf(id, name, await request(`dead-letters/${id}`)));
      } catch (problem) {
        say(problem.message, true);
        return;
      }
    }
    below.hidden = !opening;
    button.ariaExpanded = String(opening);
    button.textContent = opening ? "hide" : "show";
  });
  return button;
}

function payloadOf(id, name, { bytes, shown: text }) {
  const pre = element("pre", text);
  pre.tabIndex = 0;
  pre.role = "region";
  pre.ariaLabel = `Content of ${name}`;
  const link = element("a", `download all ${bytes.toLocaleString("en")} bytes`);
  link.href = `dead-letters/${id}/payload`;
  return [pre, link];
}

async function change(action) {
  const selected = boxes().filter((box) => box.checked).map((box) => Number(box.value));
  if (!selected.length) return say("Select dead letters first.", true);
  const counted = `${selected.length} dead letter${selected.length === 1 ? "" : "s"}`;
  if (action === "drop" && !confirm(`Permanently delete ${counted}?`)) return;
  try {
    const { count } = await request(`dead-letters/${action}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${$("token").value}`, "Content-Type": "application/json" },
      body: JSON.stringify(selected),
    });
    const rest = selected.length - count;
    const others = rest && action === "replay" ? `; ${rest} not replayed: no payload, or no longer there` : "";
    say(`${count} ${action === "drop" ? "dropped" : "replayed"}${others}.`);
    $("letters-all").checked = false;
  } catch (problem) {
    say(problem.message, true);
  }
}

function boxes() { return [...$("letters").tBodies[0].querySelectorAll("input")]; }

function say(text, bad = false) {
  $("letters-result").textContent = text;
  $("letters-result").className = bad ? "problem" : "";
}
