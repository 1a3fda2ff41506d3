"""Candidate ranking by the rates at which unobserved entries become likes and dislikes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tribit._moved import renamed_classes
from tribit.backends.threads import single_threaded_blas
from tribit.checks import check_positive
from tribit.data.axis import Positions
from tribit.data.observations import Observations, as_observations
from tribit.errors import InvalidInputError, either
from tribit.factor_model import MatrixEstimator
from tribit.model.column_regression import (
    ColumnRegression,
    choose_l2,
    regress_columns,
    row_blocks,
)
from tribit.randomness import RandomState, generator
from tribit.recommend.rates import log_linear

if TYPE_CHECKING:
    from tribit.recommend.lists import Recommendations

__all__ = ["CandidateRanker"]
__getattr__ = renamed_classes(__name__, LikeFinder="CandidateRanker")

Array = NDArray[np.float64]
#: Most columns: two tables of columns x columns are kept, 0.8 GB each at this number.
COLUMN_LIMIT = 10_000
#: Most cells from which l2 and the coefficients are estimated; of a larger matrix rows are sampled, to bound the time.
CELLS = 2**26
#: Least number of unobserved cells that are sampled, if the matrix has as many; more where more entries are observed.
AT_RISK = 2**17
#: Floor of the scores before their logarithm, as a share of the average, which is the density of the matrix.
FLOOR = 0.1
#: Ridge on coefficients of standardised features: it only matters where there are a handful of likes.
RIDGE = 1.0


class CandidateRanker(MatrixEstimator):
    """Rates at which unobserved entries become likes and dislikes: exposure and preference together.

    Two regressions of every column on all others, of the likes and of the mask (Steck 2019, "Embarrassingly shallow
    autoencoders for sparse data"; see :mod:`tribit.model.column_regression`), give each entry two scores as if it
    had not been observed. With them, the number of entries n_j in its column and n_i in its row, itself not counted,

        log rate_ij = t_0 + t_1 log s_ij(likes) + t_2 log s_ij(mask) + t_3 log(1 + n_j) + t_4 log(1 + n_i)

    once for likes and once for dislikes, is fitted by maximum likelihood: observed likes (or dislikes) are the events
    and unobserved entries are the risk set without events. Dislikes so count three times, as entries of the mask, as
    entries that are not liked, and as events of their own. No parameter has to be tuned: ``l2`` has the least error on
    held-out entries, which the closed form gives for all of them at once.

    Parameters
    ----------
    l2 : float or "auto", default="auto"
        Ridge of both regressions.
    like_at : float or None, default=None
        The smallest rating that is a like, for a matrix of ratings; None for labels +1 and -1.
    random_state : int, Generator, RandomState or None, default=None
        Draws the unobserved entries that stand for all of them.

    Attributes
    ----------
    coefficients_ : array of shape (2, 5)
        ``t_0`` to ``t_4`` of likes and of dislikes; ``t_0`` is ``-inf`` where no dislikes were observed.
    l2_ : (float, float)
        Ridge of the regressions of the likes and of the mask.
    shape_ : (int, int)
        Number of rows and columns.
    n_features_in_ : int
        Number of columns.
    row_ids_, column_ids_ : array or None
        The user's ids.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.array([[1, 1, 0, 0], [1, 1, 0, -1], [1, 0, 0, -1], [0, 0, 1, 1], [0, -1, 1, 0]])
    >>> ranker = CandidateRanker(random_state=0).fit(A)
    >>> int(ranker.recommend(2, 1, exclude_seen=A).columns[0, 0])
    1
    """

    def __init__(
        self,
        *,
        l2: Any = "auto",
        like_at: float | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.l2 = l2
        self.like_at = like_at
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Fit the ranker.

        Parameters
        ----------
        X : Observations, sparse matrix or array of shape (n_rows, n_columns)
            Likes (+1) and dislikes (-1); what is 0, NaN or not stored is unobserved.
        y : ignored
            Present for scikit-learn's interface.

        Returns
        -------
        self
        """
        observations = as_observations(X, like_at=self.like_at)
        l2 = None if isinstance(self.l2, str) and self.l2 == "auto" else _check_l2(self.l2)
        _check(observations)
        # A stream of its own: a mask drawn with the same seed must not decide which cells are taken.
        draws = generator(int(generator(self.random_state).integers(2**62)))
        labels = observations.to_sparse()
        rows = _some_rows(labels.shape, draws)
        with single_threaded_blas():
            cells = _Cells.of(labels, l2, rows)
            coefficients = _coefficients(cells, labels, rows, draws)
        self._cells = cells
        self.coefficients_ = coefficients
        self.l2_ = (cells.likes.l2, cells.mask.l2)
        self._set_axes(observations.axes)
        return self

    def log_rates(self, rows: Positions) -> tuple[Array, Array]:
        """Return the logarithms of the rates of likes and of dislikes of some rows, for every column.

        In a unit of time in which as many likes and dislikes would come as have been observed. Those of an observed
        entry are as if it had not been observed.

        Parameters
        ----------
        rows : array of int
            Positions of the rows.

        Returns
        -------
        likes, dislikes : array of shape (n_rows, n_columns)
            Logarithms of the rates; dislikes ``-inf`` where none were observed.
        """
        check_is_fitted(self)
        likes, dislikes = (np.full((len(rows), self.shape_[1]), t[0]) for t in self.coefficients_)
        for feature, t, s in zip(
            self._cells.features(rows), *self.coefficients_[:, 1:], strict=True
        ):
            likes += t * feature
            dislikes += s * feature
        return likes, dislikes

    def recommend(
        self,
        rows: Any,
        n: int = 10,
        *,
        exclude_seen: Any = None,
        avoid_dislikes: float = 1.0,
    ) -> Recommendations:
        """Return the ``n`` best columns for each row: the rate of likes less ``avoid_dislikes`` times that of dislikes.

        A model of the signs tells likes from dislikes better: see
        :meth:`tribit.factor_model.FactorModel.recommend`, which takes this ranker and the same arguments.
        """
        from tribit.recommend.lists import recommend  # noqa: PLC0415 - it takes the estimator

        return recommend(self, rows, n, exclude_seen=exclude_seen, avoid_dislikes=avoid_dislikes)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Features of every cell, computed as if the cell itself were unobserved."""

    liked: sp.csr_array
    seen: sp.csr_array
    likes: ColumnRegression
    mask: ColumnRegression
    floors: tuple[float, float]
    popularity: Array
    activity: Array

    @classmethod
    def of(cls, labels: sp.csr_array, l2: float | None, rows: Positions) -> _Cells:
        seen, liked = _indicator(labels, labels.data != 0), _indicator(labels, labels.data > 0)
        likes, mask = (
            regress_columns(F, choose_l2(F, rows) if l2 is None else l2) for F in (liked, seen)
        )
        size = float(np.prod(labels.shape, dtype=np.float64))
        floors = FLOOR * liked.nnz / size, FLOOR * seen.nnz / size
        counts = (np.asarray(seen.sum(axis=axis), dtype=np.float64) for axis in (0, 1))
        return cls(liked, seen, likes, mask, floors, *counts)

    def features(self, rows: Positions) -> Array:
        """Return the four features of some rows, an array of shape (4, n_rows, n_columns)."""
        seen = self.seen[rows]
        own = seen.toarray()
        return np.stack(
            [
                np.log(np.maximum(self.likes.held_out(self.liked[rows]), 0.0) + self.floors[0]),
                np.log(np.maximum(self.mask.held_out(seen), 0.0) + self.floors[1]),
                np.log1p(self.popularity - own),
                np.log1p(self.activity[rows][:, None] - own),
            ]
        )


def _coefficients(
    cells: _Cells, labels: sp.csr_array, rows: Positions, draws: np.random.Generator
) -> Array:
    """Return the coefficients of the log-rates of likes and of dislikes."""
    n_observed = labels[rows].nnz
    n_unobserved = rows.size * labels.shape[1] - n_observed
    share = min(1.0, max(n_observed, AT_RISK) / max(n_unobserved, 1))
    kept, kinds = [], []
    for block in row_blocks(rows, labels.shape[1]):
        kind = labels[block].toarray()
        chosen = (kind != 0) | (draws.random(kind.shape) < share)
        kept.append(cells.features(block)[:, chosen].T)
        kinds.append(kind[chosen])
    x, kind = np.concatenate(kept), np.concatenate(kinds)
    centre, scale = x.mean(axis=0), x.std(axis=0)
    scale[scale < 1e-6] = 1.0  # what is the same everywhere, but for rounding, has no effect
    x = np.column_stack([np.ones(len(x)), (x - centre) / scale])
    # A full matrix has no candidates; its rates are shares of all entries, and finite.
    at_risk = x[kind == 0] if n_unobserved else x
    found = []
    for label in (1, -1):
        events = x[kind == label].sum(axis=0)
        t = np.zeros(x.shape[1])
        if events[0]:
            t = log_linear(events, at_risk, np.full(len(at_risk), 1 / share), RIDGE)
            t[1:] /= scale
            t[0] -= t[1:] @ centre
        else:
            t[0] = -np.inf
        found.append(t)
    return np.array(found)


def _indicator(labels: sp.csr_array, chosen: NDArray[np.bool_]) -> sp.csr_array:
    rows = np.repeat(np.arange(labels.shape[0]), np.diff(labels.indptr))[chosen]
    ones = np.ones(rows.size)
    return sp.csr_array((ones, (rows, labels.indices[chosen])), shape=labels.shape)


def _some_rows(shape: tuple[int, int], draws: np.random.Generator) -> Positions:
    n = max(1, CELLS // shape[1])
    if n >= shape[0]:
        return np.arange(shape[0])
    return np.sort(draws.choice(shape[0], size=n, replace=False))


def _check(observations: Observations) -> None:
    if observations.shape[1] > COLUMN_LIMIT:
        raise InvalidInputError(
            f"X has {observations.shape[1]} columns and CandidateRanker, which keeps tables of columns x columns, "
            f"takes {COLUMN_LIMIT} at most; drop rare columns, or "
            f"{either('use a model of the likes as ranker', 'pass --no-ranker')}."
        )
    if not observations.n_likes:
        raise InvalidInputError("X has no like, so there is nothing to learn what is liked from.")


def _check_l2(l2: Any) -> float:
    if isinstance(l2, str):
        raise InvalidInputError(f'l2 must be a positive number or "auto"; got {l2!r}.')
    return check_positive("l2", l2)
