// Copy buttons, keys, and the name of who annotates.

export function startWork() {
  prepare(document);
  document.addEventListener("click", async ({ target }) => {
    const button = target.closest("[data-copy]");
    if (button) say(button, (await copied(button)) ? "Copied" : "Not copied");
  });
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
  for (const button of root.querySelectorAll("[data-copy]")) button.hidden = false;
  for (const field of root.querySelectorAll("[data-remember]")) field.value ||= sessionStorage[field.dataset.remember] || "";
}

async function copied({ dataset: { copy } }) {
  const text = document.getElementById(copy).textContent;
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return byHand(text); // no permission, or not a secure context
  }
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
