"use strict";
const form = document.querySelector("form");
const state = document.querySelector("#state");
const list = document.querySelector("#list");
const { row: ROW, column: COLUMN, columns: COLUMNS, rowName: ROW_NAME, columnName: COLUMN_NAME, entries } = form.dataset;
const hasEntries = entries === "yes";
let latest = 0; // a slow answer to an earlier search is not shown

function append(parent, tag, text, kind = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  element.className = kind;
  parent.append(element);
  return element;
}

function show(text, kind = "") {
  state.textContent = text;
  state.className = kind;
}

async function ask(path, body) {
  const headers = { "Content-Type": "application/json" };
  if (form.elements.token) headers.Authorization = `Bearer ${form.elements.token.value.trim()}`;
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  // Ids above 2^53 would lose digits as numbers.
  const text = (await response.text()).replace(/(?<!\\)":(-?\d{16,})(?=[,}])/g, '":"$1"');
  const found = JSON.parse(text);
  if (!response.ok) throw new Error(found.error);
  return found;
}

function percent(share) {
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)}%`;
}

async function explain(details, row, column) {
  const state = append(details, "p", "Computing\u2026", "soft");
  try {
    const found = await ask("explain", { row, column, n: 5 });
    state.textContent = found.entries.length
      ? `The ${found.entries.length} of ${found.n_entries} entries that change the probability most:`
      : `This ${ROW} has no entries.`;
    const reasons = append(details, "ul", "");
    for (const { [COLUMN_NAME]: name, label, probability_change: change } of found.entries) {
      const points = `${change < 0 ? "\u2212" : "+"}${Math.abs(100 * change).toFixed(1)} points`;
      const reason = append(reasons, "li", label > 0 ? "likes " : "dislikes ");
      append(reason, "bdi", name);
      reason.append(`: ${points}`);
    }
  } catch (error) {
    state.textContent = error.message;
    state.className = "error";
  }
}

function addItem(row, { [COLUMN_NAME]: column, probability }) {
  const item = append(list, "li", "");
  append(item, "bdi", column, "name");
  if (probability !== undefined && probability !== null) append(item, "span", ` ${percent(probability)}`, "soft");
  if (!hasEntries) return;
  const details = append(item, "details", "");
  append(details, "summary", "Reasons");
  details.addEventListener("toggle", () => explain(details, row, column), { once: true });
}

async function recommend(row) {
  const number = ++latest;
  list.replaceChildren();
  show("Computing\u2026", "soft");
  try {
    const body = { rows: [row], n: 10, unknown: "error", exclude_seen: hasEntries };
    const [found] = (await ask("recommend", body)).lists;
    if (number !== latest) return;
    for (const each of found.items) addItem(row, each);
    if (!found.items.length) show(`There is no ${COLUMN} left to recommend.`);
    else if (found.basis === "popularity") show(`This ${ROW} has no entries: the most popular ${COLUMNS}.`);
    else show(`Recommendations for ${ROW} ${row}`);
  } catch (error) {
    if (number === latest) show(error.message, "error");
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const row = form.elements.row.value.trim();
  history.replaceState(null, "", `?${new URLSearchParams({ [ROW_NAME]: row })}`);
  recommend(row);
});

const query = new URLSearchParams(location.search);
const given = query.get(ROW_NAME) ?? query.get("row");
if (given) {
  form.elements.row.value = given;
  if (!form.elements.token) recommend(given);
}
