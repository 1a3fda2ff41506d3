"""The unit of ridges: the weight at which factors vanish, and what it is on a part of a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse.linalg import svds

from tribit.data.observations import Observations
from tribit.metrics.entries import Array
from tribit.model.factors import Factors
from tribit.model.links import Link
from tribit.model.spec import ModelSpec
from tribit.selection.trials import TOLERANCE, Options, fit_from

#: Ridge of intercepts beside which two tables are compared, in units of four times the link's curvature at 0: amid what
#: a search tries, whose choice is not known yet. It is the same for both.
INTERCEPT_WEIGHT = 3.0


def largest_ridge(seen: Observations, link: Link, end: Factors | None) -> float:
    """Return the ridge weight above which the factors vanish: the spectral norm of the gradient without them.

    At a minimum with ``U = V = 0`` the ridge ``l2 |X|_*`` outweighs every direction of the gradient.

    Parameters
    ----------
    end : Factors or None
        The fit without factors: its intercepts; None for ``X = 0``.
    """

    def slopes(entries: Observations, x: Array | None) -> Array:
        at = np.zeros(entries.n_observed) if x is None else x
        return np.where(entries.labels > 0, link.first(at, 1), link.first(at, -1))

    G = seen.matrix(slopes, end)
    if min(G.shape) <= 2:
        return float(np.linalg.norm(G.toarray(), 2))
    v0 = np.ones(min(G.shape))
    return float(svds(G, k=1, v0=v0, return_singular_vectors=False)[0])


def ridge_share(
    part: Observations, whole: Observations, base: ModelSpec, options: Options
) -> float:
    """Return the largest ridge of a part of a table as a share of that of the whole.

    A column of the part has fewer entries, so that a smaller ridge is enough against the noise in its factor: ridges
    that are good for the part are too small for the whole, by about this share.
    """
    norms = [_norm(each, base, options) for each in (part, whole)]
    return norms[0] / norms[1]


def _norm(seen: Observations, base: ModelSpec, options: Options) -> float:
    end: Any = None
    if base.intercept:
        unit = 4.0 * float(base.link.second(np.zeros(1), 1)[0])
        settings = replace(
            base,
            gammas=(1.0, 0.0, 0.0),
            rank=0,
            l2_intercept=INTERCEPT_WEIGHT * unit,
            radius=None,
            alpha=None,
            implicit_features=False,
            side_features=False,
        )
        # Nothing is drawn for a model without factors.
        draws = np.random.Generator(np.random.PCG64(0))
        end, _ = fit_from(seen, settings, options, {}, draws, tol=TOLERANCE)
    return largest_ridge(seen, base.link, end)
