// The entities of one key, as of a position that is published, and its history.
import { $, command, element, request } from "./dom.js";

let shownKey = "";

export function initStateForm(histories) {
  initHistories(histories);
  $("state-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const key = $("state-key").value;
    $("state-result").className = "";
    $("state-result").textContent = "Reading state…";
    $("state-entities").replaceChildren();
    $("history").hidden = true;
    $("state-submit").disabled = true;
    try {
      show(key, await request(`state?key=${encodeURIComponent(key)}`));
    } catch (problem) {
      $("state-result").className = "problem";
      $("state-result").textContent = problem.message;
    }
    await offerHistory(key);
    $("state-submit").disabled = false;
  });
}

function initHistories({ late, here, shows }) {
  $("late").append(command(late));
  if (!here) {
    $("history-where").textContent = "In the gateway's pod, ";
    $("history-submit").textContent = "Run it there";
  }
  $("history-form").hidden = !shows;
  $("history-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const key = shownKey, headers = { Authorization: `Bearer ${$("history-token").value}` };
    sayOfHistory("Running its messages again…");
    $("history-submit").disabled = true;
    try {
      const { text, notes } = await request(`history?key=${encodeURIComponent(key)}`, { method: "POST", headers });
      if (key === shownKey) {
        sayOfHistory(notes);
        $("history-text").textContent = text;
      }
    } catch (problem) {
      if (key === shownKey) sayOfHistory(problem.message, true);
    }
    $("history-submit").disabled = false;
  });
}

async function offerHistory(key) {
  shownKey = key;
  sayOfHistory("");
  try {
    const { command: line } = await request(`history?key=${encodeURIComponent(key)}`);
    $("history-command").replaceChildren(command(line));
    $("history").hidden = false;
  } catch {
    // the result has the reason
  }
}

function sayOfHistory(text, bad = false) {
  $("history-result").textContent = text;
  $("history-result").className = bad ? "problem" : "quiet";
  $("history-text").textContent = "";
}

function show(key, { position, entities }) {
  const counted = entities.length === 1 ? "1 entity found" : `${entities.length} entities found`;
  const found = entities.length ? counted : `No entity has the key ${key}`;
  $("state-result").textContent = `${found}, as of offset ${position.toLocaleString("en")}.`;
  $("state-entities").replaceChildren(...entities.flatMap(({ state, entity, error }) => {
    const title = element("h3", `${state}: ${key}`);
    const content = element("pre", error ?? JSON.stringify(entity, null, 2));
    content.tabIndex = 0;
    content.role = "region";
    content.ariaLabel = `Entity of ${state}`;
    return [title, content];
  }));
}
