// Puts the page together.

const data = JSON.parse(document.getElementById("data").textContent);
const section = document.getElementById("cases");
const cases = new Cases(section, data.conversations);
const tools = section.querySelector(".tools");

function statusButtons() {
  const counts = { failed: 0, passed: 0, noted: 0, invalid: 0, unscored: 0 };
  for (const item of data.conversations) counts[shownStatus(item)] += 1;
  const flaky = [...data.conversations.keys()].filter((index) => cases.isFlaky(index)).length;
  const shown = [["all", "All", data.conversations.length], ["failed", "Failed", counts.failed], ["flaky", "Flaky", flaky], ["passed", "Passed", counts.passed], ["noted", "Below threshold", counts.noted], ["invalid", "Spoilt by the user", counts.invalid], ["unscored", "Not scored", counts.unscored]];
  for (const [value, words, count] of shown) {
    if (!["all", "failed", "passed"].includes(value) && !count) continue;
    const button = make("input", { type: "radio", name: "status", value, checked: value === cases.status });
    section.querySelector(".statuses").append(make("label", {}, button, make("span", {}, words, " ", make("span", { class: "amount" }, count.toLocaleString("en")))));
  }
}

function narrowOptions() {
  const groups = { metric: ["Metric failed", new Set()], tag: ["Tag", new Set()], finding: ["Finding", new Set()] };
  for (const item of data.conversations) for (const trait of traits(item)) groups[trait.split(" ", 1)[0]][1].add(trait);
  for (const [title, found] of Object.values(groups)) {
    const options = [...found].sort().slice(0, 200).map((trait) => make("option", { value: trait }, trait.slice(trait.indexOf(" ") + 1)));
    if (options.length) section.querySelector("#narrow").append(make("optgroup", { label: title }, options));
  }
}

function themeButton() {
  const dark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const button = make("button", { type: "button", class: "theme" }, dark() ? "Light" : "Dark");
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    button.textContent = dark() ? "Light" : "Dark";
  });
  document.querySelector(".headline").append(button);
}

let waiting;
tools.addEventListener("submit", (event) => event.preventDefault());
tools.addEventListener("input", (event) => {
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    cases.query = section.querySelector("#search").value.trim().toLowerCase();
    cases.narrow = section.querySelector("#narrow").value;
    cases.sort = section.querySelector("#sort").value;
    cases.status = tools.elements.status.value;
    cases.choose();
    cases.state("");
  }, event.target.id === "search" ? 120 : 0);
});
section.querySelector("#open-all").addEventListener("click", () => cases.openAll());
for (const [id, step] of [["previous", -1], ["next", 1]]) {
  section.querySelector(`#${id}`).addEventListener("click", () => {
    cases.page += step;
    cases.draw();
    section.scrollIntoView({ block: "start" });
  });
}
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
  event.preventDefault();
  section.querySelector("#search").focus();
});
addEventListener("hashchange", () => cases.show(location.hash));
addEventListener("beforeprint", () => cases.print());
addEventListener("afterprint", () => cases.draw());

statusButtons();
narrowOptions();
matrix(data.conversations);
themeButton();
tools.hidden = false;
cases.show(location.hash);
if (!location.hash && cases.status === "failed") cases.open(cases.list.querySelector(".conversation"));
document.documentElement.dataset.ready = "true";
