"""Cells of the completed matrix, some rows at a time: predictions, with the observed labels in their places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.checks import check_choice
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, parameter
from tribit.model.scores import Scores

__all__ = ["VALUES", "CompletedCells", "check_dense", "label_matrix"]

Array = NDArray[np.floating[Any]]

#: Values of a cell: the probability of a like, +1 or -1, or ``x``.
VALUES = ("probability", "sign", "score")
#: Most cells of a dense matrix: 10^8 float64 are 800 MB.
MAX_DENSE_CELLS = 10**8


def check_dense(shape: tuple[int, int], advice: str) -> None:
    """Refuse a dense matrix of too many cells, with advice that ends the sentence."""
    if shape[0] * shape[1] > MAX_DENSE_CELLS:
        raise InvalidInputError(
            f"The completed matrix has {shape[0]} x {shape[1]} entries, {shape[0] * shape[1] * 8 / 1e9:.1f} GB: "
            f"{advice}."
        )


def label_matrix(entries: Observations, scores: Scores) -> sp.csr_array:
    """Return the labels of entries in the rows and columns of a model; those with other ids are left out."""
    rows, columns = scores.axes.places(entries, "seen has")
    here = (rows >= 0) & (columns >= 0)
    return sp.csr_array(
        (entries.labels[here], (rows[here], columns[here])), shape=scores.shape, dtype=np.int8
    )


@dataclass(frozen=True, eq=False)
class CompletedCells:
    """The values of the cells of a completed matrix.

    Attributes
    ----------
    scores : Scores
        The scores of the fit.
    what : {"probability", "sign", "score"}
        Probability of a like, +1 or -1, or ``x``.
    labels : csr_array or None
        Observed labels, which replace predictions: a like is 1, a dislike 0 (for "sign" -1).
    threshold : float
        The probability from which on the sign is +1.
    """

    scores: Scores
    what: str = "probability"
    labels: sp.csr_array | None = None
    threshold: float = 0.5

    def __post_init__(self) -> None:
        check_choice("what", self.what, VALUES)
        if self.what == "score" and self.labels is not None:
            raise InvalidInputError(
                "An observed label has no score: leave the entries out, or pass "
                f"{parameter('what', 'probability')} or {parameter('what', 'sign')}."
            )

    def observed_labels(self, rows: object, columns: object) -> sp.coo_array:
        """Return the observed labels in a block, of some rows and columns by position or slice."""
        assert self.labels is not None
        return self.labels[rows][:, columns].tocoo()

    def block(self, rows: object, columns: object) -> Array:
        """Return the values of some rows at some columns, by position or slice."""
        values = self.scores.block(rows, columns)
        if self.what != "score":
            values = self.scores.probability(values)
        if self.what == "sign":
            values = np.where(values >= self.threshold, 1.0, -1.0)
        if self.labels is not None:
            known = self.observed_labels(rows, columns)
            values[known.coords] = known.data > 0 if self.what == "probability" else known.data
        return values
