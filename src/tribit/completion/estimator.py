"""The estimator, with scikit-learn's interface, and the parameters of a fit that are no part of the model."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from copy import copy, deepcopy
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tribit.backends import SUMS
from tribit.checks import check_choice, check_count, check_switch
from tribit.data.observations import Observations, as_observations
from tribit.errors import InvalidInputError
from tribit.factor_model import FactorModel
from tribit.metrics.entries import SCORINGS
from tribit.model.calibration import CALIBRATORS, Calibrator
from tribit.model.factors import Factors
from tribit.model.fitted import Fitted
from tribit.model.risks import Missingness
from tribit.model.scores import Scores
from tribit.model.spec import AUTO, ModelSpec, is_auto
from tribit.selection.record import Search
from tribit.solvers import Callback, Iteration, Stopping

if TYPE_CHECKING:
    from tribit.explain import Explanation


#: Entries that predictions may be for.
TARGETS = ("observed", "all")


def _parameter(default: Any, help: str, check: Any = None, command: Any = None) -> Any:  # noqa: A002
    """Return a field with its check, its help text and the default of the command line where that is another."""
    return field(default=default, metadata={"help": help, "check": check, "command": command})


def _choice(known: Iterable[str]) -> Callable[[str, Any], str]:
    return lambda name, value: check_choice(name, value, tuple(known))


@dataclass(frozen=True)
class FitOptions:
    """Parameters of the estimator that are no part of the model; the options of ``tribit fit`` beside those of it."""

    target: str = _parameter(
        "observed",
        "Predictions are for cells like the observed ones, or for all alike: observed, all.",
        _choice(TARGETS),
    )
    scoring: str = _parameter(
        "log_loss", "Measure to choose by: log_loss, error or auc.", _choice(SCORINGS)
    )
    search: bool = _parameter(
        True, "Whether to search for what is auto, which has its default otherwise.", check_switch
    )
    n_candidates: int | None = _parameter(None, "Most settings to try.", check_count)
    calibration: str | None = _parameter(
        AUTO,
        "Calibration: auto, platt, isotonic or none.",
        _choice((*CALIBRATORS, AUTO)),
    )
    n_fits: int | str = _parameter(
        AUTO,
        "Fits to average, of different ranks.",
        lambda name, value: value if is_auto(value) else check_count(name, value),
    )
    solver: Any = _parameter(AUTO, "newton, lbfgs, augmented_lagrangian or projected_gradient.")
    max_iter: int | None = _parameter(None, "Most iterations.")
    max_time: float | None = _parameter(None, "Most seconds.")
    tol: float = _parameter(
        1e-4, "Stop when the predicted decrease is below this share of the objective."
    )
    dtype: str = _parameter("float32", "float32 or float64.")
    n_jobs: int | None = _parameter(None, "Threads; -1 for every core.", command=-1)
    backend: str = _parameter(AUTO, "Sums over all cells: auto, exact or sampled.", _choice(SUMS))
    device: str = _parameter("cpu", "Where to compute: cpu, cuda (a GPU) or auto.")
    random_state: Any = _parameter(None, "Seed of the initial factors.", command=0)

    def __post_init__(self) -> None:
        for each in fields(self):
            value, check = getattr(self, each.name), each.metadata["check"]
            if check is not None and not (value is None and "None" in str(each.type)):
                check(each.name, value)


def _hyperparameter(name: str) -> Any:
    """Return the property of a hyperparameter of the fitted model."""
    return property(lambda self: getattr(self.fitted_.spec, name), doc=f"The value of {name}.")


class BinaryMatrixCompletion(FactorModel):
    """Complete a matrix of likes and dislikes, learning from the unobserved entries too.

    Minimises over low-rank ``X = U V' + intercepts``

        g_PN L_PN(X) + g_PU L_PU(X) + g_NU L_NU(X) + l2 / 2 (|U|^2 + |V|^2) + l2_intercept / 2 (|a|^2 + |c|^2)

    subject to ``|X|_max <= radius`` and ``|U V'|_inf <= alpha`` where given, and estimates
    ``P(like) = f(x)`` for every entry (Hayashi, Sakai and Sugiyama, Eq. for L_TRI). With implicit features, as in SVD++
    (Koren 2008), U and V also have sums over the entries observed in a row or column; with side features, over what is
    known of it (:mod:`tribit.model.features`).

    A parameter that is ``"auto"``, by default each that matters, is chosen on held-out entries
    (:mod:`tribit.selection`); ``print(model.search_)`` says what was chosen and why.

    Parameters
    ----------
    gammas : tuple of three floats or "auto", default="auto"
        Weights ``(g_PN, g_PU, g_NU)`` of the risks: at least 0, summing to 1. (1, 0, 0) learns from the observed
        signs alone. Where likes alone were observed "auto" is (0, 1, 0), for dislikes alone (0, 0, 1).
    rho : float, Missingness, {"constant", "row-column", "low-rank", "auto"} or None, default="auto"
        Probability that an entry is unobserved; None or "constant" for the share that is. It matters when
        g_PU + g_NU > 0, and for ``target="all"``. A model has one for each entry; a name fits that model of
        :mod:`tribit.propensity` to where the observations are. "auto" is "low-rank" for ``target="all"``, else
        "constant"; where likes alone were observed it is 0, and probabilities are of a cell being seen and liked.
    link : str or Link, default="logistic"
        "logistic", "probit" or a :class:`~tribit.Link` such as ``Logistic(scale=7)``.
    rank : int or "auto", default="auto"
        Number of columns of U and V; 0 for intercepts alone.
    radius : float, None or "auto", default="auto"
        Radius of the norm ball. None: no ball under PN or with ``rho=0`` and a ridge; a mixture has no minimum without
        one and is given ``f^-1(0.75)`` (about 1.1 for the logistic link): see ``radius_``. "auto" is None under PN.
    norm : {"max", "trace"}, default="max"
        Norm of the ball, in factor form, by its name in ``tribit.model.constraints.NORMS``. "trace" is kept by
        the solver "augmented_lagrangian".
    alpha : float, None or "auto", default=None
        Bound on the entries of ``U V'``. Below ``radius`` the solver "augmented_lagrangian" keeps it exactly;
        ``solver="projected_gradient"`` keeps it by scaling all of ``U V'`` as the paper does, and stops well above the
        minimum. "auto" is the radius that is chosen.
    l2 : float or "auto", default="auto"
        Weight of the ridge penalty on U and V.
    l2_intercept : float, None or "auto", default="auto"
        Weight of the ridge penalty on row and column intercepts; None for ``l2``.
    implicit_features : bool or "auto", default="auto"
        Whether to add implicit-feedback features, as in SVD++ (Koren 2008, "Factorization meets the neighborhood"):
        factors then have sums over the entries observed in a row or column, of any label. With them
        a ball is a smooth bound, which rows may exceed by a few percent.
    l2_implicit : float, None or "auto", default="auto"
        Weight of the ridge penalty on the parts of implicit features; None for 1.7 ``l2``.
    activity_floor : tuple of two floats or "auto", default="auto"
        Least activity of rows and of columns in implicit features, as shares of the mean number of entries: shorter
        ones, which may just be new, count as having so many (:class:`tribit.model.features.Activity`). 0 for none.
    side_features : bool or "auto", default="auto"
        Whether the features that ``fit`` is given are parts of the factors of rows and columns with entries. Those
        without any are predicted from them in any case. It needs PN alone.
    l2_side : float, None or "auto", default="auto"
        Weight of the ridge penalty on the parts of side features; None for ``l2``.
    intercept : bool, default=True
        Whether to fit one intercept, one for each row and one for each column. They are outside the ball. When
        g_PU + g_NU > 0 and ``rho > 0`` the one is fixed at the level of the observed likes, and the others are kept
        within the radius (or alpha): the risk has no minimum in them otherwise.
    inverse_power : float, default=0.0
        PN gives an observed entry the weight ``(1 / q)^inverse_power``, 1 on average, with ``q = 1 - rho``: 0 for all
        alike, 1 for the unbiased risk of every entry of the matrix.
    imputed : FactorModel or None, default=None
        A fitted model, whose probabilities take the place of the labels that were not seen: the doubly robust risk in
        the place of PU and NU, with their weight.
    target : {"observed", "all"}, default="observed"
        The entries that predictions are for, which decides what is chosen: those that are observed in the same way as
        the given ones, or all entries alike (held-out entries then weigh ``1 / q``, q the probability of being
        observed).
    scoring : {"log_loss", "error", "auc"}, default="log_loss"
        The measure of held-out entries by which to choose.
    search : bool, default=True
        Whether to search for what is "auto". Without a search every such parameter has its default: the observed signs
        alone, rank 10, ``l2=5``, no implicit features, no calibrator and one fit.
    n_candidates : int or None, default=None
        Most settings to try.
    calibration : {"auto", "platt", "isotonic", "identity"} or None, default="auto"
        How ``x`` becomes a probability: "platt" is ``f(slope x + offset)``, which is the link with its scale chosen
        from the data. "auto" takes what predicts held-out entries best, if a search has held any out; None the link.
    n_fits : int or "auto", default="auto"
        Number of fits with different numbers of columns whose mean ``x`` is the model: such a mean has all their
        columns side by side. "auto" is one, or up to three where ``rank`` is "auto" too and held-out entries clearly
        prefer the mean. Intercepts alone (rank 0) have one minimum, and one fit.
    solver : str or solver, default="auto"
        "newton", "lbfgs", "augmented_lagrangian", "projected_gradient", or a solver such as
        ``ProjectedGradient(step=0.01)``. "auto" is the first that keeps the model: "newton", "lbfgs" for implicit
        features and for rank 0 without a ball, "augmented_lagrangian" for ``norm="trace"`` and for ``alpha < radius``.
    max_iter : int or None, default=None
        Most iterations; None for the solver's own number (newton 100 sweeps, lbfgs 1000 steps,
        augmented_lagrangian 3000, projected_gradient 2000).
    max_time : float or None, default=None
        Most seconds: of the search, again of the last fit, and again of what is learned of rows and columns without
        entries from their features, which is left out if it takes longer (``stop_reason_`` says so).
    tol : float, default=1e-4
        Stop when an iteration's first-order decrease, and what further iterations would gain at the rate at which gains
        have shrunk, are at most this share of the objective (:func:`tribit.solvers.loop.predicted_decrease`).
    like_at : float or None, default=None
        Read a matrix as ratings: from ``like_at`` up a like, below a dislike, 0 or NaN or unstored unobserved.
    dtype : {"float32", "float64"}, default="float32"
        Type of the arithmetic and of the factors. Sums are float64 either way.
    n_jobs : int or None, default=None
        Threads; None or -1 for every core. The result has the same bits for any number.
    backend : {"auto", "exact", "sampled"}, default="auto"
        How sums over all entries are done where g_PU + g_NU > 0. "exact" visits every cell in each pass. "sampled" has
        a quadratic part of them exactly and estimates the rest from a sample, unbiased, at a cost that grows with the
        observed entries, rows and columns (:mod:`tribit.backends.sampled`). "auto" is "exact" up to 2 x 10^9 cells;
        ``backend_`` says which it was.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where search and fit are computed, and lists and other large answers. "cuda" is a GPU, by PyTorch and Triton
        (``pip install "tribit[gpu]"``); its answers agree with the CPU's as float32 allows. "auto" is a GPU where there
        is one and the table has 300,000 entries or more. With a client it is where each worker sums its partitions.
    random_state : int, Generator, RandomState or None, default=None
        Draws the first factors, which entries are held out, and the sample where there is one.
    verbose : int, default=0
        1 shows a progress bar (on a terminal).
    callback : callable or None, default=None
        Called with a :class:`~tribit.Iteration` after each iteration of the last fit; returning True stops it.

    Attributes
    ----------
    fitted_ : Fitted
        The result of the fit (:class:`tribit.model.fitted.Fitted`): members, axes, calibrator. The attributes below
        are read from it and from ``record_``.
    record_ : FitRecord
        How it was found (:class:`tribit.selection.record.FitRecord`).
    scores_ : Scores
        Axes, factors and curve of the predictions (:class:`tribit.model.scores.Scores`).
    row_factors_, column_factors_ : array of shape (n_rows, rank), (n_columns, rank)
        U and V. The mean of several fits has the latent factors of all of them.
    intercept_ : float
        The one intercept, 0 without intercepts.
    row_intercepts_, column_intercepts_ : array
        One intercept for each row and column.
    objective_ : float
        The objective above at the solution, in float64; with a sampled backend an estimate, from a sample other than
        that of the fit. Of several fits that of the first, as are ``n_iter_`` and
        ``history_``. The regression of a small side that a search of likes alone may add to the factors
        (``search_.regression``) is no part of it; its latent factors are counted in ``rank_``.
    backend_ : {"exact", "sampled"} or None
        How sums over all entries were done; None in a model read from a file.
    n_iter_ : int
        Iterations of the refit on all data.
    converged_ : bool
        Whether ``tol`` was reached, by each fit. False after Ctrl-C, which ends a fit with the best found so far; a
        second one raises KeyboardInterrupt.
    stop_reason_ : str
        Why the solver stopped; "interrupted from the keyboard" also where that ended the search, and so does
        ``search_.stop_reason`` then.
    history_ : list of Iteration
        What was known after each iteration; without times in a model read from a file.
    calibration_ : Calibrator or None
        The map from ``x`` to probabilities; None for the link itself.
    search_ : Search or None
        Every candidate that was tried, without times in a model read from a file; None where nothing was "auto".
    spec_ : ModelSpec
        The model that was fitted, with every value that was chosen.
    gammas_, rank_, radius_, alpha_, l2_, l2_intercept_, implicit_features_, l2_implicit_, ...
        Its values that may have been chosen.
    n_fits_ : int
        Number of fits whose mean the model is. Below ``n_fits`` where ``max_time`` or Ctrl-C left some out.
    unknowns_ : Factors
        The unknowns of the minimisation, of several fits their mean: the factors and intercepts themselves, or with
        implicit features the parts that they are made of (:class:`tribit.model.features.Features`).
    rho_ : float, Missingness or None
        The ``rho`` that was used. A file does not keep a fitted model of it: then None, and it may be set.
    n_features_in_ : int
        Number of columns of the matrix.
    row_ids_, column_ids_ : array or None
        The user's ids, where the observations had any.

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
        gammas: Any = AUTO,
        *,
        rho: Any = AUTO,
        link: Any = "logistic",
        rank: Any = AUTO,
        radius: Any = AUTO,
        norm: str = "max",
        alpha: Any = None,
        l2: Any = AUTO,
        l2_intercept: Any = AUTO,
        implicit_features: Any = AUTO,
        l2_implicit: Any = AUTO,
        activity_floor: Any = AUTO,
        side_features: Any = AUTO,
        l2_side: Any = AUTO,
        intercept: bool = True,
        inverse_power: float = 0.0,
        imputed: FactorModel | None = None,
        target: str = "observed",
        scoring: str = "log_loss",
        search: bool = True,
        n_candidates: int | None = None,
        calibration: str | None = AUTO,
        n_fits: Any = AUTO,
        solver: Any = AUTO,
        max_iter: int | None = None,
        max_time: float | None = None,
        tol: float = 1e-4,
        like_at: float | None = None,
        dtype: str = "float32",
        n_jobs: int | None = None,
        backend: str = AUTO,
        device: str = "cpu",
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
        self.l2_intercept = l2_intercept
        self.implicit_features = implicit_features
        self.l2_implicit = l2_implicit
        self.activity_floor = activity_floor
        self.side_features = side_features
        self.l2_side = l2_side
        self.intercept = intercept
        self.inverse_power = inverse_power
        self.imputed = imputed
        self.target = target
        self.scoring = scoring
        self.search = search
        self.n_candidates = n_candidates
        self.calibration = calibration
        self.n_fits = n_fits
        self.solver = solver
        self.max_iter = max_iter
        self.max_time = max_time
        self.tol = tol
        self.like_at = like_at
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.backend = backend
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    gammas_ = _hyperparameter("gammas")
    rank_ = _hyperparameter("rank")
    radius_ = _hyperparameter("radius")
    alpha_ = _hyperparameter("alpha")
    l2_ = _hyperparameter("l2")
    l2_intercept_ = _hyperparameter("l2_intercept")
    implicit_features_ = _hyperparameter("implicit_features")
    l2_implicit_ = _hyperparameter("l2_implicit")
    activity_floor_ = _hyperparameter("activity_floor")
    side_features_ = _hyperparameter("side_features")
    l2_side_ = _hyperparameter("l2_side")

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy in which the model for ``imputed`` stays fitted, unlike in scikit-learn's clone."""
        given = self.get_params(deep=False)
        copies = {
            name: value if name == "imputed" else clone(value, safe=False)
            for name, value in given.items()
        }
        again = type(self)(**copies)
        if hasattr(self, "_metadata_request"):  # as scikit-learn's clone does
            again._metadata_request = deepcopy(self._metadata_request)
        return again

    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002
        *,
        row_features: Any = None,
        column_features: Any = None,
        client: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : Observations, sparse matrix or array of shape (n_rows, n_columns)
            Likes (+1) and dislikes (-1); what is 0, NaN or not stored is unobserved. With a client also a dask data
            frame of row ids, column ids and labels or ratings, in its first three columns.
        y : ignored
            Present for scikit-learn's interface.
        row_features, column_features : data frame, sparse matrix or array, optional
            What is known of rows and of columns (:mod:`tribit.data.features`). A frame is matched by id: the index
            of a pandas frame, else the first column; a matrix has one row for each row (or column) of X. Numbers,
            categories, lists of tags and missing values are welcome.
        client : distributed.Client, optional
            A dask cluster on whose workers the entries are summed (:mod:`tribit.cluster`); the solver and the factors
            stay here.

        Returns
        -------
        self
        """
        from tribit.completion.fitting import fit  # noqa: PLC0415 - predictions need no search

        check_not_row_folds()
        observations = self.read(X, client)
        check_options(self)
        self.fitted_, self.record_ = fit(self, observations, row_features, column_features)
        return self

    def read(self, X: Any, client: Any = None) -> Observations:
        """Return a user's matrix as observations, on this machine or on the workers of a cluster; see :meth:`fit`."""
        if client is None:
            return as_observations(X, like_at=self.like_at)
        from tribit.cluster import as_partitioned  # noqa: PLC0415 - an extra

        return as_partitioned(X, client, like_at=self.like_at)

    def fold_in(
        self,
        X: Any = None,
        *,
        axis: str = "rows",
        prior: str = "fit",
        row_features: Any = None,
        column_features: Any = None,
    ) -> Self:
        """Return a copy of the model with new rows (or columns) added, everything else fixed.

        Each new row is at the minimum of its own part of the objective, implicit and side features included
        (:mod:`tribit.folding`). A row without entries and features is predicted by the column biases, and a warning
        says so.

        Parameters
        ----------
        X : Observations, sparse matrix, array or None
            The entries of the new rows, in the columns of the model; with ids where the model has ids. None for rows
            of which features alone are known.
        axis : {"rows", "columns"}, default="rows"
            Which are new. New columns come with entries in the rows of the model.
        prior : {"fit", "new"}, default="fit"
            The ridge of the new rows. "fit" is that of the fit: a row of the fit that is folded in again has the same
            factors. "new" shrinks factors less (0.6 ``l2``) and intercepts more (1.5 ``l2_intercept``): for rows that
            came after the fit, to whose entries the columns have not adapted.
        row_features, column_features : data frame, sparse matrix or array, optional
            Features of the new rows (or columns), as in :meth:`fit`.

        Returns
        -------
        BinaryMatrixCompletion
            With the new rows after those it had; this model stays as it is.
        """
        from tribit.folding import fold_in  # noqa: PLC0415 - predictions need no folding

        check_is_fitted(self)
        return self.with_fitted(
            fold_in(
                self.fitted_,
                None if X is None else as_observations(X, like_at=self.like_at),
                axis=axis,
                prior=prior,
                row_features=row_features,
                column_features=column_features,
                n_jobs=self.n_jobs,
            )
        )

    def update(
        self, X: Any, seen: Any, *, row_features: Any = None, column_features: Any = None
    ) -> Self:
        """Return a copy of the model that knows new entries too: rows and columns that have any are solved for again.

        Rows, columns and rows once more, each with the others fixed; new ids become new rows and columns. It is much
        cheaper than a fit and not the same: rows and columns without new entries stay, and nothing is chosen again.

        Parameters
        ----------
        X : Observations, sparse matrix or array
            The new entries. One that was seen before has its new label.
        seen : Observations, sparse matrix or array
            The entries the model was fitted on.
        row_features, column_features : data frame, sparse matrix or array, optional
            Features of new rows and columns, as in :meth:`fit`.
        """
        from tribit.folding import update  # noqa: PLC0415

        check_is_fitted(self)
        given, before = (as_observations(each, like_at=self.like_at) for each in (X, seen))
        return self.with_fitted(
            update(
                self.fitted_,
                given,
                before,
                row_features=row_features,
                column_features=column_features,
                n_jobs=self.n_jobs,
            )
        )

    def explain(self, row: Any, column: Any, seen: Any) -> Explanation:
        """Return the contributions to the score of one cell: the entries of its row, features and intercepts.

        An entry of the row contributes the difference between the row's minimum with it and without it
        (:mod:`tribit.explain`).

        Parameters
        ----------
        row, column : id or int
            The cell: ids where the model has ids, else positions from 0.
        seen : Observations, sparse matrix or array
            The entries the model was fitted on; of a row that was folded in, its entries.

        Returns
        -------
        Explanation
            Printed, a small table.
        """
        from tribit.explain import explain  # noqa: PLC0415 - predictions need no reasons

        check_is_fitted(self)
        seen = as_observations(seen, like_at=self.like_at)
        return explain(self.fitted_, row, column, seen, n_jobs=self.n_jobs)

    def refit(
        self, X: Any, random_state: Any = None, *, rho: Any = AUTO, imputed: Any = None
    ) -> Fitted:
        """Return the chosen model fitted to other entries of the same matrix: without a search and side features.

        Parameters
        ----------
        X : Observations, sparse matrix or array
            The entries.
        random_state : int, Generator, RandomState or None
            Draws the initial factors.
        rho : float, Missingness, str or "auto", default="auto"
            As in the constructor; "auto" is what the fit was asked for.
        imputed : FactorModel or None
            As in the constructor.
        """
        from tribit.completion.fitting import refit  # noqa: PLC0415 - predictions need no fit

        check_is_fitted(self)
        observations = as_observations(X, like_at=self.like_at)
        return refit(self, observations, random_state, rho, imputed)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one safetensors file; :func:`tribit.load` reads it back."""
        from tribit.completion.files import save  # noqa: PLC0415 - predictions need no files

        save(self, path)

    def with_fitted(self, fitted: Fitted) -> Self:
        """Return a copy with the result of another fit, and the same parameters and record."""
        again = copy(self)
        again.fitted_ = fitted
        return again

    @property
    def scores_(self) -> Scores:  # type: ignore[override]
        """Scores of the fit."""
        return self.fitted_.scores

    @property
    def unknowns_(self) -> Factors:
        """The unknowns of the minimisation."""
        return self.fitted_.unknowns

    @property
    def spec_(self) -> ModelSpec:
        """The model that was fitted."""
        return self.fitted_.spec

    @property
    def n_fits_(self) -> int:
        """Number of fits whose mean the model is."""
        return len(self.fitted_.members)

    @property
    def calibration_(self) -> Calibrator | None:
        """The map from ``x`` to probabilities."""
        return self.fitted_.calibrator

    @property
    def rho_(self) -> float | Missingness | None:
        """The probability that an entry is unobserved."""
        return self.fitted_.rho

    @rho_.setter
    def rho_(self, rho: float | Missingness) -> None:
        self.fitted_ = self.fitted_.with_rho(rho)

    @property
    def search_(self) -> Search | None:
        """The search."""
        return self.record_.search

    @property
    def history_(self) -> list[Iteration]:
        """What was known after each iteration."""
        return list(self.record_.history)

    @property
    def objective_(self) -> float:
        """The objective at the solution."""
        return self.record_.objective

    @property
    def backend_(self) -> str | None:
        """How sums over all entries were done."""
        return self.record_.backend

    @property
    def n_iter_(self) -> int:
        """Iterations of the refit on all data."""
        return self.record_.n_iter

    @property
    def converged_(self) -> bool:
        """Whether the tolerance was reached."""
        return self.record_.converged

    @property
    def stop_reason_(self) -> str:
        """Why the solver stopped."""
        return self.record_.stop_reason

    def _factors(self) -> Factors:
        return self.fitted_.factors


def check_options(estimator: BinaryMatrixCompletion) -> None:
    """Refuse a wrong value of a parameter of :class:`FitOptions`, before a search that may take minutes."""
    FitOptions(**{each.name: getattr(estimator, each.name) for each in fields(FitOptions)})
    most = 1 if estimator.max_iter is None else estimator.max_iter
    Stopping(most, estimator.tol, estimator.max_time, estimator.callback)


#: The function of scikit-learn that fits and scores one fold, and its module.
FOLD_FUNCTION, FOLD_MODULE = "_fit_and_score", "sklearn.model_selection._validation"


def check_not_row_folds() -> None:
    """Refuse a fit that scikit-learn's cross-validation has called, itself or through its pipelines.

    ``GridSearchCV`` and ``cross_val_score`` fit on some rows and score on others, which the model does not know. Each
    score would fail, scikit-learn would make NaN of the error, and a search would return a choice without a
    measurement. An error in ``fit`` is passed on.

    Another estimator that fits a model in its own ``fit``, as :class:`tribit.EntryClassifier` does, may be
    cross-validated: frames are examined from the fit upwards while they belong to scikit-learn.
    """
    frame = sys._getframe(1).f_back  # the caller of fit
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("sklearn."):
        if frame.f_code.co_name == FOLD_FUNCTION and frame.f_globals["__name__"] == FOLD_MODULE:
            raise InvalidInputError(
                "scikit-learn's cross-validation divides a matrix by rows, and the model cannot predict rows that it "
                "was not fitted on: use tribit.cross_validate, or tribit.EntryClassifier on pairs (row, column) with "
                "GridSearchCV and cross_val_score."
            )
        frame = frame.f_back
