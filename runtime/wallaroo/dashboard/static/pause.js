// Pausing and resuming the run, with the token; and what needs attention, in sentences.
import { $, clock, element, request } from "./dom.js";

const TEXTS = {
  pause: ["Pause the run?", "Pause", "Messages that arrive are accepted and wait. What is in progress ends, and outputs are delivered. Stopping the run ends the pause."],
  resume: ["Resume the run?", "Resume", "The messages that wait are processed, the oldest first."],
};
let action = "pause", changeable = false, shown = "";

export function initPause(mayChange) {
  changeable = mayChange;
  $("pause").addEventListener("click", () => {
    [$("pause-title").textContent, $("pause-go").textContent, $("pause-text").textContent] = TEXTS[action];
    $("pause-result").textContent = "";
    $("pause-token").value ||= $("token").value;
    $("pause-dialog").showModal();
  });
  $("pause-cancel").addEventListener("click", () => $("pause-dialog").close());
  $("pause-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const token = $("pause-token").value;
    $("pause-go").disabled = true;
    try {
      await request(action, { method: "POST", headers: { Authorization: `Bearer ${token}` } });
      $("token").value ||= token;
      $("pause-dialog").close();
    } catch (problem) {
      $("pause-result").textContent = problem.message;
    }
    $("pause-go").disabled = false;
  });
}

export function updatePause(snapshot) {
  const paused = snapshot.paused_since !== null;
  $("pause").hidden = !changeable;
  if ($("pause-dialog").open) return; // what it asks stays what it does
  action = paused ? "resume" : "pause";
  $("pause").textContent = paused ? "Resume…" : "Pause…";
}

// Updated only if they change, or screen readers would read them every second.
export function showNotices(notices) {
  const state = JSON.stringify(notices);
  if (state === shown) return;
  shown = state;
  $("notices").replaceChildren(...notices.map(([kind, text]) => element("li", text, kind)));
}

export function noticesOf(snapshot) {
  const notices = [];
  const { away, paused_since: paused, interruption } = snapshot;
  if (away) notices.push(["bad", `The gateway does not answer, so the figures are old: ${away}`]);
  if (paused !== null) notices.push(["waiting", `Paused since ${clock(paused)}: messages are accepted and wait, and nothing is processed until the run is resumed.`]);
  if (interruption) notices.push(["bad", capital(interruption)]);
  for (const source of snapshot.sources) {
    if (source.problem) notices.push(["bad", `Source ${source.name} (${source.where}) cannot be read: ${source.problem}`]);
    if (source.waits) notices.push(["waiting", `Source ${source.name} ${source.waits}.`]);
  }
  for (const sink of snapshot.sinks) {
    if (sink.problem) notices.push(["bad", `Sink ${sink.name} (${sink.where}) takes nothing, and its outputs wait on disk: ${sink.problem}`]);
  }
  return notices;
}

function capital(text) { return text.charAt(0).toUpperCase() + text.slice(1); }
