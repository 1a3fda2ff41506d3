"""The estimator, with scikit-learn's interface, and the parameters of a fit that are no part of the model."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self, Unpack

from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tribit.backends import SUMS
from tribit.checks import check_choice, check_count, check_switch
from tribit.completion.fitted_model import FittedModel
from tribit.completion.transformer import RowTransformer
from tribit.data.observations import Observations, as_observations, read_entries
from tribit.data.reading import Reading
from tribit.data.rules import RuleOptions, TableRules
from tribit.data.weights import refuse_weights_on_cluster
from tribit.display import ShowsFit, html_facts
from tribit.errors import InvalidInputError, TribitWarning, parameter, warn
from tribit.factor_model import FactorModel
from tribit.metrics.entries import SCORINGS
from tribit.model.calibration import CALIBRATORS
from tribit.model.factors import Factors
from tribit.model.fitted import Fitted
from tribit.model.links import Link
from tribit.model.risks import Missingness
from tribit.model.spec import AUTO, Auto, is_auto
from tribit.nouns import likes_and_dislikes
from tribit.randomness import RandomState
from tribit.selection.half_life import check_half_life
from tribit.solvers import Callback, Solver, Stopping

if TYPE_CHECKING:
    from tribit.explain import Explanation


#: Populations of the predictions.
TARGETS = ("observed", "all")


def _parameter(default: Any, help: str, check: Any = None, command: Any = None) -> Any:  # noqa: A002
    """Return a field with its check, its help text and, if it differs, the default of the command line."""
    return field(default=default, metadata={"help": help, "check": check, "command": command})


def _choice(known: Iterable[str]) -> Callable[[str, Any], str]:
    return lambda name, value: check_choice(name, value, tuple(known))


@dataclass(frozen=True)
class FitOptions:
    """Parameters of the estimator beside those of the model; each is also an option of ``tribit fit``."""

    target: str = _parameter(
        "observed",
        "Population of the predictions: observed (entries like the observed ones) or all.",
        _choice(TARGETS),
    )
    scoring: str = _parameter(
        "log_loss", "Measure on the validation set: log_loss, error or auc.", _choice(SCORINGS)
    )
    search: bool = _parameter(
        True, "Tune the hyperparameters that are auto; otherwise they have defaults.", check_switch
    )
    n_candidates: int | None = _parameter(
        None, "Limit on the candidates of the search.", check_count
    )
    half_life: float | str | None = _parameter(
        AUTO,
        "Days in which the weight of an entry halves, where entries have times: a number, auto or none.",
        check_half_life,
    )
    calibration: str | None = _parameter(
        AUTO,
        "Calibration: auto, platt, beta, isotonic or none.",
        _choice((*CALIBRATORS, AUTO)),
    )
    members: int | str = _parameter(
        AUTO,
        "Greatest number of fits in the stack; 1 for the single best model.",
        lambda name, value: value if is_auto(value) else check_count(name, value),
    )
    solver: Any = _parameter(
        AUTO, "Solver: newton, lbfgs, augmented_lagrangian or projected_gradient."
    )
    max_iter: int | None = _parameter(None, "Limit on the iterations.")
    max_time: float | None = _parameter(None, "Limit in seconds, for the search and for the refit.")
    tol: float = _parameter(
        1e-4, "Stop when the predicted decrease is below this share of the objective."
    )
    dtype: str = _parameter("float32", "Type of the arithmetic: float32 or float64.")
    n_jobs: int | None = _parameter(None, "Threads; -1 for every core.", command=-1)
    backend: str = _parameter(AUTO, "Sums over all cells: auto, exact or sampled.", _choice(SUMS))
    device: str = _parameter("cpu", "Device: cpu, cuda (a GPU) or auto.")
    random_state: Any = _parameter(None, "Seed of the initial factors.", command=0)

    def __post_init__(self) -> None:
        for each in fields(self):
            value, check = getattr(self, each.name), each.metadata["check"]
            if check is not None and not (value is None and "None" in str(each.type)):
                check(each.name, value)


class BinaryMatrixCompletion(FittedModel, ShowsFit, RowTransformer, FactorModel):  # type: ignore[override]
    """Matrix factorization of likes and dislikes, which also learns from the unobserved entries.

    Minimises over low-rank ``X = U V' + intercepts``

        g_PN L_PN(X) + g_PU L_PU(X) + g_NU L_NU(X) + l2 / 2 (|U|^2 + |V|^2) + l2_intercept / 2 (|a|^2 + |c|^2)

    subject to ``|X|_max <= radius`` and ``|U V'|_inf <= alpha`` where given, and estimates
    ``P(like) = f(x)`` for every entry (Hayashi, Sakai and Sugiyama, Eq. for L_TRI). With implicit features, as in SVD++
    (Koren 2008), U and V also have sums over the entries observed in a row or column; with side features, sums over
    its features (:mod:`tribit.model.features`).

    Hyperparameters that are ``"auto"`` are tuned on a validation set (:mod:`tribit.selection`);
    ``print(model.search_)`` shows the choice and its reasons.

    Parameters
    ----------
    gammas : tuple of three floats or "auto", default="auto"
        Weights ``(g_PN, g_PU, g_NU)`` of the risks: at least 0, summing to 1. (1, 0, 0) learns from the observed
        labels alone. "auto" is (0, 1, 0) if only likes were observed, and (0, 0, 1) if only dislikes.
    rho : float, Missingness, {"constant", "row-column", "low-rank", "auto"} or None, default="auto"
        Probability that an entry is unobserved; None or "constant" for the unobserved share of the matrix. It matters
        if g_PU + g_NU > 0 and for ``target="all"``. A :class:`Missingness` has one for each entry; a name fits that
        model of :mod:`tribit.propensity` to the mask. "auto" is "low-rank" for ``target="all"``, else "constant". If
        only likes were observed it is 0, and probabilities are those of a cell being observed and liked.
    link : str or Link, default="logistic"
        "logistic", "probit" or a :class:`~tribit.Link` such as ``Logistic(scale=7)``.
    rank : int or "auto", default="auto"
        Number of latent factors; 0 for biases alone.
    radius : float, None or "auto", default="auto"
        Radius of the norm ball. None is no ball under PN, and with ``rho=0`` and a ridge penalty. Any other mixture has
        no minimum without a ball and gets ``f^-1(0.75)`` (about 1.1 for the logistic link), see ``radius_``. "auto" is
        None under PN.
    norm : {"max", "trace"}, default="max"
        Norm of the ball, in factor form, by its name in ``tribit.model.constraints.NORMS``. "trace" needs the solver
        "augmented_lagrangian".
    alpha : float, None or "auto", default=None
        Bound on the entries of ``U V'``. If it is below ``radius``, the solver "augmented_lagrangian" satisfies it
        exactly. "projected_gradient" satisfies it by scaling all of ``U V'``, as the paper does, and stops well above
        the minimum. "auto" is the chosen radius.
    l2 : float or "auto", default="auto"
        Weight of the ridge penalty on U and V.
    l2_power : float or "auto", default="auto"
        Power of the number of entries in the penalty of a row or column, from 0 to 1: that of ``u_i`` is
        ``l2 (n_i / n)^l2_power``, with n the mean number of entries of a row. 0 is the same penalty for all rows, 1 one
        for each entry.
    l2_intercept : float, None or "auto", default="auto"
        Weight of the ridge penalty on row and column biases; None for ``l2``.
    implicit_features : bool or "auto", default="auto"
        Whether to add implicit-feedback features, as in SVD++ (Koren 2008, "Factorization meets the neighborhood"):
        factors then have sums over the observed entries of a row or column, whatever the label. The ball is then a
        smooth bound, which rows may exceed by a few percent.
    l2_implicit : float, None or "auto", default="auto"
        Weight of the ridge penalty on the coefficients of implicit features; None for 1.7 ``l2``.
    activity_floor : tuple of two floats or "auto", default="auto"
        Smallest activity of rows and of columns in implicit features, as shares of the mean number of entries. Rows or
        columns with fewer entries, which may be new, count as having so many
        (:class:`tribit.model.features.Activity`). 0 for none.
    side_features : bool or "auto", default="auto"
        Whether the features passed to ``fit`` contribute to the factors of rows and columns with entries. Rows and
        columns without entries (cold start) are predicted from them in any case. True needs PN alone.
    l2_side : float, None or "auto", default="auto"
        Weight of the ridge penalty on the coefficients of side features; None for ``l2``.
    intercept : bool, default=True
        Whether to fit a global intercept and biases of rows and columns (main effects). They are outside the ball. If
        g_PU + g_NU > 0 and ``rho > 0``, the intercept is fixed at the level of the observed likes and the biases are
        bounded by the radius (or alpha), as the risk has no minimum in them otherwise.
    inverse_power : float, default=0.0
        Power of the inverse propensity: PN weights an observed entry by ``(1 / q)^inverse_power``, scaled to mean 1,
        with ``q = 1 - rho``. 0 is equal weights, 1 the unbiased risk over all entries of the matrix.
    imputed : FactorModel or None, default=None
        A fitted model for imputation: its probabilities replace the unobserved labels. PU and NU become the doubly
        robust risk, with their weight.
    target : {"observed", "all"}, default="observed"
        Population of the predictions, for which hyperparameters are tuned: "observed" for entries that are selected as
        the given ones were, "all" for all entries alike. Validation entries then have the weight ``1 / q``, q the
        probability of being observed.
    scoring : {"log_loss", "error", "auc"}, default="log_loss"
        The measure on the validation set by which to choose.
    search : bool, default=True
        Whether to tune the parameters that are "auto". Otherwise they have their defaults: the observed labels alone,
        rank 10, ``l2=5``, no implicit features, no calibrator and one fit.
    n_candidates : int or None, default=None
        Greatest number of candidates of the search.
    half_life : float, None or "auto", default="auto"
        Where entries have times, days in which the weight of an entry halves: ``2^(-age / half_life)`` times a factor
        that keeps the mean weight. "auto" compares half-lives on the latest tenth of the entries and uses one if it is
        clearly better there than none (:mod:`tribit.selection.half_life`); ``record_.half_life`` has the comparison.
        Without times it changes nothing.
    calibration : {"auto", "platt", "beta", "isotonic", "identity"} or None, default="auto"
        The map from ``x`` to probabilities, fitted to held-out entries: "platt" is ``f(slope x + offset)``, the link
        with a fitted scale, "beta" has a slope for each label (:func:`tribit.uncertainty.beta`), and None is the link.
        "auto" is "beta" where a search holds entries out.
    members : int or "auto", default="auto"
        Greatest number of fits whose weighted mean ``x`` is the model (stacking, :mod:`tribit.selection.stacking`); it
        has the latent factors of all of them. 1 is the single best model. "auto" is up to 5, or 1 if ``rank`` is
        given. Attributes such as ``rank_`` and ``l2_`` are those of the first member; ``search_``
        has all.
    solver : str or solver, default="auto"
        "newton", "lbfgs", "augmented_lagrangian", "projected_gradient", or a solver such as
        ``ProjectedGradient(step=0.01)``. "auto" is the first that can fit the model: "newton", "lbfgs" for
        implicit features and for rank 0 without a ball, "augmented_lagrangian" for ``norm="trace"`` and for
        ``alpha < radius``.
    max_iter : int or None, default=None
        Greatest number of iterations; None for the solver's own (newton 100 sweeps, lbfgs 1000 steps,
        augmented_lagrangian 3000, projected_gradient 2000).
    max_time : float or None, default=None
        Limit in seconds for the search, for the refit on all data, for the cold-start regression on features, and for
        the comparison of half-lives, each. A regression that takes longer is left out (see ``stop_reason_``).
    tol : float, default=1e-4
        Stop when the first-order decrease of an iteration, and the predicted decrease by all further ones, are at most
        this share of the objective (:func:`tribit.solvers.loop.predicted_decrease`).
    like_at : float or None, default=None
        Read a matrix as ratings: from ``like_at`` up a like, below it a dislike; 0, NaN or not stored is unobserved.
    dtype : {"float32", "float64"}, default="float32"
        Type of the arithmetic and of the factors. Sums are float64 either way.
    n_jobs : int or None, default=None
        Threads; None or -1 for every core. The result has the same bits for any number.
    backend : {"auto", "exact", "sampled"}, default="auto"
        Computation of sums over all entries if g_PU + g_NU > 0. "exact" visits every cell in each pass. "sampled"
        computes a quadratic part exactly and estimates the rest without bias from a sample, at a cost that grows with
        the observed entries, rows and columns (:mod:`tribit.backends.sampled`). "auto" is "exact" up to 2 x 10^9 cells;
        ``backend_`` has the choice.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Device of the search, the fit and large answers such as top-N lists. "cuda" is a GPU, by PyTorch and Triton
        (``pip install "tribit[gpu]"``), with the accuracy of float32. "auto" is a GPU if there is one and the table has
        300,000 entries or more. With a client it is the device of each worker.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the initial factors, of the validation set, and of the sample of a sampled backend.
    verbose : int, default=0
        1 shows progress: a bar on a terminal, a line in a notebook, else a line for each stage on standard error. Each
        stage is logged by the logger "tribit" at the level INFO in any case.
    callback : callable or None, default=None
        Called with a :class:`~tribit.Iteration` after each iteration of the refit; returning True stops it.

    Attributes
    ----------
    fitted_ : Fitted
        The result of the fit (:class:`tribit.model.fitted.Fitted`): members, axes, calibrator. The attributes below
        come from it and from ``record_``.
    record_ : FitRecord
        The record of search and solver (:class:`tribit.selection.record.FitRecord`).
    reading_ : Reading
        The rules by which the table was read, which later matrices are read by too.
    counts_ : dict
        Numbers of ``"likes"`` and ``"dislikes"`` of the fit; not in a model's file.
    scores_ : Scores
        Axes, factors and curve of the predictions (:class:`tribit.model.scores.Scores`).
    row_factors_, column_factors_ : array of shape (n_rows, rank), (n_columns, rank)
        U and V. A stack has the latent factors of all of its members.
    intercept_ : float
        The global intercept, 0 without intercepts.
    row_intercepts_, column_intercepts_ : array
        The biases (main effects) of rows and columns.
    objective_ : float
        The objective above at the solution, in float64; with a sampled backend an estimate from another sample than
        that of the fit. Of a stack that of its first member, like ``n_iter_`` and ``history_``. It does not
        include the regression that a search on likes alone may add to the factors (``search_.regression``), nor does
        ``rank_``.
    backend_ : {"exact", "sampled"} or None
        The computation of sums over all entries; None in a model read from a file.
    n_iter_ : int
        Iterations of the refit on all data.
    converged_ : bool
        Whether each fit reached ``tol``. False after Ctrl-C, which ends a fit with the best factors so far; a second
        Ctrl-C raises KeyboardInterrupt.
    stop_reason_ : str
        The reason why the solver stopped; "interrupted from the keyboard" also if Ctrl-C ended the search.
    history_ : list of Iteration
        A record of each iteration; without times in a model read from a file.
    calibration_ : Calibrator or None
        The map from ``x`` to probabilities; None for the link itself.
    half_life_ : float or None
        Days in which the weight of an entry halved; None for equal weights.
    search_ : Search or None
        Every candidate of the search, without times in a model read from a file; None if nothing was "auto".
    spec_ : ModelSpec
        The fitted model, with its hyperparameters.
    gammas_, rank_, radius_, alpha_, l2_, l2_intercept_, implicit_features_, l2_implicit_, ...
        Its hyperparameters.
    n_members_ : int
        Number of fits whose weighted mean the model is.
    unknowns_ : Factors
        The unknowns of the minimisation, of a stack their mean: the factors and intercepts themselves, or with
        features the coefficients that they are computed from (:class:`tribit.model.features.Features`).
    rho_ : float, Missingness or None
        The ``rho`` of the fit. A file does not keep a fitted model of the mask: then None, and it may be set.
    n_features_in_ : int
        Number of columns of the matrix.
    row_ids_, column_ids_ : array or None
        The user's ids, if the observations had any.

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
        gammas: Sequence[float] | Auto = AUTO,
        *,
        rho: float | str | Missingness | None = AUTO,
        link: str | Link = "logistic",
        rank: int | Auto = AUTO,
        radius: float | Auto | None = AUTO,
        norm: str = "max",
        alpha: float | Auto | None = None,
        l2: float | Auto = AUTO,
        l2_power: float | Auto = AUTO,
        l2_intercept: float | Auto | None = AUTO,
        implicit_features: bool | Auto = AUTO,
        l2_implicit: float | Auto | None = AUTO,
        activity_floor: float | Sequence[float] | Auto = AUTO,
        side_features: bool | Auto = AUTO,
        l2_side: float | Auto | None = AUTO,
        intercept: bool = True,
        inverse_power: float = 0.0,
        imputed: FactorModel | None = None,
        target: str = "observed",
        scoring: str = "log_loss",
        search: bool = True,
        n_candidates: int | None = None,
        half_life: float | Auto | None = AUTO,
        calibration: str | None = AUTO,
        members: int | Auto = AUTO,
        solver: str | Solver = AUTO,
        max_iter: int | None = None,
        max_time: float | None = None,
        tol: float = 1e-4,
        like_at: float | None = None,
        dtype: str = "float32",
        n_jobs: int | None = None,
        backend: str = AUTO,
        device: str = "cpu",
        random_state: RandomState = None,
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
        self.l2_power = l2_power
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
        self.half_life = half_life
        self.calibration = calibration
        self.members = members
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

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Return the parameters and, after a fit, the counts of its entries."""
        text = str(super().__repr__(N_CHAR_MAX))
        if not hasattr(self, "counts_"):
            return text
        return f"{text} {fitted_on(self.counts_, self.reading_)}"

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
        y: Any = None,
        *,
        weights: Any = None,
        row_features: Any = None,
        column_features: Any = None,
        client: Any = None,
        **rules: Unpack[RuleOptions],
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : Observations, data frame, sparse matrix or array of shape (n_rows, n_columns)
            Likes (+1) and dislikes (-1); cells that are NaN or not stored are unobserved. What 0 means is in
            :func:`tribit.data.zeros.meaning_of_zero`. A data frame with an entry in each row needs ``row``,
            ``column`` and, unless all are likes, ``value``. With a client also a dask data frame.
        y : None
            Present for scikit-learn's interface: the labels are in X, and others have a warning.
        weights : array-like or sparse matrix, optional
            The weight of each observed entry, finite and at least 0: of each cell of a matrix, of each row of a data
            frame, of each entry of Observations without weights. A weight of 2 counts as two entries, one of 0 leaves
            the entry out. A column of a frame is named by ``weight``.
        row_features, column_features : data frame, sparse matrix or array, optional
            Features of rows and of columns (:mod:`tribit.data.features`). A frame is matched by id: the index of a
            pandas frame, else the first column; a matrix has one row for each row (or column) of X. Numbers,
            categories, lists of tags and missing values are allowed.
        client : distributed.Client, optional
            A dask cluster whose workers compute the sums over entries (:mod:`tribit.cluster`); the solver runs here.
        **rules
            Rules of reading, as in :class:`tribit.data.rules.TableRules`: ``zeros``, ``row``, ``column``, ``value``,
            ``weight``, ``time``, ``weight_scale``, ``like_at`` (by default the parameter) and others. They are kept as
            ``reading_``, with what was guessed, and read later matrices too.

        Returns
        -------
        self
        """
        from tribit.completion.half_life import fit_with_half_life  # noqa: PLC0415 - predictions need no search

        check_not_row_folds()
        warn_of_labels(y)
        observations = self.read(X, client, weights, **rules)
        check_options(self)
        reading = self._reading(observations.rules)
        if reading.like_at is not None and not observations.n_likes:
            raise InvalidInputError(
                f"No rating reaches {parameter('like_at', reading.like_at)}, so that the table has no like; check that "
                "its values are ratings."
            )
        self.fitted_, self.record_ = fit_with_half_life(
            self, observations, row_features, column_features
        )
        self.reading_ = reading
        self.counts_ = {"likes": observations.n_likes, "dislikes": observations.n_dislikes}
        return self

    def read(
        self, X: Any, client: Any = None, weights: Any = None, **rules: Unpack[RuleOptions]
    ) -> Observations:
        """Return a user's table as observations, on this machine or on the workers of a cluster; see :meth:`fit`."""
        given: dict[str, Any] = {"like_at": self.like_at, **rules}
        if client is None and not rules.keys() & {"row", "column"}:
            check_no_columns(given)
        if client is None and not isinstance(X, Observations) and rules.keys() & {"row", "column"}:
            names = {"row": None, "column": None}
            return Observations.from_frame(X, **{**names, **given}, weights=weights)
        if client is None:
            return as_observations(X, TableRules(**given), weights=weights)
        refuse_weights_on_cluster(weights)
        from tribit.cluster import as_partitioned  # noqa: PLC0415 - an extra

        return as_partitioned(X, client, TableRules(**given))

    def _reading(self, rules: TableRules | None) -> Reading:
        """Return the rules for later tables: those of the fit, or where it had observations those of the parameters."""
        return Reading.of(TableRules(like_at=self.like_at) if rules is None else rules)

    def fold_in(
        self,
        X: Any = None,
        *,
        axis: str = "rows",
        prior: str = "fit",
        weights: Any = None,
        row_features: Any = None,
        column_features: Any = None,
        unknown: str = "skip",
    ) -> Self:
        """Return a copy of the model with new rows (or columns) added, everything else fixed.

        Fold-in: each new row minimises its own terms of the objective, implicit and side features included
        (:mod:`tribit.folding`). A row without entries and features is predicted by the column biases, with a warning.

        Parameters
        ----------
        X : Observations, sparse matrix, array or None
            The entries of the new rows, in the columns of the model; with ids if the model has ids. None for rows
            with features alone.
        axis : {"rows", "columns"}, default="rows"
            Whether rows or columns are new. New columns have entries in the rows of the model.
        prior : {"fit", "new"}, default="fit"
            The ridge penalty of the new rows. "fit" is that of the fit: a row of the fit that is folded in again has
            the same factors. "new" shrinks factors less (0.6 ``l2``) and biases more (1.5 ``l2_intercept``): for rows
            whose entries the columns were not fitted on.
        weights : array-like or sparse matrix, optional
            The weights of the entries, as in :meth:`fit`.
        row_features, column_features : data frame, sparse matrix or array, optional
            Features of the new rows (or columns), as in :meth:`fit`.
        unknown : {"skip", "error"}, default="skip"
            Whether entries in columns (or rows) that the model was not fitted on are left out, with a warning, or an
            error.

        Returns
        -------
        BinaryMatrixCompletion
            With the new rows after those it had; this model stays as it is.
        """
        from tribit.folding import entries_at_known, fold_in  # noqa: PLC0415 - predictions need no folding

        check_is_fitted(self)
        given = None
        if X is not None:
            given = self.weigh(read_entries(self, X, weights))
            given = entries_at_known(given, self.axes_, unknown, axis)
        return self.with_fitted(
            fold_in(
                self.fitted_,
                given,
                axis=axis,
                prior=prior,
                row_features=row_features,
                column_features=column_features,
                n_jobs=self.n_jobs,
            )
        )

    def update(
        self,
        X: Any,
        seen: Any,
        *,
        weights: Any = None,
        row_features: Any = None,
        column_features: Any = None,
    ) -> Self:
        """Return a copy of the model updated with new entries; rows and columns that have any are solved for again.

        Rows, columns and rows once more, each with the others fixed; new ids become new rows and columns. It is much
        cheaper than a fit but not equal to one: rows and columns without new entries and hyperparameters stay.

        Parameters
        ----------
        X : Observations, sparse matrix or array
            The new entries; a new label and its weight replace the old ones.
        seen : Observations, sparse matrix or array
            The entries the model was fitted on, with their weights.
        weights : array-like or sparse matrix, optional
            The weights of the new entries, as in :meth:`fit`.
        row_features, column_features : data frame, sparse matrix or array, optional
            Features of new rows and columns, as in :meth:`fit`.
        """
        from tribit.folding import update  # noqa: PLC0415

        check_is_fitted(self)
        given, before = (
            self.weigh(read_entries(self, entries, own))
            for entries, own in ((X, weights), (seen, None))
        )
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
            The entries of the fit, and those of rows that were folded in.

        Returns
        -------
        Explanation
            Printed, a small table.
        """
        from tribit.explain import explain  # noqa: PLC0415 - predictions need no reasons

        check_is_fitted(self)
        seen = self.weigh(read_entries(self, seen))
        return explain(self.fitted_, row, column, seen, n_jobs=self.n_jobs)

    def refit(
        self, X: Any, random_state: Any = None, *, rho: Any = AUTO, imputed: Any = None
    ) -> Fitted:
        """Return the model fitted to other entries of the same matrix, without a search and side features.

        Parameters
        ----------
        X : Observations, sparse matrix or array
            The entries.
        random_state : int, Generator, RandomState or None
            Seed of the initial factors.
        rho : float, Missingness, str or "auto", default="auto"
            As in the constructor; "auto" is the parameter of the fit.
        imputed : FactorModel or None
            As in the constructor.
        """
        from tribit.completion.fitting import refit  # noqa: PLC0415 - predictions need no fit

        check_is_fitted(self)
        observations = self.weigh(read_entries(self, X))
        return refit(self, observations, random_state, rho, imputed)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one safetensors file; :func:`tribit.load` reads it back."""
        from tribit.completion.files import save  # noqa: PLC0415 - predictions need no files

        save(self, path)

    def _html_of_fit(self) -> str | None:
        if not hasattr(self, "fitted_"):
            return None
        fit = {"fit": f"{self.n_iter_} iterations ({self.stop_reason_})"}
        return html_facts(type(self).__name__, {**self.fitted_.facts(), **fit})

    def _factors(self) -> Factors:
        return self.fitted_.factors


def check_no_columns(rules: Mapping[str, Any]) -> None:
    """Refuse names of columns of a table, where none has the ids."""
    for name in ("value", "weight", "time"):
        if rules.get(name) is not None:
            raise InvalidInputError(
                f"{parameter(name, rules[name])} names a column of a data frame with an entry in each row; pass "
                f"{parameter('row')} and {parameter('column')} too, or leave it out for a matrix or Observations."
            )


def warn_of_labels(y: object) -> None:
    """Warn of labels that are given beside the matrix."""
    if y is not None:
        warn(
            TribitWarning(
                "y is not used: the labels are the values of X. For labels y of pairs (row, column) pass "
                "Observations.from_pairs(rows, columns, y), or use tribit.EntryClassifier."
            )
        )


def fitted_on(counts: Mapping[str, int], rules: TableRules) -> str:
    """Return the counts of labels of a fit, and the meaning of 0, as text."""
    zeros = rules.zero_text()
    text = f"fitted on {likes_and_dislikes(counts['likes'], counts['dislikes'])}"
    return f"{text}; {zeros}" if zeros else text


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
