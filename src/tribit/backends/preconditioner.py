"""Preconditioners ``M^-1 = W' W``, and the diagonal curvatures that they are made from.

They change the speed of a solver, not its result. Implicit features that many rows have in common move all of these
rows at once: along the leading singular vectors of the features the curvature is tens of times that of a single
unknown. :class:`Deflated` corrects for these directions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tribit.arrays import is_numpy, match_device, namespace, to_numpy
from tribit.data.observations import Observations
from tribit.model.design import Design
from tribit.model.factors import Factors
from tribit.model.features import Features
from tribit.model.links import Link
from tribit.model.risks import Missingness, Risk

Vector = NDArray[np.floating[Any]]
Array = NDArray[np.floating[Any]]
Counts = NDArray[np.integer[Any]]

#: Least curvature of an unknown: without penalty and entries it has none.
MIN_CURVATURE = 1e-12
#: Least mean square of a column of rotated factors, where curvatures are guessed: one that is near 0 may grow. A
#: tenth of it took as many iterations on a synthetic table of 250,000 entries.
MIN_ROTATED_SQUARE = 0.01
#: Singular vectors of the features that are kept, extra random ones, and the power iterations of the subspace. On a
#: synthetic table of a million entries 8, 16 and 40 vectors took 25, 23 and 27 iterations of L-BFGS, none took 84.
VECTORS, EXTRA_VECTORS, POWER_ITERATIONS = 16, 10, 2


class Preconditioner(Protocol):
    """W, as a map of all unknowns in one vector."""

    def times(self, x: Vector) -> Vector:
        """Return ``W x``."""
        ...

    def transposed_times(self, x: Vector) -> Vector:
        """Return ``W' x``."""
        ...


class Diagonal:
    """``W = D^-1/2``, with D the curvature of each unknown; ``dtype`` is that of the vectors it is applied to."""

    def __init__(self, curvatures: Factors, dtype: DTypeLike = np.float64) -> None:
        flat = curvatures.flat()
        xp = namespace(flat)
        self.roots = _narrow(xp.sqrt(1.0 / xp.clip(flat, MIN_CURVATURE, None)), dtype)

    def times(self, x: Vector) -> Vector:
        """Return ``W x``."""
        return x * self.roots

    transposed_times = times


@dataclass(frozen=True, eq=False)
class SideCurvature:
    """The known curvature of the parts of one side.

    Attributes
    ----------
    design : Design
        How the parts combine.
    entry : float
        Curvature that an entry adds to a row's intercept.
    weights : array of shape (n_parts,)
        Curvature of the risk in the intercept of each part.
    moments : array of shape (k, k)
        Mean of ``q q'`` over the entries, q the factors of the other side.
    counts : array of shape (n,)
        Number of entries of each row.
    ridge, intercept_ridge : array of shape (n_parts,)
        What else is added to the curvature of a factor and of an intercept of each part.
    """

    design: Design
    entry: float
    weights: Array
    moments: Vector
    counts: Counts
    ridge: Array
    intercept_ridge: Array


