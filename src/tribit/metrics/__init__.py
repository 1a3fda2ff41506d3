"""Held-out measures of labels and scores; :mod:`tribit.evaluation` applies them to fitted models."""
