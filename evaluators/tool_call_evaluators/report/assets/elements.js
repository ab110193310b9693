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
const SIGNS = { passed: "✓", failed: "✕", errored: "!", skipped: "–", scored: "·", invalid: "!", unscored: "–", noted: "~" };
const sign = (status) => [make("span", { class: `sign ${status}`, "aria-hidden": "true" }, SIGNS[status] || "·"), unseen(status)];

const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

function duration(seconds) {
  if (seconds === undefined || seconds === null) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

const score = (value) => (value === undefined ? "–" : value.toFixed(2));

// Expected values with their placeholders written for people: any, /ORD-[0-9]+/, ≈ 14.5 ± 0.1.
function expectedText(value) {
  if (Array.isArray(value)) return `[${value.map(expectedText).join(", ")}]`;
  if (value === null || typeof value !== "object") return json(value);
  const keys = Object.keys(value).join();
  if (keys === "$any") return "any";
  if (keys === "$type") return `any ${[value.$type].flat().join(" or ")}`;
  if (keys === "$regex") return `/${value.$regex}/`;
  if (keys === "$literal") return json(value.$literal);
  if (keys === "$one_of") return value.$one_of.map(expectedText).join(" or ");
  if (keys === "$optional") return `${expectedText(value.$optional)} or nothing`;
  if (keys === "$approx" || keys === "$approx,tolerance" || keys === "tolerance,$approx")
    return `≈ ${value.$approx}${value.tolerance === undefined ? "" : ` ± ${value.tolerance}`}`;
  return `{ ${Object.entries(value).map(([key, item]) => `${json(key)}: ${expectedText(item)}`).join(", ")} }`;
}

// JSON on several lines, with escapes for what would turn the text around; any other text, and numbers that JavaScript
// would round, as they are.
function pretty(text) {
  if (/\d{16}|\d[eE]/.test(text.replace(/"(?:[^"\\]|\\.)*"/g, ""))) return text;
  try {
    const escaped = (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
    return JSON.stringify(JSON.parse(text), null, 2).replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, escaped);
  } catch {
    return text;
  }
}

function copyButton(text, words = "Copy") {
  const button = make("button", { type: "button", class: "copy" }, words);
  button.addEventListener("click", async () => {
    let copied = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = make("textarea", { class: "unseen", "aria-hidden": "true" });
      area.value = text;
      document.body.append(area);
      area.select();
      copied = document.execCommand("copy");
      area.remove();
    }
    button.textContent = copied ? "Copied" : "Not allowed by the browser";
  });
  return button;
}

const json = (value) => (typeof value === "string" ? JSON.stringify(value) : JSON.stringify(value, null, 1).replace(/\n\s*/g, " "));
