"""Completion of a binary matrix: :class:`BinaryMatrixCompletion` and the files that it is kept in."""

from tribit.completion.estimator import BinaryMatrixCompletion

__all__ = ["BinaryMatrixCompletion"]
