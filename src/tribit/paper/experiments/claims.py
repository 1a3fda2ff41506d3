"""Claims of the paper: the paired tests behind their verdicts, and the figures and tables that show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_rel

from tribit.paper.experiments.journal import Row
from tribit.paper.experiments.runner import Study
from tribit.paper.experiments.settings import (
    PN,
    WEIGHTS,
    Mixture,
    Settings,
    is_inside,
    mixture_words,
)

Array = NDArray[np.floating[Any]]
#: The errors of a mixture, one for each trial, in the order of the trials.
Errors: TypeAlias = dict[Mixture, Array]

SIGNIFICANCE = 0.01
#: Rounding of an error, as a share of it.
ROUNDING_SHARE = 1e-12
HOLDS, FAILS, UNCLEAR = "holds", "does not hold", "inconclusive"
#: Note on the tests, under every table of claims.
CAVEAT = (
    "Paired t-tests over the trials at 1%; d is the mean difference over its standard deviation. A best point is "
    "chosen and tested on the same trials; p is not corrected for this."
)


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, the measurement, and whether it supports the sentence."""

    paper: str
    measured: str
    verdict: str


#: The claims checked, under the way of computing.
Claims: TypeAlias = dict[str, list[Claim]]


@dataclass(frozen=True)
class Exhibit:
    """A figure or a table: its study, and the claims, the Markdown tables and the pictures made of its rows.

    Exhibits whose studies have one name share results. ``claims`` also receives the rows of other finished exhibits,
    ``draw`` a path without a suffix. ``rows`` keeps the rows of the study that belong to the exhibit.
    """

    name: str
    title: str
    study: Callable[[Settings, Path | None], Study]
    claims: Callable[[list[Row], Mapping[str, list[Row]]], Claims]
    numbers: Callable[[list[Row]], str]
    draw: Callable[[list[Row], Path], list[Path]]
    rows: Callable[[list[Row]], list[Row]] = lambda rows: rows
    #: Whether the paper has it, so that its claims are the paper's.
    in_paper: bool = True


def mixture_of(row: Row) -> Mixture:
    """Return the weights of a row."""
    a, b, c = (row[name] for name in WEIGHTS)
    return a, b, c


def errors_by_mixture(rows: Iterable[Row], value: str) -> Errors:
    """Gather a column by mixture; every mixture has one row for each trial."""
    gathered: dict[Mixture, list[float]] = {}
    for row in rows:
        gathered.setdefault(mixture_of(row), []).append(row[value])
    return {mixture: np.array(values) for mixture, values in gathered.items()}


def best(errors: Errors, among: Callable[[Mixture], bool] = lambda _: True) -> Mixture:
    """Return the mixture with the smallest mean, the first of equals."""
    return min((mixture for mixture in errors if among(mixture)), key=lambda m: errors[m].mean())


def paired_verdict(these: Array, those: Array) -> tuple[str, float]:
    """Return a verdict on "``these`` are lower than ``those``" and the p of a paired t-test over the trials."""
    difference = these - those
    # A constant difference has no t statistic: it is 0, or has the p of a sign test.
    equal = np.abs(difference[0]) <= ROUNDING_SHARE * np.abs(those).max()
    p = 1.0 if equal else 2 * 0.5**difference.size
    if _varies(these, those):
        p = float(ttest_rel(these, those).pvalue)
    if p >= SIGNIFICANCE:
        return UNCLEAR, p
    return (HOLDS if difference.mean() < 0 else FAILS), p


def comparison(name: str, these: Array, other: str, those: Array) -> tuple[str, str]:
    """Return a verdict on "``these`` are lower", and the numbers behind it in words."""
    verdict, p = paired_verdict(these, those)
    difference = these - those
    deviation = difference.std(ddof=1)
    size = f", d = {difference.mean() / deviation:.2f}" if _varies(these, those) else ""
    return verdict, (
        f"{name} {spread(these)}, {other} {spread(those)} (difference {difference.mean():+.3f}{size}, paired t-test "
        f"p = {p:.3g})"
    )


def _varies(these: Array, those: Array) -> bool:
    """Return whether differences differ by more than rounding."""
    return bool(np.ptp(these - those) > ROUNDING_SHARE * np.abs(those).max())


def lower_claim(sentence: str, name: str, these: Array, other: str, those: Array) -> Claim:
    """Return the sentence as a claim that ``these`` are lower."""
    verdict, measured = comparison(name, these, other, those)
    return Claim(sentence, measured, verdict)


def place_claim(
    sentence: str,
    errors: Errors,
    claimed: Callable[[Mixture], bool],
    words: Callable[[Mixture], str] = mixture_words,
) -> Claim:
    """Return a claim that the best is among the claimed: the best of them against the best of all others."""
    here = best(errors, claimed)
    there = best(errors, lambda mixture: not claimed(mixture))
    return lower_claim(
        sentence, words(here), errors[here], f"elsewhere {words(there)}", errors[there]
    )


def alone_claim(
    errors: Errors, name: str = "mixture", words: Callable[[Mixture], str] = mixture_words
) -> Claim:
    """Return a claim that the best mixture, or the best of another name, beats PN alone."""
    found = best(errors, lambda mixture: mixture != PN)
    sentence = f"(figure) the best {name} beats PN alone"
    return lower_claim(sentence, words(found), errors[found], "PN", errors[PN])


def inside_claim(errors: Errors) -> Claim:
    """Return a claim that a mixture of all three risks beats the edges, which are PUNU and PNU."""
    inside, edge = best(errors, is_inside), best(errors, lambda mixture: not is_inside(mixture))
    return lower_claim(
        "the best point is inside: better than PUNU and PNU can be",
        f"inside {mixture_words(inside)}",
        errors[inside],
        f"edge {mixture_words(edge)}",
        errors[edge],
    )


def spread(values: Array) -> str:
    """Return mean ± standard deviation in words."""
    return f"{values.mean():.3f} ± {values.std(ddof=1):.3f}"


def markdown_table(head: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    head = list(head)
    return "\n".join(
        f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *map(list, lines))
    )


def claims_table(claims: Mapping[str, list[Claim]]) -> str:
    """Return the claims, under the way of computing that each was checked in."""
    return markdown_table(
        ("the paper", "way", "measured", "verdict"),
        (
            (claim.paper, way, claim.measured, f"**{claim.verdict}**")
            for way, several in claims.items()
            for claim in several
        ),
    )
