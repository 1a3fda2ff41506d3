"""The ranker of a recommender: whether there is one, and how it comes from what a bundle keeps of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tribit.checks import check_switch
from tribit.data.observations import Observations
from tribit.data.remote import RemoteObservations
from tribit.errors import InvalidInputError, parameter
from tribit.model.spec import is_auto
from tribit.ranking import CandidateRanker


def wants_ranker(asked: Any, observations: Observations) -> bool:
    """Return whether to fit a ranker, by the parameter and what was observed."""
    if isinstance(observations, RemoteObservations):
        if not is_auto(asked) and check_switch("ranker", asked):
            raise InvalidInputError(
                f"A ranker needs all entries on one machine: leave out {parameter('ranker')}, or fit without a "
                "cluster."
            )
        return False
    if not is_auto(asked):
        return check_switch("ranker", asked)
    return bool(observations.n_likes and observations.n_dislikes)


def ranker_from(
    arrays: Mapping[str, Any], seen: Observations, name: str = "The bundle"
) -> CandidateRanker:
    """Return a ranker from the arrays of a bundle, or say in one sentence that they are damaged."""
    try:
        found: CandidateRanker = CandidateRanker.from_arrays(arrays, seen)
    except (LookupError, ValueError) as error:
        raise InvalidInputError(f"{name} has a damaged ranker ({error}); fit it again.") from None
    return found
