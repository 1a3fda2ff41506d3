"""Fig. 2: the relative error of Experiment 1 over eta of PNU: NU at -1, PN at 0, PU at 1."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tribit.paper.experiments.curves import curve_table, references, series, ways
from tribit.paper.experiments.exhibit import Claims, Exhibit
from tribit.paper.experiments.journal import Row
from tribit.paper.experiments.pictures import plot_curves
from tribit.paper.experiments.runner import Study
from tribit.paper.experiments.settings import Mixture, Settings
from tribit.paper.experiments.statistics import UNCLEAR, Claim, best, comparison, located
from tribit.paper.experiments.synthetic import EXPERIMENT_1, synthetic_study

PN: Mixture = (1.0, 0.0, 0.0)
TENTH: Mixture = (0.9, 0.1, 0.0)
ETAS = (0.0, 0.05, *(i / 10 for i in range(1, 11)))
COARSE_ETAS = (0.0, 0.1, 0.3, 1.0)


def _eta(mixture: Mixture) -> float:
    return mixture[1] - mixture[2]


def _study(settings: Settings, _: Path | None) -> Study:
    sizes = COARSE_ETAS if settings.coarse else ETAS
    mixtures = [(round(1.0 - size, 10), 0.0, size) for size in reversed(sizes[1:])]
    mixtures += [(round(1.0 - size, 10), size, 0.0) for size in sizes]
    varied = (PN, TENTH)
    return synthetic_study("fig2", EXPERIMENT_1, mixtures, settings, varied=varied)


def _claims(rows: list[Row], others: Mapping[str, list[Row]]) -> Claims:
    claims: Claims = {}
    punu = ways(others["fig1"]) if "fig1" in others else {}
    for way, errors in ways(rows).items():
        found = best(errors, lambda mixture: mixture != PN)
        # Within a step of the grid, on either side, and not PN itself.
        place, where = located(
            errors,
            lambda mixture: 0.0 < abs(_eta(mixture)) <= 0.2,
            lambda mixture: f"eta = {_eta(mixture):g}",
        )
        verdict, measured = comparison(f"eta = {_eta(found):g}", errors[found], "PN", errors[PN])
        claims[way] = [
            Claim("eta = ±0.1 works best", where, place),
            Claim("(figure) that beats PN alone", measured, verdict),
        ]
        sentence = "PNU is superior to PUNU if parameters are properly tuned"
        if way in punu:
            other = best(punu[way])
            verdict, measured = comparison(
                f"PNU {_eta(found):g}", errors[found], f"PUNU {other[2]:g}", punu[way][other]
            )
            claims[way].append(Claim(sentence, measured, verdict))
        else:
            claims[way].append(Claim(sentence, "run fig1 in the same folder to compare", UNCLEAR))
    return claims


def _draw(rows: list[Row], stem: Path) -> list[Path]:
    return plot_curves(
        stem,
        series(rows, _eta),
        x_label="eta",
        y_label="relative Frobenius error",
        references=references(rows),
        ticks={-1.0: "NU", 0.0: "PN", 1.0: "PU"},
    )


EXHIBIT = Exhibit(
    "fig2",
    "Fig. 2: relative error over eta of PNU",
    _study,
    _claims,
    lambda rows: curve_table(rows, "eta", _eta),
    _draw,
)
