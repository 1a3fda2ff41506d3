// Charts of the summary, data, calibration, trade-off and search.
if (data.beside) {
  draws("beside", (width, caption) => namedBars(width, caption, data.beside.bars.map((each, k) => ({
    ...each, text: percent(each.value, 1), class: k ? "pale" : "like",
  })), percent));
}

for (const side of ["row", "column"]) {
  draws(`histogram-${side}`, (width, caption) => {
    const { labels, counts } = data.data.histograms[side];
    const most = Math.max(...counts);
    const f = frame(width, caption, {
      x: [0, labels.length], y: [0, most], xTicks: [], xName: `entries, each ${data.words[side]}`, yName: data.words[`${side}s`],
      yTicks: steps(0, most, 4).filter(Number.isInteger), say: (value) => value.toLocaleString("en"),
    });
    const each = f.x(1) - f.x(0);
    const every = Math.ceil(Math.max(...labels.map((label) => label.length)) * 7.5 / each);
    labels.forEach((label, k) => {
      f.svg.append(node("rect", {
        class: "like", x: f.x(k) + each * 0.08, width: each * 0.84, y: f.y(counts[k]), height: f.y(0) - f.y(counts[k]),
      }, node("title", null, `${label}: ${counts[k]}`)));
      if (k % every === 0) {
        f.svg.append(node("text", { x: f.x(k + 0.5), y: f.y(0) + 18, "text-anchor": "middle" }, label));
      }
    });
    return f.svg;
  });
}

draws("popularity", (width, caption) => {
  const f = frame(width, caption, {
    x: [0, 1], y: [0, 1], say: (value) => percent(value), xName: `share of ${data.words.columns} or ${data.words.rows}, most entries first`,
    yName: "share of entries",
  });
  f.svg.append(node("path", { class: "even", d: path([f.x(0), f.x(1)], [f.y(0), f.y(1)]) }));
  ["column", "row"].forEach((side, k) => {
    const { of, entries } = data.data.popularity[side];
    f.svg.append(
      node("path", { class: k ? "curve other" : "curve", d: path(of.map(f.x), entries.map(f.y)) }),
      node("rect", { class: k ? "other" : "like", x: f.x(0.62), y: f.y(0.22 - 0.1 * k) - 4, width: 16, height: 3 }),
      node("text", { x: f.x(0.62) + 22, y: f.y(0.22 - 0.1 * k) }, data.words[`${side}s`]),
    );
  });
  return f.svg;
});

if (data.calibration) {
  draws("calibration", (width, caption) => {
    const { predicted, observed, low, high, counts } = data.calibration;
    const f = frame(Math.min(width, 560), caption, {
      x: [0, 1], y: [0, 1], height: Math.min(420, 0.75 * width + 60), say: (value) => percent(value),
      xName: "predicted probability of a like", yName: "share of likes",
    });
    f.svg.append(node("path", { class: "even", d: path([f.x(0), f.x(1)], [f.y(0), f.y(1)]) }));
    f.svg.append(node("path", { class: "curve", d: path(predicted.map(f.x), observed.map(f.y)), opacity: 0.45 }));
    predicted.forEach((value, k) => {
      if (low[k] !== null) {
        f.svg.append(node("line", { class: "error", x1: f.x(value), x2: f.x(value), y1: f.y(low[k]), y2: f.y(high[k]) }));
      }
      f.svg.append(node("circle", { class: "like", cx: f.x(value), cy: f.y(observed[k]), r: 4 },
        node("title", null, `${counts[k]} entries: predicted ${percent(value, 1)}, observed ${percent(observed[k], 1)}`)));
    });
    return f.svg;
  });
}

