// The list of turns: live, filters, keys.
import { fetchFragments, morph } from "./dom.js";
import { COUNTS, Events, Refresher } from "./live.js";

export function startList() {
  const list = document.getElementById("list");
  if (!list) return;
  const form = document.querySelector(".filters");
  filters(form);
  const events = list.dataset.events ? live(list) : null;
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
    const act = KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    act(list, form, events);
  });
}

function live(list) {
  const head = document.getElementById("head");
  const refresher = new Refresher(async () => {
    const fresh = await fetchFragments(["head", "list"]);
    morph(head, fresh.head);
    morph(list, fresh.list);
  });
  const button = document.querySelector("[data-live]");
  const changed = (state) => {
    button.setAttribute("aria-pressed", String(state !== "paused"));
    button.classList.toggle("lost", state === "lost");
    button.textContent = { live: "live", paused: "paused", lost: "connecting" }[state];
  };
  const events = new Events(list.dataset.events, COUNTS, {
    opened: () => refresher.ask(),
    received: (type, text) => refresher.ask(JSON.parse(text).count),
    changed,
  });
  button.hidden = false;
  button.addEventListener("click", () => events.pause(!events.paused));
  return { toggle: () => events.pause(!events.paused) };
}

function filters(form) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const given = [...new FormData(form)].filter(([, value]) => value.trim());
    location.assign(`${form.action.split("?")[0]}${given.length ? `?${new URLSearchParams(given)}` : ""}`);
  });
  form.addEventListener("change", (event) => {
    if (event.target.matches("[type=radio], select")) form.requestSubmit();
  });
}

function step(list, by) {
  const links = [...list.querySelectorAll(".row .text")];
  const place = links.indexOf(document.activeElement);
  const next = links[place < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, place + by))];
  if (next) next.focus();
}

const KEYS = {
  j: (list) => step(list, 1),
  k: (list) => step(list, -1),
  "/": (list, form) => form.elements.q.focus(),
  f: (list, form) => {
    const failed = form.querySelector("[name=verdict][value=failed]");
    (failed.checked ? form.querySelector("[name=verdict][value='']") : failed).checked = true;
    form.requestSubmit();
  },
  p: (list, form, events) => events && events.toggle(),
  "?": () => document.querySelector(".keys").scrollIntoView({ block: "center" }),
};
