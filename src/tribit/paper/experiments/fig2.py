"""Fig. 2: the relative error of Experiment 1 over eta of PNU: NU at -1, PN at 0, PU at 1."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tribit.paper.experiments.curves import curve_table, draw_curves, ways
from tribit.paper.experiments.dependence import dependence
from tribit.paper.experiments.drawn import EXPERIMENT_1
from tribit.paper.experiments.exhibit import Claims, Exhibit
from tribit.paper.experiments.journal import Row
from tribit.paper.experiments.runner import Study
from tribit.paper.experiments.settings import Mixture, Settings
from tribit.paper.experiments.statistics import UNCLEAR, Claim, Errors, best, comparison, located
from tribit.paper.experiments.synthetic import synthetic_study

PN: Mixture = (1.0, 0.0, 0.0)
TENTH: Mixture = (0.9, 0.1, 0.0)
ETAS = (0.0, 0.05, *(i / 10 for i in range(1, 11)))
QUICK_ETAS, SOLVED_ETAS = (0.0, 0.1, 0.3, 1.0), (0.0, 0.1, 0.3)


def _eta(mixture: Mixture) -> float:
    return mixture[1] - mixture[2]


def _study(settings: Settings, _: Path | None) -> Study:
    sizes = QUICK_ETAS if settings.quick else ETAS
    if settings.protocol == "solved":
        sizes = SOLVED_ETAS
    mixtures = [(round(1.0 - size, 10), 0.0, size) for size in reversed(sizes[1:])]
    mixtures += [(round(1.0 - size, 10), size, 0.0) for size in sizes]
    varied = (PN, TENTH)
    return synthetic_study("fig2", EXPERIMENT_1, mixtures, settings, varied=varied)


def _claims(rows: list[Row], others: Mapping[str, list[Row]]) -> Claims:
    punu = ways(others["fig1"]) if "fig1" in others else {}
    return {
        way: [_place(errors), _gain(errors), _superior(errors, punu.get(way))]
        for way, errors in ways(rows).items()
    }


def _place(errors: Errors) -> Claim:
    verdict, measured = located(
        errors,
        lambda mixture: round(abs(_eta(mixture)), 9) == 0.1,
        lambda mixture: f"eta = {_eta(mixture):g}",
    )
    return Claim("eta = ±0.1 works best", measured, verdict)


def _gain(errors: Errors) -> Claim:
    found = best(errors, lambda mixture: mixture != PN)
    verdict, measured = comparison(f"eta = {_eta(found):g}", errors[found], "PN", errors[PN])
    return Claim("(figure) the best eta beats PN alone", measured, verdict)


def _superior(errors: Errors, punu: Errors | None) -> Claim:
    sentence = "PNU is superior to PUNU if parameters are properly tuned"
    if punu is None:
        return Claim(sentence, "run fig1 in the same folder to compare", UNCLEAR)
    found, other = best(errors, lambda mixture: mixture != PN), best(punu)
    verdict, measured = comparison(
        f"PNU {_eta(found):g}", errors[found], f"PUNU {other[2]:g}", punu[other]
    )
    return Claim(sentence, measured, verdict)


def _numbers(rows: list[Row]) -> str:
    return "\n\n".join(filter(None, (curve_table(rows, "eta", _eta), dependence(rows, _gain))))


def _draw(rows: list[Row], stem: Path) -> list[Path]:
    return draw_curves(rows, stem, "eta", _eta, {-1.0: "NU", 0.0: "PN", 1.0: "PU"})


EXHIBIT = Exhibit(
    "fig2",
    "Fig. 2: relative error over eta of PNU",
    _study,
    _claims,
    _numbers,
    _draw,
)
