// One turn: while it is open, calls and text as they come; then its scores.
import { fetchFragments, morph } from "./dom.js";
import { Events, Refresher } from "./live.js";
import { prepare } from "./work.js";

const TYPES = ["tool_call", "text", "state", "turn.closed", "turn.done"];

export function startTurn() {
  const turn = document.getElementById("turn");
  if (!turn) return;
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
    const link = document.querySelector(`.neighbours [data-key="${CSS.escape(event.key)}"]`);
    if (link) link.click();
  });
  if (turn.dataset.events) follow(turn);
}

function follow(turn) {
  const work = document.getElementById("work");
  const refresher = new Refresher(async () => {
    const fresh = await fetchFragments(["turn", "work"]);
    morph(turn, fresh.turn);
    if (work.querySelector("details[open]")) return;
    morph(work, fresh.work);
    prepare(work);
  });
  const received = (type, text) => {
    const data = JSON.parse(text);
    if (data.turn_id !== turn.dataset.turn) return;
    if (type !== "text" || !append(data)) refresher.ask();
    if (type === "turn.done") events.close();
  };
  const events = new Events(turn.dataset.events, TYPES, { opened: () => refresher.ask(), received });
}

// New text goes into the page without the server. False if it does not fit what the page has.
function append({ append: isNext, text, characters, cut }) {
  const answer = document.getElementById("answer");
  if (!answer || text === null || cut || !isNext) return false;
  const length = Number(answer.dataset.characters) + [...text].length;
  if (length !== characters) return false;
  answer.append(text);
  answer.dataset.characters = length;
  return true;
}
