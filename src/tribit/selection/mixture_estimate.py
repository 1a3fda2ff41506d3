"""Share to impute: the mixture with the least variance, from predictions of held-out entries.

The gradient of each risk at an entry puts something in the place of a label that was not seen and corrects it where
one was. PN, scaled by ``1 / q``, puts the model's own probability f there, PUNU(g) the constant g, and a mixture
``m = (1 - t) f + t g``. The correction has the variance ``(1 - q) / q E(y - m)^2``, so that the best share is

    t = argmin E(y - (1 - t) f - t g)^2 = E[(f - y)(f - g)] / E(f - g)^2,

the regression of held-out labels on the model's probabilities and the share of likes. Where f is as sure as it may be
t = 0, and PN alone is best; where it is too sure t > 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]


def imputed_share(probabilities: Array, labels: NDArray[np.integer[Any]], weights: Array) -> float:
    """Return ``t`` in [0, 1]: how far held-out labels would pull the probabilities towards the share of likes."""
    likes = np.asarray(labels) > 0
    g = float(np.average(likes, weights=weights))
    away = probabilities - g
    square = float(np.average(away**2, weights=weights))
    if square == 0.0:
        return 0.0
    t = float(np.average((probabilities - likes) * away, weights=weights)) / square
    return float(np.clip(t, 0.0, 1.0))


def mixture(share: float, density: float, likes: float) -> tuple[float, float, float]:
    """Return ``(g_PN, g_PU, g_NU)`` that imputes the constant ``likes`` with weight ``share``.

    L_PN sums over the observed entries alone, a share ``density`` of all: ``t = h / (h + density (1 - h))`` with
    ``h = g_PU + g_NU``. In a sparse matrix most of any but the smallest h is imputation.

    Examples
    --------
    >>> g_pn, g_pu, g_nu = mixture(0.5, 0.05, 0.6)
    >>> round(g_pn, 4), round(g_pu, 4), round(g_nu, 4)
    (0.9524, 0.019, 0.0286)
    """
    h = share * density / (share * density + 1.0 - share) if share < 1.0 else 1.0
    return 1.0 - h, h * (1.0 - likes), h * likes


def thinned_mixture(gammas: tuple[float, float, float], share: float) -> tuple[float, float, float]:
    """Return the mixture that imputes as much where a ``share`` of the observed entries is left as ``gammas`` does.

    With ``h = g_PU + g_NU`` the odds of imputation are ``t / (1 - t) = h / (1 - h) / density``, so that the odds of h
    must shrink as the density does.

    Examples
    --------
    >>> whole, part = mixture(0.3, 0.05, 0.6), mixture(0.3, 0.04, 0.6)
    >>> max(abs(a - b) for a, b in zip(thinned_mixture(whole, 0.8), part)) < 1e-12
    True
    """
    g_pn, g_pu, g_nu = gammas
    whole = g_pn + share * (g_pu + g_nu)
    return g_pn / whole, share * g_pu / whole, share * g_nu / whole
