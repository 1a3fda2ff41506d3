"""Sections with controls: the trade-off and its slider, the search, the maps."""

from __future__ import annotations

from tribit.report.markup import Raw, chart, element, paragraphs, table
from tribit.report.names import percent
from tribit.report.sections import Facts, section
from tribit.report.wording import Wording

#: Rows with a held-out like below which a reader is told that the curve is rough: of 100 its height is known to 10%.
FEW_ROWS = 100


def trade_off(facts: Facts | None, words: Wording) -> Raw:
    """Return the slider of ``avoid_dislikes``, what it costs and what it brings."""
    title = "Likes found, dislikes shown"
    if facts is None:
        why = "There is no trade-off to show: it takes a ranker, held-out likes, and dislikes among the entries."
        return section("trade-off", title, paragraphs([why]))
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
    options = [element("option", name, value=number) for number, name in enumerate(facts["rows"])]
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
        f"Lists of {n} for {facts['reports'][0]['n_users']:,} {words.rows}",
        [
            "avoid_dislikes",
            "likes found",
            "dislikes shown",
            "dislikes per like",
            f"NDCG@{n}",
            "recall",
        ],
        rows,
    )
    about = (
        "avoid_dislikes says how many likes one would give up to avoid a dislike. Most of a list was never rated by "
        f"its {words.row}, so that likes found are few; what counts is how they change with the weight."
    )
    if facts["reports"][0]["n_users"] < FEW_ROWS:
        about += f" Here few {words.rows} have a held-out like, so that the curve is rough."
    caption = (
        "Held-out likes found and held-out dislikes shown in a list, on average, over the weights."
    )
    return section(
        "trade-off",
        title,
        paragraphs([about]),
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
    rows = [[each["name"], f"{each['score']:.4f}", each["settings"]] for each in facts["families"]]
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
        "Every candidate in the order of trying; the ring is the one that was chosen. Hover for its settings, click "
        "(or Enter; arrow keys move) to keep them below.",
        alternative=table("Candidates", ["", "kind", facts["measure"], "settings"], every),
    )
    charts = [families, candidates]
    if facts["view"] is not None:
        shares = [
            [k, f"{each['score']:.4f}", *(percent(share) for share in each["shares"])]
            for k, each in enumerate(facts["candidates"], start=1)
            if each["shares"] is not None
        ]
        charts.append(
            chart(
                "mixtures",
                "What the mixtures learn from: the shares of observed signs, of unobserved entries counted as "
                "dislikes, and counted as likes, with the best that learns from observed signs alone. "
                "The bluer, the better.",
                alternative=table(
                    "Mixtures",
                    ["", facts["measure"], "observed signs", "as dislikes", "as likes"],
                    shares,
                ),
            )
        )
    panel = element(
        "p", "No candidate is chosen yet.", id="candidate-now", role="status", class_="panel"
    )
    return section(
        "search",
        "How it was chosen",
        paragraphs([text]),
        element("div", *charts, class_="charts"),
        panel,
    )


def maps(columns: Facts | None, rows: Facts | None, words: Wording) -> Raw:
    """Return the maps of columns and of rows."""
    title = f"Maps of {words.columns} and {words.rows}"
    if columns is None and rows is None:
        why = f"There is no map: the model has effects of {words.rows} and {words.columns} alone, or too few of them."
        return section("maps", title, paragraphs([why]))
    parts = []
    for side, facts in (("columns", columns), ("rows", rows)):
        if facts is None:
            continue
        some = len(facts["x"])
        which = (
            f"all {some:,}"
            if some == facts["of"]
            else f"the {some:,} with the most entries of {facts['of']:,}"
        )
        caption = (
            f"{words.noun(side).capitalize()} ({which}): near one another where their scores go together. The two "
            f"directions keep {percent(facts['kept'], 0)} of the differences. Click a point (or Enter; arrow keys "
            "move) for those like it."
        )
        search_box = element(
            "label",
            f"Find one of the {words.noun(side)} ",
            element(
                "input", type="search", id=f"find-{side}", list=f"names-{side}", autocomplete="off"
            ),
            element("datalist", id=f"names-{side}"),
            for_=f"find-{side}",
        )
        panel = element("div", id=f"near-{side}", class_="panel", role="status")
        parts.append(element("div", chart(f"map-{side}", caption, search_box, panel)))
    return section("maps", title, element("div", *parts, class_="charts"))
