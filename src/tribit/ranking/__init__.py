"""Candidate ranking: which unobserved entries a row will observe next (exposure), and whether it will like them.

A model of the labels estimates the preference of a row for a column, and not its exposure: whether the row would
observe the column at all. A ranker estimates both. :class:`CandidateRanker` has the rates at which each unobserved
entry becomes a like and a dislike; pass it to ``recommend`` beside a model, or let it recommend alone. Any object with
the methods of :class:`Ranker` can take its place. The names are listed in ``__init__.pyi``: a question to a saved
recommender does not need the estimator.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
