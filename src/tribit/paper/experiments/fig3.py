"""Fig. 3: the relative error of Experiment 2 over the whole simplex of mixtures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tribit.paper.experiments.curves import floor, remarks, ways
from tribit.paper.experiments.dependence import dependence
from tribit.paper.experiments.drawn import EXPERIMENT_2
from tribit.paper.experiments.exhibit import Claims, Exhibit
from tribit.paper.experiments.journal import Row
from tribit.paper.experiments.runner import Study
from tribit.paper.experiments.settings import Mixture, Settings, simplex
from tribit.paper.experiments.statistics import (
    Claim,
    Errors,
    best,
    comparison,
    is_inside,
    located,
    markdown_table,
    spread,
    written,
)
from tribit.paper.experiments.synthetic import synthetic_study
from tribit.paper.experiments.ternary import plot_triangles
from tribit.paper.experiments.triangles import Triangle

#: The lowest mixture of the paper's Fig. 3, and the distance up to which another counts as the same place.
PUBLISHED: Mixture = (0.3, 0.3, 0.4)
PN: Mixture = (1.0, 0.0, 0.0)
NEAR = 0.2
#: Mixtures of the solved protocol: the corners, the middle of the edge that is lowest as printed, and two inside.
COARSE: tuple[Mixture, ...] = (
    PN,
    (0.0, 1.0, 0.0),
    (0.0, 0.0, 1.0),
    (0.0, 0.5, 0.5),
    (0.6, 0.2, 0.2),
    PUBLISHED,
)
#: The corner, the middle of an edge and a point inside that the printed iteration is varied for.
VARIED_MIXTURES: tuple[Mixture, ...] = (PN, (0.0, 0.5, 0.5), (0.6, 0.2, 0.2))


def _study(settings: Settings, _: Path | None) -> Study:
    mixtures = simplex(5 if settings.quick else 10)
    if settings.protocol == "solved":
        mixtures = list(COARSE)
    return synthetic_study("fig3", EXPERIMENT_2, mixtures, settings, varied=VARIED_MIXTURES)


def _claims(rows: list[Row], _: Mapping[str, list[Row]]) -> Claims:
    return {
        way: [_place(errors), inside_claim(errors), _alone(errors)]
        for way, errors in ways(rows).items()
    }


def _place(errors: Errors) -> Claim:
    verdict, measured = located(errors, _is_near, written)
    return Claim(f"the best point is around {written(PUBLISHED)}", measured, verdict)


def _is_near(mixture: Mixture) -> bool:
    return max(abs(a - b) for a, b in zip(mixture, PUBLISHED, strict=True)) <= NEAR + 1e-9


def inside_claim(errors: Errors) -> Claim:
    """Check that a mixture of all three beats whatever PUNU and PNU, the edges, can reach."""
    inside, edge = best(errors, is_inside), best(errors, lambda mixture: not is_inside(mixture))
    verdict, measured = comparison(
        f"inside {written(inside)}", errors[inside], f"edge {written(edge)}", errors[edge]
    )
    return Claim("the best point is inside: better than PUNU and PNU can be", measured, verdict)


def _alone(errors: Errors) -> Claim:
    found = best(errors, lambda mixture: mixture != PN)
    verdict, measured = comparison(written(found), errors[found], "PN", errors[PN])
    return Claim("(figure) the best mixture beats PN alone", measured, verdict)


def _numbers(rows: list[Row]) -> str:
    lines = []
    for way, errors in ways(rows).items():
        corners = [errors[corner] for corner in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))]
        found = best(errors, lambda mixture: mixture != PN)
        lines.append((way, *map(spread, corners), f"{spread(errors[found])} at {written(found)}"))
    table = markdown_table(("way", "PN", "PU", "NU", "best mixture"), lines)
    return "\n\n".join(filter(None, (table, remarks(rows), dependence(rows, inside_claim))))


def _draw(rows: list[Row], stem: Path) -> list[Path]:
    triangles = [
        Triangle(
            way,
            np.array(list(errors)),
            np.array([values.mean() for values in errors.values()]),
            PUBLISHED,
        )
        for way, errors in ways(rows).items()
    ]
    note = f"posterior mean under the true prior: {floor(rows).mean():.3f}; all zeros: 1"
    return plot_triangles(stem, triangles, label="relative Frobenius error", note=note)


EXHIBIT = Exhibit(
    "fig3",
    "Fig. 3: relative error over the mixtures (PN, PU, NU), synthetic data",
    _study,
    _claims,
    _numbers,
    _draw,
)
