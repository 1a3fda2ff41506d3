"""The paper's generators: a low-rank target, its quantisation by a link, and which entries are seen.

A whole small matrix: ``observe(quantise(low_rank_target(...), link), rho)``. A large one, computed at the
observed entries alone: ``observe_cells(low_rank_factors(...), link, cells)``, the cells from
:func:`~tribit.simulate.sampling.multi_bernoulli`, :func:`~tribit.simulate.sampling.multinomial` or
:func:`~tribit.simulate.sampling.all_at_once`. The PU process is either of them with :func:`likes_only`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.checks import check_count, check_positive
from tribit.data.axis import Positions
from tribit.data.ingest import check_shape
from tribit.data.labels import Duplicates
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.model.links import Link, Logistic, Probit, draw_labels
from tribit.model.risks import check_rho
from tribit.randomness import RandomState, generator
from tribit.simulate.sampling import BLOCK_ENTRIES, Cells, all_at_once, multi_bernoulli, multinomial

__all__ = [
    "Cells",
    "LowRankTarget",
    "all_at_once",
    "likes_only",
    "low_rank_factors",
    "low_rank_target",
    "multi_bernoulli",
    "multinomial",
    "observe",
    "observe_cells",
    "quantise",
    "quantise_by_noise",
]

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class LowRankTarget:
    """The hidden matrix ``M = U V'``, kept as its factors.

    Parameters
    ----------
    U, V : array of shape (n_rows, rank) and (n_columns, rank)
        The factors.

    Examples
    --------
    >>> from tribit.simulate import low_rank_factors
    >>> low_rank_factors((200, 120), rank=2, random_state=0).U.shape
    (200, 2)
    """

    U: Array
    V: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.U.shape[0], self.V.shape[0]

    def at(self, rows: Positions, columns: Positions) -> Array:
        """Return ``M`` at the given positions alone."""
        return np.asarray(np.einsum("tk,tk->t", self.U[rows], self.V[columns]))

    def dense(self) -> Array:
        """Return all of ``M``."""
        return np.asarray(self.U @ self.V.T)


def low_rank_factors(
    shape: tuple[int, int], rank: int, *, alpha: float = 1.0, random_state: RandomState = None
) -> LowRankTarget:
    """Return the matrix of :func:`low_rank_target` as its factors, without making the matrix.

    Parameters
    ----------
    shape : tuple of two ints
        Numbers of rows and columns.
    rank : int
        The rank.
    alpha : float, default=1.0
        The largest ``|M_ij|``.
    random_state : int, Generator, RandomState or None
        As in :func:`tribit.randomness.generator`; a seed gives the matrix that
        :func:`low_rank_target` gives, up to rounding.

    Returns
    -------
    LowRankTarget
        Half of the scaling is in each factor.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.simulate import low_rank_factors, low_rank_target
    >>> target = low_rank_factors((200, 120), rank=2, random_state=0)
    >>> np.allclose(target.U @ target.V.T, low_rank_target((200, 120), rank=2, random_state=0))
    True
    """
    U, V = _uniform_factors(shape, rank, alpha, random_state)
    root = np.sqrt(alpha / _largest_entry(U, V))
    return LowRankTarget(U * root, V * root)


def low_rank_target(
    shape: tuple[int, int], rank: int, *, alpha: float = 1.0, random_state: RandomState = None
) -> Array:
    """Return ``M = U V'`` scaled to ``|M|_inf = alpha``; entries of U and V are uniform on [-1, 1].

    Examples
    --------
    >>> from tribit.simulate import low_rank_target
    >>> M = low_rank_target((200, 120), rank=2, alpha=3.0, random_state=0)
    >>> M.shape
    (200, 120)
    """
    U, V = _uniform_factors(shape, rank, alpha, random_state)
    M = U @ V.T
    return np.asarray(M * (alpha / np.max(np.abs(M))))


def quantise(M: Array, link: Link, *, random_state: RandomState = None) -> NDArray[np.int8]:
    """Return Y with ``P(Y_ij = +1) = f(M_ij)``, independently, else -1; ``M`` may have any shape.

    Examples
    --------
    >>> from tribit import Logistic
    >>> from tribit.simulate import low_rank_target, quantise
    >>> quantise(low_rank_target((3, 4), rank=1, random_state=0), Logistic(), random_state=1)
    array([[-1, -1,  1, -1],
           [ 1, -1, -1,  1],
           [ 1,  1, -1, -1]], dtype=int8)
    """
    return draw_labels(M, link, generator(random_state))


# What to add to x so that its sign is +1 with probability f(x): noise symmetric about 0 with that
# distribution function.
_NOISES: dict[type[Link], Callable[[Any, np.random.Generator, tuple[int, ...]], Array]] = {
    Logistic: lambda link, draws, size: draws.logistic(0.0, 1.0 / link.scale, size),
    Probit: lambda link, draws, size: draws.normal(0.0, link.sigma, size),
}


def quantise_by_noise(
    M: Array, link: Link, *, random_state: RandomState = None
) -> NDArray[np.int8]:
    """Return ``Y = sign(M + Z)``, which has the law of :func:`quantise`.

    Parameters
    ----------
    M : array
        Hidden values, of any shape.
    link : Logistic or Probit
        ``Z`` is logistic of scale ``1 / link.scale``, or normal of deviation ``link.sigma``.
    random_state : int, Generator, RandomState or None
        As in :func:`tribit.randomness.generator`.

    Returns
    -------
    array of {-1, +1}
        Of the shape of ``M``.

    Examples
    --------
    >>> from tribit import Probit
    >>> from tribit.simulate import low_rank_target, quantise_by_noise
    >>> M = low_rank_target((3, 4), rank=1, random_state=0)
    >>> quantise_by_noise(M, Probit(sigma=0.3), random_state=1)
    array([[-1,  1,  1, -1],
           [ 1, -1, -1,  1],
           [ 1, -1, -1, -1]], dtype=int8)
    """
    noise = _NOISES.get(type(link))
    if noise is None:
        known = " and ".join(kind.__name__ for kind in _NOISES)
        raise InvalidInputError(
            f"The noise that belongs to {link!r} is not known, only those of {known}; use quantise."
        )
    Z = noise(link, generator(random_state), M.shape)
    return np.where(M + Z > 0, 1, -1).astype(np.int8)


def observe(Y: NDArray[np.int8], rho: float, *, random_state: RandomState = None) -> Observations:
    """Return the entries of Y that are seen, each independently with probability ``1 - rho``.

    Examples
    --------
    >>> from tribit import Logistic
    >>> from tribit.simulate import low_rank_target, observe, quantise
    >>> M = low_rank_target((90, 60), 2, random_state=0)
    >>> labels = quantise(M, Logistic(), random_state=1)
    >>> observe(labels, 0.7, random_state=2)
    Observations(90 x 60, 1645 observed (30.5%), 828 likes, 817 dislikes)
    """
    seen = generator(random_state).random(Y.shape) >= check_rho(rho)
    rows, columns = np.nonzero(seen)
    return Observations.from_pairs(rows, columns, Y[rows, columns], shape=Y.shape)


def observe_cells(
    target: LowRankTarget | Array,
    link: Link,
    cells: Cells,
    *,
    duplicates: Duplicates = "error",
    random_state: RandomState = None,
) -> Observations:
    """Quantise the entries that are seen, and no others.

    Parameters
    ----------
    target : LowRankTarget or array
        The hidden matrix.
    link : Link
        ``P(like) = f(M_ij)``.
    cells : Cells
        Which entries are seen, from one of the observation processes.
    duplicates : {"error", "first", "last", "majority"}, default="error"
        Every draw of an entry is quantised anew; what to keep of an entry drawn again (by
        :func:`~tribit.simulate.sampling.multinomial`), as in :meth:`Observations.from_pairs`. "first" is the
        law of one answer for each entry. To keep the repeats themselves, quantise
        ``target.at(*cells)``: its labels belong to ``cells`` one to one.
    random_state : int, Generator, RandomState or None
        As in :func:`tribit.randomness.generator`. Not the seed that drew the cells: its draws would
        be used twice.

    Returns
    -------
    Observations
        Of the shape of the target.

    Examples
    --------
    >>> from tribit import Logistic
    >>> target = low_rank_factors((1000, 800), 3, random_state=0)
    >>> cells = all_at_once(target.shape, 500, random_state=1)
    >>> observe_cells(target, Logistic(7.0), cells, random_state=2).n_observed
    500
    """
    rows, columns = cells
    M = target.at(rows, columns) if isinstance(target, LowRankTarget) else target[rows, columns]
    labels = quantise(M, link, random_state=random_state)
    shape = (target.shape[0], target.shape[1])
    return Observations.from_pairs(rows, columns, labels, shape=shape, duplicates=duplicates)


def likes_only(seen: Observations) -> Observations:
    """Return the observations of the PU process: the likes alone, each still seen with the same probability.

    With :func:`observe` that is ``P(A_ij = +1) = (1 - rho) 1[Y_ij = +1]``, and nothing else is seen.

    Parameters
    ----------
    seen : Observations
        Likes and dislikes, by any observation process.

    Returns
    -------
    Observations
        Of the same shape and ids.

    Examples
    --------
    >>> from tribit import Logistic
    >>> from tribit.simulate import likes_only, low_rank_target, observe, quantise
    >>> M = low_rank_target((90, 60), 2, random_state=0)
    >>> labels = quantise(M, Logistic(), random_state=1)
    >>> likes_only(observe(labels, 0.7, random_state=2))
    Observations(90 x 60, 828 observed (15.3%), 828 likes, 0 dislikes)
    """
    likes = np.flatnonzero(seen.labels > 0)
    if not likes.size:
        raise InvalidInputError(
            f"None of the {seen.n_observed} observed entries is a like; observe more of them."
        )
    return seen.take(likes)


def _uniform_factors(
    shape: tuple[int, int], rank: int, alpha: float, random_state: RandomState
) -> tuple[Array, Array]:
    check_positive("alpha", alpha)
    rank = check_count("rank", rank)
    n_rows, n_columns = check_shape(shape)
    draws = generator(random_state)
    U = draws.uniform(-1.0, 1.0, (n_rows, rank))
    V = draws.uniform(-1.0, 1.0, (n_columns, rank))
    return U, V


def _largest_entry(U: Array, V: Array) -> float:
    """Return ``max |u_i . v_j|``, longest rows first: shorter ones cannot exceed the maximum so far."""
    U, V = (factor[np.argsort(-np.linalg.norm(factor, axis=1))] for factor in (U, V))
    lengths, widths = np.linalg.norm(U, axis=1), np.linalg.norm(V, axis=1)
    step = max(1, BLOCK_ENTRIES // V.shape[0])
    largest = 0.0
    for start in range(0, U.shape[0], step):
        able = np.count_nonzero(lengths[start] * widths >= largest)
        if not able:
            break
        block = U[start : start + step] @ V[:able].T
        largest = max(largest, float(block.max()), -float(block.min()))
    return largest
