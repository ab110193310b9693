// When things happened within a conversation: one bar for each turn, one for each call whose times are known.

// Timelines stand at the end of the page for readers without script; here they stand in their turns.
const seen = new Map([...document.querySelectorAll(".seen")].map((element) => [element.id, element]));
for (const place of document.querySelectorAll(".seen-of, #seen")) place.remove();

function timings(conversation) {
  const rows = [];
  for (const turn of conversation.turns || []) {
    if (!turn.time) continue;
    const [start, first, end] = turn.time;
    rows.push({ label: `turn ${turn.number}`, start, first, end, kind: turn.failure || (turn.results || []).some((result) => result.status in WORST) ? "bad" : "" });
    for (const call of turn.calls || []) {
      if (call.time) rows.push({ label: call.name, start: call.time[0], end: call.time[1], kind: call.error ? "part bad" : "part" });
    }
  }
  const whole = Math.max(...rows.map((row) => row.end ?? row.first ?? row.start));
  if (!(whole > 0)) return null;
  const list = rows.map((row) => {
    const end = row.end ?? row.first ?? row.start;
    const bar = make("span", { class: `bar ${row.kind}` });
    bar.style.left = `${(100 * row.start) / whole}%`;
    bar.style.width = `${(100 * (end - row.start)) / whole}%`;
    const track = make("span", { class: "track", "aria-hidden": "true" }, bar);
    let said = `from ${duration(row.start)}, took ${duration(end - row.start)}`;
    if (row.first !== undefined && row.first !== null) {
      const tick = make("span", { class: "tick" });
      tick.style.left = `${(100 * row.first) / whole}%`;
      track.append(tick);
      said += `, first event after ${duration(row.first - row.start)}`;
    }
    return make("li", { title: said }, make("span", { class: "row-name" }, row.label), track, make("span", { class: "took" }, duration(end - row.start), unseen(` (${said})`)));
  });
  const marked = rows.some((row) => row.first !== undefined && row.first !== null);
  const legend = marked ? make("span", { class: "legend" }, "(tick = first event)") : "";
  return make("div", { class: "timings" }, make("h4", {}, "Timing ", legend), make("ol", { class: "waterfall" }, list));
}
