"""A scikit-learn classifier for positive, negative and unlabelled examples."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from tribit.checks import check_between, check_choice, check_count, check_positive
from tribit.errors import InvalidInputError, warn
from tribit.paper.classification.examples import (
    Basis,
    GaussianBasis,
    LinearBasis,
    check_features,
    check_labels,
    choose_rows,
    kind_folds,
    median_distance,
)
from tribit.paper.classification.risks import KINDS, MIXTURES, NEEDED_KINDS, Array, as_loss
from tribit.paper.classification.selection import (
    ETAS,
    GAMMAS,
    RIDGES,
    WIDTHS,
    Choice,
    Setting,
    validation_risks,
)
from tribit.paper.classification.solve import minimise
from tribit.randomness import generator


@dataclass(eq=False, repr=False)
class RiskClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify from positive (+1), negative (-1) and unlabelled (0) examples.

    Minimises over ``g(x) = w'f(x) + b``, ``f`` the features or Gaussian bumps,

        pn R_PN(g) + pu R_PU(g) + nu R_NU(g) + l2 / 2 |w|^2

    with the risks of :mod:`tribit.paper.classification.risks` (du Plessis, Niu and Sugiyama, 2014, "Analysis of
    learning from positive and unlabeled data"; Niu et al., 2016, "Theoretical comparisons of positive-unlabeled
    learning against positive-negative learning"; Sakai et al., 2017, "Semi-supervised classification based on
    classification from positive and unlabeled data").

    Labelled examples are samples of their class, unlabelled ones of the population, whose share of positives is
    ``prior``. Unlabelled examples help most if one class has few labelled examples for its prior: "pnu" then relies on
    the risk without that class. With balanced labels expect little gain over "pn".

    Parameters
    ----------
    risk : {"pnu", "pn", "pu", "nu", "punu"}, default="pnu"
        Weights (pn, pu, nu): "pnu" has ``(1 - |eta|, max(eta, 0), max(-eta, 0))``, "punu" ``(0, 1 - gamma, gamma)``,
        and the others 1 for themselves. Examples of a kind that the risk does not need are left out.
    prior : float
        ``P(y = +1)``, inside (0, 1); :func:`~tribit.paper.classification.class_prior` estimates it.
    eta, gamma : float or "cv", default="cv"
        In [-1, 1] and [0, 1]; "cv" tries nine values each.
    loss : {"squared", "logistic"}, default="squared"
        ``(1 - y g)^2 / 4``, solved as one linear system, or ``log(1 + exp(-y g))``, by L-BFGS.
    basis : {"gaussian", "linear"}, default="gaussian"
        What ``g`` is linear in.
    width : float, "median" or "cv", default="median"
        Of the Gaussian bumps; "median" is the median distance of two examples, "cv" tries 1/4 to 2 times that.
    n_centres : int, default=200
        Largest number of bumps; their centres are a sample of the examples.
    l2 : float or "cv", default="cv"
        Ridge penalty, above 0; "cv" tries powers of 10 from 0.0001 to 1.
    nonnegative : bool, default=False
        Whether the part of R_PU that estimates the loss of the negatives, and the part of R_NU that estimates the
        loss of the positives, are raised to 0 where below (Kiryo et al., 2017, "Positive-unlabeled learning with
        non-negative risk estimator"). The problem is then not
        convex. It moderates probabilities if examples are few for the basis, but hardly improves signs.
    n_folds : int, default=5
        Folds of the cross-validation, by the zero-one risk with the smallest variance; see
        :func:`tribit.paper.classification.selection.validation_mixture`.
    max_iter : int, default=1000
        Largest number of iterations of L-BFGS.
    tol : float, default=1e-6
        L-BFGS stops when no entry of the gradient is larger.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the centres and the folds.

    Attributes
    ----------
    classes_ : array
        -1 and +1.
    coef_ : array
        w.
    intercept_ : float
        b.
    basis_ : LinearBasis or GaussianBasis
        ``f``, with its centres and width.
    eta_, gamma_, l2_, width_ : float or None
        The values used; None if the risk or the basis has no such parameter.
    candidates_ : list of (Choice, float)
        Candidates and their validation risks; empty if nothing was "cv".
    objective_ : float
        The objective at the solution.
    n_iter_ : int
        Iterations of the refit, 1 for a linear system.
    converged_ : bool
        Whether ``tol`` was reached.
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.classification import RiskClassifier
    >>> X = np.array([[2.0], [3.0], [2.5], [-2.0], [-3.0], [2.2]])
    >>> y = np.array([1, 1, 0, 0, 0, 0])
    >>> RiskClassifier("pu", prior=0.5, basis="linear").fit(X, y).predict([[4.0], [-4.0]])
    array([ 1, -1])
    """

    risk: str = "pnu"
    _: KW_ONLY
    prior: float
    eta: Any = "cv"
    gamma: Any = "cv"
    loss: str = "squared"
    basis: str = "gaussian"
    width: Any = "median"
    n_centres: int = 200
    l2: Any = "cv"
    nonnegative: bool = False
    n_folds: int = 5
    max_iter: int = 1000
    tol: float = 1e-6
    random_state: Any = None

    def fit(self, X: object, y: object) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : array-like of shape (n_examples, n_features)
            Finite features.
        y : array-like of {-1, 0, +1}
            0 for an unlabelled example.

        Returns
        -------
        self
        """
        setting = self._setting()
        examples = check_features(X, estimator=self)
        needed = NEEDED_KINDS[setting.risk]
        labels = check_labels(y, examples, allowed=KINDS, needed=needed)
        chosen = np.isin(labels, needed)
        examples, labels = examples[chosen], labels[chosen]

        draws = generator(self.random_state)
        centres = choose_rows(examples, self.n_centres, draws)
        candidates = self._candidates(median_distance(examples, draws))

        def features_of(width: float) -> Array:
            return self._basis(centres, width).features(examples)

        self.candidates_: list[tuple[Choice, float]] = []
        best = candidates[0]
        if len(candidates) > 1:
            folds = kind_folds(labels, check_count("n_folds", self.n_folds, 2), draws, needed)
            found = validation_risks(candidates, features_of, labels, setting, folds)
            self.candidates_ = list(zip(candidates, found, strict=True))
            best = candidates[int(np.argmin(found))]

        problem = setting.problem(features_of(best.width), labels, best)
        solution = minimise(problem, max_iter=setting.max_iter, tol=setting.tol)
        self.basis_ = self._basis(centres, best.width)
        self.coef_, self.intercept_ = (solution.coefficients[:-1], float(solution.coefficients[-1]))
        self.eta_ = best.mixing if setting.risk == "pnu" else None
        self.gamma_ = best.mixing if setting.risk == "punu" else None
        self.width_ = best.width if self.basis == "gaussian" else None
        self.l2_ = best.l2
        self.objective_, self.n_iter_ = solution.objective, solution.n_iter
        self.converged_ = solution.converged
        self.classes_ = np.array([-1, 1])
        if not solution.converged:
            warn(
                f"The fit stopped before tol = {self.tol:g} was reached, after {solution.n_iter} iterations: "
                "raise max_iter, tol or l2.",
                ConvergenceWarning,
            )
        return self

    def decision_function(self, X: object) -> Array:
        """Return ``g(x)`` for each example: positive where +1 is predicted."""
        check_is_fitted(self)
        examples = check_features(X, estimator=self, reset=False)
        return np.asarray(self.basis_.features(examples) @ np.append(self.coef_, self.intercept_))

    def predict(self, X: object) -> NDArray[np.integer[Any]]:
        """Return +1 or -1 for each example."""
        likely = self.decision_function(X) > 0
        return np.asarray(self.classes_[likely.astype(int)])

    def predict_proba(self, X: object) -> Array:
        """Return ``P(-1)`` and ``P(+1)`` for each example.

        ``P(+1)`` is ``1 / (1 + exp(-g))`` for the logistic loss, and ``(1 + g) / 2`` within [0, 1] for the squared.
        """
        likely = as_loss(self.loss).probability(self.decision_function(X))
        return np.column_stack([1.0 - likely, likely])

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """Return the share of the labelled examples whose label is predicted; unlabelled ones do not count."""
        examples = check_features(X)
        labels = check_labels(y, examples, allowed=KINDS, needed=())
        labelled = labels != 0
        if not np.any(labelled):
            raise InvalidInputError(
                "Every label in y is 0; a score needs an example labelled +1 or -1."
            )
        weights = None
        if sample_weight is not None:
            weights = np.asarray(sample_weight, dtype=np.float64)
            if weights.shape != labels.shape:
                raise InvalidInputError(
                    f"sample_weight has the shape {weights.shape}; pass one weight for each of the "
                    f"{labels.size} labels in y."
                )
            weights = weights[labelled]
        right = self.predict(X)[labelled] == labels[labelled]
        return float(np.average(right, weights=weights))

    def _setting(self) -> Setting:
        return Setting(
            risk=check_choice("risk", self.risk, MIXTURES),
            prior=check_between("prior", self.prior, 0.0, 1.0, ends="()"),
            loss=as_loss(self.loss),
            nonnegative=bool(self.nonnegative),
            max_iter=check_count("max_iter", self.max_iter, 1),
            tol=check_positive("tol", self.tol),
        )

    def _candidates(self, median: float) -> list[Choice]:
        """Return all combinations of the candidates, the simplest first."""
        mixing: Any = (0.0,)
        if self.risk in ("pnu", "punu"):
            name, values = ("eta", ETAS) if self.risk == "pnu" else ("gamma", GAMMAS)
            given = getattr(self, name)
            mixing = values if _is(given, "cv") else (given,)
            if isinstance(given, str) and not _is(given, "cv"):
                raise InvalidInputError(f'{name} must be a number or "cv"; got {given!r}.')
            for value in mixing:
                MIXTURES[self.risk](value)  # refuses values out of range
        ridges = RIDGES if _is(self.l2, "cv") else (check_positive("l2", self.l2),)
        widths: Any = (median,)
        if check_choice("basis", self.basis, ("gaussian", "linear")) == "gaussian":
            if _is(self.width, "cv"):
                widths = tuple(median * times for times in WIDTHS)
            elif not _is(self.width, "median"):
                widths = (check_positive("width", self.width),)
        return [Choice(m, width, l2) for width, l2, m in product(widths, ridges, mixing)]

    def _basis(self, centres: Array, width: float) -> Basis:
        return GaussianBasis(centres, width) if self.basis == "gaussian" else LinearBasis()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _is(value: object, word: str) -> bool:
    # Not ==, which an array answers with an array.
    return isinstance(value, str) and value == word
