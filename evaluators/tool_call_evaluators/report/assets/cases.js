// The list of conversations: filter, search, pages. A conversation is drawn when it is opened.

const PAGE_SIZE = 50;
const MOST_PRINTED = 200;
const MOST_DOTS = 30;
const MOST_HITS = 2000;
const ROW_STATUS = ["failed", "invalid", "noted", "unscored", "passed"];

const STATUSES = ["all", "failed", "flaky", "passed", "noted", "invalid", "unscored"];

// A conversation that passed although a result in it did not has a sign and a filter of its own.
const shownStatus = (item) => (item.notes ? "noted" : item.status);
const callCount = (item) => (item.turns || []).reduce((sum, turn) => sum + (turn.calls || []).length + (turn.calls_left_out || 0), 0);
const spent = (item) => (item.turns || []).reduce((sum, turn) => sum + (turn.time && turn.time[2] !== null ? turn.time[2] - turn.time[0] : 0), 0);

// A score as a share of its scale, so that metrics can be compared.
function lowest(item) {
  const all = [...(item.results || []), ...(item.turns || []).flatMap((turn) => turn.results || [])].filter((result) => result.score !== undefined);
  return Math.min(2, ...all.map((result) => (result.scale ? (result.score - result.scale[0]) / (result.scale[1] - result.scale[0]) : result.score)));
}

const ORDERS = { slow: (item) => -spent(item), calls: (item) => -callCount(item), score: lowest };

function groupedBy(items, keyOf) {
  const groups = new Map();
  for (const item of items) {
    if (!groups.has(keyOf(item))) groups.set(keyOf(item), []);
    groups.get(keyOf(item)).push(item);
  }
  return groups;
}

// Marks the hits of a search, without a change of the page's elements.
function highlight(root, query) {
  if (!CSS.highlights) return;
  const found = new Highlight();
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (query && texts.nextNode() && found.size < MOST_HITS) {
    const node = texts.currentNode;
    const text = node.data.toLowerCase();
    if (text.length !== node.length) continue;
    for (let at = text.indexOf(query); at >= 0; at = text.indexOf(query, at + query.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + query.length);
      found.add(range);
    }
  }
  CSS.highlights.set("search", found);
}

class Cases {
  constructor(section, conversations) {
    this.conversations = conversations;
    this.section = section;
    this.list = section.querySelector(".conversations");
    this.repetitions = groupedBy(conversations.keys(), (index) => this.caseOf(index));
    this.texts = new Array(conversations.length);
    this.status = conversations.some((item) => shownStatus(item) === "failed") ? "failed" : "all";
    this.query = "";
    this.narrow = this.sort = "";
    this.page = 0;
    this.choose();
  }

  // What the address says after #: the filters, the order and the open case, so that a link shows the same.
  state(open = this.opened) {
    this.opened = open;
    const first = this.conversations.some((item) => shownStatus(item) === "failed") ? "failed" : "all";
    const parts = { status: this.status === first ? "" : this.status, search: this.query, narrow: this.narrow, sort: this.sort, case: open };
    const given = Object.entries(parts).filter(([, value]) => value);
    history.replaceState(null, "", given.length ? `#${new URLSearchParams(given)}` : location.pathname + location.search);
  }

  // The text that a search looks through, put together when it is first needed.
  text(index) {
    if (this.texts[index] === undefined) {
      const item = this.conversations[index];
      const words = [item.label, item.id, item.goal, ...(item.tags || []), ...(item.reasons || [])];
      for (const turn of item.turns || []) {
        words.push(turn.id, turn.user, turn.agent, turn.state, turn.trace);
        for (const call of turn.calls || []) words.push(call.name, JSON.stringify(call.arguments), call.result, call.error, call.source);
        for (const finding of turn.findings || []) words.push(...finding);
      }
      this.texts[index] = words.filter(Boolean).join("\n").toLowerCase();
    }
    return this.texts[index];
  }

  matches(item, index) {
    if (this.status === "flaky" ? !this.isFlaky(index) : this.status !== "all" && shownStatus(item) !== this.status) return false;
    if (this.narrow && !traits(item).includes(this.narrow)) return false;
    return !this.query || this.text(index).includes(this.query);
  }