class Deflated:
    """``W = (I - B t B') D^-1/2 R'`` on the factors of each side, without R on its intercepts.

    The curvature of a part's factors is taken as ``w C + ridge``: w is that of its intercept, and C the mean of
    ``q q'`` over the entries, ``C = R s R'``. In the coordinates of R it has the diagonal D, ``w s + ridge``. In a
    fitted model s spreads over orders of magnitude. That of the parts that rows share is taken as
    ``D^1/2 (I + B c B') D^1/2``, for each column of the rotated factors, with orthonormal columns B: c is what it has
    beyond D along the leading directions of the features, and ``t = 1 - (1 + c)^-1/2``. Own parts have no B.

    Parameters
    ----------
    like : Factors
        Unknowns of the shapes and the kind of arrays that vectors are made of.
    rows, columns : SideCurvature
        The two sides.
    dtype : dtype, default=float64
        Type of the vectors that W is applied to, where they are arrays of NumPy.
    """

    def __init__(
        self,
        like: Factors,
        rows: SideCurvature,
        columns: SideCurvature,
        dtype: DTypeLike = np.float64,
    ) -> None:
        self.like, self.dtype = like, dtype
        sides = (
            (rows, like.row_factors, like.row_intercepts),
            (columns, like.column_factors, like.column_intercepts),
        )
        self.sides = [
            (_Part(known, F, dtype, rotated=True), _Part(known, a, dtype)) for known, F, a in sides
        ]
        self.root = 1.0 / np.sqrt(max(rows.entry * float(np.sum(rows.counts)), MIN_CURVATURE))

    @classmethod
    def of(
        cls,
        like: Factors,
        features: Features,
        factors: Factors,
        curvatures: Factors,
        ridge: Factors,
        counts: tuple[Counts, Counts],
        dtype: DTypeLike = np.float64,
    ) -> Deflated:
        """Return it from the factors that parts combine to, the risk's curvatures in these, and the parts' ridges."""
        of_rows, of_columns = curvatures.row_intercepts, curvatures.column_intercepts
        n = max(int(np.sum(counts[0])), 1)

        # Both sides in one pass over the features: on a cluster that is one round of tasks.
        none = of_rows[:, None][:, :0], of_columns[:, None][:, :0]
        pulled = features.pull_back_squares(Factors(*none, 0.0, of_rows, of_columns))

        def side(
            design: Design, weights: Array, own: Array, other: Array, q: Array, *known: Any
        ) -> SideCurvature:
            moments = np.asarray(to_numpy(q.T @ (other[:, None] * q)), dtype=np.float64)
            moments /= float(other.sum()) or 1.0
            return SideCurvature(design, float(own.sum()) / n, weights, moments, *known)

        U, V = factors.row_factors, factors.column_factors
        in_U, in_V = ridge.row_factors[:, 0], ridge.column_factors[:, 0]
        in_a, in_c = ridge.row_intercepts, ridge.column_intercepts
        rows = side(
            features.rows, pulled.row_intercepts, of_rows, of_columns, V, counts[0], in_U, in_a
        )
        in_columns = pulled.column_intercepts
        columns = side(features.columns, in_columns, of_columns, of_rows, U, counts[1], in_V, in_c)
        return cls(like, rows, columns, dtype)

    def times(self, x: Vector) -> Vector:
        """Return ``W x``."""
        return self._apply(x, _Part.times)

    def transposed_times(self, x: Vector) -> Vector:
        """Return ``W' x``."""
        return self._apply(x, _Part.transposed_times)

    def _apply(self, x: Vector, of: Callable[[_Part, Array], Array]) -> Vector:
        given = self.like.from_flat(x)
        (rows, row_intercepts), (columns, column_intercepts) = self.sides
        return Factors(
            of(rows, given.row_factors),
            of(columns, given.column_factors),
            given.intercept * self.root,
            of(row_intercepts, given.row_intercepts),
            of(column_intercepts, given.column_intercepts),
        ).flat(self.dtype)


class _Part:
    """W of the factors of one side, or of its intercepts."""

    def __init__(
        self, known: SideCurvature, beside: Array, dtype: DTypeLike, *, rotated: bool = False
    ) -> None:
        self.first, self.intercepts = known.design.size, not rotated
        self.rotation: Array | None = None
        squares, ridge = np.ones(1), known.intercept_ridge
        if rotated:
            ridge = known.ridge
            squares, rotation = np.linalg.eigh(known.moments)
            squares = np.maximum(squares, MIN_ROTATED_SQUARE)
            self.rotation = _narrow(match_device(rotation, beside), dtype)
        curvatures = known.weights[:, None] * match_device(squares, beside) + ridge[:, None]
        xp = namespace(curvatures)
        self.roots = 1.0 / xp.sqrt(xp.clip(curvatures, MIN_CURVATURE, None))
        self.vectors, values = leading_directions(known.design, known.counts, beside)
        shared, spectrum = self.roots[self.first :], np.asarray(to_numpy(values), dtype=np.float64)
        beyond = [
            _beyond(self.vectors, shared[:, c], known.entry * square * spectrum)
            for c, square in enumerate(squares.tolist())
        ]
        self.beyond = _narrow(match_device(np.stack(beyond), beside), dtype) if beyond else None
        self.roots, self.vectors = _narrow(self.roots, dtype), _narrow(self.vectors, dtype)

    def times(self, x: Array) -> Array:
        """Return ``W x``."""
        turned = x[:, None] if self.rotation is None else x @ self.rotation
        found = self._deflate(turned * self.roots)
        return found[:, 0] if self.intercepts else found

    def transposed_times(self, x: Array) -> Array:
        """Return ``W' x``."""
        given = x[:, None] if self.intercepts else x
        found = self._deflate(namespace(x).asarray(given, copy=True))
        found *= self.roots
        return found[:, 0] if self.rotation is None else found @ self.rotation.T

    def _deflate(self, x: Array) -> Array:
        """Apply ``I - B t B'`` to the shared parts in place."""
        if self.beyond is not None:
            roots = self.roots[self.first :]
            along = self.vectors.T @ (roots * x[self.first :])
            xp = namespace(x)
            along = xp.matmul(self.beyond, along.T[:, :, None])[:, :, 0].T
            x[self.first :] -= roots * (self.vectors @ along)
        return x


