"""The paper's generators: a low-rank target, its quantisation by a link, and which entries are seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.constraints import check_positive
from tribit.errors import InvalidInputError
from tribit.links import Link
from tribit.observations import Observations
from tribit.randomness import RandomState, generator
from tribit.risks import check_rho

Array = NDArray[np.floating[Any]]


def low_rank_target(
    shape: tuple[int, int], rank: int, *, alpha: float = 1.0, random_state: RandomState = None
) -> Array:
    """Return ``M = U V'`` scaled to ``|M|_inf = alpha``; entries of U and V are uniform on [-1, 1]."""
    check_positive("alpha", alpha)
    if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or rank < 1:
        raise InvalidInputError(f"rank must be a whole number, at least 1; got {rank!r}.")
    draws = generator(random_state)
    U = draws.uniform(-1.0, 1.0, (shape[0], rank))
    V = draws.uniform(-1.0, 1.0, (shape[1], rank))
    M = U @ V.T
    return np.asarray(M * (alpha / np.max(np.abs(M))))


def quantise(M: Array, link: Link, *, random_state: RandomState = None) -> NDArray[np.int8]:
    """Return Y with ``P(Y_ij = +1) = f(M_ij)``, independently, else -1."""
    likes = generator(random_state).random(M.shape) < link.probability(M)
    return np.where(likes, 1, -1).astype(np.int8)


def observe(Y: NDArray[np.int8], rho: float, *, random_state: RandomState = None) -> Observations:
    """Return the entries of Y that are seen, each independently with probability ``1 - rho``."""
    seen = generator(random_state).random(Y.shape) >= check_rho(rho)
    rows, columns = np.nonzero(seen)
    return Observations.from_pairs(rows, columns, Y[rows, columns], shape=Y.shape)
