"""Somebody new: the model and the ranker of one row that the fit has not seen, at the cost of one row."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.completion import BinaryMatrixCompletion
from tribit.data.axis import Axes, Axis, Positions
from tribit.data.ingest import Checked
from tribit.data.observations import Observations
from tribit.folding import fold_in
from tribit.ranking.candidate_ranker import CandidateRanker
from tribit.ranking.lists import Recommendations, lists_at
from tribit.ranking.scores import weighed_score
from tribit.recommender import Recommender


@dataclass(frozen=True, eq=False)
class OneRow:
    """One folded-in row, as a model of this row alone.

    The answers are those of :meth:`tribit.Recommender.fold_in`, which copies what everybody has seen as well.

    Attributes
    ----------
    model : BinaryMatrixCompletion
        Its only row is the new one; the columns are those of the fit.
    ranker : CandidateRanker or None
        That of the row, by the regressions of the fit.
    seen : sparse array
        The cells of the row that have entries, which lists leave out.
    """

    model: BinaryMatrixCompletion
    ranker: CandidateRanker | None
    seen: sp.csr_array

    @classmethod
    def of(cls, bundle: Recommender, columns: Positions, labels: NDArray[np.int8]) -> OneRow:
        """Fold in a row with entries in distinct columns; there may be none."""
        axes = bundle.model_._axes
        order = np.argsort(columns)
        rows = Axis(axes.rows.name, 1, None if axes.rows.ids is None else _new_id())
        entries = Observations.from_checked(
            Checked(
                np.zeros(columns.size, dtype=np.int64),
                columns[order],
                labels[order],
                Axes(rows, axes.columns),
            )
        )
        folded = fold_in(bundle.model_, entries, prior="new")
        model = copy(folded)
        factors = folded._factors()
        model._set_factors(
            replace(
                factors,
                row_factors=factors.row_factors[-1:],
                row_intercepts=factors.row_intercepts[-1:],
            )
        )
        model._set_axes(entries.axes)
        ranker = None if bundle.ranker_ is None else bundle.ranker_.with_rows(entries)
        return cls(model, ranker, entries.axes.mask(entries, "the row has"))

    def lists(self, n: int, weight: float, *, ranker: bool = True) -> Recommendations:
        """Return the list of the row, without the columns it has seen."""
        used = self.ranker if ranker else None
        score = weighed_score(self.model, used)
        return lists_at(
            self.model,
            np.zeros(1, dtype=np.int64),
            min(n, self.model.shape_[1]),
            lambda places: score(places, weight),
            self.seen,
            ordered_by_x=used is None,
        )

    def probabilities(self, columns: Positions) -> Any:
        """Return the probability of a like in some columns."""
        x = self.model._factors().at(np.zeros(columns.size, dtype=np.int64), columns)
        return self.model._probability(x)


class _Nobody:
    """An id that equals no other: the new row has none of its own."""


def _new_id() -> NDArray[np.object_]:
    return np.array([_Nobody()], dtype=object)
