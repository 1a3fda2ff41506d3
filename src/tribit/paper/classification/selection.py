"""Cross-validation: choose eta or gamma, the ridge and the width by the zero-one risk of held-out examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tribit.backends.threads import single_threaded_blas
from tribit.model import risks
from tribit.model.risks import Risk
from tribit.paper.classification.risks import (
    KINDS,
    MIXTURES,
    NEGATIVE,
    POSITIVE,
    UNLABELLED,
    Array,
    Labels,
    Loss,
    ZeroOne,
    empirical_risk,
)
from tribit.paper.classification.solve import RiskProblem, minimise

#: Candidates of "cv", the simplest first: the first of equals is chosen.
ETAS = (0.0, 0.25, -0.25, 0.5, -0.5, 0.75, -0.75, 1.0, -1.0)
GAMMAS = (0.5, 0.375, 0.625, 0.25, 0.75, 0.125, 0.875, 0.0, 1.0)
RIDGES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)
#: Widths, in units of the median distance.
WIDTHS = (1.0, 2.0, 0.5, 0.25)


@dataclass(frozen=True)
class Choice:
    """One candidate of the cross-validation.

    Parameters
    ----------
    mixing : float
        eta of "pnu", gamma of "punu"; unused by the other risks.
    width : float
        Width of the Gaussian basis; unused by the linear one.
    l2 : float
        The ridge penalty.
    """

    mixing: float
    width: float
    l2: float


@dataclass(frozen=True)
class Setting:
    """Data and options that every candidate shares."""

    risk: str
    prior: float
    loss: Loss
    nonnegative: bool
    max_iter: int
    tol: float

    def problem(self, features: Array, labels: Labels, candidate: Choice) -> RiskProblem:
        """Return the problem of a candidate on some examples."""
        mixture = MIXTURES[self.risk](candidate.mixing)
        return RiskProblem(
            features, labels, mixture, self.prior, self.loss, candidate.l2, self.nonnegative
        )


def validation_mixture(risk: str, labels: Labels, prior: float) -> Risk:
    """Return the validation risk, the same for all candidates.

    PN, PU and NU are validated by themselves. The others have all three kinds of examples, so that each PNU(eta) is
    unbiased; the variance of its zero-one version is

        (1 + eta)^2 a_P + (1 - eta)^2 a_N + eta^2 a_U,
        a_P = t^2 v_P / n_P,   a_N = (1 - t)^2 v_N / n_N,   a_U = v_U / n_U

    because ``l(g, +1) + l(g, -1) = 1``. With equal variances v of the losses it is least at
    ``eta = (a_N - a_P) / (a_P + a_N + a_U)`` (after Sakai et al., 2017), which is used.
    """
    if risk not in ("pnu", "punu"):
        return MIXTURES[risk](0.0)
    n = {kind: int(np.count_nonzero(labels == kind)) for kind in KINDS}
    a_P, a_N = prior**2 / n[POSITIVE], (1.0 - prior) ** 2 / n[NEGATIVE]
    return risks.pnu((a_N - a_P) / (a_P + a_N + 1.0 / n[UNLABELLED]), 0.0)


@single_threaded_blas()
def validation_risks(
    candidates: Sequence[Choice],
    features_of: Callable[[float], Array],
    labels: Labels,
    setting: Setting,
    folds: NDArray[np.int64],
) -> list[float]:
    """Return the mean zero-one risk on the held-out folds, one for each candidate in turn.

    ``labels`` holds only kinds that the risk needs, and ``features_of(width)`` has one row for each.
    """
    judge = validation_mixture(setting.risk, labels, setting.prior)
    total = np.zeros(len(candidates))
    n_folds = int(folds.max()) + 1
    for width in dict.fromkeys(candidate.width for candidate in candidates):
        features = features_of(width)
        for fold in range(n_folds):
            test = folds == fold
            start = None
            for number, candidate in enumerate(candidates):
                if candidate.width != width:
                    continue
                problem = setting.problem(features[~test], labels[~test], candidate)
                solution = minimise(
                    problem, max_iter=setting.max_iter, tol=setting.tol, start=start
                )
                start = solution.coefficients
                decisions = features[test] @ start
                total[number] += empirical_risk(
                    decisions, labels[test], judge, prior=setting.prior, loss=ZeroOne()
                )
    return list(map(float, total / n_folds))
