"""Constraints and penalties on ``X = U V'`` in factor form.

A constraint is a set of factor pairs: ``project`` maps a pair into it, ``gauge`` is at most 1 exactly for the pairs
inside, and ``start`` samples a pair inside. It also declares properties that solvers use, such as the ball of each row
and the bound of the entries. A solver refuses the constraints that it cannot keep.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tribit.arrays import dot, is_numpy, namespace
from tribit.checks import check_count, check_field, check_not_negative, check_positive

__all__ = ["Constraint", "EntryBound", "MaxNorm", "Rank", "Ridge", "TraceNorm", "Unconstrained"]

Array = NDArray[np.floating[Any]]
Pair = tuple[Array, Array]

#: Size of the entries of the initial X, relative to the largest that the constraint allows: near the saddle point X =
#: 0, but not at it, where the gradient vanishes.
START = 0.1


class Constraint(ABC):
    """A set of factor pairs ``(U, V)`` with the properties that solvers use; the defaults guarantee nothing.

    Examples
    --------
    >>> from tribit import MaxNorm, TraceNorm
    >>> from tribit.model.constraints import Constraint
    >>> issubclass(MaxNorm, Constraint), issubclass(TraceNorm, Constraint)
    (True, True)
    """

    #: Whether ``project`` returns the nearest pair (or the nearest X), and not just some pair inside.
    nearest: ClassVar[bool] = True
    #: Whether the set is a bound on the entries of ``X = U V'``, ``entry_bound``, and nothing else.
    entrywise: ClassVar[bool] = False
    #: The nearest pair in a norm that weights each row by a scale, ``(U, V, row scales, column scales) -> (U, V)``;
    #: None without a formula.
    project_scaled: Callable[[Array, Array, Array, Array], Pair] | None = None

    @property
    def row_radius(self) -> float:
        """Squared radius of the ball that holds each row of both factors; infinite without one."""
        return np.inf

    @property
    def inner_radius(self) -> float:
        """Largest ``r`` such that every pair whose rows have squared norms of at most ``r`` is inside."""
        return 0.0

    @property
    def entry_bound(self) -> float:
        """Largest absolute entry of ``X`` inside, or a bound of it."""
        return np.inf

    @property
    def restricts(self) -> bool:
        """Whether any pair is outside."""
        return self.inner_radius < np.inf

    @abstractmethod
    def project(self, U: Array, V: Array) -> Pair:
        """Return the nearest pair inside, or some pair inside where ``nearest`` is False."""

    def project_knowing(self, U: Array, V: Array, largest: Callable[[Array, Array], float]) -> Pair:  # noqa: ARG002
        """Return ``project(U, V)``, with ``largest(U, V)`` a fast ``max|X|``."""
        return self.project(U, V)

    @abstractmethod
    def gauge(self, U: Array, V: Array) -> float:
        """Return the least ``t`` with ``U V' / t`` allowed: at most 1 inside, above 1 outside."""

    @abstractmethod
    def start(self, shape: tuple[int, int], rank: int, generator: np.random.Generator) -> Pair:
        """Return a random pair inside, near ``X = 0``."""


@dataclass(frozen=True)
class Unconstrained(Constraint):
    """The set of all factor pairs, for problems with a ridge alone.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Unconstrained
    >>> U = np.array([[3.0, 4.0]])
    >>> Unconstrained().project(U, U)[0]
    array([[3., 4.]])
    """

    @property
    def inner_radius(self) -> float:
        """Infinite: no pair is outside."""
        return np.inf

    def project(self, U: Array, V: Array) -> Pair:
        """Return the pair as it is."""
        return U, V

    def project_scaled(self, U: Array, V: Array, rows: Array, columns: Array) -> Pair:  # noqa: ARG002
        """Return the pair as it is."""
        return U, V

    def gauge(self, U: Array, V: Array) -> float:  # noqa: ARG002
        """Return 0: there is no boundary."""
        return 0.0

    def start(self, shape: tuple[int, int], rank: int, generator: np.random.Generator) -> Pair:
        """Return a small random pair."""
        return _gaussian_pair(shape, rank, START, generator)


