"""``rho`` in a fold, where some of the observed entries are held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.model.risks import Missingness


@dataclass(frozen=True)
class Thinned:
    """A model of the mask when only a share of what was observed is still seen."""

    whole: Missingness
    share: float

    def rho_at(self, rows: Any, columns: Any) -> NDArray[np.floating[Any]]:
        """Return ``1 - share (1 - rho)``."""
        return np.asarray(1.0 - self.share * (1.0 - self.whole.rho_at(rows, columns)))


def thinned(rho: Any, share: float) -> Any:
    """Return ``rho`` for a fold, in which fewer entries are observed than in the whole.

    With 0 the label is that of having been observed, in a fold as in the whole.
    """
    if isinstance(rho, Missingness):
        return Thinned(rho, share)
    return rho if not rho else 1.0 - share * (1.0 - rho)
