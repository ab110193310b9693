// Fragments that the server renders, and times in the zone of the reader.

const two = (number) => String(number).padStart(2, "0");
const clock = (date) => [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
const day = (date) => [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-");

// The time of day; with the date, if that is not today or the element wants it.
export function localTimes(root) {
  const today = day(new Date());
  for (const element of root.querySelectorAll("time[datetime]")) {
    const date = new Date(element.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    const isFull = "full" in element.dataset;
    if (isFull || day(date) === today) element.textContent = isFull ? `${day(date)} ${clock(date)}` : clock(date);
    else element.textContent = `${day(date).slice(5)} ${clock(date).slice(0, 5)}`;
    element.title = element.dateTime;
  }
}

// The fragments of this page by name. The server escapes all data; scripts in a parsed document do not run.
export async function fetchFragments(names, signal) {
  const url = new URL(location.href);
  url.searchParams.set("fragment", names.join(","));
  const response = await fetch(url, { signal, headers: { accept: "text/html" } });
  if (!response.ok) throw new Error(`${response.status}`);
  const parsed = new DOMParser().parseFromString(await response.text(), "text/html");
  localTimes(parsed);
  return Object.fromEntries([...parsed.querySelectorAll("[data-fragment]")].map((part) => [part.dataset.fragment, part]));
}

// Changes `old` into `fresh` where they differ. Elements with the same id, and parts that readers opened, stay.
export function morph(old, fresh) {
  const wanted = [...fresh.childNodes];
  const byId = new Map([...old.children].filter((child) => child.id).map((child) => [child.id, child]));
  wanted.forEach((node, index) => {
    const place = old.childNodes[index];
    const same = node.id ? byId.get(node.id) : place && !place.id && place.nodeName === node.nodeName ? place : null;
    if (!same) return old.insertBefore(document.importNode(node, true), place || null);
    if (same !== place) old.insertBefore(same, place);
    return change(same, node);
  });
  while (old.childNodes.length > wanted.length) old.lastChild.remove();
}

function change(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  const isOpen = old.nodeName === "DETAILS" && old.open;
  if (old.isEqualNode(fresh)) return;
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  morph(old, fresh);
  if (isOpen) old.open = true;
}