@dataclass(frozen=True)
class MaxNorm(Constraint):
    """``|X|_max <= radius``: every row of both factors has ``|u|^2 <= radius``.

    The set ``M_k(R)`` of the paper. Then also ``|X_ij| <= radius`` for every entry.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import MaxNorm
    >>> U, V = MaxNorm(4.0).project(np.array([[3.0, 4.0]]), np.array([[1.0, 0.0]]))
    >>> U, V
    (array([[1.2, 1.6]]), array([[1., 0.]]))
    """

    radius: float

    def __post_init__(self) -> None:
        check_field(self, "radius", check_positive)

    def __str__(self) -> str:
        return f"|X|_max <= radius = {self.radius:g}"

    @property
    def row_radius(self) -> float:
        """The radius."""
        return self.radius

    @property
    def inner_radius(self) -> float:
        """The radius: the set is the product of the balls of its rows."""
        return self.radius

    @property
    def entry_bound(self) -> float:
        """The radius: ``|x_ij| <= |u_i| |v_j|``."""
        return self.radius

    def project(self, U: Array, V: Array) -> Pair:
        """Return ``argmin |U - U'|^2 + |V - V'|^2`` inside: longer rows are scaled to norm sqrt(radius)."""
        return clip_rows(U, self.radius**0.5), clip_rows(V, self.radius**0.5)

    def project_scaled(self, U: Array, V: Array, rows: Array, columns: Array) -> Pair:  # noqa: ARG002
        """Return ``project(U, V)``: rows are projected separately, whatever their scales."""
        return self.project(U, V)

    def gauge(self, U: Array, V: Array) -> float:
        """Return ``max(|u_i|^2, |v_j|^2) / radius``."""
        return max(float(np.max(np.sum(F * F, axis=1), initial=0.0)) for F in (U, V)) / self.radius

    def start(self, shape: tuple[int, int], rank: int, generator: np.random.Generator) -> Pair:
        """Return random rows of norm about ``sqrt(START radius)``, projected into the ball."""
        scale = START * min(self.radius, 1.0)
        return self.project(*_gaussian_pair(shape, rank, scale, generator))


@dataclass(frozen=True)
class TraceNorm(Constraint):
    """``|X|_* <= radius`` in factor form: ``(|U|_F^2 + |V|_F^2) / 2 <= radius``.

    The paper's ``K_*(alpha, r)`` has ``radius = alpha sqrt(r d1 d2)``.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import TraceNorm
    >>> U, V = TraceNorm(1.0).project(np.array([[2.0]]), np.array([[2.0]]))
    >>> float((U**2).sum() + (V**2).sum()) / 2
    1.0
    """

    radius: float

    def __post_init__(self) -> None:
        check_field(self, "radius", check_positive)

    def __str__(self) -> str:
        return f"|X|_* <= radius = {self.radius:g}"

    @property
    def entry_bound(self) -> float:
        """The radius: no entry is above the largest singular value."""
        return self.radius

    def project(self, U: Array, V: Array) -> Pair:
        """Return ``argmin |U - U'|^2 + |V - V'|^2`` inside: both factors times one number."""
        scale = float(1.0 / np.sqrt(max(self.gauge(U, V), 1.0)))
        return U * scale, V * scale

    def project_scaled(self, U: Array, V: Array, rows: Array, columns: Array) -> Pair:
        """Return ``argmin sum_i s_i |u_i - u'_i|^2 + ...`` inside, with s the scales: rows times ``s / (s + t)``."""
        square = 2.0 * self.radius
        scales = np.concatenate([rows, columns])
        squares = np.concatenate([np.einsum("ij,ij->i", F, F) for F in (U, V)])
        if float(np.sum(squares)) <= square:
            return U, V
        t = 0.0
        for _ in range(100):
            shrink = scales / (scales + t)
            norm = float(np.sqrt(np.sum(shrink**2 * squares) / square))
            if norm <= 1.0 + 1e-12:
                break
            # Newton's method on 1 / norm, which is concave in t: it converges monotonically from the left.
            slope = float(np.sum(shrink**2 * squares / (scales + t))) / (square * norm)
            t += (norm - 1.0) * norm / slope
        return U * shrink[: rows.size, None], V * shrink[rows.size :, None]

    def gauge(self, U: Array, V: Array) -> float:
        """Return ``(|U|_F^2 + |V|_F^2) / (2 radius)``, at least ``|U V'|_* / radius``."""
        return float(np.vdot(U, U) + np.vdot(V, V)) / (2.0 * self.radius)

    def start(self, shape: tuple[int, int], rank: int, generator: np.random.Generator) -> Pair:
        """Return a random pair inside."""
        U, V = _gaussian_pair(shape, rank, START, generator)
        shrink = min(1.0, np.sqrt(START / self.gauge(U, V)))
        return U * shrink, V * shrink


