"""Fig. 1: the relative error of Experiment 1 over the weight gamma of NU in PUNU."""

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
from tribit.paper.experiments.statistics import Claim, Errors, best, comparison, located
from tribit.paper.experiments.synthetic import synthetic_study

PU: Mixture = (0.0, 1.0, 0.0)
NU: Mixture = (0.0, 0.0, 1.0)
HALF: Mixture = (0.0, 0.5, 0.5)


def _gamma(mixture: Mixture) -> float:
    return mixture[2]


def _study(settings: Settings, _: Path | None) -> Study:
    gammas = [0, 0.2, 0.5, 0.8, 1] if settings.quick else [i / 10 for i in range(11)]
    if settings.protocol == "solved":
        gammas = [0, 0.5, 1]
    mixtures = [(0.0, round(1.0 - gamma, 10), float(gamma)) for gamma in gammas]
    return synthetic_study("fig1", EXPERIMENT_1, mixtures, settings, varied=(PU, HALF))


def _claims(rows: list[Row], _: Mapping[str, list[Row]]) -> Claims:
    return {way: [_place(errors), _gain(errors)] for way, errors in ways(rows).items()}


def _place(errors: Errors) -> Claim:
    verdict, measured = located(
        errors,
        lambda mixture: 0.3 <= _gamma(mixture) <= 0.7,
        lambda mixture: f"gamma = {_gamma(mixture):g}",
    )
    return Claim("gamma in [0.3, 0.7] works best", measured, verdict)


def _gain(errors: Errors) -> Claim:
    mixed = best(errors, lambda mixture: 0.0 < _gamma(mixture) < 1.0)
    end = best(errors, lambda mixture: mixture in (PU, NU))
    verdict, measured = comparison(
        f"gamma = {_gamma(mixed):g}", errors[mixed], "the better of PU and NU", errors[end]
    )
    return Claim("a mixture of PU and NU improves on both", measured, verdict)


def _numbers(rows: list[Row]) -> str:
    return "\n\n".join(filter(None, (curve_table(rows, "gamma", _gamma), dependence(rows, _gain))))


def _draw(rows: list[Row], stem: Path) -> list[Path]:
    return draw_curves(rows, stem, "gamma", _gamma, {0.0: "PU", 1.0: "NU"})


EXHIBIT = Exhibit(
    "fig1",
    "Fig. 1: relative error over gamma, the weight of NU in PUNU",
    _study,
    _claims,
    _numbers,
    _draw,
)
