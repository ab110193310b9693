// Parts of a page that were not ready, or that change: <div data-fragment="run" data-changes="URL of events">.
//
// A part is fetched again while it contains [data-again] (the seconds to wait), and when one of the events arrives.
import { fetchFragments, morph } from "./dom.js";
import { COUNTS, Events, Refresher } from "./live.js";

const LEAST_MS = 2000; // between two fetches for events; more where the server needs long for one
const REST = 5;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export function startFragments() {
  for (const part of document.querySelectorAll("main [data-fragment]")) follow(part);
}

function follow(part) {
  const name = part.dataset.fragment;
  const unfinished = () => part.querySelector("[data-again]");
  const refresher = new Refresher(async () => {
    const began = performance.now();
    const fresh = (await fetchFragments([name]))[name];
    const focused = document.activeElement;
    morph(part, fresh);
    if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true }); // it was moved
    const rest = Math.max(LEAST_MS, REST * (performance.now() - began));
    await pause(unfinished() ? 1000 * unfinished().dataset.again : rest);
    if (unfinished()) refresher.ask();
  }, 0);
  if (unfinished()) refresher.ask();
  const ask = () => refresher.ask();
  if (part.dataset.changes) new Events(part.dataset.changes, COUNTS, { opened: ask, received: ask });
}
