"""Constraints and penalties on ``X = U V'`` in factor form.

A constraint says which factor pairs are allowed: ``project`` brings a pair inside, ``gauge`` is at most 1
exactly for the pairs inside, ``start`` draws a pair inside. A solver keeps the constraints it can and refuses
the others in one sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tribit.checks import check_count, check_field, check_not_negative, check_positive

Array = NDArray[np.floating[Any]]
Pair = tuple[Array, Array]

#: Size of the entries of the first X, as a share of what the constraint allows. Small, because X = 0 is a
#: saddle and a good place to leave from; not zero, because at exactly zero nothing moves.
START = 0.1


class Constraint(Protocol):
    """A set of factor pairs ``(U, V)``."""

    def project(self, U: Array, V: Array) -> Pair:
        """Return the nearest pair inside (for a set with no such formula: a pair inside)."""
        ...

    def gauge(self, U: Array, V: Array) -> float:
        """Return the least ``t`` with ``U V' / t`` allowed: at most 1 inside, above 1 outside."""
        ...

    def start(self, shape: tuple[int, int], rank: int, generator: np.random.Generator) -> Pair:
        """Return a random pair inside, near ``X = 0``."""
        ...


@dataclass(frozen=True)
class Unconstrained:
    """Every factor pair: what is left when a ridge penalty alone keeps the factors small."""

    def project(self, U: Array, V: Array) -> Pair:
        """Return the pair as it is."""
        return U, V

    def gauge(self, U: Array, V: Array) -> float:  # noqa: ARG002
        """Return 0: there is no boundary."""
        return 0.0

    def start(self, shape: tuple[int, int], rank: int, generator: np.random.Generator) -> Pair:
        """Return a small random pair."""
        return _gaussian_pair(shape, rank, START, generator)


@dataclass(frozen=True)
class MaxNorm:
    """``|X|_max <= radius``: every row of both factors has ``|u|^2 <= radius``.

    The set ``M_k(R)`` of the paper. Then also ``|X_ij| <= radius`` for every entry.
    """

    radius: float

    def __post_init__(self) -> None:
        check_field(self, "radius", check_positive)

    def project(self, U: Array, V: Array) -> Pair:
        """Return ``argmin |U - U'|^2 + |V - V'|^2`` inside: long rows are cut to norm sqrt(radius)."""
        return clip_rows(U, self.radius**0.5), clip_rows(V, self.radius**0.5)

    def gauge(self, U: Array, V: Array) -> float:
        """Return ``max(|u_i|^2, |v_j|^2) / radius``."""
        return max(float(np.max(np.sum(F * F, axis=1), initial=0.0)) for F in (U, V)) / self.radius

    def start(self, shape: tuple[int, int], rank: int, generator: np.random.Generator) -> Pair:
        """Return random rows of norm about ``sqrt(START radius)``, cut to the ball."""
        scale = START * min(self.radius, 1.0)
        return self.project(*_gaussian_pair(shape, rank, scale, generator))


@dataclass(frozen=True)
class TraceNorm:
    """``|X|_* <= radius`` in factor form: ``(|U|_F^2 + |V|_F^2) / 2 <= radius``.

    The paper's ``K_*(alpha, r)`` has ``radius = alpha sqrt(r d1 d2)``.
    """

    radius: float

    def __post_init__(self) -> None:
        check_field(self, "radius", check_positive)

    def project(self, U: Array, V: Array) -> Pair:
        """Return ``argmin |U - U'|^2 + |V - V'|^2`` inside: both factors scaled alike."""
        scale = float(1.0 / np.sqrt(max(self.gauge(U, V), 1.0)))
        return U * scale, V * scale

    def gauge(self, U: Array, V: Array) -> float:
        """Return ``(|U|_F^2 + |V|_F^2) / (2 radius)``, at least ``|U V'|_* / radius``."""
        return float(np.vdot(U, U) + np.vdot(V, V)) / (2.0 * self.radius)

    def start(self, shape: tuple[int, int], rank: int, generator: np.random.Generator) -> Pair:
        """Return a random pair inside."""
        U, V = _gaussian_pair(shape, rank, START, generator)
        shrink = min(1.0, np.sqrt(START / self.gauge(U, V)))
        return U * shrink, V * shrink


