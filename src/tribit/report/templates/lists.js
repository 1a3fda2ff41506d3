// Lists of rows with their reasons, looked up by name.
if (data.lookup) {
  const { rows, likes, dislikes, names, columns, probabilities, reasons } = data.lookup;
  const panel = document.getElementById("list-of-row");
  // The change has the sign of an explanation; a negative number is a disliked name.
  const reason = ([name, points]) => [name < 0 ? "disliked " : "liked ", named(names[name < 0 ? -1 - name : name]), ` (+${points.toFixed(1)} points)`];
  findsNames("lists", rows, (k) => {
    const items = columns[k].map((name, place) => tag("li", null,
      named(names[name]), tag("span", { class: "note" }, ` ${percent(probabilities[k][place])}`,
        ...(reasons[k] === null || !reasons[k][place].length ? [] : [", because: ", ...reasons[k][place].flatMap((each, n) => [n ? ", " : "", ...reason(each)])]))));
    const count = (n, label) => `${n.toLocaleString("en")} ${n === 1 ? label : `${label}s`}`;
    panel.replaceChildren(
      tag("strong", null, /^\d+$/.test(rows[k]) ? `For ${data.words.row} ` : "For ", named(rows[k])),
      tag("span", { class: "note" }, ` ${count(likes[k], "like")} and ${count(dislikes[k], "dislike")} so far`),
      items.length ? tag("ol", { class: "list" }, ...items) : tag("p", null, `Every ${data.words.column} was seen.`),
    );
  });
}