  choose() {
    this.chosen = [];
    this.conversations.forEach((item, index) => {
      if (this.matches(item, index)) this.chosen.push(index);
    });
    const rank = ORDERS[this.sort];
    if (rank) this.chosen.sort((left, right) => rank(this.conversations[left]) - rank(this.conversations[right]) || left - right);
    this.rows = [...groupedBy(this.chosen, (index) => this.caseOf(index)).values()];
    this.page = 0;
    this.draw();
  }

  // `rows` are lists of conversations: the chosen repetitions of a case, or a single one.
  draw(rows = this.rows.slice(this.page * PAGE_SIZE, (this.page + 1) * PAGE_SIZE)) {
    this.list.replaceChildren(...rows.map((indices) => (this.all(indices[0]).length > 1 ? this.repeated(indices) : this.row(indices[0]))));
    highlight(this.list, this.query);
    const pages = Math.max(1, Math.ceil(this.rows.length / PAGE_SIZE));
    const all = this.conversations.length;
    this.section.querySelector(".count").textContent =
      this.chosen.length === all ? counted(all, "conversation") : `${this.chosen.length.toLocaleString("en")} of ${counted(all, "conversation")}`;
    const nav = this.section.querySelector(".pages");
    nav.hidden = pages === 1;
    nav.querySelector("#page").textContent = `Page ${this.page + 1} of ${pages}`;
    nav.querySelector("#previous").disabled = this.page === 0;
    nav.querySelector("#next").disabled = this.page === pages - 1;
    for (const button of this.section.querySelectorAll("[name=status]")) button.checked = button.value === this.status;
  }

  // The case of a conversation; one without a case is its own.
  caseOf(index) {
    return this.conversations[index].case || index;
  }

  // All repetitions of the case of a conversation.
  all(index) {
    return this.repetitions.get(this.caseOf(index));
  }

  // The conversations of its case that passed or failed, and how many of them passed.
  judged(index) {
    const judged = this.all(index).map((other) => this.conversations[other]).filter((item) => item.status === "passed" || item.status === "failed");
    return [judged.length, judged.filter((item) => shownStatus(item) === "passed").length];
  }

  // Whether its case passes now and then.
  isFlaky(index) {
    const [judged, good] = this.judged(index);
    return good > 0 && good < judged;
  }

  // A case with several conversations: a sign for each, and whether it passes now and then.
  repeated(indices) {
    const all = this.all(indices[0]);
    const items = all.map((index) => this.conversations[index]);
    const [judged, good] = this.judged(indices[0]);
    const worst = ROW_STATUS.find((status) => items.some((item) => shownStatus(item) === status));
    const dots = all.slice(0, MOST_DOTS).map((index) => {
      const status = shownStatus(this.conversations[index]);
      const words = `${this.conversations[index].label} ${status}`;
      return make("a", { class: `mark-of ${status}`, href: `#c-${index}`, title: words, "aria-label": words }, SIGNS[status]);
    });
    const details = make(
      "details",
      { class: `conversation repeated ${worst}` },
      make(
        "summary",
        {},
        sign(worst),
        make("span", { class: "name" }, items[0].case),
        make("span", { class: "first dots" }, dots, all.length > MOST_DOTS ? ` and ${all.length - MOST_DOTS} more` : ""),
        make("span", { class: "chips" }, this.isFlaky(indices[0]) ? make("span", { class: "chip noted" }, "flaky") : null),
        make("span", { class: "fact" }, `${good} of ${judged} passed`),
        make("span", { class: "fact" }, duration(items.reduce((sum, item) => sum + spent(item), 0))),
      ),
    );
    details.chosen = indices;
    details.addEventListener("toggle", () => {
      if (details.open) this.fillRepeated(details);
    });
    return make("li", {}, details);
  }

  fillRepeated(details) {
    if (details.children.length > 1) return;
    details.append(make("ol", { class: "conversations" }, details.chosen.map((index) => this.row(index))));
    highlight(this.list, this.query);
  }

  row(index) {
    const item = this.conversations[index];
    const turns = item.turns || [];
    const calls = callCount(item);
    const failed = failedMetrics(item);
    const first = turns.find((turn) => turn.user);
    const details = make(
      "details",
      { class: `conversation ${shownStatus(item)}`, id: `c-${index}` },
      make(
        "summary",
        {},
        sign(shownStatus(item)),
        make("span", { class: "name" }, item.label),
        make("span", { class: "first", dir: "auto" }, first ? first.user.slice(0, 200) : ""),
        make("span", { class: "chips" }, (item.notes || []).map((note) => make("span", { class: "chip noted" }, note)), failed.slice(0, 3).map((metric) => make("span", { class: "chip" }, metric)), (item.tags || []).slice(0, 3).map((tag) => make("span", { class: "chip tag" }, tag))),
        make("span", { class: "fact" }, turns.length > 1 ? `${counted(turns.length, "turn")}, ` : "", counted(calls, "call")),
        make("span", { class: "fact" }, duration(spent(item))),
      ),
    );
    details.addEventListener("toggle", () => {
      if (details.open) fill(details, item, index);
      highlight(this.list, this.query);
    });
    details.querySelector("summary").addEventListener("click", () => this.state(details.open ? "" : item.label));
    return make("li", {}, details);
  }

