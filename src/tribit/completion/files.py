"""Models read from files."""

from __future__ import annotations

import os

from tribit.archive.parts import Parts
from tribit.completion.estimator import BinaryMatrixCompletion
from tribit.storage.reading import read_bundle


def load(path: str | os.PathLike[str]) -> BinaryMatrixCompletion:
    """Read a model that :meth:`BinaryMatrixCompletion.save` wrote, or the model of a bundle.

    All that the file says of itself is checked before memory is taken for it. ``history_`` and ``search_`` are without
    times: ``seconds`` is None.

    Raises
    ------
    InvalidInputError
        If the file is missing, damaged, not a tribit model, of another format, or too large for the memory.
    """
    return load_bundle(path)[0]


def load_bundle(path: str | os.PathLike[str]) -> tuple[BinaryMatrixCompletion, Parts]:
    """Read a model and what else its file holds (:class:`tribit.archive.parts.Parts`)."""
    return read_bundle(path, BinaryMatrixCompletion)
