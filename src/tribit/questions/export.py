"""Vectors of rows and columns for other software; their inner product is the score of the model.

With ``x_ij = u_i . v_j + b + a_i + c_j`` the vectors

    row i      [u_i, a_i, 1]
    column j   [v_j, 1, b + c_j]

have the inner product ``x_ij``, intercepts included. The probability of a like increases with it: an index for maximum
inner products (Faiss, hnswlib, ScaNN, pgvector) returns the columns of a row in the order of
:meth:`tribit.BinaryMatrixCompletion.recommend` without a ranker. Without a calibrator and under the logistic link
the probability is ``1 / (1 + exp(-x))``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tribit.answers import Answer
from tribit.data.axis import AnyArray, Axis
from tribit.data.files import atomic_path, checked_path
from tribit.data.parquet import write as write_parquet
from tribit.display import html_facts
from tribit.errors import InvalidInputError, parameter, quoted
from tribit.questions.base import OMIT, Question, option

if TYPE_CHECKING:
    from tribit.fitted_recommender import FittedRecommender

ENDINGS = (".npz", ".parquet")


@dataclass(frozen=True, eq=False, repr=False)
class Vectors(Answer):
    """Vectors of rows and of columns with their ids; the inner product of two is the score ``x`` of their cell.

    Attributes
    ----------
    sides : dict
        Ids and vectors by the name of the side, "row" and "column".

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Recommender
    >>> A = np.array([[1, 1, 0, 0], [1, 1, 0, -1], [1, 0, 0, -1], [0, 0, 1, 1], [0, -1, 1, 0]])
    >>> recommender = Recommender(random_state=0).fit(A)
    >>> ids, rows = recommender.vectors().sides["row"]
    >>> ids, rows.shape
    (array([0, 1, 2, 3, 4]), (5, 6))
    """

    sides: dict[str, tuple[AnyArray, AnyArray]]

    def table(self) -> dict[str, AnyArray]:
        """Return one record for each vector: its side, its id as text, and its numbers."""
        texts = [ids.astype(str).astype(object) for ids, _ in self.sides.values()]
        vectors = np.concatenate([vectors for _, vectors in self.sides.values()])
        cells = np.fromiter(list(vectors), dtype=object, count=len(vectors))
        names = np.repeat(list(self.sides), [text.size for text in texts])
        return {"side": names, "id": np.concatenate(texts), "vector": cells}

    def to_dict(self) -> list[dict[str, Any]]:
        """Return one mapping for each vector, its numbers as a list."""
        return [{**each, "vector": each["vector"].tolist()} for each in super().to_dict()]

    def facts(self) -> dict[str, str]:
        """Return the numbers of vectors and their length."""
        sizes = {f"{name}s": str(len(ids)) for name, (ids, _) in self.sides.items()}
        _, vectors = next(iter(self.sides.values()))
        return {"rows": "0", "columns": "0", **sizes, "length": str(vectors.shape[1])}

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        escape_formulas: bool | None = None,
        verbose: int = 0,
    ) -> None:
        """Write ``.npz``, with the arrays ``row_ids``, ``row_vectors``, ``column_ids`` and ``column_vectors``.

        Or ``.parquet``, with one record for each vector as in :meth:`table`.
        """
        del escape_formulas, verbose  # spreadsheets open neither format
        target = checked_path(path)
        if target.suffix.lower() not in ENDINGS:
            raise InvalidInputError(
                f"The name {quoted(target.name)} has no format; end it in {' or '.join(ENDINGS)}."
            )
        if target.suffix.lower() == ".parquet":
            table: dict[str, Any] = dict(self.table())
            table["vector"] = list(table["vector"])
            write_parquet(target, [table])
            return
        arrays: dict[str, Any] = {}
        for name, (ids, vectors) in self.sides.items():
            arrays |= {f"{name}_ids": ids, f"{name}_vectors": vectors}
        with atomic_path(target) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)

    def _repr_html_(self) -> str:
        """Return the numbers for a notebook, without the vectors."""
        return html_facts("Vectors", self.facts())

    def text(self, most: int | None = None) -> str:
        """Return the numbers."""
        del most
        return ", ".join(f"{name} {fact}" for name, fact in self.facts().items())


@dataclass(frozen=True, eq=False, kw_only=True)
class Export(Question[Vectors]):
    """Return row and column vectors whose inner product is the score, for nearest-neighbour indexes."""

    rows: bool = option(True, "Whether to export the vectors of rows.", serve=OMIT)
    columns: bool = option(True, "Whether to export the vectors of columns.", serve=OMIT)
    dtype: str = option(
        "float32",
        "Type of the numbers; in float32 scores equal to seven digits may change their order.",
        serve=OMIT,
        choices=("float32", "float64"),
    )

    after_changes = False

    def answer(self, recommender: FittedRecommender) -> Vectors:
        """Return the vectors."""
        if not (self.rows or self.columns):
            raise InvalidInputError(
                f"There is nothing to export with {parameter('rows', False)} and {parameter('columns', False)}; leave "
                "out one of them."
            )
        scores = recommender.model_.scores_
        wanted = zip(
            scores.axes, scores.factors.product_factors(), (self.rows, self.columns), strict=True
        )
        return Vectors(
            {
                axis.name: (_ids(axis), vectors.astype(self.dtype))
                for axis, vectors, here in wanted
                if here
            }
        )


def _ids(axis: Axis) -> AnyArray:
    """Return ids for a file without pickles: numbers and text unchanged, others as text."""
    if axis.ids is None:
        return np.arange(axis.size)
    if axis.ids.dtype.kind in "iuU":
        return axis.ids
    return np.array([str(each) for each in axis.ids.tolist()], dtype=str)
