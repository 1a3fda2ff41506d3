"""The ill-posedness of sizes without noise: many matrices of one rank and one norm have the same signs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.checks import check_positive
from tribit.errors import InvalidInputError
from tribit.randomness import RandomState, generator

Array = NDArray[np.floating[Any]]


def sign_twin(
    M: Any,
    *,
    spread: float = 1.0,
    norm: Callable[[Array], Any] = np.linalg.norm,
    random_state: RandomState = None,
) -> Array:
    """Return another matrix with the signs, the rank and a norm of M: ``Y = sign(M)`` cannot tell them apart.

    Rows and columns of M are multiplied by positive numbers ``exp(spread z)`` with standard normal z, and the whole by
    one more that restores the norm. Davenport et al. (2014) note that ``Y = sign(M + Z)`` with ``Z = 0`` therefore
    does not determine M, though every entry of Y be seen; Hayashi et al. (2018), section 2.2.1.

    Parameters
    ----------
    M : array of shape (n_rows, n_columns)
        Any matrix but 0.
    spread : float, default=1.0
        Standard deviation of the logarithms of the factors.
    norm : callable, default=numpy.linalg.norm
        A function of a matrix with ``norm(c X) = c norm(X)`` for ``c > 0``: what is known of M.
    random_state : int, Generator, RandomState or None, default=None
        Draws the factors.

    Returns
    -------
    array of shape (n_rows, n_columns)
        The other matrix.
    """
    matrix = np.asarray(M, dtype=np.float64)
    if matrix.ndim != 2 or not np.isfinite(matrix).all() or not matrix.any():
        raise InvalidInputError("M must be a matrix of finite numbers, not all 0.")
    draws, spread = generator(random_state), check_positive("spread", spread)
    rows, columns = (np.exp(spread * draws.standard_normal(size)) for size in matrix.shape)
    twin = rows[:, None] * matrix * columns
    return np.asarray(twin * (float(norm(matrix)) / float(norm(twin))))
