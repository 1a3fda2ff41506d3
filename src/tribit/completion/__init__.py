"""The estimator :class:`BinaryMatrixCompletion`, its fit and its files."""

from tribit.completion.estimator import BinaryMatrixCompletion

__all__ = ["BinaryMatrixCompletion"]
