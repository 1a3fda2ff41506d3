"""Held-out measures of labels and scores; :mod:`tribit.evaluation` applies them to fitted models."""

from tribit._moved import renamed_members

__getattr__ = renamed_members(__name__, Evaluation="tribit.Evaluation", evaluate="tribit.evaluate")
