"""PU matrix completion's risks, and the minima of the squared one.

The PU risk and its two biased relatives are each a table of weights ``(c_plus, c_minus)`` of an entry.

    kind of entry   pu                  pu_without_dislikes   biased_pu
    like            (1 / q, -rho / q)   (1 / q, -rho / q)     ((1 + rho) / q, 0)
    unobserved      (0, 1)              (0, 1)                (0, 1)
    dislike         (0, 1)              (0, 0)                (0, 1)

with ``q = 1 - rho``. Only the first has the mean of ``sum l(x, y)`` over all true labels y; the limits of the others
are in :func:`tribit.paper.theory.limiting_probability`.

The squared PU risk of Hsieh, Natarajan and Dhillon (2015), "PU learning for matrix completion",

    sum over observed likes of [(x - 1)^2 - rho x^2] / (1 - rho)  +  sum over the others of x^2

is ``|X - C|^2`` and a constant, with ``C = 1 / (1 - rho)`` at the likes and 0 elsewhere. Over a trace-norm ball, a rank
or with ``l2 |X|_*`` added the minimum is C with its singular values shrunk. With ``0 <= X <= 1``, as in the theorem, or
with a risk in which entries have unequal weights, it is searched for in factor form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from tribit.backends.objective import Smooth
from tribit.backends.threads import single_threaded_blas
from tribit.checks import check_count
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.model.constraints import Constraint, Ridge, TraceNorm, Unconstrained
from tribit.model.factors import Factors
from tribit.model.risks import Floats, Integers, Missingness, Risk, pu
from tribit.paper.systems.base import ObservedEntries, lower_to_sum
from tribit.solvers.augmented_lagrangian import AugmentedLagrangian, tile_rows
from tribit.solvers.loop import SolverResult, Stopping

Array = NDArray[np.floating[Any]]

BOX = (0.0, 1.0)  #: bounds of a probability
#: Size of the noise in columns that the closed form sets to 0, relative to the root of its mean entry.
NOISE_SHARE = 0.1
ROUNDING = 1e-12  #: of an entry


class _WithoutDislikes(Risk):
    """The PU risk with weight 0 on observed dislikes."""

    def table(self) -> Floats:
        found = super().table()
        found[2] = 0.0
        return found

    def corrections(
        self, labels: Integers, rows: Integers, columns: Integers, weights: Floats | None
    ) -> tuple[Floats, Floats]:
        plus, minus = super().corrections(labels, rows, columns, weights)
        return plus, np.where(labels > 0, minus, -1.0)


class _Biased(Risk):
    """Likes that weigh ``(1 + rho) / (1 - rho)`` dislikes, with no correction."""

    def table(self) -> Floats:
        found = super().table()
        found[0] = 2.0 * found[0, 0] - 1.0, 0.0
        return found

    def corrections(
        self, labels: Integers, rows: Integers, columns: Integers, weights: Floats | None
    ) -> tuple[Floats, Floats]:
        inverse, _ = super().corrections(labels, rows, columns, weights)
        like = labels > 0
        return np.where(like, 2.0 * inverse - 1.0, 0.0), np.where(like, -1.0, 0.0)


def pu_without_dislikes(rho: float | Missingness) -> Risk:
    """Return the PU risk with the loss 0 at observed dislikes: the first modification of Hayashi et al., L'.

    Its mean is ``sum [f l(x, +1) + rho (1 - f) l(x, -1)]`` with f the probability of a like: dislikes count ``rho``
    times too little. At ``rho = 0`` it knows no dislike at all.

    Examples
    --------
    >>> from tribit.paper.systems.pu_risks import pu_without_dislikes
    >>> from tribit.paper.theory import limiting_probability
    >>> round(float(limiting_probability(pu_without_dislikes(rho=0.5), 0.3)), 3)
    0.462
    """
    return _WithoutDislikes(0.0, 1.0, 0.0, rho)


def biased_pu(rho: float | Missingness) -> Risk:
    """Return the weighted risk of "biased matrix completion" (Hsieh, Natarajan and Dhillon 2015).

    They weigh likes by ``(1 + rho) / 2`` and all other entries, as dislikes, by ``(1 - rho) / 2``; here both weights
    are divided by the latter. Its 0-1 loss has the mean of that of the true labels, up to a factor and a constant, so
    that it is for signs: ``Y = 1[M > threshold]`` without noise.

    Examples
    --------
    >>> from tribit.paper.systems.pu_risks import biased_pu
    >>> from tribit.paper.theory import limiting_probability
    >>> round(float(limiting_probability(biased_pu(rho=0.5), 0.3)), 3)
    0.346
    """
    return _Biased(0.0, 1.0, 0.0, rho)


#: The risks of :class:`tribit.paper.systems.PUMatrixCompletion` by name, the unbiased one first.
PU_RISKS: dict[str, Callable[[Any], Risk]] = {
    "unbiased": pu,
    "biased": biased_pu,
    "without-dislikes": pu_without_dislikes,
}


@dataclass(frozen=True)
class SquaredUnlabelled(Smooth):
    """``F(U, V) = squared PU risk at U V' + l2 / 2 (|U|^2 + |V|^2)``, with no dense array.

    With the weights ``plus`` and ``minus`` that an observed entry adds, the risk is

        sum over all entries of x^2  +  sum over observed entries of [plus (x - 1)^2 + minus x^2].

    Parameters
    ----------
    observations : Observations
        The likes, and the dislikes where the risk distinguishes them from unobserved entries.
    risk : Risk
        One of :data:`tribit.paper.systems.pu_risks.PU_RISKS`.
    l2 : float
        Weight of the ridge penalty.
    """

    observations: Observations
    risk: Risk
    l2: float = 0.0

    curvature = 2.0  #: of one entry

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of X."""
        return self.observations.shape

    @cached_property
    def _weights(self) -> tuple[Array, Array]:
        seen = self.observations
        return seen.risk_weights(self.risk)

    @cached_property
    def target(self) -> csr_array:
        """The sparse matrix of the weights ``plus``: C, where all entries weigh 1."""
        return self._entries.matrix(self._weights[0])

    @cached_property
    def surplus(self) -> Array:
        """Weight of each observed entry above 1, ``plus + minus``."""
        plus, minus = self._weights
        return np.asarray(plus + minus)

    @cached_property
    def is_uneven(self) -> bool:
        """Whether an entry weighs more or less than 1, so that the minimum has no closed form."""
        return bool(self.surplus.any())

    @cached_property
    def _entries(self) -> ObservedEntries:
        seen = self.observations
        return ObservedEntries(seen.rows, seen.columns, seen.shape)

    @cached_property
    def size(self) -> float:
        """The risk at ``X = 0``, to which ``tol`` is relative."""
        return float(np.sum(self.target.data))

    def value(self, factors: Factors) -> float:
        """Return F: the sum of all squares is ``tr(U'U V'V)``."""
        return self._value(factors, self._seen_entries(factors))

    def _value(self, factors: Factors, seen: Array | None) -> float:
        """Return F, given the observed entries of X where their weights are unequal."""
        U, V = factors.row_factors, factors.column_factors
        products = self.target @ V
        squares = float(np.vdot(U.T @ U, V.T @ V))
        ridge = Ridge(self.l2).value(U, V)
        value = squares - 2.0 * float(np.vdot(U, products)) + self.size + ridge
        return value if seen is None else value + float(np.sum(self.surplus * seen**2))

    def _seen_entries(self, factors: Factors) -> Array | None:
        """Return the observed entries of X, None where all entries weigh alike."""
        if not self.is_uneven:
            return None
        return self._entries.of_product(factors.row_factors, factors.column_factors)

    def gradient(self, factors: Factors, *, value: bool = True) -> tuple[float, Factors]:  # noqa: ARG002
        """Return F and its gradient, laid out as the factors are."""
        U, V = factors.row_factors, factors.column_factors
        in_U = 2.0 * (U @ (V.T @ V) - self.target @ V) + self.l2 * U
        in_V = 2.0 * (V @ (U.T @ U) - self.target.T @ U) + self.l2 * V
        seen = self._seen_entries(factors)
        if seen is not None:
            slopes = self._entries.matrix(2.0 * self.surplus * seen)
            in_U, in_V = in_U + slopes @ V, in_V + slopes.T @ U
        return self._value(factors, seen), Factors.of(in_U, in_V)

    def noise_ridge(self) -> float:
        """Return twice the largest singular value of noise with the variance of C's entries."""
        entries, C = self.shape[0] * self.shape[1], self.target.data
        variance = float(C @ C) / entries - (self.size / entries) ** 2
        sides = np.sqrt(self.shape[0]) + np.sqrt(self.shape[1])
        return float(2.0 * np.sqrt(max(variance, 0.0)) * sides)


