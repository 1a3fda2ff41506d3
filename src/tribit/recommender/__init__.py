"""The recommender: a model of the labels, a ranker, and what was seen, as one object and one file."""

from tribit.recommender.estimator import Recommender

__all__ = ["Recommender"]
