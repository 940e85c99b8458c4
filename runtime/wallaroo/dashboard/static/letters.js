// Dead letters: a list that is asked for when it has changed, payloads on demand, and with a token
// replay and drop. Rows stay as long as their letters do, and so does the keyboard's focus.
import { $, ask, code, element, moment, row } from "./dom.js";

const rows = new Map();
let shown = "";
let changeable = false;

export function offerChanges(can) {
  changeable = can;
  $("letters-form").hidden = !can;
  $("letters-read-only").hidden = can;
  $("letters-form").addEventListener("submit", (event) => {
    event.preventDefault();
    change(event.submitter.value);
  });
  $("letters-all").addEventListener("change", (event) => {
    for (const box of boxes()) box.checked = event.target.checked;
  });
  if (!can) $("letters").classList.add("read-only");
}

export async function showLetters(seen) {
  const state = `${seen.dead_letters} ${seen.set_aside} ${seen.unknown_key}`;
  if (state === shown) return;
  shown = state;
  try {
    list(await ask("dead-letters"), seen.dead_letters);
  } catch {
    shown = ""; // the next event asks again
  }
}

function list(letters, all) {
  const there = new Set(letters.map((letter) => letter.id));
  for (const [id, made] of rows) {
    if (!there.has(id)) {
      made.forEach((one) => one.remove());
      rows.delete(id);
    }
  }
  const fresh = letters.filter((letter) => !rows.has(letter.id)).map(rowsOf);
  $("letters").tBodies[0].prepend(...fresh.flat());
  const more = all > letters.length ? `The last ${letters.length} of ${all.toLocaleString("en")}. ` : "";
  $("letters-more").textContent = more && `${more}wallaroo dead-letters sees to all of them.`;
}

function rowsOf(letter) {
  const name = `dead letter ${letter.id}`;
  const box = element("input");
  box.type = "checkbox";
  box.value = letter.id;
  box.ariaLabel = `Choose ${name}`;
  const choice = element("td", "", "choice");
  choice.append(box);

  const about = element("td", letter.error);
  about.append(element("br"), code(letter.message));
  const below = element("tr"), content = element("td");
  below.hidden = true;
  below.id = `payload-${letter.id}`;
  content.colSpan = 8;
  below.append(content);
  const payload = element("td", letter.replayable ? "" : "none", letter.replayable ? "" : "quiet");
  if (letter.replayable) payload.append(opener(letter.id, name, below, content));
  else payload.title = "It was set aside behind a state, and cannot be replayed.";

  const time = element("time", moment(letter.at));
  time.dateTime = new Date(letter.at * 1000).toISOString();
  const made = [
    row([choice, String(letter.id), time, letter.source, code(letter.key ?? "–"), about, stepOf(letter), payload]),
    below,
  ];
  rows.set(letter.id, made);
  return made;
}

function stepOf(letter) {
  const cell = element("td", `${letter.pipeline} · ${letter.step}`);
  cell.append(element("br"), code(letter.place));
  return cell;
}

function opener(id, name, below, content) {
  const button = element("button", "show");
  button.type = "button";
  button.ariaLabel = `Payload of ${name}`;
  button.ariaExpanded = "false";
  button.setAttribute("aria-controls", below.id);
  button.addEventListener("click", async () => {
    const opens = below.hidden;
    if (opens && !content.firstChild) {
      try {
        content.append(...payloadOf(id, name, await ask(`dead-letters/${id}`)));
      } catch (problem) {
        say(problem.message, true);
        return;
      }
    }
    below.hidden = !opens;
    button.ariaExpanded = String(opens);
    button.textContent = opens ? "hide" : "show";
  });
  return button;
}

function payloadOf(id, name, told) {
  const pre = element("pre", told.shown);
  pre.tabIndex = 0;
  pre.role = "region";
  pre.ariaLabel = `Content of ${name}`;
  const save = element("a", `save all ${told.bytes.toLocaleString("en")} bytes`);
  save.href = `dead-letters/${id}/payload`;
  return [pre, save];
}

async function change(act) {
  const chosen = boxes().filter((box) => box.checked).map((box) => Number(box.value));
  if (!chosen.length) return say("Choose letters first.", true);
  if (act === "drop" && !confirm(`Forget ${chosen.length} dead letters for good?`)) return;
  try {
    const { count } = await ask(`dead-letters/${act}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${$("token").value}`, "Content-Type": "application/json" },
      body: JSON.stringify(chosen),
    });
    const left = chosen.length - count;
    const stay = left && act === "replay" ? `; ${left} cannot be: they have no payload, or are gone` : "";
    say(`${count} ${act === "drop" ? "dropped" : "replayed"}${stay}.`);
    $("letters-all").checked = false;
  } catch (problem) {
    say(problem.message, true);
  }
}

function boxes() { return [...$("letters").tBodies[0].querySelectorAll("input")]; }

function say(words, bad = false) {
  $("letters-said").textContent = words;
  $("letters-said").className = bad ? "problem" : "";
}
