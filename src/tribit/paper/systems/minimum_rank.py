"""The smallest rank at which a matrix agrees with the measured entries."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from tribit.checks import check_count, check_not_negative
from tribit.data.measurements import Measurements
from tribit.errors import warn
from tribit.model.factors import Factors
from tribit.paper.systems.base import MeasuredSystem, check_share
from tribit.paper.systems.least_squares import AlternatingLeastSquares

#: Errors below this share of ``|P_Omega(A)|_F`` count as rounding.
ROUNDING_SHARE = 1e-5
#: Share of the budget's sum of squares that a sweep must gain for a further one at its rank.
MIN_GAIN = 1e-4


@dataclass(eq=False, repr=False)
class MinimumRankCompletion(MeasuredSystem):
    """Complete a matrix by the least rank that agrees with the measured entries.

    Minimises

        rank(X)  subject to  sum over measured entries of (x_ij - a_ij)^2 <= budget^2

    the form of Jiang et al. (2017) that Hayashi et al. name beside the least error at a given rank. The problem is
    NP-hard, and is answered by ranks 0, 1, 2, ... in turn, each by
    :class:`~tribit.paper.systems.AlternatingLeastSquares`, until one keeps the budget. With all entries
    measured this is the truncated singular value decomposition, and the rank is the smallest. Otherwise alternating
    least squares may miss the smallest error of a rank, and the rank found is an upper bound.

    Parameters
    ----------
    budget : float, default=0.0
        Bound on the norm of the errors at the measured entries, the root of their t. A hundred-thousandth of
        ``|P_Omega(A)|_F`` is allowed in any case: iterations end no nearer.
    budget_share : float or None, default=None
        The budget as a share of ``|P_Omega(A)|_F``, from 0 to 1, in place of ``budget``.
    max_rank : int or None, default=None
        The largest rank that is tried; None for the smaller side of the matrix, which keeps any budget.
    max_iter : int, default=300
        Most sweeps at each rank.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the search for singular vectors.

    Attributes
    ----------
    row_factors_, column_factors_ : array of shape (n_rows, k), (n_columns, k)
        U and V with ``X = U V'``.
    rank_ : int
        The rank that was found.
    residual_ : float
        ``|P_Omega(X - A)|_F``.
    residuals_ : list of float
        The same for each rank that was tried, from 0 on.
    budget_ : float
        The budget that was used.
    converged_ : bool
        Whether X keeps the budget.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.systems import MinimumRankCompletion
    >>> A = np.outer([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 1.0, 2.0])
    >>> A[3, 3] = np.nan
    >>> model = MinimumRankCompletion().fit(A)
    >>> model.rank_, round(float(model.decision_function(3, 3)[0]), 3)
    (1, 8.0)
    """

    budget: float = 0.0
    _: KW_ONLY
    budget_share: float | None = None
    max_rank: int | None = None
    max_iter: int = 300
    random_state: Any = None

    def _fit(self, measured: Measurements) -> None:
        budget = check_not_negative("budget", self.budget)
        share = check_share(self.budget_share, budget)
        least = min(measured.shape)
        most = least if self.max_rank is None else check_count("max_rank", self.max_rank, 0, least)
        norm = float(np.linalg.norm(measured.values))
        self.budget_ = max(budget if share is None else share * norm, ROUNDING_SHARE * norm)
        factors = Factors.of(np.zeros((measured.shape[0], 0)), np.zeros((measured.shape[1], 0)))
        self.residuals_ = [norm]
        while self.residuals_[-1] > self.budget_ and len(self.residuals_) <= most:
            model = AlternatingLeastSquares(
                len(self.residuals_),
                l2=0.0,
                tol=MIN_GAIN * (self.budget_ / norm) ** 2,
                max_iter=self.max_iter,
                random_state=self.random_state,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the budget decides
                factors = model.fit(measured).scores_.factors
            self.residuals_.append(float(np.sqrt(model.objective_)))
        self._set_scores(factors, measured)
        self.rank_, self.residual_ = len(self.residuals_) - 1, self.residuals_[-1]
        self.converged_ = self.residual_ <= self.budget_
        if not self.converged_:
            warn(
                f"No rank up to {most} came within the budget of {self.budget_:g}; the last error is "
                f"{self.residual_:g}: raise the budget, max_rank or max_iter.",
                ConvergenceWarning,
            )