@dataclass(frozen=True)
class EntryBound:
    """``|X_ij| <= alpha`` for every entry of ``X = U V'``."""

    alpha: float

    def __post_init__(self) -> None:
        check_field(self, "alpha", check_positive)

    def project(self, U: Array, V: Array, largest: float | None = None) -> Pair:
        """Scale both factors by ``sqrt(alpha / max|X|)`` when ``max|X| > alpha``.

        This is the paper's step, not the nearest pair: that one has no formula in the factors.
        ``largest`` is ``max|X|`` where a backend has it already.
        """
        ratio = (self.gauge(U, V) if largest is None else largest / self.alpha) or 1.0
        scale = float(1.0 / np.sqrt(max(ratio, 1.0)))
        return U * scale, V * scale

    def gauge(self, U: Array, V: Array) -> float:
        """Return ``max|X| / alpha``, by blocks of rows."""
        blocks = range(0, U.shape[0], 512)
        return max(float(np.max(np.abs(U[i : i + 512] @ V.T))) for i in blocks) / self.alpha

    def start(self, shape: tuple[int, int], rank: int, generator: np.random.Generator) -> Pair:
        """Return a random pair inside."""
        return self.project(*_gaussian_pair(shape, rank, START * min(self.alpha, 1.0), generator))


@dataclass(frozen=True)
class Rank:
    """``rank(X) <= k``."""

    k: int

    def __post_init__(self) -> None:
        check_field(self, "k", check_count)

    def project(self, U: Array, V: Array) -> Pair:
        """Return balanced factors of ``argmin |X - U V'|_F`` of rank k: the truncated SVD."""
        left, right, values = _svd(U, V)
        root = np.sqrt(values[: self.k])
        spare = [
            (0, 0),
            (0, min(self.k, U.shape[1]) - root.size),
        ]  # as many columns as came, up to k
        return np.pad(left[:, : self.k] * root, spare), np.pad(right[:, : self.k] * root, spare)

    def gauge(self, U: Array, V: Array) -> float:
        """Return ``rank(U V') / k``; singular values below rounding error count as 0."""
        values = _svd(U, V)[2]
        rounding = values.max(initial=0.0) * max(*U.shape, *V.shape) * np.finfo(U.dtype).eps
        return int(np.sum(values > rounding)) / self.k

    def start(self, shape: tuple[int, int], rank: int, generator: np.random.Generator) -> Pair:
        """Return a small random pair with at most k columns."""
        return _gaussian_pair(shape, min(rank, self.k), START, generator)


@dataclass(frozen=True)
class Ridge:
    """The penalty ``l2 / 2 (|U|_F^2 + |V|_F^2)``, whose least value over ``U V' = X`` is ``l2 |X|_*``."""

    l2: float

    def __post_init__(self) -> None:
        check_field(self, "l2", check_not_negative)

    def value(self, *arrays: Array) -> float:
        """Return ``l2 / 2`` times the sum of squares."""
        return 0.5 * self.l2 * sum(float(np.vdot(array, array)) for array in arrays)

    def gradient(self, array: Array) -> Array:
        """Return ``l2`` times the array."""
        return np.asarray(self.l2 * array)


CONSTRAINTS: dict[str, type[Any]] = {
    "max_norm": MaxNorm,
    "trace_norm": TraceNorm,
    "entry_bound": EntryBound,
    "rank": Rank,
    "unconstrained": Unconstrained,
}


def clip_rows(F: Array, norm: float) -> Array:
    """Return ``argmin |F - F'|`` over matrices whose rows have Euclidean norm at most ``norm``."""
    squares = np.einsum("ij,ij->i", F, F)
    # Free of branches and of 0 / 0: rows inside the ball, the zero row too, are multiplied by exactly 1.
    return np.asarray(F * (norm / np.sqrt(np.maximum(squares, norm**2)))[:, None], dtype=F.dtype)


def _svd(U: Array, V: Array) -> tuple[Array, Array, Array]:
    """Return left vectors, right vectors and values of ``U V'`` without forming it."""
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