if (data.accuracy) {
  const { curves, histogram, base_rate } = data.accuracy;
  // A square of shares with the curves of the model and of biases, and the point of the threshold 0.5.
  const shares = (name, xName, yName, x, y, from, to) => draws(name, (width, caption) => {
    const f = frame(Math.min(width, 460), caption, { x: [0, 1], y: [0, 1], height: Math.min(360, 0.8 * width + 40), say: (value) => percent(value), xName, yName });
    f.svg.append(node("path", { class: "even", d: path([f.x(0), f.x(1)], [f.y(from), f.y(to)]) }));
    Object.entries(curves).reverse().forEach(([name, curve]) => {
      const model = name === "model";
      f.svg.append(node("path", { class: model ? "curve" : "curve other", d: path(curve[x].map(f.x), curve[y].map(f.y)) }));
      if (model && curve.half !== null) {
        f.svg.append(node("circle", { class: "now", cx: f.x(curve[x][curve.half]), cy: f.y(curve[y][curve.half]), r: 5 }));
      }
    });
    Object.keys(curves).forEach((name, k) => {
      const at = f.y(0.2 - 0.09 * k);
      f.svg.append(
        node("rect", { class: k ? "other" : "like", x: f.x(0.4), y: at - 5, width: 16, height: 3 }),
        node("text", { x: f.x(0.4) + 22, y: at }, k ? `${data.words.row} and ${data.words.column} biases` : "model"),
      );
    });
    return f.svg;
  });
  shares("roc", "dislikes above the threshold", "likes above it (recall)", "false_likes", "recall", 0, 1);
  shares("precision", "recall", "precision", "recall", "precision", base_rate, base_rate);
  draws("predictions", (width, caption) => {
    const { likes, dislikes } = histogram;
    const most = Math.max(...likes, ...dislikes);
    const f = frame(width, caption, {
      x: [0, 1], y: [0, most], xName: "predicted probability of a like", yName: "test entries", sayX: (value) => percent(value),
      sayY: (value) => value.toLocaleString("en"), yTicks: steps(0, most, 4).filter(Number.isInteger), margin: { top: 30 },
    });
    [[likes, "like", "likes"], [dislikes, "other", "dislikes"]].forEach(([counts, kind, name], k) => {
      const each = (f.x(1) - f.x(0)) / counts.length;
      counts.forEach((n, bar) => f.svg.append(node("rect", {
        class: kind, x: f.x(0) + each * (bar + 0.08 + 0.42 * k), width: each * 0.42, y: f.y(n), height: f.y(0) - f.y(n),
      }, node("title", null, `${name}: ${n}`))));
      f.svg.append(
        node("rect", { class: kind, x: f.x(0) + 80 * k, y: 6, width: 10, height: 8 }),
        node("text", { x: f.x(0) + 80 * k + 16, y: 14 }, name),
      );
    });
    return f.svg;
  });
}

if (data.trade_off) {
  const { weights, reports, popularity, rows, lists, n } = data.trade_off;
  const slider = document.getElementById("weight");
  const chooser = document.getElementById("list-row");
  const [shown, found] = ["dislikes_shown", "likes_shown"].map((name) => reports.map((each) => each[name] / each.n_users));
  const popular = [popularity.dislikes_shown, popularity.likes_shown].map((each) => each / popularity.n_users);
  const again = draws("trade-off", (width, caption) => {
    const now = Number(slider.value);
    const f = frame(width, caption, {
      x: [0, 1.08 * Math.max(...shown, popular[0]) || 1], y: [0, 1.12 * Math.max(...found, popular[1]) || 1],
      xName: `test dislikes in a list of ${n}`, yName: "test likes",
    });
    f.svg.append(node("path", { class: "curve", d: path(shown.map(f.x), found.map(f.y)) }));
    weights.forEach((weight, k) => {
      f.svg.append(node("circle", { class: "like", cx: f.x(shown[k]), cy: f.y(found[k]), r: 3 }));
    });
    const [left, top] = [f.x(popular[0]), f.y(popular[1])];
    const flip = left > width - 90;
    f.svg.append(
      node("rect", { class: "pale", x: left - 4, y: top - 4, width: 8, height: 8 }),
      node("text", { x: left + (flip ? -10 : 10), y: top + 4, "text-anchor": flip ? "end" : "start" }, "popularity"),
      node("circle", { class: "now", id: "trade-off-mark", cx: f.x(shown[now]), cy: f.y(found[now]), r: 7 }),
      node("text", {
        class: "strong", x: f.x(shown[now]) - 12, y: f.y(found[now]) - 12, "text-anchor": "end",
      }, written(weights[now])),
    );
    return f.svg;
  });
  const showWeight = () => {
    const now = Number(slider.value);
    const report = reports[now];
    document.getElementById("weight-now").textContent = written(weights[now]);
    slider.setAttribute("aria-valuetext", `avoid_dislikes ${written(weights[now])}`);
    const ratio = report.dislikes_per_like === null ? "" : ` (${report.dislikes_per_like.toFixed(2)} for each like)`;
    document.getElementById("trade-off-now").textContent =
      `${report.likes_shown.toLocaleString("en")} test likes found and ` +
      `${report.dislikes_shown.toLocaleString("en")} dislikes shown${ratio} in the recommendations for ` +
      `${report.n_users.toLocaleString("en")} ${data.words.rows}; NDCG@${n} ${report.ndcg.toFixed(3)}.`;
    const items = lists[now][Number(chooser.value)].map(([name, likely, label]) => tag("li", null,
      named(name), tag("span", { class: "note" }, ` ${percent(likely)} `),
      label ? tag("span", { class: label > 0 ? "liked" : "disliked" },
        label > 0 ? "✓ test: liked" : "✗ test: disliked") : null));
    document.getElementById("list-now").replaceChildren(...items);
  };
  slider.addEventListener("input", () => { showWeight(); again(); });
  chooser.addEventListener("change", showWeight);
  showWeight();
}

