// Tool calls: those expected on the left, those made on the right, what differs marked.

const SOURCES = {
  a2a_protocol: "A2A",
  otel_trace: "OpenTelemetry",
  openai_agents: "OpenAI Agents SDK",
  a2e: "A2E",
  adk: "google-adk",
  kagent: "kagent",
  traceability: "traceability extension",
  client: "client",
};

const CHANGES = {
  same: ["=", "as expected"],
  moved: ["↕", "expected in another position"],
  changed: ["≠", "different"],
  removed: ["−", "missing"],
  added: ["+", "unexpected"],
  unknown: ["?", "tool calls are not visible"],
  ignored: ["·", "does not count"],
};

const FEW = 3; // the most calls that are as expected and are shown with those that are not
const MOST = 20; // rows outside the parts that readers open

// A value as a tree whose parts open: objects and lists that do not fit into a line.
function valueTree(value, written, depth = 0, isOpen = true) {
  const text = written(value);
  const isTree = value !== null && typeof value === "object" && text.length > 60 && depth < 12;
  const entries = isTree && !(written === expectedText && isPlaceholder(value)) ? Object.entries(value) : [];
  if (!entries.length) return text.length > 1000 ? make("details", { class: "result" }, make("summary", {}, text.slice(0, 100)), make("pre", {}, text)) : text;
  const list = make("dl", { class: "arguments" }, entries.slice(0, 100).map(([name, item]) => argument(name, valueTree(item, written, depth + 1))));
  const more = entries.length > 100 ? make("p", { class: "quiet" }, `… and ${entries.length - 100} more`) : null;
  return make("details", { class: "tree", open: isOpen && text.length < 300 }, make("summary", {}, counted(entries.length, Array.isArray(value) ? "item" : "field")), list, more);
}

const isPlaceholder = (value) => Object.keys(value).some((key) => key.startsWith("$"));

const argument = (name, content, kind = "") => make("div", { class: `argument ${kind}` }, make("dt", {}, name), make("dd", {}, content));

function side(kind, name, content, none) {
  const shown = content === undefined ? make("span", { class: "quiet" }, none) : make("span", {}, valueTree(content, kind === "wanted" ? expectedText : json));
  return make("div", { class: `side ${kind}` }, make("span", { class: "side-name" }, name), shown);
}

// The arguments of a call that is not as expected: those that differ by their paths, then the others.
function differingArguments(rows) {
  const shown = rows.map((row) => {
    if (!row.problem) return argument(row.key, valueTree(row.value, json, 0, false));
    const sides = [side("wanted", "expected", row.expected, "nothing"), side("got", "actual", row.actual, row.problem === "unknown" ? "unknown" : "nothing")];
    return argument([row.key, unseen(" (differs)")], sides, "differs");
  });
  return make("dl", { class: "arguments" }, shown);
}

function argumentList(call, written) {
  if (call.unknown) return make("p", { class: "quiet" }, "unknown arguments");
  if (call.any) return make("p", { class: "quiet" }, "any arguments");
  const entries = Object.entries(call.arguments || {}).map(([name, value]) => argument(name, valueTree(value, written)));
  return entries.length ? make("dl", { class: "arguments" }, entries) : make("p", { class: "quiet" }, "no arguments");
}

function brief(row) {
  const call = row.made || row.expected;
  const differences = row.differences || [];
  if (differences.length) return differences[0] + (differences.length > 1 ? ` and ${differences.length - 1} more` : "");
  if (hasError(row)) return `error: ${call.error}`.slice(0, 200);
  if (call.any || call.unknown) return `${call.any ? "any" : "unknown"} arguments`;
  return Object.entries(call.arguments || {}).map(([name, value]) => `${name}: ${expectedText(value)}`).join(", ").slice(0, 200);
}

const hasError = (row) => row.made !== undefined && row.made.error !== undefined;
const isWrong = (row) => hasError(row) || !["same", "alone", "unknown", "ignored"].includes(row.kind);

function signOfCall(row) {
  if (row.kind === "alone" || (row.kind === "same" && hasError(row))) return hasError(row) ? ["✕", "error"] : ["", ""];
  return CHANGES[row.kind];
}

