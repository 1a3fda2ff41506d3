// Downloads of all numbers of the page: as JSON, or as one long table of sections, rows, measures and values.
const LABELS = ["names", "rows", "labels", "weights", "thresholds"];

// Values of nested facts with their row and measure. Rows of an array have the names beside it, their own, or numbers.
function* longRows(value, row, measure, labels = null) {
  if (value === null) return;
  if (Array.isArray(value)) {
    for (const [k, each] of value.entries()) {
      const own = each !== null && typeof each === "object" ? each.title ?? each.name : undefined;
      yield* longRows(each, [...row, labels ? labels[k] : own ?? k + 1], measure);
    }
  } else if (typeof value === "object") {
    for (const [key, each] of Object.entries(value)) {
      const beside = LABELS.find((name) => name !== key && Array.isArray(each) && value[name]?.length === each.length && typeof value[name][0] !== "object");
      yield* longRows(each, row, [...measure, key], beside ? value[beside] : null);
    }
  } else yield [row.join(" / "), measure.join("."), value];
}

// The same facts with names in the place of their numbers.
function withNames({ lookup, ...facts }) {
  for (const side of ["columns", "rows"]) {
    if (facts[side]) facts[side] = { ...facts[side], near: facts[side].near.map((each) => each.map((k) => facts[side].names[k])) };
  }
  if (lookup) {
    const { rows, names, columns, probabilities, reasons } = lookup;
    const why = (each) => each.map(([name, points]) => `${name < 0 ? "disliked" : "liked"} ${names[name < 0 ? -1 - name : name]} (+${points.toFixed(1)} points)`).join(", ");
    facts.lookup = { rows, lists: columns.map((list, k) => list.map((name, place) => ({
      [data.words.column]: names[name], probability: probabilities[k][place], because: reasons[k] ? why(reasons[k][place]) : null,
    }))) };
  }
  return facts;
}

function asCsv(facts) {
  const cell = (value) => (/[",\n\r]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
  const lines = ["section,row,measure,value"];
  for (const [section, each] of Object.entries(withNames(facts))) {
    for (const found of longRows(each, [], [])) lines.push([section, ...found].map(cell).join(","));
  }
  return `${lines.join("\n")}\n`;
}

for (const [ending, type, text] of [
  ["json", "application/json", () => JSON.stringify(data, null, 1)],
  ["csv", "text/csv", () => asCsv(data)],
]) {
  document.getElementById(`download-${ending}`).addEventListener("click", () => {
    const address = URL.createObjectURL(new Blob([text()], { type }));
    tag("a", { href: address, download: `report.${ending}` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  });
}
