// Maps of columns and of rows: hovering names a point, a click lists its nearest neighbours.
const SHARES = [[214, 106, 24], [150, 152, 160], [37, 116, 205]];

for (const side of ["columns", "rows"]) {
  const facts = data[side];
  if (!facts) continue;
  const { names, x, y, counts, shares, near, similarities } = facts;
  const panel = document.getElementById(`near-${side}`);
  const finder = document.getElementById(`find-${side}`);
  const points = names.slice(0, x.length);
  let kept = null;
  const texts = points.map((name, k) => {
    if (!counts) return name;
    const liked = shares ? `, ${percent(shares[k])} liked` : "";
    return `${name}\n${counts[k].toLocaleString("en")} ${counts[k] === 1 ? "entry" : "entries"}${liked}`;
  });
  const most = counts ? Math.max(...counts, 1) : 1;

  const again = draws(`map-${side}`, (width, caption) => {
    const height = Math.min(0.85 * width, 460);
    const svg = node("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": caption });
    const pad = 14;
    const bottom = shares ? 30 : 0;
    const [left, right, low, high] = [Math.min(...x), Math.max(...x), Math.min(...y), Math.max(...y)];
    // Equal scales in both directions preserve distances.
    const scale = Math.min((width - 2 * pad) / ((right - left) || 1), (height - bottom - 2 * pad) / ((high - low) || 1));
    const cx = (k) => width / 2 + (x[k] - (left + right) / 2) * scale;
    const cy = (k) => (height - bottom) / 2 - (y[k] - (low + high) / 2) * scale;
    svg.append(node("rect", {
      class: "axis", x: 0.5, y: 0.5, width: width - 1, height: height - bottom - 1, rx: 4,
    }));
    const close = new Set(kept === null ? [] : near[kept]);
    const marks = points.map((name, k) => {
      const r = counts ? 2.5 + 4 * Math.sqrt(counts[k] / most) : 4;
      const mark = node("circle", {
        cx: cx(k).toFixed(1), cy: cy(k).toFixed(1), r: r.toFixed(1),
        fill: blend(SHARES, shares ? shares[k] : 1), "fill-opacity": 0.85,
      });
      if (close.has(k)) mark.classList.add("near");
      if (k === kept) mark.classList.add("kept");
      return mark;
    });
    reachable(marks, texts, choose);
    svg.append(...marks);
    // Selected points come last, above the others; the keyboard order stays.
    svg.append(...marks.filter((mark, k) => close.has(k)), ...marks.filter((mark, k) => k === kept));
    if (shares) svg.append(colourBar(width / 2 - 60, height - 16, 120, SHARES, "0% liked", "100%"));
    return svg;
  });

  function choose(k) {
    kept = k;
    const items = near[k].map((other, place) => tag("li", null,
      named(names[other]), tag("span", { class: "note" }, ` ${similarities[k][place].toFixed(2)}`)));
    panel.replaceChildren(
      tag("strong", null, "Most similar to ", named(names[k])),
      tag("ol", null, ...items),
    );
    again();
  }

  document.getElementById(`names-${side}`).append(...points.map((name) => tag("option", { value: name })));
  finder.addEventListener("change", () => {
    const k = points.indexOf(finder.value.trim());
    if (k >= 0) choose(k);
    else if (finder.value.trim()) panel.textContent = `None of the ${data.words[side]} on the map has this name.`;
  });
}