def closed_form(
    objective: SquaredUnlabelled, rank: int, radius: float, draws: np.random.Generator
) -> Factors:
    """Return ``argmin F`` over a rank and ``|X|_* <= radius``: the leading singular values of C, shrunk.

    Where observed entries have unequal weights it is the start of a search, from C over the weights.
    """
    target = objective.target
    if objective.is_uneven:
        weights = 1.0 + objective.surplus
        data = np.divide(target.data, weights, out=np.zeros_like(weights), where=weights != 0.0)
        target = csr_array((data, target.indices, target.indptr), shape=target.shape)
    with single_threaded_blas():
        left, values, right = _leading_triplets(target, rank, draws)
    shrunk = np.maximum(values - 0.5 * objective.l2, 0.0)
    if np.sum(shrunk) > radius:
        shrunk = lower_to_sum(shrunk, radius)
    root = np.zeros(rank)
    root[: shrunk.size] = np.sqrt(shrunk)
    U, V = (np.pad(side, [(0, 0), (0, rank - side.shape[1])]) * root for side in (left, right))
    return Factors.of(U, V)


def inside_box(factors: Factors) -> bool:
    """Return whether every entry of ``U V'`` is in [0, 1] up to rounding."""
    U, V = factors.row_factors, factors.column_factors
    tiles = (U[rows] @ V.T for rows in tile_rows((U.shape[0], V.shape[0])))
    return all(np.min(X) >= BOX[0] - ROUNDING and np.max(X) <= BOX[1] + ROUNDING for X in tiles)


