// Cases and metrics: one row a case, whose repeated conversations have a sign each; drawn when it is opened.

const MOST_ROWS = 500;
const MOST_METRICS = 40;
const WORST_FIRST = ["errored", "failed", "noted", "passed", "scored", "skipped"];

const resultsOf = (item) => [...(item.results || []), ...(item.turns || []).flatMap((turn) => turn.results || [])];

function matrixCell(indices, conversations, metric) {
  const marks = indices.map((index) => {
    const found = resultsOf(conversations[index]).filter((result) => result.metric === metric);
    if (!found.length) return null;
    const statuses = found.map((result) => (result.note ? "noted" : result.status));
    const worst = WORST_FIRST.find((status) => statuses.includes(status));
    const scores = found.filter((result) => result.score !== undefined).map((result) => result.score);
    const mean = scores.length ? score(scores.reduce((sum, value) => sum + value, 0) / scores.length) : "";
    const words = `${conversations[index].label}: ${metric} ${worst} ${mean}`.trim();
    const shown = indices.length === 1 ? ` ${mean}` : "";
    return make("a", { class: `mark-of ${worst}`, href: `#c-${index}`, title: words, "aria-label": words }, SIGNS[worst] || "·", shown);
  });
  return make("td", {}, marks.filter(Boolean).length ? marks : make("span", { class: "quiet" }, "–"));
}

function matrixTable(conversations) {
  const rows = groupedBy(conversations.keys(), (index) => conversations[index].case || conversations[index].label);
  const metrics = [...new Set(conversations.flatMap((item) => resultsOf(item).map((result) => result.metric)))];
  const isBad = ([, indices]) => indices.some((index) => conversations[index].status === "failed");
  const all = [...rows];
  const sorted = [...all.filter(isBad), ...all.filter((row) => !isBad(row))];
  const body = sorted.slice(0, MOST_ROWS).map(([name, indices]) => {
    const good = indices.filter((index) => shownStatus(conversations[index]) === "passed").length;
    const share = indices.length > 1 ? make("span", { class: "quiet" }, ` ${good} of ${indices.length} passed`) : null;
    const cells = metrics.slice(0, MOST_METRICS).map((metric) => matrixCell(indices, conversations, metric));
    return make("tr", {}, make("th", { scope: "row" }, name, share), cells);
  });
  const head = ["case", ...metrics.slice(0, MOST_METRICS)].map((name) => make("th", { scope: "col" }, name));
  const left = [[sorted.length - MOST_ROWS, "more case"], [metrics.length - MOST_METRICS, "more metric"]].filter(([count]) => count > 0);
  const note = left.length ? make("p", { class: "note" }, `… and ${left.map(([count, noun]) => counted(count, noun)).join(", ")}`) : "";
  return [make("table", { class: "matrix" }, make("thead", {}, make("tr", {}, head)), make("tbody", {}, body)), note];
}

function matrix(conversations) {
  const section = document.getElementById("matrix");
  const details = section.querySelector("details");
  if (!conversations.some((item) => resultsOf(item).length)) return;
  section.hidden = false;
  details.addEventListener("toggle", () => {
    const place = details.querySelector(".scroll");
    if (details.open && !place.children.length) place.append(...matrixTable(conversations));
  });
}
