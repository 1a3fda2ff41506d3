"""The simplex of mixtures, as pictures of a search show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tribit.selection import Candidate

#: Shares of the simplex that may be shown, from the PN corner down: the least that holds every mixture is taken.
VIEWS = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0)


def imputed_shares(candidate: Candidate, density: float) -> tuple[float, float, float]:
    """Return the shares of a fit that observed signs, imputed dislikes and imputed likes have."""
    g_pn, g_pu, g_nu = candidate.settings.gammas
    whole = g_pu + g_nu + density * g_pn
    return density * g_pn / whole, g_pu / whole, g_nu / whole
