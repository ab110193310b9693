// Tool calls: those expected on the left, those made on the right, what differs marked.

const SOURCES = {
  a2a_protocol: "A2A",
  otel_trace: "OpenTelemetry",
  openai_agents: "OpenAI Agents SDK",
  a2e: "A2E",
  adk: "google-adk",
  kagent: "kagent",
  client: "client",
};

const CHANGES = {
  same: ["=", "as expected"],
  moved: ["↕", "expected in another position"],
  changed: ["≠", "different"],
  removed: ["−", "missing"],
  added: ["+", "unexpected"],
  unknown: ["?", "tool calls are not visible"],
};

function argumentList(call, differing, written) {
  if (call.unknown) return make("p", { class: "quiet" }, "unknown arguments: the trace does not contain them");
  if (call.any) return make("p", { class: "quiet" }, "any arguments");
  const all = differing.includes("");
  const entries = Object.entries(call.arguments || {}).map(([name, value]) => {
    const differs = all || differing.includes(name);
    return make(
      "div",
      { class: differs ? "argument differs" : "argument" },
      make("dt", {}, name, differs && unseen(" (differs)")),
      make("dd", {}, written(value)),
    );
  });
  return entries.length ? make("dl", { class: "arguments" }, entries) : make("p", { class: "quiet" }, "no arguments");
}

function callBlock(call, differing = [], written = expectedText) {
  return make("div", { class: "call", dir: "ltr" }, make("code", { class: "tool" }, call.name), argumentList(call, differing, written));
}

function expectedBlock(call, differing = []) {
  const block = callBlock(call, differing);
  for (const part of ["result", "error", "succeeded"])
    if (call[part] !== undefined) block.append(make("p", { class: "source" }, make("b", {}, `${part} `), expectedText(call[part])));
  return block;
}

function madeBlock(call, differing = []) {
  const took = call.time && call.time[1] !== null ? ` · ${duration(call.time[1] - call.time[0])}` : "";
  const block = callBlock(call, differing, json);
  const source = call.source === "a2a_protocol" ? "" : `source: ${SOURCES[call.source] || call.source}`;
  if (source || took) block.append(make("p", { class: "source" }, source ? source + took : took.slice(3)));
  if (call.error !== undefined) block.append(make("p", { class: "call-error", dir: "auto" }, make("b", {}, "error "), call.error));
  if (call.result !== undefined)
    block.append(make("details", { class: "result" }, make("summary", {}, "result"), copyButton(call.result), make("pre", { dir: "auto" }, pretty(call.result))));
  return block;
}

function cell(title, content) {
  return make("div", { class: content ? "cell" : "cell nothing" }, make("span", { class: "cell-title" }, title), content || make("p", { class: "quiet" }, "–"));
}

function callRows(turn) {
  const made = turn.calls || [];
  const expected = turn.expected_calls || [];
  const heading = make("h4", {}, "Tool calls");
  const more = [
    turn.calls_left_out && make("p", { class: "note" }, `${counted(turn.calls_left_out, "more call")} in the export`),
    turn.unseen && made.length && make("p", { class: "note" }, "others are not visible"),
  ].filter(Boolean);
  if (turn.missing && expected.length) {
    const rows = expected.map((call) => make("li", { class: "removed" }, cell("expected", expectedBlock(call))));
    return [heading, make("ol", { class: "calls" }, rows)];
  }
  if (!turn.changes) {
    const rows = made.map((call) => make("li", { class: "alone" }, cell("actual", madeBlock(call))));
    return [heading, rows.length ? make("ol", { class: "calls" }, rows) : make("p", { class: "quiet" }, "none"), ...more];
  }
  const rows = turn.changes.map(([kind, left, right, differing = []]) => {
    const [mark, words] = CHANGES[kind];
    return make(
      "li",
      { class: kind },
      make("span", { class: "mark", title: words }, make("span", { "aria-hidden": "true" }, mark), unseen(words)),
      cell("expected", expected[left] && expectedBlock(expected[left], differing)),
      cell("actual", made[right] && madeBlock(made[right], differing)),
    );
  });
  return [heading, rows.length ? make("ol", { class: "calls compared" }, rows) : make("p", { class: "quiet" }, turn.unseen ? "not visible" : "none, as expected"), ...more];
}
