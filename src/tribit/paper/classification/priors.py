"""Estimate, from positive and unlabelled examples, how often positives are labelled and how many there are."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from tribit.checks import check_choice, check_count
from tribit.errors import InvalidInputError
from tribit.paper.classification.classifier import RiskClassifier
from tribit.paper.classification.examples import (
    bumps,
    check_features,
    check_labels,
    choose_rows,
    kind_folds,
    median_distance,
)
from tribit.paper.classification.risks import POSITIVE, UNLABELLED, Array, Labels
from tribit.randomness import RandomState, generator

Method = Literal["e1", "e2", "e3"]
PU = (POSITIVE, UNLABELLED)

#: The priors that are tried: 0.01, 0.02, ..., 0.99.
GRID = np.arange(1, 100) / 100.0
#: Widths of the bumps, in units of the median distance, and ridges, that cross-validation chooses from.
PRIOR_WIDTHS = (0.2, 0.4, 0.8, 1.6)
PRIOR_RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)


def label_frequency(
    X: object,
    y: object,
    *,
    method: Method = "e1",
    estimator: object = None,
    n_folds: int = 5,
    random_state: RandomState = None,
) -> float:
    """Estimate ``c = P(labelled | positive)``, which is ``1 - rho`` (Elkan and Noto, 2008).

    Where positives are labelled at random, ``s(x) = P(labelled | x) = c P(positive | x)``. A classifier of labelled
    against unlabelled examples estimates ``s`` at the examples it was not fitted on, and then

        e1 = mean of s over the labelled      (c where every positive is sure to be one)
        e2 = sum of s over the labelled / sum of s over all
        e3 = largest s                        (c where some positive is sure to be one)

    after "Learning classifiers from only positive and unlabeled data". All assume separable classes: in general e1
    and e2 estimate ``c`` times a mean of ``P(positive | x)`` over the labelled, which is below ``c``. e3 assumes
    least but, as the largest of many noisy values, may be above ``c``.

    Parameters
    ----------
    X : array-like of shape (n_examples, n_features)
        One sample of the population, some of whose positives are labelled.
    y : array-like of {0, 1}
        1 for a labelled positive, 0 for an unlabelled example.
    method : {"e1", "e2", "e3"}, default="e1"
        One of the three estimates.
    estimator : classifier with predict_proba, optional
        Fitted on copies of 0 and 1; by default logistic regression on Gaussian bumps.
    n_folds : int, default=5
        Number of folds.
    random_state : int, Generator, RandomState or None
        Seed of the folds and the centres of the bumps.

    Returns
    -------
    float
        In (0, 1]. The share of positives in the sample is ``mean(y) / c``.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.classification import label_frequency
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(2, 1, (200, 2)), rng.normal(-2, 1, (200, 2))])
    >>> y = np.repeat([1, 0], [100, 300])  # half of the positive examples are labelled
    >>> round(label_frequency(X, y, random_state=0), 1)
    0.5
    """
    check_choice("method", method, ("e1", "e2", "e3"))
    examples = check_features(X)
    labels = check_labels(y, examples, allowed=PU, needed=PU)
    draws = generator(random_state)
    folds = kind_folds(labels, check_count("n_folds", n_folds, 2), draws, PU)
    chance = np.zeros(labels.size)
    for fold in range(int(folds.max()) + 1):
        test = folds == fold
        chance[test] = _held_out_chance(examples, labels, test, estimator, draws)
    labelled = labels == POSITIVE
    if method == "e1":
        found = float(np.mean(chance[labelled]))
    elif method == "e2":
        found = float(np.sum(chance[labelled]) / max(np.sum(chance), np.finfo(float).tiny))
    else:
        found = float(np.max(chance))
    if not 0.0 < found <= 1.0:
        raise InvalidInputError(
            f"The classifier gives the labelled positives a probability of {found!r} to be labelled, which "
            "gives no estimate; pass another estimator."
        )
    return found


def _held_out_chance(
    X: Array, labels: Labels, test: NDArray[np.bool_], estimator: object, draws: np.random.Generator
) -> Array:
    """Return ``P(labelled | x)`` at the test examples, from the others."""
    seed = int(draws.integers(2**31))
    train = ~test
    if estimator is not None:
        model = clone(estimator).fit(X[train], labels[train])
        column = int(np.flatnonzero(model.classes_ == POSITIVE)[0])
    else:
        # With the share of the labelled as prior the PN risk is logistic regression.
        model = RiskClassifier(
            "pn",
            prior=float(np.mean(labels[train] == POSITIVE)),
            loss="logistic",
            width="median",
            n_centres=100,
            l2=1e-4,
            random_state=seed,
        ).fit(X[train], np.where(labels[train] == POSITIVE, 1, -1))
        column = 1
    chance = np.asarray(model.predict_proba(X[test]), dtype=np.float64)[:, column]
    if not np.all((chance >= 0.0) & (chance <= 1.0)):
        raise InvalidInputError(
            "predict_proba of the estimator gave a value outside [0, 1]; pass a classifier that gives probabilities."
        )
    return chance


def class_prior(
    X: object,
    y: object,
    *,
    n_centres: int = 100,
    n_folds: int = 5,
    random_state: RandomState = None,
) -> float:
    """Estimate the share of positives among unlabelled examples; see :func:`prior_divergences`.

    Parameters
    ----------
    X : array-like of shape (n_examples, n_features)
        Positive and unlabelled examples.
    y : array-like of {0, 1}
        1 for a labelled positive, 0 for an unlabelled example.
    n_centres, n_folds, random_state
        As in :func:`prior_divergences`.

    Returns
    -------
    float
        A multiple of 0.01, inside (0, 1): the prior of the least divergence, the smallest among equals.

    Examples
    --------
    >>> import numpy as np
    >>> draws = np.random.default_rng(0)
    >>> unlabelled = np.where(draws.random(500) < 0.3, 3.0, -3.0) + draws.normal(size=500)
    >>> X = np.append(3.0 + draws.normal(size=200), unlabelled)[:, None]
    >>> abs(class_prior(X, np.repeat([1, 0], [200, 500]), random_state=0) - 0.3) < 0.05
    True
    """
    priors, divergences = prior_divergences(
        X, y, n_centres=n_centres, n_folds=n_folds, random_state=random_state
    )
    return float(priors[int(np.argmin(divergences))])


def prior_divergences(
    X: object,
    y: object,
    *,
    n_centres: int = 100,
    n_folds: int = 5,
    random_state: RandomState = None,
) -> tuple[Array, Array]:
    """Return priors ``t`` and how badly ``t p(x | +1)`` fits inside ``p(x)`` for each of them.

    The penalised L1 distance (du Plessis, Niu and Sugiyama, 2015, "Class-prior estimation for learning from positive
    and unlabeled data") is ``E_U[f(t p(x | +1) / p(x))]`` with ``f(z) = 1 - z`` up to 1 and infinite above: a mixture
    cannot hold more positives than there are examples. The conjugate of ``f`` is ``max(z, -1)``, so the distance is

        sup_r  t E_P[r(x)] - E_U[max(r(x), -1)].

    With ``r = sum_l a_l k_l(x) - 1``, bumps ``k_l >= 0`` and ``a_l >= 0``, the maximum falls away and the ridge
    problem is ``max_a sum_l a_l b_l - ridge / 2 |a|^2`` with ``b_l = t E_P[k_l] - E_U[k_l]``, solved by

        a_l = max(0, b_l) / ridge,   distance = sum_l max(0, b_l) b_l / ridge + 1 - t.

    For each ``t`` the width of the bumps and the ridge are those with the largest ``sum_l a_l b_l`` on held-out
    examples. It falls as ``1 - t`` until ``t p(x | +1)`` exceeds ``p(x)`` at some x, and then rises. The estimate
    tends to the largest share that fits, which is the prior where some positives look like no negative, and above
    the prior otherwise.

    Parameters
    ----------
    X : array-like of shape (n_examples, n_features)
        Positive examples sampled from their class, and unlabelled ones sampled from the population.
    y : array-like of {0, 1}
        1 for a labelled positive, 0 for an unlabelled example.
    n_centres : int, default=100
        Largest number of bumps; the centres are a sample of all examples.
    n_folds : int, default=5
        Folds of the cross-validation.
    random_state : int, Generator, RandomState or None
        Seed of the centres and the folds.

    Returns
    -------
    priors, divergences : array
        0.01, 0.02, ..., 0.99, and the distance estimated for each.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.classification import prior_divergences
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(1, 1, (60, 2)), rng.normal(-1, 1, (60, 2))])
    >>> priors, divergences = prior_divergences(X, np.repeat([1, 0], [30, 90]), random_state=0)
    >>> priors.shape == divergences.shape
    True
    """
    examples = check_features(X)
    labels = check_labels(y, examples, allowed=PU, needed=PU)
    draws = generator(random_state)
    centres = choose_rows(examples, n_centres, draws)
    median = median_distance(examples, draws)
    folds = kind_folds(labels, check_count("n_folds", n_folds, 2), draws, PU)
    ridges = np.array(PRIOR_RIDGES)
    # One row for each width: the best ridge and, with it, the held-out gain and the distance, for each prior.
    gains, distances = [], []
    for times in PRIOR_WIDTHS:
        features = bumps(examples, centres, median * times)
        held_out = np.zeros((ridges.size, GRID.size))
        for fold in range(int(folds.max()) + 1):
            test = folds == fold
            fitted = np.maximum(_surplus(features[~test], labels[~test]), 0.0)
            held_out += (
                np.sum(fitted * _surplus(features[test], labels[test]), axis=1) / ridges[:, None]
            )
        best = np.argmax(held_out, axis=0)
        gains.append(np.max(held_out, axis=0))
        fit = np.maximum(_surplus(features, labels), 0.0)
        distances.append(np.sum(fit * fit, axis=1) / ridges[best] + 1.0 - GRID)
    choice = np.argmax(np.array(gains), axis=0)
    return GRID.copy(), np.array(distances)[choice, np.arange(GRID.size)]


def _surplus(features: Array, labels: Labels) -> Array:
    """Return ``b_l = t E_P[k_l] - E_U[k_l]``, a row for each prior ``t`` and a column for each bump."""
    positive = features[labels == POSITIVE].mean(axis=0)
    unlabelled = features[labels == UNLABELLED].mean(axis=0)
    return np.asarray(np.outer(GRID, positive) - unlabelled)