if (data.search) {
  const { families, candidates, measure, view } = data.search;
  const colour = (family) => FAMILY_COLOURS[family] || "#8a8f98";
  const panel = document.getElementById("candidate-now");
  let kept = null;
  const redraws = [];
  const texts = candidates.map((each) =>
    `${each.chosen ? "chosen, " : ""}${measure} ${each.score.toFixed(4)}\n${each.settings}`);
  const choose = (k) => {
    kept = k;
    panel.textContent = `Candidate ${k + 1}: ${texts[k].replace("\n", "; ")}`;
    for (const again of redraws) again();
  };
  const dressed = (mark, k) => {
    if (candidates[k].chosen) mark.classList.add("chosen");
    if (k === kept) mark.classList.add("kept");
    return mark;
  };

  draws("families", (width, caption) => namedBars(width, caption, families.map((each) => ({
    name: each.chosen ? `${each.family} (chosen)` : each.family, value: each.score, text: each.score.toFixed(4),
    colour: colour(each.family), title: each.settings,
  }))));

  redraws.push(draws("candidates", (width, caption) => {
    const best = families.map((each) => each.score);
    const least = Math.min(...candidates.map((each) => each.score));
    const room = Math.max(Math.max(...best) - least, 1e-3 * Math.abs(least));
    const top = Math.max(...best) + 0.15 * room;
    const f = frame(width, caption, {
      role: "group", x: [0, candidates.length + 1], y: [least - 0.1 * room, top], xName: "candidates in order",
      yName: measure, margin: { top: 20 }, xTicks: steps(1, candidates.length, 4).filter((value) => value >= 1),
    });
    // Candidates far above the best of each family are triangles on the upper edge.
    const marks = candidates.map((each, k) => {
      const cx = f.x(k + 1);
      const made = each.score > top
        ? node("path", { d: `M${cx - 5},${f.y(top)}h10l-5,-9z`, fill: colour(each.family) })
        : node("circle", { cx, cy: f.y(each.score), r: each.chosen ? 7 : 5, fill: colour(each.family) });
      return dressed(made, k);
    });
    reachable(marks, texts, choose);
    f.svg.append(...marks);
    if (candidates.some((each) => each.score > top)) {
      f.svg.append(node("text", { x: width - f.margin.right, y: 10, "text-anchor": "end" }, "▲ above the frame"));
    }
    return f.svg;
  }));

  if (view) redraws.push(draws("mixtures", (width, caption) => {
    const side = Math.min(width - 20, 340);
    const height = side * Math.sqrt(0.75) + 110;
    const left = (width - side) / 2;
    const floor = 34 + side * Math.sqrt(0.75);
    const svg = node("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": caption });
    const place = ([, dislikes, likes]) => {
      const [a, b] = [dislikes / view, likes / view];
      return [left + side * ((1 - a - b) / 2 + b), 34 + (floor - 34) * (a + b)];
    };
    const corners = [[1, 0, 0], [1 - view, view, 0], [1 - view, 0, view]].map(place);
    for (const share of [0.25, 0.5, 0.75]) {
      const [a, b] = [[0, share * view, 0], [0, 0, share * view]].map(place);
      svg.append(node("path", { class: "grid", d: path([a[0], b[0]], [a[1], b[1]]) }));
    }
    svg.append(
      node("path", { class: "axis", d: `${path(corners.map((c) => c[0]), corners.map((c) => c[1]))}Z` }),
      node("text", { class: "strong", x: width / 2, y: 18, "text-anchor": "middle" }, "observed labels alone"),
      node("text", { x: left, y: floor + 18 }, `${percent(view)} as dislikes`),
      node("text", { x: left + side, y: floor + 18, "text-anchor": "end" }, `${percent(view)} as likes`),
    );
    const mixed = candidates.map((each, k) => k).filter((k) => candidates[k].shares);
    const scores = mixed.map((k) => candidates[k].score);
    const [low, high] = [Math.min(...scores), Math.max(...scores)];
    const ramp = [[37, 110, 205], [130, 150, 175], [190, 150, 100]];
    // The best candidates come last, above the others.
    mixed.sort((a, b) => candidates[b].score - candidates[a].score);
    const marks = mixed.map((k) => {
      const [cx, cy] = place(candidates[k].shares);
      return dressed(node("circle", {
        cx, cy, r: 6, fill: blend(ramp, (candidates[k].score - low) / ((high - low) || 1)),
      }), k);
    });
    reachable(marks, mixed.map((k) => texts[k]), (k) => choose(mixed[k]));
    svg.append(...marks);
    if (high > low) {
      svg.append(
        colourBar(width / 2 - 60, floor + 46, 120, ramp, low.toFixed(3), high.toFixed(3)),
        node("text", { x: width / 2, y: floor + 70, "text-anchor": "middle" }, measure),
      );
    }
    return svg;
  }));
}
