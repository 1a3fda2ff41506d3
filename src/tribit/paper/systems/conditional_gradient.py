"""Least squares or likelihood over the trace-norm ball, by Frank-Wolfe with a certificate."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from tribit.checks import check_choice, check_positive
from tribit.data.observations import Measurements, Observations, as_measurements, as_observations
from tribit.errors import warn
from tribit.factor_model import FactorModel
from tribit.model.links import Link, as_link
from tribit.paper.systems.frank_wolfe import (
    FrankWolfe,
    LikelihoodLoss,
    ObservedEntries,
    SquaredLoss,
    SummedLoss,
)
from tribit.paper.systems.linear import Linear
from tribit.solvers.loop import Callback, Stopping

LOSSES = ("squared", "likelihood")


class ConditionalGradientCompletion(FactorModel):
    """Complete a matrix by the least loss of its observed entries in the trace-norm ball.

    Minimises over X

        sum over observed entries of (x_ij - a_ij)^2, or of l(x_ij, a_ij) = -log P(a_ij | x_ij)

    subject to ``|X|_* <= radius``, by rank-one steps from ``X = 0``: Jaggi and Sulovský (2010), A simple algorithm
    for nuclear norm regularized problems; Jaggi (2013), Revisiting Frank-Wolfe: projection-free sparse convex
    optimization. X is kept as factors and no dense matrix is made. The problem is convex, and the duality gap
    bounds how far the answer is from its minimum: ``objective_ - gap_ <= minimum <= objective_``.

    Parameters
    ----------
    radius : float or None, default=None
        Bound on the sum of singular values of X. A matrix of rank r with entries within [-alpha, alpha] has at most
        ``alpha sqrt(r d1 d2)``; where few entries are observed far less predicts better, so compare radii on
        entries held out. None: ``sqrt(d1 d2) / 3``, a third of what a matrix of signs of rank one has.
    loss : {"squared", "likelihood"}, default="squared"
        Squared errors, of any real values, or minus the log-likelihood of likes and dislikes.
    link : str or Link, default="logistic"
        How an entry becomes a probability, with ``loss="likelihood"``. Squared errors of labels -1 and +1 estimate
        the mean label, so there ``P(like) = (1 + x) / 2``.
    tol : float, default=1e-3
        Stop when the duality gap is at most this share of the loss of ``X = 0``.
    max_iter : int, default=200
        Most rank-one steps.
    max_time : float or None, default=None
        Most seconds.
    corrections : int, default=8
        Steps of projected gradient after each rank-one step, in the row and column spaces found so far. 0 is the
        plain method, which needs many times more rank-one steps and leaves as many columns in the factors.
    callback : callable or None, default=None
        Called with a :class:`~tribit.Iteration` after each rank-one step, whose ``decrease`` is the duality gap;
        returning True stops the fit.

    Attributes
    ----------
    row_factors_, column_factors_ : array of shape (n_rows, rank), (n_columns, rank)
        U and V with ``X = U V'``; the squared norm of column k of either is the k-th singular value of X.
    objective_ : float
        The loss at X.
    radius_ : float
        The radius that was used.
    gap_ : float
        At most how far ``objective_`` is above the minimum.
    n_iter_ : int
        Rank-one steps done.
    converged_ : bool
        Whether ``tol`` was reached.
    stop_reason_ : str
        Why the solver stopped.
    history_ : list of Iteration
        The objective and the duality gap before each step.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.systems.conditional_gradient import ConditionalGradientCompletion
    >>> A = np.array([[1, 1, 0, -1], [1, 0, -1, -1], [0, -1, 1, 1], [-1, -1, 1, 0]])
    >>> model = ConditionalGradientCompletion(radius=4.0).fit(A)
    >>> model.predict([0, 3], [2, 3])
    array([-1,  1], dtype=int8)
    """

    def __init__(
        self,
        radius: float | None = None,
        *,
        loss: str = "squared",
        link: Any = "logistic",
        tol: float = 1e-3,
        max_iter: int = 200,
        max_time: float | None = None,
        corrections: int = 8,
        callback: Callback | None = None,
    ) -> None:
        self.radius = radius
        self.loss = loss
        self.link = link
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.corrections = corrections
        self.callback = callback

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Fit the model.

        Parameters
        ----------
        X : Observations, Measurements, sparse matrix or array of shape (n_rows, n_columns)
            Likes (+1) and dislikes (-1), or with ``loss="squared"`` any real values
            (see :func:`tribit.data.observations.as_measurements`).
        y : ignored
            Present for scikit-learn's interface.

        Returns
        -------
        self
        """
        solver = FrankWolfe(self.corrections)
        stopping = Stopping(self.max_iter, self.tol, self.max_time, self.callback)
        data, loss = self._read(X)
        entries = ObservedEntries(data.rows, data.columns, data.shape)
        size = float(np.sqrt(data.shape[0] * data.shape[1]))
        self.radius_ = check_positive("radius", size / 3.0 if self.radius is None else self.radius)
        result = solver.minimise(loss, entries, self.radius_, stopping)
        self._set_scores(result.solver.factors, data)
        self.objective_, self.gap_ = result.solver.objective, result.gap
        self.n_iter_, self.converged_ = result.solver.n_iter, result.solver.converged
        self.stop_reason_, self.history_ = result.solver.stop_reason, result.solver.history
        if not self.converged_:
            warn(
                f"The fit stopped with a duality gap of {self.gap_:.3g} at an objective of {self.objective_:.6g} "
                f"({self.stop_reason_}): raise max_iter or tol.",
                ConvergenceWarning,
            )
        return self

    def _read(self, X: Any) -> tuple[Measurements | Observations, SummedLoss]:
        """Return what was observed and its loss."""
        check_choice("loss", self.loss, LOSSES)
        link = as_link(self.link)  # checked where it is of no use too
        if self.loss == "squared":
            measurements = as_measurements(X)
            return measurements, SquaredLoss(measurements.values)
        if isinstance(X, Measurements):
            X = _labels(X)
        observations = as_observations(X)
        return observations, LikelihoodLoss(link, observations.labels)

    def _link(self) -> Link:
        return Linear() if self.loss == "squared" else as_link(self.link)


def _labels(measurements: Measurements) -> Observations:
    """Return values that are all +1 or -1 as likes and dislikes."""
    return Observations.from_pairs(
        measurements.rows,
        measurements.columns,
        measurements.values,
        shape=measurements.shape,
        row_ids=measurements.row_ids,
        column_ids=measurements.column_ids,
    )
