"""Sections of the page: words, tables, and the places of the charts that the script draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tribit.metrics.evaluation import Evaluation
from tribit.report.markup import Raw, chart, element, joined, name_of, paragraphs, table
from tribit.report.names import percent

Facts = Mapping[str, Any]


def section(name: str, title: str, *children: Any) -> Raw:
    """Return a section that the contents of the page can point to."""
    heading = f"{name}-title"
    return element(
        "section", element("h2", title, id=heading), *children, id=name, aria_labelledby=heading
    )


def summary(texts: list[str], notes: tuple[str, ...], found: Evaluation) -> Raw:
    """Return the opening: plain words, and the measures beside the baselines."""
    return section(
        "summary",
        "Summary",
        paragraphs(texts),
        _measures(found),
        paragraphs(notes, class_="note"),
    )


def _measures(found: Evaluation) -> Raw:
    titles, values = found.titles(), found.measures()
    names = list(found.baselines)
    rows = []
    for name, value in values.items():
        theirs = [found.baselines[each].measures.get(name) for each in names]
        if name == "accuracy" or value is None or not found.tells(name):
            continue
        low, high = found.intervals.get(name, (None, None))
        about = "" if low is None else f"{low:.3f} to {high:.3f}"
        others = ["" if each is None else f"{each:.3f}" for each in theirs]
        rows.append([titles[name], f"{value:.3f}", about, *others])
    head = ["measure", "model", f"{100 * found.level:g}% interval", *names]
    return table("Measures on held-out entries", head, rows)


def data(facts: Facts | None, text: str) -> Raw:
    """Return density, histograms and popularity."""
    if facts is None:
        return section("data", "Data", paragraphs([text]))
    charts = []
    for side in ("row", "column"):
        bars = facts["histograms"][side]
        pairs = zip(bars["labels"], bars["counts"], strict=True)
        charts.append(
            chart(
                f"histogram-{side}",
                f"Entries of a {side}: how many {side}s have so many. The median is {facts['median'][side]:g}.",
                alternative=table(
                    f"Entries of a {side}", ["entries", f"{side}s"], [[a, f"{b:,}"] for a, b in pairs]
                ),
            )
        )
    curves = facts["popularity"]
    tenths = range(0, len(curves["column"]["of"]), 4)
    rows = [
        [percent(curves["column"]["of"][k], 0)]
        + [percent(curves[side]["entries"][k]) for side in ("column", "row")]
        for k in tenths
    ]
    charts.append(
        chart(
            "popularity",
            f"Popularity: the tenth of the columns with the most entries has {percent(facts['head']['column'], 0)} of all "
            f"entries, the tenth of the rows with the most {percent(facts['head']['row'], 0)}. The dotted line is an "
            "even spread.",
            alternative=table(
                "Share of all entries", ["those with most", "of columns", "of rows"], rows
            ),
        )
    )
    return section(
        "data", "Data", paragraphs([text]), element("div", *charts, class_="charts")
    )


def calibration(facts: Facts | None) -> Raw:
    """Return the reliability curve."""
    title = "Can the probabilities be trusted?"
    if facts is None:
        why = "The held-out entries have one label alone, of which no curve of reliability can be drawn."
        return section("calibration", title, paragraphs([why]))
    rows = [
        [f"{p:.3f}", f"{o:.3f}", "" if low is None else f"{low:.3f} to {high:.3f}", f"{n:,}"]
        for p, o, low, high, n in zip(
            *(facts[name] for name in ("predicted", "observed", "low", "high", "counts")), strict=True
        )
    ]
    caption = (
        "Share of likes among held-out entries of like probability, with 95% intervals over rows. On the dotted line "
        f"said and seen agree; the mean distance from it is {facts['error']:.3f}."
    )
    numbers = table(
        "Reliability", ["probability of a like", "share of likes", "95% interval", "entries"], rows
    )
    return section("calibration", title, chart("calibration", caption, alternative=numbers))


def trade_off(facts: Facts | None, text: str | None) -> Raw:
    """Return the slider of ``avoid_dislikes``, what it costs and what it brings."""
    title = "Likes found, dislikes shown"
    if facts is None:
        why = "There is no trade-off to show: it takes a ranker, held-out likes, and dislikes among the entries."
        return section("trade-off", title, paragraphs([text, why] if text else [why]))
    first = facts["weights"].index(1.0)
    slider = element(
        "input",
        type="range",
        id="weight",
        min="0",
        max=len(facts["weights"]) - 1,
        step="1",
        value=first,
        aria_describedby="trade-off-now",
    )
    options = [
        element("option", name, value=number) for number, name in enumerate(facts["rows"])
    ]
    controls = element(
        "div",
        element("label", "avoid_dislikes ", element("output", "1", id="weight-now"), for_="weight"),
        slider,
        element("p", id="trade-off-now", role="status"),
        class_="controls",
    )
    lists = element(
        "div",
        element("label", "List of ", element("select", *options, id="list-row"), for_="list-row"),
        element("ol", id="list-now", class_="list", aria_label="The list at this weight"),
        class_="controls",
    )
    rows = [
        [
            f"{weight:g}",
            f"{report['likes_shown']:,}",
            f"{report['dislikes_shown']:,}",
            "" if report["dislikes_per_like"] is None else f"{report['dislikes_per_like']:.3f}",
            f"{report['ndcg']:.3f}",
            f"{report['recall']:.3f}",
        ]
        for weight, report in zip(facts["weights"], facts["reports"], strict=True)
    ]
    n = facts["n"]
    numbers = table(
        f"Lists of {n} for {facts['reports'][0]['n_users']:,} rows",
        ["avoid_dislikes", "likes found", "dislikes shown", "dislikes per like", f"NDCG@{n}", "recall"],
        rows,
    )
    about = (
        "avoid_dislikes says how many likes one would give up to avoid a dislike. Most of a list was never rated by its "
        "row, so that likes found are few; what counts is how they change with the weight."
    )
    caption = "Held-out likes found and held-out dislikes shown in a list, on average, over the weights."
    return section(
        "trade-off",
        title,
        paragraphs([text, about] if text else [about]),
        element(
            "div",
            chart("trade-off", caption, controls, alternative=numbers),
            lists,
            class_="pair",
        ),
    )


def search(facts: Facts | None, text: str) -> Raw:
    """Return the kinds of models and every candidate."""
    if facts is None:
        return section("search", "How it was chosen", paragraphs([text]))
    rows = [
        [each["name"], f"{each['score']:.4f}", each["settings"]] for each in facts["families"]
    ]
    families = chart(
        "families",
        f"The least {facts['measure']} of each kind of model on held-out entries; less is better.",
        alternative=table("Best of each kind", ["kind", facts["measure"], "settings"], rows),
    )
    every = [
        [k, each["family"], f"{each['score']:.4f}", each["settings"]]
        for k, each in enumerate(facts["candidates"], start=1)
    ]
    candidates = chart(
        "candidates",
        "Every candidate in the order of trying; the ring is the one that was chosen. Hover for its settings, click (or "
        "Enter; arrow keys move) to keep them below.",
        alternative=table("Candidates", ["", "kind", facts["measure"], "settings"], every),
    )
    charts = [families, candidates]
    if facts["view"] is not None:
        charts.append(
            chart(
                "mixtures",
                "What the mixtures learn from: the shares of observed signs, of unobserved entries counted as dislikes, "
                "and counted as likes. The bluer, the better.",
            )
        )
    panel = element("p", "No candidate is chosen yet.", id="candidate-now", role="status", class_="panel")
    return section(
        "search", "How it was chosen", paragraphs([text]), element("div", *charts, class_="charts"), panel
    )


def maps(columns: Facts | None, rows: Facts | None) -> Raw:
    """Return the maps of columns and of rows."""
    title = "Maps of columns and rows"
    if columns is None and rows is None:
        why = "There is no map: the model has effects of rows and columns alone, or too few of them."
        return section("maps", title, paragraphs([why]))
    parts = []
    for side, facts in (("columns", columns), ("rows", rows)):
        if facts is None:
            continue
        some = len(facts["x"])
        which = f"all {some:,}" if some == facts["of"] else f"the {some:,} with the most entries of {facts['of']:,}"
        caption = (
            f"{side.capitalize()} ({which}): near one another where their scores go together. The two directions keep "
            f"{percent(facts['kept'], 0)} of the differences. Click a point (or Enter; arrow keys move) for those like it."
        )
        finder = element(
            "label",
            f"Find one of the {side} ",
            element("input", type="search", id=f"find-{side}", list=f"names-{side}", autocomplete="off"),
            element("datalist", id=f"names-{side}"),
            for_=f"find-{side}",
        )
        panel = element("div", id=f"near-{side}", class_="panel", role="status")
        parts.append(element("div", chart(f"map-{side}", caption, finder, panel)))
    return section("maps", title, element("div", *parts, class_="charts"))


def unusual(facts: Facts) -> Raw:
    """Return rows and columns that stand out."""
    title = "Unusual rows and columns"
    tables = []
    for side, found in facts["worst"].items():
        if found:
            rows = [[name_of(each["name"]), each["n"], f"{each['loss']:.2f}"] for each in found]
            caption = f"{side.capitalize()} predicted worst"
            tables.append(table(caption, ["", "held-out entries", "mean log-loss"], rows))
    for side, found in facts["one_sided"].items():
        if found:
            rows = [
                [name_of(each["name"]), each["n"], percent(each["likes"] / each["n"], 0)]
                for each in found
            ]
            caption = f"Most one-sided {side}"
            tables.append(table(caption, ["", "entries", "likes"], rows))
    if not tables:
        why = "Nothing stands out: with one label alone, or a single row and column, there is nothing to compare."
        return section("unusual", title, paragraphs([why]))
    about = "Means of few entries are drawn to that of all before rows are compared, as chance alone makes them extreme."
    return section("unusual", title, paragraphs([about]), element("div", *tables, class_="tables"))


def examples(facts: list[dict[str, Any]]) -> Raw:
    """Return lists with their reasons."""
    title = "Examples of lists, with reasons"
    if not facts:
        why = "Lists and reasons need the entries, which the model does not keep."
        return section("examples", title, paragraphs([why]))
    cards = []
    for each in facts:
        head = element("h3", "For ", name_of(each["row"]))
        counts = element("p", f"{each['likes']:,} likes and {each['dislikes']:,} dislikes so far.", class_="note")
        items = [element("li", _listed(column)) for column in each["columns"]]
        body = element("ol", *items, class_="list") if items else element("p", "It has seen every column.")
        cards.append(element("article", head, counts, body))
    about = (
        "The best columns that the row has not seen, with the probability of a like (and its 90% interval), and the "
        "entries of the row that speak most for a column and against it."
    )
    return section("examples", title, paragraphs([about]), element("div", *cards, class_="cards"))


def _listed(column: Facts) -> Raw:
    likely = percent(column["probability"], 0)
    if column["lower"] == column["lower"]:
        likely += f" ({percent(column['lower'], 0)} to {percent(column['upper'], 0)})"
    reasons = [
        element(
            "li",
            "for: " if each["contribution"] > 0 else "against: ",
            "liked " if each["label"] > 0 else "disliked ",
            name_of(each["name"]),
            f" ({100 * each['change']:+.1f} points)",
        )
        for each in column["reasons"] or ()
    ]
    return joined(
        [
            name_of(column["name"]),
            element("span", f" {likely}", class_="note"),
            element("ul", *reasons) if reasons else None,
        ]
    )


def limits(texts: list[str]) -> Raw:
    """Return what the model is not for."""
    return section("limits", "Not for", element("ul", *(element("li", text) for text in texts)))