  openAll() {
    for (const details of this.list.querySelectorAll(".repeated")) this.open(details);
    for (const details of this.list.querySelectorAll("[id].conversation")) this.open(details);
  }

  // Opens a conversation; of a repeated case, its first chosen one.
  open(details) {
    if (details.chosen) {
      this.fillRepeated(details);
      details.open = true;
      return this.open(details.querySelector("[id].conversation"));
    }
    fill(details, this.conversations[Number(details.id.slice(2))], Number(details.id.slice(2)));
    details.open = true;
  }

  // Follows a link to a conversation (#c-3, #case=refund) or a turn of it (#c-3-1), whatever the filter is.
  show(hash) {
    const found = /^#c-(\d+)(-\d+)?$/.exec(hash);
    const given = found ? null : new URLSearchParams(hash.slice(1));
    const index = found ? Number(found[1]) : this.conversations.findIndex((item) => item.label === given.get("case"));
    if (given) this.restore(given);
    if (!this.conversations[index]) return;
    if (!this.chosen.includes(index)) {
      this.status = "all";
      this.query = this.narrow = this.sort = "";
      this.section.querySelector(".tools").reset();
      this.choose();
    }
    const place = this.rows.findIndex((indices) => indices.includes(index));
    this.page = Math.floor(place / PAGE_SIZE);
    this.draw();
    const row = this.list.children[place % PAGE_SIZE].firstChild;
    if (row.chosen) {
      this.fillRepeated(row);
      row.open = true;
    }
    const details = document.getElementById(`c-${index}`);
    this.open(details);
    const target = (found && found[2] && document.getElementById(hash.slice(1))) || details;
    target.scrollIntoView({ block: "start" });
    details.querySelector("summary").focus({ preventScroll: true });
    if (!(found && found[2])) this.state(this.conversations[index].label);
  }

  restore(given) {
    if (![..."status search narrow sort".split(" ")].some((name) => given.has(name))) return;
    this.status = STATUSES.includes(given.get("status")) ? given.get("status") : this.status;
    this.query = (given.get("search") || "").toLowerCase();
    this.narrow = given.get("narrow") || "";
    this.sort = Object.hasOwn(ORDERS, given.get("sort")) ? given.get("sort") : "";
    for (const [id, value] of [["search", this.query], ["narrow", this.narrow], ["sort", this.sort]]) this.section.querySelector(`#${id}`).value = value;
    this.narrow = this.section.querySelector("#narrow").value;
    this.choose();
  }

  // On paper: what the filter lets through, opened, up to a bound that is said.
  print() {
    this.list.replaceChildren(...this.chosen.slice(0, MOST_PRINTED).map((index) => this.row(index)));
    this.openAll();
    for (const details of this.list.querySelectorAll(".calls > li > details")) details.open = true;
    if (this.chosen.length > MOST_PRINTED)
      this.list.append(make("li", { class: "note" }, `${MOST_PRINTED} of ${this.chosen.length.toLocaleString("en")} are printed; narrow the list to print others.`));
  }
}

function fill(details, item, index) {
  if (details.children.length === 1) details.append(make("div", { class: "body" }, conversationBody(item, index)));
}

function failedMetrics(item) {
  const all = [...(item.results || []), ...(item.turns || []).flatMap((turn) => turn.results || [])];
  return [...new Set(all.filter((result) => result.status === "failed" || result.status === "errored").map((result) => result.metric))];
}

// What a conversation can be narrowed to: a metric that failed, a tag, a finding.
function traits(item) {
  const codes = (item.turns || []).flatMap((turn) => (turn.findings || []).map((finding) => finding[1]));
  return [...failedMetrics(item).map((metric) => `metric ${metric}`), ...(item.tags || []).map((tag) => `tag ${tag}`), ...new Set(codes.map((code) => `finding ${code}`))];
}
