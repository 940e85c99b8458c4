// The entities of one key, as of the last committed batch.
import { $, ask, element, moment } from "./dom.js";

export function offerState() {
  $("state-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const key = $("state-key").value;
    $("state-said").className = "";
    $("state-said").textContent = "Reading the state …";
    $("state-found").replaceChildren();
    $("state-submit").disabled = true;
    try {
      show(key, await ask(`state?key=${encodeURIComponent(key)}`));
    } catch (problem) {
      $("state-said").className = "problem";
      $("state-said").textContent = problem.message;
    }
    $("state-submit").disabled = false;
  });
}

function show(key, { commit, entities }) {
  const found = entities.length ? `${entities.length} found` : `No state has the key ${key}`;
  $("state-said").textContent = commit
    ? `${found}, as of batch ${commit.batch}, committed ${moment(commit.at)}.`
    : "There is no state yet: no batch is committed.";
  $("state-found").replaceChildren(...entities.flatMap(({ state, entity }) => {
    const title = element("h3", `${state}: ${key}`);
    const content = element("pre", JSON.stringify(entity, null, 2));
    content.tabIndex = 0;
    content.role = "region";
    content.ariaLabel = `Entity of ${state}`;
    return [title, content];
  }));
}
