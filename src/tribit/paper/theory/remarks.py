"""Two remarks of the paper as functions: the limit of each risk, and matrices with the same signs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.checks import check_positive
from tribit.errors import InvalidInputError
from tribit.model.risks import Floats, Risk
from tribit.randomness import RandomState, generator


def mean_weights(risk: Risk, likely: object) -> tuple[Floats, Floats]:
    """Return ``(w_plus, w_minus)`` with the mean risk of an entry, ``w_plus l(x, +1) + w_minus l(x, -1)``.

    An entry is unobserved with probability ``rho``, else a like with probability ``likely``, as in the paper's
    observations of both signs. A risk is unbiased where the weights are ``likely`` and ``1 - likely``, as PU's, NU's
    and their mixtures' are; PN's are ``1 - rho`` times as much. With ``p = likely``, the first modification of PU
    (:func:`tribit.paper.systems.pu_risks.pu_without_dislikes`) has ``p`` and ``rho (1 - p)``, and the second estimator
    of Hsieh et al. (:func:`~tribit.paper.systems.pu_risks.biased_pu`) ``(1 + rho) p`` and ``1 - (1 - rho) p``.

    Parameters
    ----------
    risk : Risk
        A risk with one ``rho`` for all entries.
    likely : float or array
        ``P(like)`` of entries, in [0, 1].

    Examples
    --------
    >>> from tribit import pu
    >>> from tribit.paper.theory import mean_weights
    >>> [round(float(weight), 2) for weight in mean_weights(pu(rho=0.5), 0.3)]
    [0.3, 0.7]
    """
    p = np.asarray(likely, dtype=np.float64)
    if not np.all((p >= 0.0) & (p <= 1.0)):
        raise InvalidInputError("likely must hold probabilities, each from 0 to 1.")
    table = risk.table()
    rho = float(np.asarray(risk.rho))
    kinds = np.stack([(1.0 - rho) * p, np.full(p.shape, rho), (1.0 - rho) * (1.0 - p)], axis=-1)
    weights = kinds @ table
    return weights[..., 0], weights[..., 1]


def limiting_probability(risk: Risk, likely: object) -> Floats:
    """Return the probability of a like at which the mean risk of an entry is least.

    For a likelihood, and for squared errors of 1 and 0, that is ``w_plus / (w_plus + w_minus)`` with the weights of
    :func:`mean_weights`. It is ``likely`` itself for every point of the simplex. PU without dislikes tends to
    ``p / (p + rho (1 - p))``, with the logistic link an entry that is ``log(1 / rho) / scale`` too large. The second
    estimator of Hsieh et al. tends to ``(1 + rho) p / (1 + 2 rho p)``: above p below 1/2, below p above it, and on the
    same side of 1/2, so that its signs are right.

    Parameters
    ----------
    risk : Risk
        A risk with one ``rho`` for all entries.
    likely : float or array
        ``P(like)`` of entries, in [0, 1].

    Examples
    --------
    >>> from tribit.model.risks import pu
    >>> from tribit.paper.systems.pu_risks import biased_pu, pu_without_dislikes
    >>> [float(limiting_probability(risk(0.5), 0.6).round(3)) for risk in (pu, pu_without_dislikes, biased_pu)]
    [0.6, 0.75, 0.562]
    """
    plus, minus = mean_weights(risk, likely)
    return np.asarray(plus / (plus + minus))


Array = NDArray[np.floating[Any]]


def sign_twin(
    M: object,
    *,
    spread: float = 1.0,
    norm: Callable[[Array], Any] = np.linalg.norm,
    random_state: RandomState = None,
) -> Array:
    """Return another matrix with the signs, the rank and a norm of M: ``Y = sign(M)`` is the same.

    Rows and columns of M are multiplied by positive numbers ``exp(spread z)`` with standard normal z, and the whole by
    one more that restores the norm. Davenport et al. (2014) note that ``Y = sign(M + Z)`` with ``Z = 0`` therefore
    does not determine M, even if every entry of Y is observed; Hayashi et al. (2018), section 2.2.1.

    Parameters
    ----------
    M : array of shape (n_rows, n_columns)
        Any matrix but 0.
    spread : float, default=1.0
        Standard deviation of the logarithms of the factors.
    norm : callable, default=numpy.linalg.norm
        A function of a matrix with ``norm(c X) = c norm(X)`` for ``c > 0``, kept equal.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the factors.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.theory import sign_twin
    >>> M = np.outer([1.0, -2.0, 0.5], [1.0, 3.0])
    >>> twin = sign_twin(M, random_state=0)
    >>> np.array_equal(np.sign(twin), np.sign(M)), int(np.linalg.matrix_rank(twin))
    (True, 1)
    """
    matrix = np.asarray(M, dtype=np.float64)
    if matrix.ndim != 2 or not np.isfinite(matrix).all() or not matrix.any():
        raise InvalidInputError("M must be a matrix of finite numbers, not all 0.")
    draws, spread = generator(random_state), check_positive("spread", spread)
    rows, columns = (np.exp(spread * draws.standard_normal(size)) for size in matrix.shape)
    twin = rows[:, None] * matrix * columns
    return np.asarray(twin * (float(norm(matrix)) / float(norm(twin))))
