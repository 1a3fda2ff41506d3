"""First guesses of the inverse curvature of all unknowns, ``M^-1 = W' W``.

They set how fast a solver is, not where it ends. Implicit features that many rows have in common move all of these
rows at once: along the leading singular vectors of the features the curvature is tens of times that of any single
unknown. :class:`Deflated` knows these directions.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tribit.arrays import is_numpy, like, namespace
from tribit.model.factors import Factors
from tribit.model.features import Design

Vector = NDArray[np.float64]
Array = NDArray[np.floating[Any]]
Counts = NDArray[np.integer[Any]]

#: Least curvature of an unknown: one without a ridge and without entries has none.
LEAST = 1e-12
#: Singular vectors of the features that are kept, those drawn beside them, and the power iterations of the subspace. On
#: a drawn table of a million entries 8, 16 and 40 vectors took 25, 23 and 27 iterations of L-BFGS, none took 84.
VECTORS, SPARE, POWER = 16, 10, 2


class Preconditioner(Protocol):
    """W, as a map of all unknowns in one vector."""

    def times(self, x: Vector) -> Vector:
        """Return ``W x``."""
        ...

    def transposed_times(self, x: Vector) -> Vector:
        """Return ``W' x``."""
        ...


class Diagonal:
    """``W = D^-1/2``, with D the curvature of each unknown."""

    def __init__(self, curvatures: Factors) -> None:
        flat = curvatures.flat()
        xp = namespace(flat)
        self.roots = xp.sqrt(1.0 / xp.clip(flat, LEAST, None))

    def times(self, x: Vector) -> Vector:
        """Return ``W x``."""
        return x * self.roots  # type: ignore[no-any-return]

    transposed_times = times


class Deflated:
    """``W = (I - B t B') D^-1/2`` on the parts that rows share through features, ``D^-1/2`` on all others.

    The curvature of the shared parts is taken as ``D^1/2 (I + B c B') D^1/2`` with orthonormal columns B: D is its
    diagonal, c what it has beyond that along the leading directions of the features, and ``t = 1 - (1 + c)^-1/2``.

    Parameters
    ----------
    curvatures : Factors
        D, of the shape of the unknowns.
    designs : pair of Design
        How the parts of rows and of columns combine.
    counts : pair of arrays
        Number of entries of each row and of each column.
    entry : pair of float
        Curvature that an entry adds to a factor and to an intercept.
    """

    def __init__(
        self,
        curvatures: Factors,
        designs: tuple[Design, Design],
        counts: tuple[Counts, Counts],
        entry: tuple[tuple[float, float], tuple[float, float]],
    ) -> None:
        self.diagonal, self.like = Diagonal(curvatures), curvatures
        sides = (
            (curvatures.row_factors, curvatures.row_intercepts),
            (curvatures.column_factors, curvatures.column_intercepts),
        )
        self.sides = [
            _Side(design, *factors, seen, *weights)
            for design, factors, seen, weights in zip(designs, sides, counts, entry, strict=True)
        ]

    def times(self, x: Vector) -> Vector:
        """Return ``W x``."""
        return self._deflate(self.diagonal.times(x))

    def transposed_times(self, x: Vector) -> Vector:
        """Return ``W' x``."""
        return self.diagonal.times(self._deflate(namespace(x).asarray(x, copy=True)))

    def _deflate(self, x: Vector) -> Vector:
        """Apply ``I - B t B'`` in place."""
        parts = self.like.shaped(x)
        rows, columns = self.sides
        rows.deflate(parts.row_factors, parts.row_intercepts)
        columns.deflate(parts.column_factors, parts.column_intercepts)
        return x


class _Side:
    """The leading directions of the parts that rows share."""

    def __init__(
        self,
        design: Design,
        factors: Array,
        intercepts: Array,
        counts: Counts,
        of_factors: float,
        of_intercepts: float,
    ) -> None:
        self.first = design.size
        spectrum = leading_directions(design, counts, intercepts)
        mean = namespace(factors).mean
        shared = mean(factors[self.first :], axis=1) if factors.shape[1] else None
        self.factors = None if shared is None else _Directions(*spectrum, shared, of_factors)
        self.intercepts = _Directions(*spectrum, intercepts[self.first :], of_intercepts)

    def deflate(self, factors: Array, intercepts: Array) -> None:
        """Apply ``I - B t B'`` to the shared parts, in place."""
        if self.factors is not None:
            self.factors.deflate(factors[self.first :])
        self.intercepts.deflate(intercepts[self.first :])


class _Directions:
    """B and t, from leading eigenvectors of ``S' diag(counts) S``, its eigenvalues, and D."""

    def __init__(self, vectors: Array, values: Array, curvatures: Array, entry: float) -> None:
        xp = namespace(vectors)
        scaled = vectors / xp.sqrt(xp.clip(curvatures, LEAST, None))[:, None]
        basis, root = _orthonormal(scaled)
        beyond, rotation = xp.linalg.eigh((root * (entry * values)) @ root.T)
        self.basis = basis @ rotation
        self.shares = 1.0 - 1.0 / xp.sqrt(1.0 + xp.clip(beyond, 0.0, None))

    def deflate(self, parts: Array) -> None:
        """Subtract ``B t B' x`` in place."""
        along = self.basis.T @ parts
        parts -= self.basis @ (
            self.shares[:, None] * along if along.ndim > 1 else self.shares * along
        )


def _orthonormal(columns: Array) -> tuple[Array, Array]:
    """Return Q and R with ``Q R`` the columns, as far as these are independent, by their small matrix of products.

    Many rows and few columns are slow in LAPACK's triangular factorisation; a device, where they are in single
    precision, has a fast one.
    """
    if not is_numpy(columns):
        basis, triangle = namespace(columns).linalg.qr(columns)
        return basis, triangle
    values, vectors = np.linalg.eigh(columns.T @ columns)
    kept = values > 1e-12 * values[-1] if values.size and values[-1] > 0 else np.zeros(0, dtype=int)
    values, vectors = values[kept], vectors[:, kept]
    roots = np.sqrt(values)
    return columns @ (vectors / roots), roots[:, None] * vectors.T


def leading_directions(
    design: Design, counts: Counts, beside: Array | None = None
) -> tuple[Array, Array]:
    """Return leading eigenvectors and eigenvalues of ``S' diag(counts) S``, roughly, by subspace iteration.

    They are the same for every ridge, and kept with the design (Halko, Martinsson and Tropp 2011, "Finding structure
    with randomness", algorithm 4.4; the first subspace is always the same). They are where ``beside`` is.
    """
    if "directions" not in design.kept:
        width = design.n_parts - design.size
        vectors = min(VECTORS, width)
        drawn = min(VECTORS + SPARE, width)
        normal = np.random.Generator(np.random.PCG64(0)).standard_normal((width, drawn))
        beside = normal if beside is None else beside
        xp, subspace = namespace(beside), like(normal, beside)
        weights = like(np.asarray(counts, dtype=np.float64)[:, None], beside)
        for _ in range(POWER):
            pulled = design.pull_back(weights * design.shared(subspace))[design.size :]
            subspace = _orthonormal(pulled)[0]
        image = xp.sqrt(weights) * design.shared(subspace)
        values, rotation = xp.linalg.eigh(image.T @ image)
        leading = slice(max(values.shape[0] - vectors, 0), None)  # ascending
        design.kept["directions"] = subspace @ rotation[:, leading], values[leading]
    return design.kept["directions"]  # type: ignore[no-any-return]
