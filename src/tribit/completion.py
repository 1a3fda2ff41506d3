"""The estimator: the parts of the library behind scikit-learn's interface."""

from __future__ import annotations

import os
import warnings
from typing import Any, Self

from sklearn.exceptions import ConvergenceWarning

from tribit.errors import TribitWarning
from tribit.factor_model import FactorModel
from tribit.observations import as_observations
from tribit.problem import make_problem
from tribit.progress import progress
from tribit.randomness import generator
from tribit.risks import Missingness
from tribit.solvers import Callback, Stopping, as_solver
from tribit.solvers.loop import DIVERGED, NO_DESCENT, OUT_OF_ITERATIONS


class BinaryMatrixCompletion(FactorModel):
    """Complete a matrix of likes and dislikes, learning from the unobserved entries too.

    Minimises over low-rank ``X = U V' + intercepts``

        g_PN L_PN(X) + g_PU L_PU(X) + g_NU L_NU(X) + l2 / 2 (|U|^2 + |V|^2 + |a|^2 + |c|^2)

    subject to ``|X|_max <= radius`` and ``|U V'|_inf <= alpha`` where given, and estimates
    ``P(like) = f(x)`` for every entry (Hayashi, Sakai and Sugiyama, Eq. for L_TRI).

    Parameters
    ----------
    gammas : tuple of three floats, default=(1, 0, 0)
        Weights ``(g_PN, g_PU, g_NU)`` of the risks: at least 0, summing to 1. (1, 0, 0) learns from the observed
        signs alone.
    rho : float, Missingness, {"constant", "row-column", "low-rank"} or None, default=None
        Probability that an entry is unobserved; None or "constant" for the share that is. It matters when
        g_PU + g_NU > 0. A model has one for each entry; a name fits that model of :mod:`tribit.propensity` to where
        the observations are.
    link : str or Link, default="logistic"
        "logistic", "probit" or a :class:`~tribit.Link` such as ``Logistic(scale=7)``.
    rank : int, default=10
        Number of columns of U and V.
    radius : float or None, default=None
        Radius of the norm ball. None: no ball under PN; a mixture has no minimum without a bound and is given
        ``f^-1(0.75)`` (about 1.1 for the logistic link): see ``radius_``.
    norm : {"max", "trace"}, default="max"
        Norm of the ball, in factor form. "trace" needs ``solver="projected_gradient"``.
    alpha : float or None, default=None
        Bound on the entries of ``U V'``. Below ``radius`` it needs ``solver="projected_gradient"``, which keeps it by
        scaling all of ``U V'`` as the paper does, and stops well above the minimum;
        :class:`~tribit.baselines.MaxNormLikelihood` keeps it exactly.
    l2 : float, default=5.0
        Weight of the ridge penalty.
    intercept : bool, default=True
        Whether to fit one intercept, one for each row and one for each column. They are outside the ball. When
        g_PU + g_NU > 0 the one is fixed at the level of the observed likes, and the others are kept within the
        radius (or alpha): the risk has no minimum in them otherwise.
    solver : str or solver, default="newton"
        "newton", "projected_gradient", or a solver such as ``ProjectedGradient(step=0.01)``.
    max_iter : int or None, default=None
        Most iterations; None for the solver's own number (newton 100 sweeps, projected_gradient 2000 steps).
    max_time : float or None, default=None
        Most seconds.
    tol : float, default=1e-5
        Stop when an iteration's first-order decrease is at most this share of the objective.
    like_at : float or None, default=None
        Read a matrix as ratings: from ``like_at`` up a like, below a dislike, 0 or NaN or unstored unobserved.
    dtype : {"float32", "float64"}, default="float32"
        Type of the arithmetic and of the factors. Sums are float64 either way.
    n_jobs : int or None, default=None
        Threads; None or -1 for every core. The result has the same bits for any number.
    random_state : int, Generator, RandomState or None, default=None
        Draws the first factors.
    verbose : int, default=0
        1 shows a progress bar (on a terminal).
    callback : callable or None, default=None
        Called with a :class:`~tribit.Iteration` after each iteration; returning True stops the fit.

    Attributes
    ----------
    row_factors_, column_factors_ : array of shape (n_rows, rank), (n_columns, rank)
        U and V.
    intercept_ : float
        The one intercept, 0 without intercepts.
    row_intercepts_, column_intercepts_ : array
        One intercept for each row and column.
    objective_ : float
        The objective above at the solution, in float64.
    n_iter_ : int
        Iterations done.
    converged_ : bool
        Whether ``tol`` was reached.
    stop_reason_ : str
        Why the solver stopped.
    history_ : list of Iteration
        What was known after each iteration.
    rho_ : float or Missingness
        The ``rho`` that was used. A file does not keep a fitted model of it: then None in what was loaded.
    radius_ : float or None
        The radius that was used.
    n_features_in_ : int
        Number of columns of the matrix.
    row_ids_, column_ids_ : array or None
        The user's ids, where the observations had any.
    names_ : tuple of str or None
        Names of the row, column and value columns of the file, where there was one.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import BinaryMatrixCompletion
    >>> A = np.array([[1, 1, 0, -1], [1, 0, -1, -1], [0, -1, 1, 1], [-1, -1, 1, 0]])
    >>> model = BinaryMatrixCompletion(rank=1, l2=0.1, random_state=0).fit(A)
    >>> model.predict([0, 3], [2, 3])
    array([-1,  1], dtype=int8)
    """

    def __init__(
        self,
        gammas: Any = (1, 0, 0),
        *,
        rho: Any = None,
        link: Any = "logistic",
        rank: int = 10,
        radius: float | None = None,
        norm: str = "max",
        alpha: float | None = None,
        l2: float = 5.0,
        intercept: bool = True,
        solver: Any = "newton",
        max_iter: int | None = None,
        max_time: float | None = None,
        tol: float = 1e-5,
        like_at: float | None = None,
        dtype: str = "float32",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        self.gammas = gammas
        self.rho = rho
        self.link = link
        self.rank = rank
        self.radius = radius
        self.norm = norm
        self.alpha = alpha
        self.l2 = l2
        self.intercept = intercept
        self.solver = solver
        self.max_iter = max_iter
        self.max_time = max_time
        self.tol = tol
        self.like_at = like_at
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Fit the model.

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
        solver = as_solver(self.solver)
        draws = generator(self.random_state)
        problem = make_problem(
            observations,
            gammas=self.gammas,
            rho=self.rho,
            link=self.link,
            rank=self.rank,
            radius=self.radius,
            norm=self.norm,
            alpha=self.alpha,
            l2=self.l2,
            intercept=self.intercept,
            dtype=self.dtype,
            n_jobs=self.n_jobs,
            generator=draws,
        )
        most = solver.max_iter if self.max_iter is None else self.max_iter
        with progress("fitting", most, self.callback, shown=bool(self.verbose)) as callback:
            stopping = Stopping(most, self.tol, self.max_time, callback)
            result = solver.minimise(
                problem.objective, problem.constraints, problem.start, stopping, draws
            )
        factors = result.factors.astype(self.dtype)
        self._set_fitted(factors, observations)
        self.n_iter_, self.converged_ = result.n_iter, result.converged
        self.stop_reason_, self.history_ = result.stop_reason, result.history
        self.objective_ = problem.objective.in_float64().value(factors.astype("float64"))
        self.rho_, self.radius_ = problem.rho, problem.radius
        self.names_: tuple[str, str, str | None] | None = None
        if result.stop_reason in (DIVERGED, NO_DESCENT) and not result.converged:
            warnings.warn(
                f"The fit stopped before it converged: {result.stop_reason}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        if result.stop_reason == OUT_OF_ITERATIONS:
            warnings.warn(
                f"The fit stopped after max_iter = {most} iterations, before tol = {self.tol:g} was reached: "
                "raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one safetensors file; :func:`tribit.load` reads it back."""
        from tribit.storage import save  # noqa: PLC0415 - storage makes estimators

        save(self, path)
        # Here rho is a name: a model that was passed in is refused above.
        if isinstance(self.rho_, Missingness):
            warnings.warn(
                f"The file keeps rho={self.rho!r} but not the model fitted for it (rho_), which predictions do not "
                "need; fit it again with tribit.propensity where you do.",
                TribitWarning,
                stacklevel=2,
            )
