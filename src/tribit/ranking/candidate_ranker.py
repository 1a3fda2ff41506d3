"""Candidate ranking by the rates at which unobserved entries become likes and dislikes, as an estimator."""

from __future__ import annotations

from typing import Self

from tribit.checks import check_positive
from tribit.data.matrix_estimator import MatrixEstimator
from tribit.data.observations import as_observations
from tribit.data.rules import TableRules
from tribit.errors import InvalidInputError
from tribit.model.spec import is_auto
from tribit.randomness import RandomState
from tribit.ranking.rate_ranker import RateRanker, fit_ranker

__all__ = ["CandidateRanker"]


class CandidateRanker(RateRanker, MatrixEstimator):
    """Rates at which unobserved entries become likes and dislikes: exposure and preference together.

    Two regressions of every column on all others, of the likes and of the mask (Steck 2019, "Embarrassingly shallow
    autoencoders for sparse data"; see :mod:`tribit.model.ease`), give each entry two scores as if it
    had not been observed. With them, the number of entries n_j in its column and n_i in its row, itself not counted,

        log rate_ij = t_0 + t_1 log s_ij(likes) + t_2 log s_ij(mask) + t_3 log(1 + n_j) + t_4 log(1 + n_i)

    once for likes and once for dislikes, is fitted by maximum likelihood: observed likes (or dislikes) are the events
    and unobserved entries are the risk set without events. Dislikes so count three times, as entries of the mask, as
    entries that are not liked, and as events of their own. No parameter has to be tuned: ``l2`` has the least error on
    held-out entries, which the closed form gives for all of them at once.

    It keeps the observed entries and the diagonals of two inverses; their tables of columns x columns are computed for
    many rows of a matrix with up to 6,000 columns, and for others each row is solved for. With more columns the
    diagonals are estimated, to about 1%.

    Parameters
    ----------
    l2 : float or "auto", default="auto"
        Ridge of both regressions.
    like_at : float or None, default=None
        The smallest rating that is a like, for a matrix of ratings; None for labels +1 and -1.
    n_jobs : int or None, default=None
        Threads, at most two of them busy; None or -1 for every core. The bits do not depend on it.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where the inverses are computed; a GPU ("cuda") has them of up to 40,000 columns, where a CPU has 6,000. "auto"
        is a GPU where there is one and X has 300,000 entries or more.
    random_state : int, Generator, RandomState or None, default=None
        Draws the unobserved entries that stand for all of them, of a large matrix the rows that do, and of a wide
        one the random signs by which the diagonals are estimated.

    Attributes
    ----------
    coefficients_ : array of shape (2, 5)
        ``t_0`` to ``t_4`` of likes and of dislikes; ``t_0`` is ``-inf`` where no dislikes were observed.
    horizon_ : Isotonic
        Map from the logarithm of the rate of entries to the probability of one within the horizon (:meth:`expected`).
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
        l2: object = "auto",
        like_at: float | None = None,
        n_jobs: int | None = None,
        device: str = "cpu",
        random_state: RandomState = None,
    ) -> None:
        self.l2 = l2
        self.like_at = like_at
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state

    def fit(self, X: object, y: object = None) -> Self:  # noqa: ARG002
        """Fit the ranker.

        Parameters
        ----------
        X : Observations, sparse matrix or array of shape (n_rows, n_columns)
            As in :meth:`tribit.Observations.from_matrix`.
        y : ignored
            Present for scikit-learn's interface.

        Returns
        -------
        self
        """
        observations = as_observations(X, TableRules(like_at=self.like_at))
        found = fit_ranker(
            observations,
            l2=None if is_auto(self.l2) else _check_l2(self.l2),
            n_jobs=self.n_jobs,
            device=self.device,
            random_state=self.random_state,
        )
        self.reading_ = observations.rules
        return self._set(found._cells, found.coefficients_, found.horizon_, found.axes_)


def _check_l2(l2: object) -> float:
    if isinstance(l2, str):
        raise InvalidInputError(f'l2 must be a positive number or "auto"; got {l2!r}.')
    return check_positive("l2", l2)