function callBody(row, asText) {
  const { made, expected } = row;
  const call = made || expected;
  const [, words] = signOfCall(row);
  const facts = [];
  if (made && made.time && made.time[1] !== null) facts.push(`took ${duration(made.time[1] - made.time[0])}`);
  if (made && made.source !== "a2a_protocol") facts.push(`source: ${SOURCES[made.source] || made.source}`);
  return make(
    "div",
    { class: "call", dir: "ltr" },
    ["same", "alone"].includes(row.kind) ? null : make("p", { class: "source" }, `${words[0].toUpperCase()}${words.slice(1)}.`),
    row.compared && row.compared.length ? differingArguments(row.compared) : asText && call.arguments ? make("pre", {}, JSON.stringify(call.arguments, null, 2)) : argumentList(call, made ? json : expectedText),
    ["result", "error", "succeeded"].filter((part) => expected && expected[part] !== undefined).map((part) => make("p", { class: "source" }, make("b", {}, `expected ${part} `), expectedText(expected[part]))),
    made && made.error !== undefined ? make("p", { class: "call-error", dir: "auto" }, make("b", {}, "error "), made.error) : null,
    made && made.result !== undefined ? make("details", { class: "result" }, make("summary", {}, "result"), copyButton(made.result), make("pre", { dir: "auto" }, pretty(made.result))) : null,
    facts.length ? make("p", { class: "source" }, facts.join(" · ")) : null,
  );
}

function callRow(row, isOpen, asText) {
  const [mark, words] = signOfCall(row);
  const summary = make(
    "summary",
    {},
    make("span", { class: "call-number" }, row.made ? row.number : "–"),
    make("span", { class: "mark", title: words }, make("span", { "aria-hidden": "true" }, mark), unseen(words)),
    make("code", { class: "tool" }, (row.made || row.expected).name),
    make("span", { class: "brief" }, brief(row)),
  );
  const places = { "data-call": row.made ? `call ${row.number}` : null, "data-expected": row.place === undefined || row.place === null ? null : `expected call ${row.place + 1}` };
  const details = make("details", { ...places, open: isOpen }, summary, callBody(row, asText));
  return make("li", { class: `${row.kind}${isWrong(row) ? " wrong" : ""}` }, details);
}

// All calls once, those that are not as expected first; only the first part is shown at once.
function callParts(rows, compared) {
  const wrong = rows.filter(isWrong);
  let others = rows.filter((row) => !isWrong(row));
  let first = wrong.slice(0, MOST);
  if (!wrong.length) [first, others] = [others.slice(0, MOST), others.slice(MOST)];
  else if (others.length <= FEW) [first, others] = [[...first, ...others], []];
  const list = (part, isFirst) => make("ol", { class: compared ? "calls compared" : "calls" }, part.map((row, index) => callRow(row, isFirst && !index && isWrong(row), !isFirst)));
  const parts = [["more that are not as expected", wrong.slice(MOST)], [wrong.length ? "as expected" : "more", others]];
  const closed = parts.filter(([, part]) => part.length).map(([words, part]) => make("details", { class: "more-calls" }, make("summary", {}, `${part.length} ${words}`), list(part, false)));
  return [list(first, true), ...closed];
}

function callRows(turn) {
  const made = turn.calls || [];
  const expected = turn.expected_calls || [];
  const heading = make("h4", {}, "Tool calls");
  const more = [
    turn.calls_left_out && make("p", { class: "note" }, `${counted(turn.calls_left_out, "more call")} in the export`),
    turn.unseen && made.length && make("p", { class: "note" }, "others are not visible"),
    ...(turn.waiting || []).map((call) => make("p", { class: "note" }, "waits for approval: ", make("code", {}, call))),
  ].filter(Boolean);
  if (turn.missing && expected.length) return [heading, callParts(expected.map((call, index) => ({ kind: "removed", expected: call, number: index + 1, place: index })), true)];
  const rows = turn.changes
    ? turn.changes.map(([kind, left, right, differences, compared]) => ({ kind, expected: expected[left], made: made[right], number: (made[right] ? right : left) + 1, place: left, differences, compared }))
    : made.map((call, index) => ({ kind: "alone", made: call, number: index + 1 }));
  const none = turn.unseen ? "not visible" : turn.changes ? "none, as expected" : "none";
  return [heading, rows.length ? callParts(rows, Boolean(turn.changes)) : make("p", { class: "quiet" }, none), ...more];
}

// A reason in which the names of calls lead to them, in the same turn.
function withCalls(reason) {
  const pieces = reason.split(/\b((?:expected )?call \d+)\b/);
  return pieces.map((piece, index) => {
    if (index % 2 === 0) return piece;
    const link = make("a", { href: "#" }, piece);
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const turn = link.closest(".turn");
      const details = turn && turn.querySelector(`[data-${piece.startsWith("expected") ? "expected" : "call"}="${piece}"]`);
      if (!details) return;
      for (let outer = details; outer && outer !== turn; outer = outer.parentElement) if (outer.nodeName === "DETAILS") outer.open = true;
      details.scrollIntoView({ block: "center" });
      details.querySelector("summary").focus({ preventScroll: true });
    });
    return link;
  });
}