def search_factors(
    objective: SquaredUnlabelled,
    start: Factors,
    radius: float,
    stopping: Stopping,
    draws: np.random.Generator,
    box: tuple[float, float] = BOX,
) -> SolverResult:
    """Return ``argmin F`` over ``|X|_* <= radius`` with every entry in a box, from :func:`closed_form`."""
    ball: Constraint = TraceNorm(radius) if np.isfinite(radius) else Unconstrained()
    solver = AugmentedLagrangian(objective.curvature, box)
    U, V = start.row_factors, start.column_factors
    # The minimum may have a higher rank than the start, and a column of zeros stays 0.
    size = NOISE_SHARE * np.sqrt(
        float(np.mean(np.abs(U), axis=0).max() * np.abs(V).mean(axis=0).max())
    )
    noisy = [
        np.where(start.row_factors.any(axis=0), side, size * draws.standard_normal(side.shape))
        for side in (U, V)
    ]
    return solver.minimise(objective, [ball], Factors.of(*ball.project(*noisy)), stopping, draws)


def select_likes(observations: Observations) -> Observations:
    """Return the likes alone."""
    likes = np.flatnonzero(observations.labels > 0)
    if not likes.size:
        raise InvalidInputError(
            f"PU matrix completion learns from likes, and the {observations.n_observed} observed entries have none: "
            "observe likes, or swap the signs to learn from dislikes."
        )
    return observations.take(likes)


def check_positive_rank(rank: object, shape: tuple[int, int]) -> int:
    """Return a rank, at most the larger side of the matrix."""
    meaning = f"the larger side of the {shape[0]} x {shape[1]} matrix"
    return check_count("rank", rank, 1, max(shape), meaning=meaning)


def _leading_triplets(
    C: csr_array, rank: int, draws: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Return the leading singular vectors and values of a sparse matrix, at most ``rank``, largest first."""
    least = min(C.shape)
    if 2 * rank >= least:  # the dense matrix is at most four times as large as the result
        left, values, right = np.linalg.svd(C.toarray(), full_matrices=False)
    else:
        left, values, right = svds(C, k=rank, v0=draws.standard_normal(least))
        order = np.argsort(-values)
        left, values, right = left[:, order], values[order], right[order]
    # The sign of a pair is free: fixed here, independent of the start of the search.
    largest = np.argmax(np.abs(left), axis=0)
    signs = np.where(left[largest, np.arange(left.shape[1])] < 0, -1.0, 1.0)
    return (left * signs)[:, :rank], values[:rank], (right.T * signs)[:, :rank]
