// Copy buttons, parts that load when they are opened, and the name of who annotates.
import { localTimes } from "./dom.js";

export function startWork() {
  prepare(document);
  document.addEventListener("click", async ({ target }) => {
    const button = target.closest("[data-copy], [data-copy-url]");
    if (button) say(button, (await copied(button)) ? "Copied" : "Not copied");
  });
  document.addEventListener("toggle", ({ target }) => target.open && target.dataset.load && load(target), true);
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
    const keyed = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (!keyed) return;
    event.preventDefault();
    if (keyed.matches("input")) keyed.focus();
    else keyed.click();
  });
  document.addEventListener("submit", ({ target }) => {
    for (const field of target.querySelectorAll("[data-remember]")) sessionStorage[field.dataset.remember] = field.value;
  });
}

// What only works with script.
export function prepare(root) {
  for (const button of root.querySelectorAll("[data-copy], [data-copy-url]")) button.hidden = false;
  for (const field of root.querySelectorAll("[data-remember]")) field.value ||= sessionStorage[field.dataset.remember] || "";
}

async function copied({ dataset: { copy, copyUrl } }) {
  const text = copy ? document.getElementById(copy).textContent : await textAt(copyUrl);
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return byHand(text); // no permission, or not a secure context
  }
}

async function textAt(url) {
  const response = await fetch(url);
  return JSON.stringify(await response.json(), null, 2);
}

function byHand(text) {
  const area = Object.assign(document.createElement("textarea"), { value: text });
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

function say(button, word) {
  button.dataset.label ||= button.textContent;
  button.textContent = word;
  setTimeout(() => (button.textContent = button.dataset.label), 1500);
}

async function load(details) {
  const { load: url } = details.dataset;
  delete details.dataset.load;
  const response = await fetch(url, { headers: { accept: "text/html" } });
  const parsed = new DOMParser().parseFromString(await response.text(), "text/html");
  localTimes(parsed);
  details.lastElementChild.replaceChildren(...parsed.querySelectorAll("[data-fragment]"));
  prepare(details);
}
