// Maps of columns and of rows, with search boxes: hovering names a point, a click lists its nearest neighbours.
const SHARES = [[214, 106, 24], [150, 152, 160], [37, 116, 205]];

// The number of suggestions of a search box.
const MAX_MATCHES = 12;

// A text for comparisons: without case, accents and runs of spaces.
function plain(text) {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().replace(/\s+/g, " ").trim();
}

// A search box with suggestions: names that contain every word, those that start with the text first. Arrow keys move,
// Enter and a click choose; Enter alone chooses the first.
function findsNames(side, names, choose) {
  const finder = document.getElementById(`find-${side}`);
  const list = document.getElementById(`matches-${side}`);
  const status = document.getElementById(`found-${side}`);
  const about = status.textContent;
  const keys = names.map(plain);
  let matches = [];
  let active = -1;

  function search(text) {
    const words = text.split(" ");
    const ranks = [[], [], []];
    keys.forEach((key, k) => {
      if (!words.every((word) => key.includes(word))) return;
      ranks[key.startsWith(text) ? 0 : key.includes(text) ? 1 : 2].push(k);
    });
    return ranks.flat();
  }
  function mark(place) {
    active = place;
    [...list.children].forEach((item, k) => item.setAttribute("aria-selected", k === place));
    if (place < 0) finder.removeAttribute("aria-activedescendant");
    else {
      finder.setAttribute("aria-activedescendant", list.children[place].id);
      list.children[place].scrollIntoView({ block: "nearest" });
    }
  }
  function close() {
    list.hidden = true;
    finder.setAttribute("aria-expanded", "false");
    mark(-1);
  }
  function take(k) {
    finder.value = names[k];
    close();
    choose(k);
  }
  function suggest() {
    const text = plain(finder.value);
    matches = text ? search(text) : [];
    list.replaceChildren(...matches.slice(0, MAX_MATCHES).map((k, place) => {
      const item = tag("li", { role: "option", id: `match-${side}-${place}`, "aria-selected": "false" }, named(names[k]));
      item.addEventListener("pointerdown", (event) => { event.preventDefault(); take(k); });
      return item;
    }));
    active = -1;
    finder.removeAttribute("aria-activedescendant");
    list.hidden = !matches.length;
    finder.setAttribute("aria-expanded", String(matches.length > 0));
    const n = matches.length.toLocaleString("en");
    if (!text) status.textContent = about;
    else if (!matches.length) status.textContent = `No match. ${about}`;
    else status.textContent = `${n} ${matches.length === 1 ? "match" : "matches"}${matches.length > MAX_MATCHES ? `, the first ${MAX_MATCHES} shown` : ""}.`;
  }
  finder.addEventListener("input", suggest);
  finder.addEventListener("blur", close);
  finder.addEventListener("keydown", (event) => {
    const n = list.children.length;
    if (event.key === "Enter" && matches.length) take(matches[Math.max(active, 0)]);
    else if (event.key === "Escape" && !list.hidden) close();
    else if (event.key === "ArrowDown" && n) { list.hidden = false; mark((active + 1) % n); }
    else if (event.key === "ArrowUp" && n) { list.hidden = false; mark(active > 0 ? active - 1 : n - 1); }
    else return;
    event.preventDefault();
  });
}

for (const side of ["columns", "rows"]) {
  const facts = data[side];
  if (!facts) continue;
  const { names, x, y, counts, shares, near, similarities, drawn, searched } = facts;
  const panel = document.getElementById(`near-${side}`);
  let kept = null;
  const texts = names.map((name, k) => {
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
    // Beside those of the map: the chosen point and its neighbours.
    const shown = names.map((name, k) => k).filter((k) => k < drawn || k === kept || close.has(k));
    const marks = shown.map((k) => {
      const r = counts ? 2.5 + 4 * Math.sqrt(counts[k] / most) : 4;
      const mark = node("circle", {
        cx: cx(k).toFixed(1), cy: cy(k).toFixed(1), r: r.toFixed(1),
        fill: blend(SHARES, shares ? shares[k] : 1), "fill-opacity": 0.85,
      });
      if (close.has(k)) mark.classList.add("near");
      if (k === kept) mark.classList.add("kept");
      return mark;
    });
    reachable(marks, shown.map((k) => texts[k]), (place) => choose(shown[place]));
    svg.append(...marks);
    // Selected points come last, above the others; the keyboard order stays.
    svg.append(...marks.filter((mark, place) => close.has(shown[place])), ...marks.filter((mark, place) => shown[place] === kept));
    if (shares) svg.append(colourBar(width / 2 - 60, height - 16, 120, SHARES, "0% liked", "100%"));
    return svg;
  });

  function choose(k) {
    if (k >= searched) return;  // a neighbour whose own neighbours the page lacks
    kept = k;
    const items = near[k].map((other, place) => tag("li", null,
      named(names[other]), tag("span", { class: "note" }, ` ${similarities[k][place].toFixed(2)}`)));
    panel.replaceChildren(
      tag("strong", null, "Most similar to ", named(names[k])),
      tag("ol", null, ...items),
    );
    again();
  }

  findsNames(side, names.slice(0, searched), choose);
}
