"""The search of a report: the best of each kind of model, every candidate, and mixtures on the simplex."""

from __future__ import annotations

from typing import Any

from tribit.plots import VIEWS, imputed_shares
from tribit.selection.record import Candidate, Search

#: Most candidates that are drawn; a search tries some tens.
MOST_CANDIDATES = 400


def search_facts(search: Search | None) -> dict[str, Any] | None:
    """Return the candidates as the charts need them; None where nothing was searched."""
    if search is None or search.best is None:
        return None
    families = search.families()
    candidates = search.candidates[-MOST_CANDIDATES:]
    mixed = [each for each in candidates if each.settings.mixed]
    most = max((1.0 - imputed_shares(each, search.density)[0] for each in mixed), default=0.0)
    ordered = sorted(families.items(), key=lambda pair: pair[1].score)
    return {
        "measure": search.measure.replace("_", "-"),
        "n_held_out": search.n_held_out,
        "n_candidates": len(search.candidates),
        "chosen": str(search.best.settings),
        "family": search.best.settings.family,
        "families": [
            {
                "name": name,
                "score": each.score,
                "settings": str(each.settings),
                "chosen": each is search.best,
            }
            for name, each in ordered
        ],
        "candidates": [_candidate(each, search) for each in candidates],
        # The part of the simplex, from its corner of observed signs, that holds every mixture.
        "view": next(view for view in VIEWS if view >= min(1.2 * most, 1.0)) if mixed else None,
        "average": None if search.average is None else str(search.average),
        "meaning": search.meaning,
    }


def _candidate(candidate: Candidate, search: Search) -> dict[str, Any]:
    return {
        "family": candidate.settings.family,
        "score": candidate.score,
        "settings": str(candidate.settings),
        "chosen": candidate is search.best,
        "shares": list(imputed_shares(candidate, search.density))
        if candidate.settings.mixed
        else None,
    }
