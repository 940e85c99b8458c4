// The entities of one key, as of a position that is published.
import { $, element, request } from "./dom.js";

export function initStateForm() {
  $("state-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const key = $("state-key").value;
    $("state-result").className = "";
    $("state-result").textContent = "Reading state…";
    $("state-entities").replaceChildren();
    $("state-submit").disabled = true;
    try {
      show(key, await request(`state?key=${encodeURIComponent(key)}`));
    } catch (problem) {
      $("state-result").className = "problem";
      $("state-result").textContent = problem.message;
    }
    $("state-submit").disabled = false;
  });
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
