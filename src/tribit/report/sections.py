"""Sections of the page: words, tables, and the places of the charts that the script draws."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tribit.evaluation import Evaluation
from tribit.report.markup import Raw, chart, element, joined, name_of, paragraphs, table
from tribit.report.names import percent, signed
from tribit.report.sentences import EFFECTS
from tribit.report.wording import Wording, a

Facts = Mapping[str, Any]


def section(name: str, title: str, *children: Any) -> Raw:
    """Return a section that the contents of the page can point to."""
    heading = f"{name}-title"
    return element(
        "section", element("h2", title, id=heading), *children, id=name, aria_labelledby=heading
    )


def summary(
    texts: list[str],
    notes: tuple[str, ...],
    found: Evaluation,
    beside: Facts | None,
    words: Wording,
) -> Raw:
    """Return the opening: plain words, and the measures beside the baselines."""
    picture = None
    if beside is not None:
        title = beside["measure"]
        better = "less" if beside["less_is_better"] else "more"
        picture = chart(
            "beside", f"{title[0].upper()}{title[1:]} on held-out entries; {better} is better."
        )
    return section(
        "summary",
        "Summary",
        element(
            "div",
            element("div", paragraphs(texts), paragraphs(notes, class_="note")),
            element("div", picture, _measures(found, words)),
            class_="pair",
        ),
    )


def _measures(found: Evaluation, words: Wording) -> Raw:
    titles, values = found.titles(), found.measures()
    names = list(found.baselines)
    rows = []
    for name, value in values.items():
        theirs = [found.baselines[each].measures.get(name) for each in names]
        if name == "accuracy" or value is None or math.isnan(value) or not found.tells(name):
            continue
        low, high = found.intervals.get(name, (None, None))
        about = "" if low is None else f"{low:.3f} to {high:.3f}"
        values_of = ["" if each is None else f"{each:.3f}" for each in theirs]
        title = titles[name].replace("a row's", f"{a(words.row)}'s")
        rows.append([title, f"{value:.3f}", about, *values_of])
    others = [words.effects if name == EFFECTS else name for name in names]
    head = ["measure", "model", f"{100 * found.level:g}% interval", *others]
    if not any(row[2] for row in rows):
        head, rows = [head[0], head[1], *others], [[*row[:2], *row[3:]] for row in rows]
    return table("Measures on held-out entries", head, rows) if rows else Raw("")


def data(facts: Facts | None, text: str, words: Wording) -> Raw:
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
                f"Entries of {a(words.noun(side))}: how many {words.noun(side + 's')} have so many. The median is "
                f"{facts['median'][side]:g}.",
                alternative=table(
                    f"Entries of {a(words.noun(side))}",
                    ["entries", words.noun(f"{side}s")],
                    [[a, f"{b:,}"] for a, b in pairs],
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
            f"Popularity: the tenth of the {words.columns} with the most entries has "
            f"{percent(facts['head']['column'], 0)} of all entries, the tenth of the {words.rows} with the most "
            f"{percent(facts['head']['row'], 0)}. The dotted line is an even spread.",
            alternative=table(
                "Share of all entries",
                ["those with most", f"of {words.columns}", f"of {words.rows}"],
                rows,
            ),
        )
    )
    return section("data", "Data", paragraphs([text]), element("div", *charts, class_="charts"))


def calibration(facts: Facts | None, words: Wording) -> Raw:
    """Return the reliability curve."""
    title = "Can the probabilities be trusted?"
    if facts is None:
        why = "The held-out entries have one label alone, of which no curve of reliability can be drawn."
        return section("calibration", title, paragraphs([why]))
    rows = [
        [f"{p:.3f}", f"{o:.3f}", "" if low is None else f"{low:.3f} to {high:.3f}", f"{n:,}"]
        for p, o, low, high, n in zip(
            *(facts[name] for name in ("predicted", "observed", "low", "high", "counts")),
            strict=True,
        )
    ]
    caption = (
        f"Share of likes among held-out entries of like probability, with 95% intervals over {words.rows}. On the "
        f"dotted line said and seen agree; the mean distance from it is {facts['error']:.3f}."
    )
    numbers = table(
        "Reliability", ["probability of a like", "share of likes", "95% interval", "entries"], rows
    )
    return section("calibration", title, chart("calibration", caption, alternative=numbers))


def unusual(facts: Facts, words: Wording) -> Raw:
    """Return rows and columns that stand out."""
    title = f"Unusual {words.rows} and {words.columns}"
    tables = []
    for side, found in facts["worst"].items():
        if found:
            rows = [[name_of(each["name"]), each["n"], f"{each['loss']:.2f}"] for each in found]
            caption = f"{words.noun(side).capitalize()} predicted worst"
            tables.append(table(caption, ["", "held-out entries", "mean log-loss"], rows))
    for side, found in facts["one_sided"].items():
        if found:
            rows = [
                [name_of(each["name"]), each["n"], percent(each["likes"] / each["n"], 0)]
                for each in found
            ]
            caption = f"Most one-sided {words.noun(side)}"
            tables.append(table(caption, ["", "entries", "likes"], rows))
    if not tables:
        why = (
            f"Nothing stands out: with one label alone, or a single {words.row} and {words.column}, there is nothing "
            "to compare."
        )
        return section("unusual", title, paragraphs([why]))
    about = "Means of few entries are drawn to that of all before they are compared: chance alone makes them extreme."
    return section("unusual", title, paragraphs([about]), element("div", *tables, class_="tables"))


def examples(facts: list[dict[str, Any]], words: Wording) -> Raw:
    """Return lists with their reasons."""
    title = "Examples of lists, with reasons"
    if not facts:
        why = "Lists and reasons need the entries, which the model does not keep."
        return section("examples", title, paragraphs([why]))
    cards = []
    for each in facts:
        whose = f"For {words.row} " if each["row"].isdecimal() else "For "
        head = element("h3", whose, name_of(each["row"]))
        counts = element(
            "p", f"{each['likes']:,} likes and {each['dislikes']:,} dislikes so far.", class_="note"
        )
        items = [element("li", _listed(column)) for column in each["columns"]]
        body = (
            element("ol", *items, class_="list")
            if items
            else element("p", f"Every {words.column} was seen.")
        )
        cards.append(element("article", head, counts, body))
    about = (
        f"The best {words.columns} that {a(words.row)} has not seen, with the probability of a like (and its 90% "
        f"interval), and the entries of the {words.row} that speak most for {a(words.column)} and against it."
    )
    return section("examples", title, paragraphs([about]), element("div", *cards, class_="cards"))


def _listed(column: Facts) -> Raw:
    likely = percent(column["probability"], 0)
    if not math.isnan(column["lower"]):
        likely += f" ({percent(column['lower'], 0)} to {percent(column['upper'], 0)})"
    reasons = [
        element(
            "li",
            "for: " if each["contribution"] > 0 else "against: ",
            "liked " if each["label"] > 0 else "disliked ",
            name_of(each["name"]),
            f" ({signed(100 * each['change'], 1)} points)",
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
