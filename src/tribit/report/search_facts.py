"""The search of a report: the best of each kind of model, every candidate, and mixtures on the simplex."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tribit.plots.simplex import VIEWS, imputed_shares
from tribit.selection.record import Average, Candidate, Search

#: Most candidates that are drawn; a search tries some tens.
MOST_CANDIDATES = 400


def search_facts(search: Search | None) -> dict[str, Any] | None:
    """Return the candidates as the charts need them; None where nothing was searched."""
    if search is None or search.best is None:
        return None
    families = search.families()
    candidates = search.candidates[-MOST_CANDIDATES:]
    drawn = _on_the_simplex(candidates)
    shares = {id(each): imputed_shares(each, search.density) for each in drawn}
    most = max((1.0 - signs for signs, _, _ in shares.values()), default=0.0)
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
        "candidates": [
            {
                "family": each.settings.family,
                "score": each.score,
                "settings": str(each.settings),
                "chosen": each is search.best,
                "shares": shares.get(id(each)),
            }
            for each in candidates
        ],
        # The part of the simplex, from its corner of observed signs, that holds every mixture.
        "view": next(view for view in VIEWS if view >= min(1.2 * most, 1.0)) if drawn else None,
        "average": None if search.average is None else str(_untimed(search.average)),
        "meaning": search.meaning,
    }


def _untimed(average: Average) -> Average:
    """Return an average without the seconds of its fits: a page has the same bytes on any machine."""
    members = tuple(replace(each, seconds=None) for each in average.members)
    return replace(average, members=members)


def _on_the_simplex(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the mixtures, and the best without any; none where all candidates have the same weights."""
    if len({each.settings.gammas for each in candidates}) < 2:
        return []
    mixed = [each for each in candidates if each.settings.mixed]
    unmixed = [each for each in candidates if not each.settings.mixed]
    return [*mixed, *([min(unmixed, key=lambda each: each.score)] if unmixed else [])]
