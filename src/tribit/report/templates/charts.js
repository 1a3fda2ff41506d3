"use strict";
// Shared parts of charts: nodes, scales, axes, and marks for pointer and keyboard. Texts of users enter the page only as
// text nodes.
const data = JSON.parse(document.getElementById("report-data").textContent);
const FAMILY_COLOURS = {
  "intercepts": "#8a8f98", "factors": "#3b82d0", "implicit features": "#2e9e6b", "side features": "#12a0a8",
  "implicit and side features": "#6a8f1f", "mixture": "#d9820d", "mixture with implicit features": "#d0503f",
};
const drawings = [];

function node(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  return filled(made, attributes, children);
}

function tag(name, attributes, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function filled(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function named(text) {
  return tag("bdi", null, String(text));
}

function percent(share, digits = 0) {
  return `${(100 * share).toFixed(digits)}%`;
}

function short(text, most) {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

// Draw a chart, again whenever its width changes; the caller keeps the selection.
function draws(name, draw) {
  const holder = document.getElementById(`chart-${name}`);
  if (!holder) return () => {};
  let width = 0;
  const again = () => {
    if (!holder.clientWidth) return;  // hidden, as between two layouts
    const focused = holder.contains(document.activeElement) ? document.activeElement.dataset.number : null;
    width = holder.clientWidth;
    const caption = holder.parentElement.querySelector("figcaption").textContent.replace(/\s+/g, " ");
    holder.replaceChildren(draw(width, caption));
    if (focused) holder.querySelector(`[data-number="${focused}"]`)?.focus();
  };
  new ResizeObserver(() => { if (holder.clientWidth !== width) again(); }).observe(holder);
  again();
  drawings.push(again);
  return again;
}

function steps(low, high, n) {
  if (!(high > low)) high = low + 1;
  const rough = (high - low) / n;
  const ten = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * ten).find((each) => each >= rough * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) found.push(k * step + 0);
  return found;
}

function written(value) {
  return String(Number(value.toPrecision(4)));
}

// The value at which bars start: zero, unless all are so near one another that their differences would not be seen.
function startOfBars(least, most) {
  if (least < 0.7 * most || most - least < 1e-9) return 0;
  const [first, second] = steps(least - 0.5 * (most - least), most, 6);
  return Math.max(0, first - (second - first));
}

// Horizontal bars, each with its name above and its value at the end. Those that do not start at zero have an axis.
function namedBars(width, caption, bars, say = written) {
  const least = Math.min(...bars.map((each) => Math.min(each.value, each.high ? each.low : each.value)));
  const most = Math.max(...bars.map((each) => Math.max(each.value, each.high || 0)), 1e-12);
  const start = startOfBars(least, most);
  const foot = 40 * bars.length + 4;
  const height = foot + (start ? 24 : 0);
  const x = line([start, most], [0, width - 64]);
  const svg = node("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": caption });
  if (start) {
    const ticks = steps(start, most, 6).filter((_, k) => k % 2 === 0);
    for (const tick of ticks) {
      svg.append(
        node("line", { class: "grid", x1: x(tick), x2: x(tick), y1: 0, y2: foot }),
        node("text", { class: "tick", x: x(tick), y: foot + 16, "text-anchor": tick === ticks[0] ? "start" : "middle" }, say(tick)),
      );
    }
  }
  bars.forEach((each, k) => {
    const y = 40 * k;
    svg.append(
      node("text", { class: "strong", x: 0, y: y + 14 }, each.name),
      node("rect", {
        x: 0, y: y + 19, width: Math.max(x(each.value), 1), height: 12, fill: each.colour, class: each.class,
      }, node("title", null, each.title || each.name)),
      node("text", { x: x(Math.max(each.value, each.high || 0)) + 8, y: y + 30 }, each.text),
    );
    if (each.high) {
      const [from, to] = [x(each.low), x(each.high)];
      svg.append(node("path", { class: "whisker", d: `M${from},${y + 25}H${to}M${from},${y + 21}v8M${to},${y + 21}v8` }));
    }
  });
  return svg;
}

function line(from, to) {
  const slope = (to[1] - to[0]) / ((from[1] - from[0]) || 1);
  return (value) => to[0] + (value - from[0]) * slope;
}

// A frame with two axes: returns the svg, the layer to draw in, and the scales.
function frame(width, caption, options) {
  const margin = { left: 52, right: 14, top: 12, bottom: 44, ...(options.margin || {}) };
  const height = options.height || Math.min(320, Math.max(220, 0.62 * width));
  const x = line(options.x, [margin.left, width - margin.right]);
  const y = line(options.y, [height - margin.bottom, margin.top]);
  const svg = node("svg", {
    width, height, viewBox: `0 0 ${width} ${height}`, role: options.role || "img", "aria-label": caption,
  });
  const say = options.say || written;
  for (const value of options.yTicks || steps(...options.y, 4)) {
    svg.append(
      node("line", { class: "grid", x1: margin.left, x2: width - margin.right, y1: y(value), y2: y(value) }),
      node("text", { x: margin.left - 8, y: y(value) + 4, "text-anchor": "end" }, (options.sayY || say)(value)),
    );
  }
  for (const value of options.xTicks || steps(...options.x, width < 420 ? 4 : 6)) {
    svg.append(node("text", {
      x: x(value), y: height - margin.bottom + 18, "text-anchor": "middle",
    }, (options.sayX || say)(value)));
  }
  const bottom = height - margin.bottom;
  svg.append(node("path", { class: "axis", d: `M${margin.left},${bottom}H${width - margin.right}` }));
  svg.append(node("text", {
    x: (margin.left + width - margin.right) / 2, y: height - 6, "text-anchor": "middle",
  }, options.xName));
  if (options.yName) {
    svg.append(node("text", {
      transform: `translate(13 ${(margin.top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle",
    }, options.yName));
  }
  return { svg, x, y, width, height, margin };
}

function path(xs, ys) {
  return xs.map((value, k) => `${k ? "L" : "M"}${value.toFixed(1)},${ys[k].toFixed(1)}`).join("");
}

// A hint beside the pointer or the focused mark.
const hint = document.getElementById("hint");
function showHint(mark, text) {
  hint.textContent = text;
  hint.hidden = false;
  const box = mark.getBoundingClientRect();
  const left = Math.min(box.left + 12, document.documentElement.clientWidth - hint.offsetWidth - 8);
  hint.style.left = `${Math.max(8, left) + window.scrollX}px`;
  const above = box.top - hint.offsetHeight - 8;
  hint.style.top = `${(above > 0 ? above : box.bottom + 8) + window.scrollY}px`;
}
function hideHint() {
  hint.hidden = true;
}
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideHint(); });

// Marks of one chart are one stop of the Tab key; arrow keys move among them, Enter and Space choose.
function reachable(marks, texts, choose) {
  marks.forEach((mark, k) => {
    mark.classList.add("mark");
    mark.dataset.number = k;
    mark.setAttribute("tabindex", k === 0 ? "0" : "-1");
    mark.setAttribute("role", "button");
    mark.setAttribute("aria-label", texts[k].replaceAll("\n", ", "));
    mark.addEventListener("pointerenter", () => showHint(mark, texts[k]));
    mark.addEventListener("pointerleave", hideHint);
    mark.addEventListener("focus", () => {
      for (const other of marks) other.setAttribute("tabindex", other === mark ? "0" : "-1");
      showHint(mark, texts[k]);
    });
    mark.addEventListener("blur", hideHint);
    mark.addEventListener("click", () => choose(k));
    mark.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (step) marks[(k + step + marks.length) % marks.length].focus();
      else if (event.key === "Home") marks[0].focus();
      else if (event.key === "End") marks[marks.length - 1].focus();
      else if (event.key === "Enter" || event.key === " ") choose(k);
      else return;
      event.preventDefault();
    });
  });
}

// An interpolated colour, visible on light and dark pages.
function blend(colours, share) {
  const at = Math.min(Math.max(share, 0), 1) * (colours.length - 1);
  const k = Math.min(Math.floor(at), colours.length - 2);
  const mixed = colours[k].map((value, c) => Math.round(value + (at - k) * (colours[k + 1][c] - value)));
  return `rgb(${mixed.join(",")})`;
}

// A colour bar with labels at its ends.
function colourBar(x, y, width, colours, low, high) {
  const group = node("g", { "aria-hidden": "true" });
  const n = 24;
  for (let k = 0; k < n; k += 1) {
    group.append(node("rect", {
      x: x + k * width / n, y, width: width / n + 0.5, height: 8, fill: blend(colours, k / (n - 1)),
    }));
  }
  group.append(
    node("text", { x: x - 6, y: y + 8, "text-anchor": "end" }, low),
    node("text", { x: x + width + 6, y: y + 8 }, high),
  );
  return group;
}