@dataclass(frozen=True)
class EntryBound(Constraint):
    """``|X_ij| <= alpha`` for every entry of ``X = U V'``.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import EntryBound
    >>> U, V = EntryBound(1.0).project(np.array([[2.0]]), np.array([[2.0]]))
    >>> U @ V.T
    array([[1.]])
    """

    alpha: float
    nearest: ClassVar[bool] = False
    entrywise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_field(self, "alpha", check_positive)

    def __str__(self) -> str:
        return f"|X| <= alpha = {self.alpha:g}"

    @property
    def inner_radius(self) -> float:
        """The bound: ``|x_ij| <= |u_i| |v_j|``."""
        return self.alpha

    @property
    def entry_bound(self) -> float:
        """The bound itself."""
        return self.alpha

    def project(self, U: Array, V: Array, largest: float | None = None) -> Pair:
        """Scale both factors by ``sqrt(alpha / max|X|)`` when ``max|X| > alpha``.

        This is the paper's step, not the nearest pair, which has no formula in the factors. ``largest`` is ``max|X|``,
        computed by a backend.
        """
        ratio = (self.gauge(U, V) if largest is None else largest / self.alpha) or 1.0
        scale = float(1.0 / np.sqrt(max(ratio, 1.0)))
        return U * scale, V * scale

    def project_knowing(self, U: Array, V: Array, largest: Callable[[Array, Array], float]) -> Pair:
        """Return ``project(U, V)``, given the largest entry."""
        return self.project(U, V, largest(U, V))

    def gauge(self, U: Array, V: Array) -> float:
        """Return ``max|X| / alpha``, by blocks of rows."""
        blocks = range(0, U.shape[0], 512)
        return max(float(np.max(np.abs(U[i : i + 512] @ V.T))) for i in blocks) / self.alpha

    def start(self, shape: tuple[int, int], rank: int, generator: np.random.Generator) -> Pair:
        """Return a random pair inside."""
        return self.project(*_gaussian_pair(shape, rank, START * min(self.alpha, 1.0), generator))


@dataclass(frozen=True)
class Rank(Constraint):
    """``rank(X) <= k``.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Rank
    >>> U, V = Rank(1).project(np.diag([2.0, 1.0]), np.eye(2))
    >>> (U @ V.T).round(6)
    array([[2., 0.],
           [0., 0.]])
    """

    k: int

    def __post_init__(self) -> None:
        check_field(self, "k", check_count)

    def project(self, U: Array, V: Array) -> Pair:
        """Return balanced factors of ``argmin |X - U V'|_F`` of rank k: the truncated SVD."""
        left, right, values = svd_of_product(U, V)
        root = np.sqrt(values[: self.k])
        # Keep the number of columns, up to k.
        padding = [(0, 0), (0, min(self.k, U.shape[1]) - root.size)]
        return np.pad(left[:, : self.k] * root, padding), np.pad(right[:, : self.k] * root, padding)

    def gauge(self, U: Array, V: Array) -> float:
        """Return ``rank(U V') / k``; singular values below rounding error count as 0."""
        values = svd_of_product(U, V)[2]
        rounding = values.max(initial=0.0) * max(*U.shape, *V.shape) * np.finfo(U.dtype).eps
        return int(np.sum(values > rounding)) / self.k

    def start(self, shape: tuple[int, int], rank: int, generator: np.random.Generator) -> Pair:
        """Return a small random pair with at most k columns."""
        return _gaussian_pair(shape, min(rank, self.k), START, generator)


@dataclass(frozen=True)
class Ridge:
    """The penalty ``l2 / 2 (|U|_F^2 + |V|_F^2)``, whose least value over ``U V' = X`` is ``l2 |X|_*``.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Ridge
    >>> float(Ridge(0.5).value(np.array([[2.0]]), np.array([[2.0]])))
    2.0
    """

    l2: float

    def __post_init__(self) -> None:
        check_field(self, "l2", check_not_negative)

    def value(self, *arrays: Array) -> float:
        """Return ``l2 / 2`` times the sum of squares."""
        return 0.5 * self.l2 * sum(dot(array, array) for array in arrays)

    def gradient(self, array: Array) -> Array:
        """Return ``l2`` times the array."""
        return self.l2 * array


#: Norm balls by the names of the parameter ``norm``.
NORMS: dict[str, Callable[[float], Constraint]] = {"max": MaxNorm, "trace": TraceNorm}


def clip_rows(F: Array, norm: float) -> Array:
    """Return ``argmin |F - F'|`` over matrices whose rows have Euclidean norm at most ``norm``."""
    if not is_numpy(F):
        xp = namespace(F)
        long = xp.clip(xp.sum(F * F, axis=1), norm**2, None)
        return F * (norm / xp.sqrt(long))[:, None]  # type: ignore[no-any-return]
    squares = np.einsum("ij,ij->i", F, F)
    # No branches and no 0 / 0: rows inside the ball, zero rows included, are multiplied by exactly 1.
    return np.asarray(F * (norm / np.sqrt(np.maximum(squares, norm**2)))[:, None], dtype=F.dtype)


def svd_of_product(U: Array, V: Array) -> tuple[Array, Array, Array]:
    """Return left vectors, right vectors and values of ``U V'``, which is not formed."""
    left, upper = np.linalg.qr(U)
    right, lower = np.linalg.qr(V)
    a, values, b = np.linalg.svd(upper @ lower.T, full_matrices=False)
    return left @ a, right @ b.T, values


def _gaussian_pair(
    shape: tuple[int, int], rank: int, size: float, generator: np.random.Generator
) -> Pair:
    """Return factors whose product has entries of standard deviation ``size``."""
    scale = np.sqrt(size) / rank**0.25
    U = generator.standard_normal((shape[0], rank)) * scale
    V = generator.standard_normal((shape[1], rank)) * scale
    return U, V
