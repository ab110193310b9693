// Elements from data. Texts become text nodes and nothing else, so nothing in the data is ever markup.

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child || child === 0));
  return element;
}

const unseen = (text) => make("span", { class: "unseen" }, text);

// A word with a sign before it, so that colour is never all there is.
const SIGNS = { passed: "✓", failed: "✕", errored: "!", skipped: "–", scored: "·", spoilt: "!", unscored: "–" };
const sign = (status) => [make("span", { class: `sign ${status}`, "aria-hidden": "true" }, SIGNS[status] || "·"), unseen(status)];

const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

function duration(seconds) {
  if (seconds === undefined || seconds === null) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

const score = (value) => (value === undefined ? "–" : value.toFixed(2));

const json = (value) => (typeof value === "string" ? JSON.stringify(value) : JSON.stringify(value, null, 1).replace(/\n\s*/g, " "));
