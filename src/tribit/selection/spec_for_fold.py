"""Settings for a fold: what they mean for all observed entries, where only a share of those is seen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tribit.metrics.entries import Array
from tribit.model.risks import Missingness
from tribit.model.spec import ModelSpec
from tribit.selection.mixture_estimate import thinned_mixture

#: Ridges of factors and of features: what a part of a table scales. Those of intercepts, which have the entries of one
#: row or column alone, are good for both.
RIDGES = ("l2", "l2_implicit", "l2_side")


@dataclass(frozen=True)
class _Thinned:
    """A model of the mask when only a share of what was observed is still seen."""

    whole: Missingness
    share: float

    def rho_at(self, rows: Any, columns: Any) -> Array:
        """Return ``1 - share (1 - rho)``."""
        return np.asarray(1.0 - self.share * (1.0 - self.whole.rho_at(rows, columns)))


def spec_for_fold(settings: ModelSpec, share: float, ridge_share: float = 1.0) -> ModelSpec:
    """Return settings for a fold, in which a share of the observed entries is seen: its ``rho``, and its mixture.

    Of a fold of a part of the table ``ridge_share`` is the share of the ridges that suits it
    (:func:`tribit.selection.ridges.ridge_share`).
    """
    rho = settings.rho
    if isinstance(rho, Missingness):
        rho = _Thinned(rho, share)
    elif rho:  # with 0 the label is that of having been observed, in a fold as in the whole
        rho = 1.0 - share * (1.0 - rho)
    ridges = {
        name: ridge_share * value
        for name in RIDGES
        if (value := getattr(settings, name)) is not None
    }
    return replace(settings, rho=rho, gammas=thinned_mixture(settings.gammas, share), **ridges)
