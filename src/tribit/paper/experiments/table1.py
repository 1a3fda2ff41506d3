"""Table 1: the sign error by original rating, PN alone and the best mixture, beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.datasets import MOVIELENS_LICENCE
from tribit.paper.experiments.exhibit import Claims, Exhibit
from tribit.paper.experiments.fig4 import EXHIBIT as FIG4
from tribit.paper.experiments.films import JUDGE, MEAN, OVERALL, PN, SUFFIXES, WAYS, ZERO
from tribit.paper.experiments.journal import Row
from tribit.paper.experiments.pictures import plot_ratings
from tribit.paper.experiments.settings import Mixture
from tribit.paper.experiments.statistics import (
    FAILS,
    HOLDS,
    UNCLEAR,
    Claim,
    best,
    comparison,
    errors_by_mixture,
    lower,
    markdown_table,
    mixture_of,
    spread,
    written,
)

Array = NDArray[np.floating[Any]]

RATINGS = ("1", "2", "3", "4", "5", OVERALL)
#: Table 1 of the paper: means and standard deviations over ten trials.
PUBLISHED = {
    "PN": (
        np.array([0.303, 0.298, 0.491, 0.297, 0.157, 0.320]),
        np.array([0.034, 0.026, 0.015, 0.014, 0.025, 0.015]),
    ),
    "mixture": (
        np.array([0.219, 0.245, 0.434, 0.327, 0.161, 0.304]),
        np.array([0.019, 0.021, 0.023, 0.020, 0.011, 0.005]),
    ),
}


#: Those of them that the paper has in bold: best by a t-test at 1%.
BOLD = {
    "PN": (False, False, False, True, False, False),
    "mixture": (True, True, True, False, False, True),
}


def _printed(mean: float, deviation: float, bold: bool) -> str:
    words = f"{mean:.3f} ± {deviation:.3f}"
    return f"**{words}**" if bold else words


def _chosen_mixture(rows: list[Row], way: str) -> Mixture:
    """Return the mixture, PN apart, with the smallest mean error on the validation parts."""
    part, cut = JUDGE
    return best(
        errors_by_mixture(_select(rows, way, part, cut, OVERALL), "error"),
        lambda mixture: mixture != PN,
    )


def _select(rows: list[Row], way: str, part: str, cut: str, rating: str) -> list[Row]:
    wanted = (True, way, part, cut, rating)
    names = ("chosen", "way", "part", "cut", "rating")
    return [row for row in rows if tuple(row[name] for name in names) == wanted]


def _ways(rows: list[Row]) -> list[str]:
    present = {row["way"] for row in rows}
    return [way for way in WAYS if way in present]


def _errors(rows: list[Row], way: str, part: str, cut: str, mixture: Mixture) -> dict[str, Array]:
    """Return the errors of a mixture for each rating that every split has, one for each split."""
    found = {
        rating: errors_by_mixture(_select(rows, way, part, cut, rating), "error").get(mixture)
        for rating in RATINGS
    }
    whole = found[OVERALL]
    assert whole is not None
    return {
        rating: values
        for rating, values in found.items()
        if values is not None and values.size == whole.size
    }


def _pairs(
    rows: list[Row],
) -> Iterator[tuple[str, str, str, Mixture, dict[str, Array], dict[str, Array]]]:
    """Yield way, part, cut, the chosen mixture, and the errors of PN and of the mixture."""
    for way in _ways(rows):
        mixture = _chosen_mixture(rows, way)
        for part in ("test", "validation"):
            for cut in (MEAN, ZERO):
                yield (
                    way,
                    part,
                    cut,
                    mixture,
                    _errors(rows, way, part, cut, PN),
                    _errors(rows, way, part, cut, mixture),
                )


def _numbers(rows: list[Row]) -> str:
    published = [
        [f"{name}, the paper", *map(_printed, *values, BOLD[name])]
        for name, values in PUBLISHED.items()
    ]
    head = ("original rating", *RATINGS)
    texts = [
        "The paper's table (errors on its validation samples; bold: best by its t-test at 1%):\n\n"
        + markdown_table(head, published)
    ]
    for way, part, cut, mixture, alone, mixed in _pairs(rows):
        lines = [["PN"], [f"mixture {written(mixture)}"]]
        for rating in RATINGS:
            if rating not in alone or rating not in mixed:
                for line in lines:
                    line.append("none")
                continue
            verdict, _ = lower(mixed[rating], alone[rating])
            for line, values, mark in (
                (lines[0], alone[rating], FAILS),
                (lines[1], mixed[rating], HOLDS),
            ):
                words = spread(values)
                line.append(f"**{words}**" if verdict == mark else words)
        texts.append(
            f"{way[0].upper()}{way[1:]}; X cut at {cut}; on the {part} part:\n\n{markdown_table(head, lines)}"
        )
    texts.append(
        "Bold: lower by a paired t-test at 1%. The mixture is the one with the smallest mean error on the validation "
        "parts, so its validation errors flatter it; nothing of a split was chosen on its own test part, though the "
        "splits are of the same ratings and overlap, so that p is a little too small. Steps, alpha, r, radii and the "
        f"mixture were chosen with X cut at mean(X), also where it is cut at 0.\n\n{MOVIELENS_LICENCE}"
    )
    return "\n\n".join(texts)


def _claims(rows: list[Row], _: Mapping[str, list[Row]]) -> Claims:
    claims: Claims = {}
    for way, part, cut, mixture, alone, mixed in _pairs(rows):
        if part != "test" or cut != MEAN:
            continue
        several = []
        for sentence, ratings, sign in (
            ("lower error overall (the paper: by 2%)", (OVERALL,), 1),
            ("lower error on ratings 1, 2 and 3", ("1", "2", "3"), 1),
            ("PN is better on ratings 4 and 5", ("4", "5"), -1),
        ):
            for rating in ratings:
                if rating not in alone or rating not in mixed:
                    continue
                pair = [(f"mixture {written(mixture)}", mixed[rating]), ("PN", alone[rating])]
                (name, these), (other, those) = pair[::sign]
                verdict, measured = comparison(name, these, other, those)
                words = sentence if rating == OVERALL else f"{sentence} (rating {rating})"
                several.append(Claim(words, measured, verdict))
        stars = [
            rating
            for rating in RATINGS
            if rating != OVERALL and rating in alone and rating in mixed
        ]
        hardest = {
            name: max(stars, key=lambda rating: errors[rating].mean())
            for name, errors in (("PN", alone), ("mixture", mixed))
            if stars  # of very small data no rating may be in every split
        }
        several.append(
            Claim(
                "both do worst near the average rating (3)",
                ", ".join(f"{name} does worst on {rating}" for name, rating in hardest.items()),
                (HOLDS if set(hardest.values()) == {"3"} else FAILS) if stars else UNCLEAR,
            )
        )
        claims[f"{way}; cut at {cut}; test part"] = several
    return claims


def _draw(rows: list[Row], stem: Path) -> list[Path]:
    paths = []
    for way, part, cut, mixture, alone, mixed in _pairs(rows):
        if part != "test" or cut != MEAN:
            continue
        shown = [rating for rating in RATINGS if rating in alone and rating in mixed]
        places = [RATINGS.index(rating) for rating in shown]
        methods = {
            name: (
                np.array([errors[rating].mean() for rating in shown]),
                np.array([errors[rating].std(ddof=1) for rating in shown]),
            )
            for name, errors in (("PN", alone), ("mixture", mixed))
        }
        published = {
            name: (mean[places], deviation[places]) for name, (mean, deviation) in PUBLISHED.items()
        }
        place = stem.with_name(stem.name + SUFFIXES.get(way, ""))
        paths += plot_ratings(
            place,
            shown,
            methods,
            y_label="error",
            published=published,
            note=f"{way}; X cut at {cut}; test part; mixture {written(mixture)}",
        )
    return paths


def _compared(rows: list[Row]) -> list[Row]:
    """Keep the trials of PN and of the chosen mixture."""
    kept = {way: (PN, _chosen_mixture(rows, way)) for way in _ways(rows)}
    return [row for row in rows if row["chosen"] and mixture_of(row) in kept[row["way"]]]


EXHIBIT = Exhibit(
    "table1",
    "Table 1: error by original rating, PN and the best mixture, MovieLens 100k",
    FIG4.study,
    _claims,
    _numbers,
    _draw,
    _compared,
)
