"""Dependence of the verdict of a figure on k, the start, the step and the number of steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tribit.paper.experiments.journal import Row
from tribit.paper.experiments.statistics import (
    Claim,
    Errors,
    errors_by_mixture,
    markdown_table,
    mixture_of,
    spread,
    written,
)
from tribit.paper.experiments.synthetic import NARROW, SOLVED, STAGE, START, VARIED

#: Function from the errors of some mixtures to the figure's main claim.
Judge = Callable[[Errors], Claim]


def dependence(rows: list[Row], judge: Judge) -> str:
    """Return errors and risks by k, what other starts reach, and the verdicts; nothing without solved problems."""
    if not any(row["way"] == SOLVED for row in rows):
        return ""
    return "\n\n".join((_stages(rows), _starts(rows), _verdicts(rows, judge)))


def _by_columns(rows: list[Row]) -> dict[int, list[Row]]:
    """Return the fits with each number of columns that every mixture and trial has."""
    fits = [row for row in rows if row["way"] in (NARROW, STAGE, SOLVED)]
    count = sum(row["way"] == SOLVED for row in fits)
    found = {
        k: [row for row in fits if row["columns"] == k]
        for k in sorted({row["columns"] for row in fits})
    }
    return {k: those for k, those in found.items() if len(those) == count}


def _stages(rows: list[Row]) -> str:
    found = _by_columns(rows)
    ends = [row for row in rows if row["way"] == SOLVED]
    lines = []
    for mixture in dict.fromkeys(mixture_of(row) for row in ends):
        cells = []
        for those in found.values():
            fits = [row for row in those if mixture_of(row) == mixture]
            risk = np.mean([row["risk"] for row in fits])
            cells.append(
                f"{spread(np.array([row['relative_error'] for row in fits]))} ({risk:,.0f})"
            )
        change = max(row["change"] for row in ends if mixture_of(row) == mixture)
        lines.append((written(mixture), *cells, f"{100 * change:.2g}%"))
    head = ("mixture", *(f"k = {k}" for k in found), "last change of X")
    ended = sum(row["converged"] for those in found.values() for row in those)
    total = sum(map(len, found.values()))
    return (
        "The stated problem, solved with k columns: relative error and, in brackets, the risk.\n\n"
        f"{markdown_table(head, lines)}\n\n"
        "The last column is by how much the last increase of k changed X, at most, as a share of its norm. The solver "
        f"converged in {ended} of {total} fits."
    )


def _starts(rows: list[Row]) -> str:
    first = {mixture_of(row): row for row in rows if row["way"] == SOLVED and row["trial"] == 0}
    lines = []
    for row in rows:
        if row["way"] == START:
            pair = (first[mixture_of(row)], row)
            cells = (f"{each['relative_error']:.3f} ({each['risk']:,.0f})" for each in pair)
            lines.append((written(mixture_of(row)), *cells))
    head = ("mixture", "k grown", "another start at the last k")
    return f"Two starts on the first draw, error and risk:\n\n{markdown_table(head, lines)}"


def _verdicts(rows: list[Row], judge: Judge) -> str:
    lines = []
    solved = [row for row in rows if row["way"] == SOLVED]
    sentence = judge(errors_by_mixture(solved, "relative_error")).paper
    for k, those in _by_columns(rows).items():
        claim = judge(errors_by_mixture(those, "relative_error"))
        lines.append((f"solved, k = {k}", claim.measured, f"**{claim.verdict}**"))
    varied: dict[tuple[str, float, int], list[Row]] = {}
    for row in rows:
        if row["way"] == VARIED:
            varied.setdefault((row["scaling"], row["step"], row["iterations"]), []).append(row)
    for (scaling, step, count), those in varied.items():
        claim = judge(errors_by_mixture(those, "relative_error"))
        scaled = "whole matrix" if scaling == "whole" else "single rows"
        name = f"printed iteration, {scaled} scaled, step {step:g}, {count} steps"
        lines.append((name, claim.measured, f"**{claim.verdict}**"))
    table = markdown_table(("fit", "measured", "verdict"), lines)
    return (
        f'How the verdict on "{sentence}" moves with k, and in the printed iteration with its step and number of '
        f"steps (fewer mixtures and at most three draws there):\n\n{table}"
    )
