// Maps of columns and of rows, with search boxes: hovering names a point, a click lists its nearest neighbours.
const SHARES = [[214, 106, 24], [150, 152, 160], [37, 116, 205]];

// The number of suggestions of a search box, that of labels of a map, and the distance of a pointer from its point in pixels.
const MAX_MATCHES = 12;
const N_LABELS = 20;
const REACH = 22;

// Labels beside points, the first ones first, where they overlap no other; each as [text, left, top].
function labels(wanted, width, bottom) {
  const layer = node("g", { class: "labels", "aria-hidden": "true" });
  const taken = [];
  for (const [text, left, top] of wanted) {
    const wide = 6.1 * text.length;
    const spots = [0, 12, -12, 24, -24, 36, -36].flatMap((down) => [[left + 8, top + down], [left - 8 - wide, top + down], [left - wide / 2, top + down + (down < 0 ? -4 : 14)]]);
    const free = spots.find(([from, at]) => from >= 18 && from + wide <= width - 4 && at >= 12 && at <= bottom - 6
      && taken.every(([other, height, length]) => from > other + length || from + wide < other || Math.abs(at - height) > 12));
    if (!free) continue;
    taken.push([...free, wide]);
    layer.append(node("text", { x: free[0].toFixed(1), y: (free[1] + 4).toFixed(1) }, text));
  }
  return layer;
}

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

  const holder = document.getElementById(`chart-map-${side}`);
  if (!holder) continue;
  const bounds = [x, y].map((each) => each.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]));
  const middle = bounds.map(([low, high]) => (low + high) / 2);
  const order = names.map((name, k) => k).sort((i, j) => (counts ? counts[j] - counts[i] : i - j));
  // The centre and the magnification, and what the last drawing showed where.
  let view = { x: middle[0], y: middle[1], zoom: 1 };
  let scale = 1;
  let places = [];

  const again = draws(`map-${side}`, (width, caption) => {
    const height = Math.min(0.85 * width, 460);
    const svg = node("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": caption });
    const pad = 14;
    const bottom = height - (shares ? 48 : 20);
    // Equal scales in both directions preserve distances.
    scale = view.zoom * Math.min(...bounds.map(([low, high], k) => ((k ? bottom : width) - 2 * pad) / ((high - low) || 1)));
    const at = (k) => [width / 2 + (x[k] - view.x) * scale, bottom / 2 - (y[k] - view.y) * scale];
    svg.append(
      node("rect", { class: "axis", x: 0.5, y: 0.5, width: width - 1, height: bottom - 1, rx: 4 }),
      node("text", { x: width / 2, y: bottom + 15, "text-anchor": "middle" }, `axis 1 →  (${percent(facts.axes[0].share)} of the variance)`),
    );
    if (facts.axes[1]) {
      svg.append(node("text", {
        transform: `translate(13 ${bottom / 2}) rotate(-90)`, "text-anchor": "middle",
      }, `axis 2 →  (${percent(facts.axes[1].share)})`));
    }
    const close = new Set(kept === null ? [] : near[kept]);
    const inside = ([left, top]) => left >= 4 && left <= width - 4 && top >= 4 && top <= bottom - 4;
    // Beside those of the map: the chosen point and its neighbours.
    const shown = names.map((name, k) => k).filter((k) => (k < drawn || k === kept || close.has(k)) && inside(at(k)));
    const marks = shown.map((k) => {
      const r = counts ? 2.5 + 4 * Math.sqrt(counts[k] / most) : 4;
      const [cx, cy] = at(k).map((value) => value.toFixed(1));
      const mark = node("circle", { cx, cy, r: r.toFixed(1), fill: blend(SHARES, shares ? shares[k] : 1), "fill-opacity": 0.85 });
      if (close.has(k)) mark.classList.add("near");
      if (k === kept) mark.classList.add("kept");
      return mark;
    });
    reachable(marks, shown.map((k) => texts[k]), (place) => choose(shown[place]));
    places = shown.map((k, place) => ({ k, mark: marks[place], at: at(k) }));
    svg.append(...marks);
    // Selected points come last, above the others; the keyboard order stays.
    svg.append(...marks.filter((mark, place) => close.has(shown[place])), ...marks.filter((mark, place) => shown[place] === kept));
    const visible = new Set(shown);
    const first = kept === null ? [] : [kept, ...near[kept]];
    const labelled = [...new Set([...first, ...order])].filter((k) => visible.has(k)).slice(0, N_LABELS + first.length);
    svg.append(labels(labelled.map((k) => [short(names[k], width < 500 ? 16 : 24), ...at(k)]), width, bottom));
    if (shares) svg.append(colourBar(width / 2 - 60, height - 16, 120, SHARES, "0% liked", "100%"));
    return svg;
  });

  function look(change) {
    view = { ...view, ...change };
    if (view.zoom <= 1) view = { x: middle[0], y: middle[1], zoom: 1 };
    holder.classList.toggle("zoomed", view.zoom > 1);
    hideHint();
    again();
  }
  for (const [name, by] of [["in", 1.6], ["out", 1 / 1.6], ["whole", 0]]) {
    document.getElementById(`zoom-${name}-${side}`).addEventListener("click", () => {
      const centre = by > 1 && kept !== null ? { x: x[kept], y: y[kept] } : {};
      look({ ...centre, zoom: Math.min(view.zoom * by, 40) });
    });
  }

  // Points are small: the nearest one within REACH is under the pointer.
  function nearest(event) {
    const box = holder.getBoundingClientRect();
    const far = ({ at: [left, top] }) => Math.hypot(left + box.left - event.clientX, top + box.top - event.clientY);
    const best = places.reduce((found, each) => (!found || far(each) < far(found) ? each : found), null);
    return best && far(best) <= REACH ? best : null;
  }
  let drag = null;
  let moved = false;
  holder.addEventListener("pointerdown", (event) => {
    moved = false;
    drag = view.zoom > 1 ? { left: event.clientX, top: event.clientY, x: view.x, y: view.y } : null;
  });
  window.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [right, down] = [event.clientX - drag.left, event.clientY - drag.top];
    if (!moved && Math.hypot(right, down) < 5) return;
    moved = true;
    look({ x: drag.x - right / scale, y: drag.y + down / scale });
  });
  window.addEventListener("pointerup", () => { drag = null; });
  window.addEventListener("pointercancel", () => { drag = null; });
  holder.addEventListener("pointermove", (event) => {
    if (drag) return;
    const found = nearest(event);
    if (found) showHint(found.mark, texts[found.k]);
    else hideHint();
  });
  holder.addEventListener("pointerleave", hideHint);
  holder.addEventListener("click", (event) => {
    const found = moved || event.target.classList.contains("mark") ? null : nearest(event);
    if (found) choose(found.k);
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
    if (places.some((each) => each.k === k)) again();
    else look({ x: x[k], y: y[k] });
  }

  findsNames(side, names.slice(0, searched), choose);
}
