"""Factors for other software: vectors of rows and columns whose inner product is the score of the model.

With ``x_ij = u_i . v_j + b + a_i + c_j`` the vectors

    row i      [u_i, a_i, 1]
    column j   [v_j, 1, b + c_j]

have the inner product ``x_ij``, intercepts and all. The probability of a like rises with it: an index of maximum inner
products (Faiss, hnswlib, ScaNN, pgvector) that is asked for the nearest columns of a row returns the order of
:meth:`tribit.BinaryMatrixCompletion.recommend` without a ranker. Under the logistic link ``1 / (1 + exp(-x))`` is the
probability, where no calibrator was chosen.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tribit.checks import check_choice, check_switch
from tribit.completion import BinaryMatrixCompletion
from tribit.data.axis import AnyArray, Axis
from tribit.data.files import atomic_path, checked_path
from tribit.data.parquet import write as write_parquet
from tribit.errors import InvalidInputError, InvalidTypeError, parameter
from tribit.quoting import quoted
from tribit.recommender import Recommender

__all__ = ["export_factors"]

ENDINGS = (".npz", ".parquet")
DTYPES = ("float32", "float64")


def export_factors(
    recommender: Recommender | BinaryMatrixCompletion,
    path: str | os.PathLike[str],
    *,
    rows: bool = True,
    columns: bool = True,
    dtype: str = "float32",
) -> tuple[int, int, int]:
    """Write vectors of rows and columns with their ids; the inner product of two is the score ``x`` of their cell.

    Parameters
    ----------
    recommender : Recommender or BinaryMatrixCompletion
        Fitted or loaded.
    path : str or path-like
        ``.npz`` has the arrays ``row_ids``, ``row_vectors``, ``column_ids`` and ``column_vectors``; ``.parquet`` one
        record for each vector, with ``side`` ("row" or "column"), ``id`` as text, and ``vector``, a list of numbers.
    rows, columns : bool, default=True
        Which sides to write.
    dtype : {"float32", "float64"}, default="float32"
        Type of the numbers. Indexes take float32, in which scores that agree to seven digits may change places.

    Returns
    -------
    (int, int, int)
        Numbers of rows and of columns that were written, and the length of each vector: the rank plus 2.
    """
    model = recommender.model_ if isinstance(recommender, Recommender) else recommender
    if not isinstance(model, BinaryMatrixCompletion):
        raise InvalidTypeError(
            f"Vectors are those of a Recommender or a BinaryMatrixCompletion; got {type(recommender).__name__}."
        )
    check_is_fitted(model)
    wanted = check_switch("rows", rows), check_switch("columns", columns)
    if not any(wanted):
        raise InvalidInputError(
            f"There is nothing to write with {parameter('rows', False)} and {parameter('columns', False)}; leave out "
            "one of them."
        )
    check_choice("dtype", dtype, DTYPES)
    target = checked_path(path)
    if target.suffix.lower() not in ENDINGS:
        raise InvalidInputError(
            f"The name {quoted(target.name)} does not tell the format; end it in {' or '.join(ENDINGS)}."
        )
    sides = {
        axis.name: (_ids(axis), vectors.astype(dtype))
        for axis, vectors, here in zip(
            model._axes, model._factors().augmented(), wanted, strict=True
        )
        if here
    }
    if target.suffix.lower() == ".npz":
        _write_npz(target, sides)
    else:
        _write_parquet(target, sides)
    n_rows, n_columns = (
        size if here else 0 for size, here in zip(model.shape_, wanted, strict=True)
    )
    return n_rows, n_columns, model._factors().rank + 2


def _ids(axis: Axis) -> AnyArray:
    """Return ids that a file can hold without pickles: numbers and text as they are, others as text."""
    if axis.ids is None:
        return np.arange(axis.size)
    if axis.ids.dtype.kind in "iuU":
        return axis.ids
    return np.array([str(each) for each in axis.ids.tolist()], dtype=str)


def _write_npz(path: Path, sides: dict[str, tuple[AnyArray, AnyArray]]) -> None:
    arrays: dict[str, Any] = {}
    for name, (ids, vectors) in sides.items():
        arrays |= {f"{name}_ids": ids, f"{name}_vectors": vectors}
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)


def _write_parquet(path: Path, sides: dict[str, tuple[AnyArray, AnyArray]]) -> None:
    texts = [ids.astype(str).astype(object) for ids, _ in sides.values()]
    names = np.repeat(list(sides), [text.size for text in texts])
    vectors = np.concatenate([vectors for _, vectors in sides.values()])
    table: dict[str, Any] = {"side": names, "id": np.concatenate(texts), "vector": list(vectors)}
    write_parquet(path, table)
