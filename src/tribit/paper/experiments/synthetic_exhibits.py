"""Figs. 1 to 3: the relative error of Experiments 1 and 2 over the edges of the simplex, and over all of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.paper.experiments.claims import (
    UNCLEAR,
    Claim,
    Claims,
    Errors,
    Exhibit,
    alone_claim,
    best,
    errors_by_mixture,
    inside_claim,
    lower_claim,
    markdown_table,
    mixture_of,
    place_claim,
    spread,
)
from tribit.paper.experiments.journal import Row
from tribit.paper.experiments.pictures import Series, plot_curves
from tribit.paper.experiments.runner import Study
from tribit.paper.experiments.settings import (
    HALF,
    INSIDE,
    NU,
    PN,
    PU,
    Mixture,
    Settings,
    imputed_weight,
    mixture_words,
    mixtures_along_t,
    simplex,
)
from tribit.paper.experiments.synthetic import (
    BEST,
    EXPERIMENT_1,
    EXPERIMENT_2,
    FLOOR,
    NARROW,
    NUDGE,
    SIZES,
    SOLVED,
    STAGE,
    START,
    TUNED,
    VARIED,
    synthetic_study,
)
from tribit.paper.experiments.ternary import Triangle, plot_triangles

Array = NDArray[np.floating[Any]]

#: The ways of completing, in the words of legends and tables.
WAYS = {
    "whole": "as printed: whole matrix scaled",
    "rows": "single rows scaled: lower risk",
    SOLVED: "stated problem solved, k grown",
    NARROW: "stated problem solved, k = r",
    TUNED: "radius chosen on held-out entries",
    BEST: "radius best for the hidden matrix",
}
#: Most steps of the printed iteration, by the way in which it cuts entries.
MAX_STEPS = dict(zip(("whole", "rows"), SIZES.max_steps, strict=True))
TENTH: Mixture = (0.9, 0.1, 0.0)
#: Values of gamma in Fig. 1 of the slower solver, and of eta in Fig. 2: the paper's, those of a quick run, and of the
#: slower solver.
SOLVED_GAMMAS = (0.0, 0.5, 1.0)
ETAS = (0.0, 0.05, *(i / 10 for i in range(1, 11)))
QUICK_ETAS, SOLVED_ETAS = (0.0, 0.1, 0.3, 1.0), (0.0, 0.1, 0.3)
#: Share of likes in experiment 2, whose matrix is symmetric around 0.
BASE_RATE = 0.5
#: The best mixture of the paper's Fig. 3, and the distance up to which another mixture counts as the same.
PUBLISHED: Mixture = (0.3, 0.3, 0.4)
SAME_PLACE = 0.2
#: Mixtures of the solved protocol in Fig. 3: the corners, the middle of the best printed edge, two PNU, two inside.
COARSE = (PN, PU, NU, HALF, (0.8, 0.2, 0.0), (0.8, 0.0, 0.2), INSIDE, PUBLISHED)


def errors_by_way(rows: list[Row]) -> dict[str, Errors]:
    """Return the errors of each way that there is, by its words."""
    return {
        words: errors_by_mixture((row for row in rows if row["way"] == way), "relative_error")
        for way, words in WAYS.items()
        if any(row["way"] == way for row in rows)
    }


def floor(rows: list[Row]) -> Array:
    """Return the errors of the posterior mean, one for each trial."""
    return np.array([row["relative_error"] for row in rows if row["way"] == FLOOR])


def draw_curves(
    rows: list[Row],
    stem: Path,
    name: str,
    place: Callable[[Mixture], float],
    ticks: Mapping[float, str],
) -> list[Path]:
    """Draw a line for each way over the parameter of that name, with the error of all zeros and the floor."""
    lines = [
        Series.of_errors(words, errors, place) for words, errors in errors_by_way(rows).items()
    ]
    return plot_curves(
        stem,
        lines,
        x_label=name,
        y_label="relative Frobenius error",
        references={"all zeros": 1.0, FLOOR: float(floor(rows).mean())},
        ticks=ticks,
    )


def curve_numbers(
    rows: list[Row], name: str, place: Callable[[Mixture], float], judge: Callable[[Errors], Claim]
) -> str:
    """Return mean ± standard deviation of every way at every place, with the remarks and the dependence on k."""
    found = errors_by_way(rows)
    order = sorted(next(iter(found.values())), key=place)
    table = markdown_table(
        (name, *found),
        (
            (f"{place(mixture):g}", *(spread(errors[mixture]) for errors in found.values()))
            for mixture in order
        ),
    )
    return "\n\n".join(filter(None, (table, remarks(rows), dependence(rows, judge))))


def remarks(rows: list[Row]) -> str:
    """Return sentences on the floor, the fits at rest, and the range of the chosen radii."""
    texts = [f"Posterior mean under the true prior: {spread(floor(rows))}. All zeros: 1."]
    for way, words in WAYS.items():
        those = [row for row in rows if row["way"] == way]
        if those and "at_rest" in those[0]:
            rested = sum(row["at_rest"] for row in those)
            texts.append(
                f"{words[0].upper()}{words[1:]}: {rested} of {len(those)} fits at rest after at most {MAX_STEPS[way]} "
                "steps (twice the steps change X by at most 1%)."
            )
        elif those and "held_out_loss" in those[0]:
            radii = [row["radius"] for row in those]
            ends = [radii.count(end) for end in (min(radii), max(radii))]
            texts.append(
                f"{words[0].upper()}{words[1:]}: from {min(radii):.3g} ({ends[0]} of {len(those)} fits) to "
                f"{max(radii):.3g} ({ends[1]} fits)."
            )
    return "\n\n".join(filter(None, ("\n".join(texts), _rounding(rows))))


def _rounding(rows: list[Row]) -> str:
    """Return the errors of the first simulated table beside those of the same problem in its seventh digit."""
    first = {
        (row["way"], mixture_of(row), row.get("columns")): row["relative_error"]
        for row in rows
        if row["way"] in WAYS and row["trial"] == 0
    }
    lines = []
    for row in (row for row in rows if "of" in row):
        place = row["of"], mixture_of(row), row.get("columns")
        if place in first:
            cells = (f"{each:.4f}" for each in (first[place], row["relative_error"]))
            lines.append((WAYS[row["of"]], mixture_words(mixture_of(row)), *cells))
    if not lines:
        return ""
    table = markdown_table(("way", "mixture", "error", "the same, alpha nudged"), lines)
    return (
        f"Size of rounding effects: errors of the first simulated table, and with alpha larger by {NUDGE:g} of itself. "
        f"Another processor or BLAS changes results as much.\n\n{table}"
    )


def dependence(rows: list[Row], judge: Callable[[Errors], Claim]) -> str:
    """Return errors by k, results of other starts, and verdicts on the main claim; "" without solved fits."""
    if not any(row["way"] == SOLVED for row in rows):
        return ""
    return "\n\n".join((_stages(rows), _starts(rows), _verdicts(rows, judge)))


def _by_columns(rows: list[Row]) -> dict[int, list[Row]]:
    """Return the fits with each number of latent factors that every mixture and trial has."""
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
        lines.append((mixture_words(mixture), *cells, f"{100 * change:.2g}%"))
    head = ("mixture", *(f"k = {k}" for k in found), "last change of X")
    ended = sum(row["converged"] for those in found.values() for row in those)
    total = sum(map(len, found.values()))
    return (
        "The stated problem, solved with k latent factors: relative error and, in brackets, the risk.\n\n"
        f"{markdown_table(head, lines)}\n\n"
        "The last column is the largest change of X in the last increase of k, as a share of its norm. The solver "
        f"converged in {ended} of {total} fits."
    )


def _starts(rows: list[Row]) -> str:
    first = {mixture_of(row): row for row in rows if row["way"] == SOLVED and row["trial"] == 0}
    lines = []
    for row in rows:
        if row["way"] == START:
            pair = (first[mixture_of(row)], row)
            cells = (f"{each['relative_error']:.3f} ({each['risk']:,.0f})" for each in pair)
            lines.append((mixture_words(mixture_of(row)), *cells))
    head = ("mixture", "k grown", "another start at the last k")
    return (
        f"Two starts on the first simulated table, error and risk:\n\n{markdown_table(head, lines)}"
    )


def _verdicts(rows: list[Row], judge: Callable[[Errors], Claim]) -> str:
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
        f'The verdict on "{sentence}" for each k, and for the printed iteration by step and number of steps (with '
        f"fewer mixtures and at most two simulated tables):\n\n{table}"
    )


def _gamma(mixture: Mixture) -> float:
    return mixture[2]


def _fig1_study(settings: Settings, _: Path | None) -> Study:
    gammas = [0, 0.2, 0.5, 0.8, 1] if settings.quick else [i / 10 for i in range(11)]
    if settings.protocol == "solved":
        gammas = list(SOLVED_GAMMAS)
    mixtures = [(0.0, round(1.0 - gamma, 10), float(gamma)) for gamma in gammas]
    return synthetic_study("fig1", EXPERIMENT_1, mixtures, settings, varied=(PU, HALF))


def _punu_claim(errors: Errors) -> Claim:
    mixed = best(errors, lambda mixture: 0.0 < _gamma(mixture) < 1.0)
    end = best(errors, lambda mixture: mixture in (PU, NU))
    return lower_claim(
        "a mixture of PU and NU improves on both",
        f"gamma = {_gamma(mixed):g}",
        errors[mixed],
        "the better of PU and NU",
        errors[end],
    )


def _fig1_claims(rows: list[Row], _: Mapping[str, list[Row]]) -> Claims:
    def place(errors: Errors) -> Claim:
        return place_claim(
            "gamma in [0.3, 0.7] works best",
            errors,
            lambda mixture: 0.3 <= _gamma(mixture) <= 0.7,
            lambda mixture: f"gamma = {_gamma(mixture):g}",
        )

    return {
        way: [place(errors), _punu_claim(errors)] for way, errors in errors_by_way(rows).items()
    }


FIG1 = Exhibit(
    "fig1",
    "Fig. 1: relative error over gamma, the weight of NU in PUNU",
    _fig1_study,
    _fig1_claims,
    lambda rows: curve_numbers(rows, "gamma", _gamma, _punu_claim),
    lambda rows, stem: draw_curves(rows, stem, "gamma", _gamma, {0.0: "PU", 1.0: "NU"}),
)


def _eta(mixture: Mixture) -> float:
    return mixture[1] - mixture[2]


def _eta_words(mixture: Mixture) -> str:
    return f"eta = {_eta(mixture):g}"


def _fig2_study(settings: Settings, _: Path | None) -> Study:
    sizes = QUICK_ETAS if settings.quick else ETAS
    if settings.protocol == "solved":
        sizes = SOLVED_ETAS
    mixtures = [(round(1.0 - size, 10), 0.0, size) for size in reversed(sizes[1:])]
    mixtures += [(round(1.0 - size, 10), size, 0.0) for size in sizes]
    return synthetic_study("fig2", EXPERIMENT_1, mixtures, settings, varied=(PN, TENTH))


def _pnu_claim(errors: Errors) -> Claim:
    return alone_claim(errors, "eta", _eta_words)


def _fig2_claims(rows: list[Row], others: Mapping[str, list[Row]]) -> Claims:
    punu = errors_by_way(others["fig1"]) if "fig1" in others else {}

    def several(errors: Errors, other: Errors | None) -> list[Claim]:
        place = place_claim(
            "eta = ±0.1 works best",
            errors,
            lambda mixture: round(abs(_eta(mixture)), 9) == 0.1,
            _eta_words,
        )
        return [place, _pnu_claim(errors), _superior_claim(errors, other)]

    return {way: several(errors, punu.get(way)) for way, errors in errors_by_way(rows).items()}


def _superior_claim(errors: Errors, punu: Errors | None) -> Claim:
    sentence = "PNU is superior to PUNU if parameters are properly tuned"
    if punu is None:
        return Claim(sentence, "run fig1 in the same folder to compare", UNCLEAR)
    found, other = best(errors, lambda mixture: mixture != PN), best(punu)
    return lower_claim(
        sentence, f"PNU {_eta(found):g}", errors[found], f"PUNU {other[2]:g}", punu[other]
    )


FIG2 = Exhibit(
    "fig2",
    "Fig. 2: relative error over eta of PNU",
    _fig2_study,
    _fig2_claims,
    lambda rows: curve_numbers(rows, "eta", _eta, _pnu_claim),
    lambda rows, stem: draw_curves(rows, stem, "eta", _eta, {-1.0: "NU", 0.0: "PN", 1.0: "PU"}),
)


def _fig3_study(settings: Settings, _: Path | None) -> Study:
    mixtures = simplex(5 if settings.quick else 10)
    if settings.protocol == "solved":
        mixtures = list(COARSE)
    varied = (HALF, INSIDE)  # the middle of an edge and a point inside
    return synthetic_study("fig3", EXPERIMENT_2, mixtures, settings, varied=varied)


def _is_published(mixture: Mixture) -> bool:
    distance = max(abs(a - b) for a, b in zip(mixture, PUBLISHED, strict=True))
    return distance <= SAME_PLACE + 1e-9


def _fig3_claims(rows: list[Row], _: Mapping[str, list[Row]]) -> Claims:
    place = f"the best point is around {mixture_words(PUBLISHED)}"
    return {
        way: [place_claim(place, errors, _is_published), inside_claim(errors), alone_claim(errors)]
        for way, errors in errors_by_way(rows).items()
    }


def _fig3_numbers(rows: list[Row]) -> str:
    lines = []
    for way, errors in errors_by_way(rows).items():
        corners = [spread(errors[corner]) for corner in (PN, PU, NU)]
        found = best(errors, lambda mixture: mixture != PN)
        lines.append((way, *corners, f"{spread(errors[found])} at {mixture_words(found)}"))
    table = markdown_table(("way", "PN", "PU", "NU", "best mixture"), lines)
    return "\n\n".join(filter(None, (table, remarks(rows), dependence(rows, inside_claim))))


def _draw_fig3(rows: list[Row], stem: Path) -> list[Path]:
    triangles = [
        Triangle.of_errors(way, errors, PUBLISHED) for way, errors in errors_by_way(rows).items()
    ]
    note = f"posterior mean under the true prior: {floor(rows).mean():.3f}; all zeros: 1"
    return plot_triangles(stem, triangles, label="relative Frobenius error", note=note)


FIG3 = Exhibit(
    "fig3",
    "Fig. 3: relative error over the mixtures (PN, PU, NU), synthetic data",
    _fig3_study,
    _fig3_claims,
    _fig3_numbers,
    _draw_fig3,
)


def _t(mixture: Mixture) -> float:
    return imputed_weight(mixture, 1.0 - EXPERIMENT_2.rho)


def _fig3_t_study(settings: Settings, _: Path | None) -> Study:
    mixtures = mixtures_along_t(1.0 - EXPERIMENT_2.rho, BASE_RATE, quick=settings.quick)
    varied = (PN, mixtures[-1])
    return synthetic_study("fig3-t", EXPERIMENT_2, mixtures, settings, varied=varied)


def _t_claim(errors: Errors) -> Claim:
    return alone_claim(errors, "t", lambda mixture: f"t = {_t(mixture):g}")


FIG3_T = Exhibit(
    "fig3-t",
    "Fig. 3 along t: relative error over the weight of imputation, imputing the base rate",
    _fig3_t_study,
    lambda rows, _: {way: [_t_claim(errors)] for way, errors in errors_by_way(rows).items()},
    lambda rows: curve_numbers(rows, "t", _t, _t_claim),
    lambda rows, stem: draw_curves(rows, stem, "t", _t, {0.0: "PN", 1.0: "PUNU"}),
    in_paper=False,
)
