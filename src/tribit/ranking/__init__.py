"""Candidate ranking: which unobserved entries a row will observe next (exposure), and whether it will like them.

A model of the labels estimates the preference of a row for a column, and not its exposure: whether the row would
observe the column at all. A ranker estimates both. :class:`CandidateRanker` has the rates at which each unobserved
entry becomes a like and a dislike; pass it to ``recommend`` beside a model, or let it recommend alone. Any object with
the methods of :class:`Ranker` can take its place.
"""

from tribit.ranking.candidate_ranker import CandidateRanker
from tribit.ranking.scores import Ranker

__all__ = ["CandidateRanker", "Ranker"]
