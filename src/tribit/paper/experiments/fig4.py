"""Fig. 4: the sign error on held-out MovieLens ratings over the whole simplex of mixtures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from tribit.datasets import MOVIELENS_LICENCE
from tribit.paper.experiments.exhibit import Claims, Exhibit
from tribit.paper.experiments.fig3 import inside_claim
from tribit.paper.experiments.films import (
    CHOSEN,
    COARSE,
    JUDGE,
    MEAN,
    NARROW,
    OVERALL,
    PN,
    SOLVED,
    SUFFIXES,
    TUNED,
    TUNED_RADII,
    WAYS,
    ZERO,
    films_study,
)
from tribit.paper.experiments.journal import Row
from tribit.paper.experiments.runner import Study
from tribit.paper.experiments.settings import Settings, simplex
from tribit.paper.experiments.statistics import (
    Claim,
    Errors,
    best,
    comparison,
    errors_by_mixture,
    markdown_table,
    mixture_of,
    spread,
    written,
)
from tribit.paper.experiments.ternary import plot_triangles
from tribit.paper.experiments.triangles import Triangle


def _study(settings: Settings, data: Path | None) -> Study:
    mixtures = simplex(5 if settings.quick else 10)
    return films_study(settings, COARSE if settings.protocol == "solved" else mixtures, data)


def _maps(rows: list[Row]) -> Iterator[tuple[str, str, Errors]]:
    """Yield a way, where X is cut into signs, and the errors on the test part."""
    for way in WAYS:
        for cut in (MEAN, ZERO):
            those = [
                row
                for row in rows
                if (row["way"], row["cut"], row["part"], row["rating"])
                == (way, cut, "test", OVERALL)
            ]
            if those:
                yield way, cut, errors_by_mixture(those, "error")


def _claims(rows: list[Row], _: Mapping[str, list[Row]]) -> Claims:
    claims: Claims = {}
    for way, cut, errors in _maps(rows):
        found = best(errors, lambda mixture: mixture != PN)
        verdict, measured = comparison(written(found), errors[found], "PN", errors[PN])
        alone = Claim("(figure) the best mixture beats PN alone", measured, verdict)
        claims[f"{way}; cut at {cut}"] = [inside_claim(errors), alone]
    return claims


def _numbers(rows: list[Row]) -> str:
    lines = []
    for way, cut, errors in _maps(rows):
        found = best(errors, lambda mixture: mixture != PN)
        lines.append((way, cut, spread(errors[PN]), f"{spread(errors[found])} at {written(found)}"))
    table = markdown_table(("way", "cut at", "PN", "best mixture"), lines)
    return "\n\n".join(
        [table, *filter(None, (_chosen(rows), _radii(rows), _solved(rows))), MOVIELENS_LICENCE]
    )


def _radii(rows: list[Row]) -> str:
    """Say how often a chosen radius is at an end of its grid."""
    found = [row["radius"] for row in rows if row["way"] == TUNED and _is_judge(row)]
    if not found:
        return ""
    low, high = (found.count(end) for end in (TUNED_RADII[0], TUNED_RADII[-1]))
    return (
        f"Of {len(found)} fits {low} chose the smallest radius on offer, {TUNED_RADII[0]:g}, and {high} the largest, "
        f"{TUNED_RADII[-1]:g}."
    )


def _solved(rows: list[Row]) -> str:
    """Return the risk of each mixture and number of columns, and how far X moved between them."""
    lines = []
    for mixture in dict.fromkeys(mixture_of(row) for row in rows):
        found = {
            way: [
                row
                for row in rows
                if row["way"] == way and mixture_of(row) == mixture and _is_judge(row)
            ]
            for way in (NARROW, SOLVED)
        }
        if not all(found.values()):
            return ""
        risks = [np.mean([row["risk"] for row in those]) for those in found.values()]
        change = np.mean([row["change"] for row in found[SOLVED]])
        ended = sum(row["converged"] for row in found[SOLVED])
        lines.append(
            (
                written(mixture),
                *(f"{risk:,.0f}" for risk in risks),
                f"{change:.2f}",
                f"{ended} of {len(found[SOLVED])}",
            )
        )
    head = ("mixture", "risk, k = 10", "risk, k = 40", "change of X", "converged, k = 40")
    return (
        f"{markdown_table(head, lines)}\n\nThe change of X, as a share of its norm, is that from k = 10 to k = 40: "
        "X has not stopped changing, and a larger k takes too long here."
    )


def _is_judge(row: Row) -> bool:
    return bool(row["chosen"]) and (row["part"], row["cut"], row["rating"]) == (*JUDGE, OVERALL)


def _chosen(rows: list[Row]) -> str:
    """Say which alpha and r PN chose."""
    found = {
        row["split"]: (row["alpha"], row["rank"])
        for row in rows
        if row["way"] == CHOSEN and row["chosen"]
    }
    counted = sorted(set(found.values()))
    places = list(found.values())
    each = ", ".join(
        f"alpha = {pair[0]:g} with r = {pair[1]} on {places.count(pair)}" for pair in counted
    )
    return f"Of {len(places)} splits PN chose {each}." if places else ""


def _draw(rows: list[Row], stem: Path) -> list[Path]:
    written_paths = []
    for way in WAYS:
        triangles = [
            Triangle(
                f"cut at {cut}",
                np.array(list(errors)),
                np.array([values.mean() for values in errors.values()]),
                None,
            )
            for found, cut, errors in _maps(rows)
            if found == way
        ]
        if triangles:
            place = stem.with_name(stem.name + SUFFIXES.get(way, ""))
            written_paths += plot_triangles(place, triangles, label="test error", note=way)
    return written_paths


EXHIBIT = Exhibit(
    "fig4",
    "Fig. 4: test error over the mixtures (PN, PU, NU), MovieLens 100k",
    _study,
    _claims,
    _numbers,
    _draw,
)