def _narrow(array: Array, dtype: DTypeLike) -> Array:
    """Return an array of NumPy in another type; those of a device have theirs."""
    return array.astype(dtype, copy=False) if is_numpy(array) else array


def _beyond(vectors: Array, roots: Array, values: Vector) -> Vector:
    """Return G with ``B t B' = D^-1/2 V G V' D^-1/2``, for the curvature ``D + V values V'``; ``roots`` are D^-1/2."""
    scaled = roots[:, None] * vectors
    inner = np.asarray(to_numpy(scaled.T @ scaled), dtype=np.float64)
    triangle = np.linalg.cholesky(inner)
    extra, rotation = np.linalg.eigh(triangle.T @ (values[:, None] * triangle))
    shares = 1.0 - 1.0 / np.sqrt(1.0 + np.maximum(extra, 0.0))
    back = np.linalg.solve(triangle.T, rotation)
    return np.asarray((back * shares) @ back.T)


def one_column(curvatures: Factors) -> Factors:
    """Return curvatures that are the same in all columns of a factor with one of these; 0 where there are none."""
    xp = namespace(curvatures.row_factors)
    U, V = (
        F[:, :1] if F.shape[1] else xp.zeros_like(a)[:, None]
        for F, a in (
            (curvatures.row_factors, curvatures.row_intercepts),
            (curvatures.column_factors, curvatures.column_intercepts),
        )
    )
    return replace(curvatures, row_factors=U, column_factors=V)


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
        width = design.n_coefficients - design.size
        vectors = min(VECTORS, width)
        n_random = min(VECTORS + EXTRA_VECTORS, width)
        normal = np.random.Generator(np.random.PCG64(0)).standard_normal((width, n_random))
        beside = normal if beside is None else beside
        xp, subspace = namespace(beside), match_device(normal, beside)
        weights = match_device(np.asarray(counts, dtype=np.float64)[:, None], beside)
        for _ in range(POWER_ITERATIONS):
            pulled = design.pull_back(weights * design.shared_terms(subspace))[design.size :]
            subspace = _orthonormal(pulled)[0]
        image = xp.sqrt(weights) * design.shared_terms(subspace)
        values, rotation = xp.linalg.eigh(image.T @ image)
        leading = slice(max(values.shape[0] - vectors, 0), None)  # ascending
        design.kept["directions"] = subspace @ rotation[:, leading], values[leading]
    return design.kept["directions"]  # type: ignore[no-any-return]


#: Least mean square of a factor where curvatures are guessed: one that is still near 0 will grow.
MIN_MEAN_SQUARE = 0.1


def diagonal_hessian_of_risk(
    link: Link, risk: Risk, observations: Observations, factors: Factors
) -> Factors:
    """Return the curvature of the risk in each unknown, as if every entry that counts had even odds.

    Where ``rho = 0`` most entries are the same label and far from even odds: they have those of its share.
    """
    d1, d2 = observations.shape
    bend = float(link.second(np.zeros(1), 1)[0])
    dense = risk.unobserved_weight * _dense_curvature(link, risk, observations)
    in_rows, in_columns = observations.totals
    of_rows = dense * d2 + bend * risk.pn * in_rows
    of_columns = dense * d1 + bend * risk.pn * in_columns
    U, V = factors.row_factors, factors.column_factors
    xp, empty = namespace(U), not factors.rank
    rows, columns = match_device(of_rows, U), match_device(of_columns, U)
    squares = (max(0.0 if empty else float(xp.mean(F**2)), MIN_MEAN_SQUARE) for F in (V, U))
    in_U, in_V = (
        xp.broadcast_to(square * curvature[:, None], F.shape)
        for F, curvature, square in zip((U, V), (rows, columns), squares, strict=True)
    )
    return Factors(in_U, in_V, float(np.sum(of_rows)), rows, columns)


def _dense_curvature(link: Link, risk: Risk, observations: Observations) -> float:
    """Return the curvature of an entry's share in the dense term, by weight: at even odds unless ``rho = 0``."""
    seen, level = observations, 0.0
    if risk.unobserved_weight and not isinstance(risk.rho, Missingness) and risk.rho == 0.0:
        cells = seen.shape[0] * seen.shape[1]
        likes = risk.pu * seen.n_likes + risk.nu * (cells - seen.n_dislikes)
        level = link.level(float(np.clip(likes / (risk.unobserved_weight * cells), 1e-6, 1 - 1e-6)))
    x = np.array([level])
    of_like, of_dislike = float(link.second(x, 1)[0]), float(link.second(x, -1)[0])
    share = risk.nu / risk.unobserved_weight if risk.unobserved_weight else 0.5
    return max(share * of_like + (1.0 - share) * of_dislike, 0.0)
