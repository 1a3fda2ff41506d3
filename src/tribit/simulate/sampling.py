"""Observation processes: the three of the paper, over any distribution of the observed entries.

``Pi`` is a distribution over the entries of a matrix: ``pi_ij >= 0``, summing to 1. Every function takes it
as ``weights``, in proportion: None (uniform), an array of the matrix's shape, or a tuple ``(left, right)`` of
factors with ``pi_ij`` proportional to ``left_i . right_j`` (one weight for each row and each column, or a few
nonnegative columns of them). With None or factors the time and memory grow with the number of draws, not with
the matrix: no list of all entries is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tribit.checks import check_count, check_positive
from tribit.data.axis import Positions
from tribit.data.ingest import check_shape
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.randomness import RandomState, generator

Floats: TypeAlias = npt.NDArray[np.float64]

#: Entries per block where all entries must be visited.
BLOCK_ENTRIES = 1 << 18
#: Probability above which entries are drawn one by one: there are at most ``n / HEAVY`` of these.
HEAVY = 0.5


class Cells(NamedTuple):
    """Positions of entries, ``rows[t]`` with ``columns[t]``; a pair may appear more than once.

    Examples
    --------
    >>> from tribit.simulate.sampling import multinomial
    >>> rows, columns = multinomial((20, 10), 5, random_state=0)
    >>> rows, columns
    (array([18, 12, 14, 10, 18]), array([8, 0, 8, 0, 7]))
    """

    rows: Positions
    columns: Positions


def multi_bernoulli(
    shape: tuple[int, int], n: float, *, weights: object = None, random_state: RandomState = None
) -> Cells:
    """See each entry independently, with probability ``n pi_ij``.

    Parameters
    ----------
    shape : tuple of two ints
        Numbers of rows and columns.
    n : float
        The expected number of entries seen; ``n pi_ij`` may not exceed 1 anywhere.
    weights : None, array of that shape, or tuple of two arrays
        ``Pi`` in proportion: uniform, a matrix, or factors ``(left, right)``.
    random_state : int, Generator, RandomState or None
        As in :func:`tribit.randomness.generator`.

    Returns
    -------
    Cells
        Each at most once, in row-major order; possibly none.

    Examples
    --------
    >>> cells = multi_bernoulli((10_000, 10_000), 50, random_state=0)
    >>> cells.rows.size == cells.columns.size
    True
    """
    distribution = as_distribution(shape, weights)
    draws, n = generator(random_state), check_positive("n", n)
    _check_room(n, distribution.shape)
    heavy = distribution.likelier_than(HEAVY / n)
    chances = n * distribution.at(heavy)
    _check_probabilities(chances, heavy, distribution.shape, n)
    kept = heavy[draws.random(heavy.size) < chances]
    # The others: an entry is hit by a Poisson number of darts of mean rate * p, so at least once with
    # probability 1 - exp(-rate * p), which is at least p up to HEAVY; what is too much is thinned away.
    rate = -np.log1p(-HEAVY) / HEAVY
    hit = np.unique(distribution.draw(int(draws.poisson(rate * n)), draws))
    hit = np.setdiff1d(hit, heavy, assume_unique=True)
    p = n * distribution.at(hit)
    light = hit[draws.random(hit.size) * -np.expm1(-rate * p) < p]
    return _cells(np.sort(np.concatenate([kept, light])), distribution.shape)


def multinomial(
    shape: tuple[int, int], n: int, *, weights: object = None, random_state: RandomState = None
) -> Cells:
    """Draw ``n`` entries one after another from ``Pi``, with replacement: an entry may be seen again.

    Parameters
    ----------
    shape : tuple of two ints
        Numbers of rows and columns.
    n : int
        How many draws to make.
    weights, random_state
        As in :func:`multi_bernoulli`.

    Returns
    -------
    Cells
        The entries in the order of the draws, repeats included.

    Examples
    --------
    >>> from tribit.simulate.sampling import multinomial
    >>> cells = multinomial((20, 10), 30, random_state=0)
    >>> len(cells.rows), len(set(zip(cells.rows, cells.columns)))  # some more than once
    (30, 27)
    """
    distribution = as_distribution(shape, weights)
    return _cells(
        distribution.draw(check_count("n", n), generator(random_state)), distribution.shape
    )


def all_at_once(
    shape: tuple[int, int], n: int, *, weights: object = None, random_state: RandomState = None
) -> Cells:
    """Draw exactly ``n`` different entries: one after another from ``Pi``, without replacement.

    With uniform ``Pi`` every set of ``n`` entries is as likely as any other.

    Parameters
    ----------
    shape : tuple of two ints
        Numbers of rows and columns.
    n : int
        How many entries to see, at most the number of entries of positive weight.
    weights, random_state
        As in :func:`multi_bernoulli`.

    Returns
    -------
    Cells
        Each once, in row-major order.

    Examples
    --------
    >>> from tribit.simulate.sampling import all_at_once
    >>> cells = all_at_once((20, 10), 30, random_state=0)
    >>> len(set(zip(cells.rows, cells.columns)))
    30
    """
    distribution = as_distribution(shape, weights)
    _check_room(check_count("n", n), distribution.shape)
    draws = generator(random_state)
    drawn: Positions = np.empty(0, dtype=np.int64)
    # The first n different ones among draws with replacement, for as long as these bring new ones.
    while drawn.size < n:
        size = 2 * (n - drawn.size) + 64
        both = np.concatenate([drawn, distribution.draw(size, draws)])
        before = drawn.size
        drawn = both[np.sort(np.unique(both, return_index=True)[1])][:n]
        if drawn.size < n and drawn.size - before < size // 20:
            drawn = np.concatenate([drawn, _race(distribution, drawn, n - drawn.size, draws)])
    return _cells(np.sort(drawn), distribution.shape)


def _race(
    distribution: Distribution, drawn: Positions, n: int, draws: np.random.Generator
) -> Positions:
    """Go on drawing without replacement: the ``n`` smallest of ``exponential / pi`` among the rest."""
    n_rows, n_columns = distribution.shape
    drawn = np.sort(drawn)
    step = max(1, BLOCK_ENTRIES // n_columns)
    best, keys = np.empty(0), np.empty(0, dtype=np.int64)
    for start in range(0, n_rows, step):
        pi = distribution.block(slice(start, start + step)).reshape(-1)
        first = start * n_columns
        low, high = np.searchsorted(drawn, [first, first + pi.size])
        with np.errstate(divide="ignore"):
            times = draws.standard_exponential(pi.size) / pi
        times[drawn[low:high] - first] = np.inf
        new = np.flatnonzero(times < (best.max() if best.size == n else np.inf))
        best, keys = np.concatenate([best, times[new]]), np.concatenate([keys, new + first])
        if best.size > n:
            fastest = np.argpartition(best, n - 1)[:n]
            best, keys = best[fastest], keys[fastest]
    if best.size < n:
        raise InvalidInputError(
            f"n is {drawn.size + n}, but only {drawn.size + best.size} entries have a positive weight; "
            "lower n, or draw with replacement (multinomial)."
        )
    return keys


def _cells(keys: Positions, shape: tuple[int, int]) -> Cells:
    rows, columns = np.divmod(keys, shape[1])
    return Cells(rows, columns)


def _check_room(n: float, shape: tuple[int, int]) -> None:
    if n > shape[0] * shape[1]:
        raise InvalidInputError(
            f"n is {n:g}, but a {shape[0]} x {shape[1]} matrix has only {shape[0] * shape[1]} entries; "
            "lower n, or draw with replacement (multinomial)."
        )


def _check_probabilities(chances: Floats, keys: Positions, shape: Any, n: float) -> None:
    # Uniform weights with n equal to all entries may round to a hair above 1.
    if chances.size and chances.max() > 1 + 1e-9:
        worst = int(np.argmax(chances))
        row, column = divmod(int(keys[worst]), shape[1])
        raise InvalidInputError(
            f"n pi is {chances[worst]:.4g} at row {row}, column {column}, which is no probability; lower n "
            f"to {n / chances[worst]:.6g} or less, or flatten the weights."
        )


@dataclass(frozen=True, eq=False)
class FactoredDistribution:
    """``pi = left right'`` with nonnegative factors whose product sums to 1.

    An entry is known by its key, ``row * n_columns + column``.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.simulate.sampling import as_distribution
    >>> found = as_distribution((3, 2), (np.array([[1.0], [2.0], [3.0]]), np.array([[1.0], [1.0]])))
    >>> type(found).__name__
    'FactoredDistribution'
    """

    left: Floats
    right: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.left.shape[0], self.right.shape[0]

    def at(self, keys: Positions) -> Floats:
        """Return ``pi`` at the given keys."""
        rows, columns = np.divmod(keys, self.shape[1])
        return np.asarray(np.einsum("tk,tk->t", self.left[rows], self.right[columns]))

    def block(self, rows: slice) -> Floats:
        """Return rows of ``pi``."""
        return np.asarray(self.left[rows] @ self.right.T)

    def draw(self, n: int, draws: np.random.Generator) -> Positions:
        """Choose a component, then a row and a column from it, independently."""
        masses = self.left.sum(axis=0) * self.right.sum(axis=0)
        component = _categories(masses, n, draws)
        keys = np.empty(n, dtype=np.int64)
        for k in range(masses.size):
            mine = np.flatnonzero(component == k)
            rows = _categories(self.left[:, k], mine.size, draws)
            keys[mine] = rows * self.shape[1] + _categories(self.right[:, k], mine.size, draws)
        return keys

    def likelier_than(self, level: float) -> Positions:
        """Return the entries with ``pi > level``: in some component they exceed ``level / k``."""
        found = []
        for left, right in zip(self.left.T, self.right.T, strict=True):
            order = np.argsort(-right, kind="stable")
            with np.errstate(divide="ignore"):
                # A hair lower, so that rounding cannot lose an entry on the border.
                bars = level / self.left.shape[1] / left * (1 - 1e-12)
            counts = np.searchsorted(-right[order], -bars, side="left")
            rows = np.repeat(np.arange(left.size), counts)
            first = np.cumsum(counts) - counts
            places = np.arange(rows.size) - np.repeat(first, counts)
            found.append(rows * self.shape[1] + order[places])
        keys = np.unique(np.concatenate(found))
        return np.asarray(keys[self.at(keys) > level])


@dataclass(frozen=True, eq=False)
class DenseDistribution:
    """``pi`` as a matrix that sums to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.simulate.sampling import DenseDistribution, multinomial
    >>> multinomial((2, 2), 3, weights=np.array([[0.0, 1.0], [0.0, 0.0]]), random_state=0)
    Cells(rows=array([0, 0, 0]), columns=array([1, 1, 1]))
    """

    pi: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.pi.shape[0], self.pi.shape[1]

    def at(self, keys: Positions) -> Floats:
        """Return ``pi`` at the given keys."""
        return np.asarray(self.pi.reshape(-1)[keys])

    def block(self, rows: slice) -> Floats:
        """Return rows of ``pi``."""
        return self.pi[rows]

    def draw(self, n: int, draws: np.random.Generator) -> Positions:
        """Draw ``n`` keys with replacement."""
        return _categories(self.pi.reshape(-1), n, draws)

    def likelier_than(self, level: float) -> Positions:
        """Return the entries with ``pi > level``."""
        return np.flatnonzero(self.pi.reshape(-1) > level)


Distribution: TypeAlias = FactoredDistribution | DenseDistribution


def as_distribution(shape: object, weights: object) -> Distribution:
    """Read ``weights``: None for uniform, a matrix, or a tuple of two factors.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.simulate.sampling import as_distribution
    >>> as_distribution((2, 2), np.array([[3.0, 1.0], [0.0, 0.0]])).pi
    array([[0.75, 0.25],
           [0.  , 0.  ]])
    """
    n_rows, n_columns = check_shape(shape)
    if weights is None:
        return FactoredDistribution(
            np.full((n_rows, 1), 1 / n_rows), np.full((n_columns, 1), 1 / n_columns)
        )
    if not isinstance(weights, tuple):
        pi = _nonnegative("weights", weights, (n_rows, n_columns))
        return DenseDistribution(np.ascontiguousarray(pi / _total("weights", pi.sum())))
    if len(weights) != 2:
        raise InvalidInputError(
            f"weights is a tuple of {len(weights)} arrays; pass (left, right), one for the rows and "
            "one for the columns, or one array of the matrix's shape."
        )
    left = _nonnegative("left weights", weights[0], (n_rows, None))
    right = _nonnegative("right weights", weights[1], (n_columns, None))
    if left.shape[1] != right.shape[1]:
        raise InvalidInputError(
            f"The left weights have {left.shape[1]} columns and the right weights {right.shape[1]}; "
            "pass factors with equally many columns."
        )
    total = _total("product of the weights", left.sum(axis=0) @ right.sum(axis=0))
    return FactoredDistribution(left / total, right)


def _nonnegative(name: str, values: Any, shape: tuple[int, int | None]) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidTypeError(
            f"The {name} are of type {type(values).__name__} and not numbers; pass an array of them."
        ) from None
    if shape[1] is None and array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2 or array.shape[0] != shape[0] or shape[1] not in (None, array.shape[1]):
        wanted = (
            f"{shape[0]} x {shape[1]}" if shape[1] else f"one row of them for each of {shape[0]}"
        )
        raise InvalidInputError(f"The {name} have the shape {np.shape(values)}; pass {wanted}.")
    wrong = np.argwhere(~((array >= 0.0) & (array < np.inf)))
    if wrong.size:
        row, column = (int(place) for place in wrong[0])
        raise InvalidInputError(
            f"The {name} are {array[row, column]} at row {row}, column {column}; "
            "pass finite numbers, at least 0."
        )
    return array


def _total(name: str, total: Any) -> float:
    if not 0.0 < total < np.inf:
        raise InvalidInputError(
            f"The {name} sums to {total}, so it gives no distribution; pass one that is positive somewhere."
        )
    return float(total)


def _categories(masses: Floats, n: int, draws: np.random.Generator) -> Positions:
    cumulative = np.cumsum(masses)
    # The side matters: a category of mass 0 is an empty interval and is never chosen.
    places = np.searchsorted(cumulative, draws.random(n) * cumulative[-1], side="right")
    last = np.flatnonzero(masses)[-1] if n else 0  # rounding may point behind the last of them
    return np.asarray(np.minimum(places, last), dtype=np.int64)
