"""Features of rows and columns: factors have an own part and coefficients that rows share through features.

    U = p + S_1 z_1 + S_2 z_2 + ...          V = q + T_1 w_1 + T_2 w_2 + ...

and row and column intercepts alike. *Implicit features* are made from the positions of observed entries, whatever their
labels (:class:`Activity`); *side features* are further data on rows and columns (:mod:`tribit.data.features`). The map
is linear in the unknowns ``(p, z)`` and ``(q, w)``, so that the unknowns of a model with features are
:class:`~tribit.model.factors.Factors` with more rows than the matrix. Predictions need U and V alone.

Koren 2008, "Factorization meets the neighborhood" (SVD++, for the rows); Paterek 2007, "Improving regularized
singular value decomposition for collaborative filtering".

A :class:`FeatureRegression` is for cold start: rows with features and without entries. A map from features to factors
predicts ``x_ij = g_i' C_j`` for them, with ``g_i = (1, features)`` and C_j the coefficients that follow from the
factors of column j. The entries of the column may improve them to ``x_ij = g_i' (C_j + d_j)``, with ``d_j`` learned in
:mod:`tribit.folding.cold_start`. They are stored as further latent factors, ``g_i`` beside ``d_j``; ``g_i`` is 0 for
rows with entries, whose predictions do not change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.arrays import namespace
from tribit.data.axis import Axis, Positions
from tribit.data.features import FeatureEncoder, Group
from tribit.model.design import Block, Design, ScaledMask
from tribit.model.factors import Factors
from tribit.model.spec import ModelSpec

if TYPE_CHECKING:
    from tribit.data.observations import Observations

__all__ = ["Activity", "Features"]

Array = NDArray[np.floating[Any]]
#: Encoders of the side features of rows and of columns.
Encoders = tuple[FeatureEncoder | None, FeatureEncoder | None]


@dataclass(frozen=True, eq=False)
class Features:
    """The designs of both sides.

    Attributes
    ----------
    rows, columns : Design
        For U and the row intercepts, for V and the column intercepts.

    Examples
    --------
    >>> from tribit.model.features import Features
    >>> Features.identity((3, 2)).rows  # no features: the unknowns are the factors
    Design(size=3, blocks=())
    """

    rows: Design
    columns: Design

    @classmethod
    def identity(cls, shape: tuple[int, int]) -> Features:
        """Return the design of a model without features, whose unknowns are the factors of the matrix."""
        return cls(*(Design(size) for size in shape))

    def combine(self, coefficients: Factors) -> Factors:
        """Return the factors of the matrix: ``U = p + S z`` and so on."""
        return self._map_sides(coefficients, Design.combine)

    def pull_back(self, gradient: Factors) -> Factors:
        """Return the gradient in the coefficients, given that in the factors: ``[I, S]' dF/dU`` and so on."""
        return self._map_sides(gradient, Design.pull_back)

    def pull_back_squares(self, curvatures: Factors) -> Factors:
        """Return the curvature in each coefficient, given that in each factor."""
        return self._map_sides(curvatures, Design.pull_back_squares)

    def initial_coefficients(self, factors: Factors) -> Factors:
        """Return coefficients that combine to the given factors, with the coefficients of the features at 0."""
        return self._map_sides(factors, Design.initial_coefficients)

    def ridge(self, l2: float, l2_intercept: float) -> Factors:
        """Return the weight of the ridge on each unknown, one column for all latent factors."""
        sides = self.rows, self.columns
        U, V = (each.ridge(l2)[:, None] for each in sides)
        a, c = (each.ridge(l2_intercept) for each in sides)
        return Factors(U, V, 0.0, a, c)

    def _map_sides(self, factors: Factors, of: Callable[[Design, Array], Array]) -> Factors:
        """Apply a linear map to both sides; intercepts are a last column, to save a pass over the features."""
        if not (self.rows.blocks or self.columns.blocks):  # the identity
            return factors
        rows = of(self.rows, _with_intercepts(factors.row_factors, factors.row_intercepts))
        columns = of(
            self.columns, _with_intercepts(factors.column_factors, factors.column_intercepts)
        )
        return replace(
            factors,
            row_factors=rows[:, :-1],
            column_factors=columns[:, :-1],
            row_intercepts=rows[:, -1],
            column_intercepts=columns[:, -1],
        )


def _with_intercepts(factors: Array, intercepts: Array) -> Array:
    return namespace(factors).concat([factors, intercepts[:, None]], axis=1)  # type: ignore[no-any-return]


def mean_total(totals: NDArray[np.number[Any]]) -> float:
    """Return the mean number, or total weight, of the entries of the rows that have any."""
    return float(np.sum(totals)) / max(int(np.count_nonzero(totals)), 1)


@dataclass(frozen=True, eq=False)
class Activity:
    """Implicit features of rows: the columns with observed entries, whatever the labels.

        s_i = |O_i|^-1/2 (o_i - |O_i| pi) + max(|O_i|, floor)^1/2 pi

    with ``o_i`` the 0/1 row of the mask and ``pi`` the popularity of the columns, summing to 1. With ``floor = 0`` that
    is ``|O_i|^-1/2 o_i``, as in SVD++. Its mean ``|O_i|^1/2 pi`` grows with the activity of a row, which predicts
    labels in long rows. A row with few entries may just be new. It is therefore given the activity of a row with
    ``floor`` entries, and a row without entries that of a row of ``typical`` length.

    Attributes
    ----------
    popularity : array of shape (n_columns,)
        ``pi``.
    typical : float
        Mean number of entries of the rows that have any.
    floor : float
        As above; the parameter ``activity_floor`` times ``typical``.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion
    >>> A = [[1, 1, 0, -1], [1, 0, -1, -1], [0, -1, 1, 1], [-1, -1, 1, 0]]
    >>> model = BinaryMatrixCompletion(search=False, implicit_features=True, random_state=0).fit(A)
    >>> model.implicit_features_
    True
    """

    popularity: Array
    typical: float
    floor: float

    @classmethod
    def of(
        cls, counts: NDArray[np.integer[Any]], others: NDArray[np.integer[Any]], share: float
    ) -> Activity:
        """Return the features of rows, given the numbers of entries of rows and of columns, and the floor's share."""
        n, typical = int(np.sum(counts)), mean_total(counts)
        return cls(others.astype(np.float64) / max(n, 1), typical, share * typical)

    def shift(self, counts: NDArray[np.integer[Any]]) -> Array:
        """Return the activity added to that of the entries: ``max(|O_i|, floor)^1/2 - |O_i|^1/2``."""
        active = np.where(counts, np.maximum(counts, self.floor), self.typical)
        return np.asarray(np.sqrt(active) - np.sqrt(counts))

    def block(self, mask: sp.csr_array, l2: float) -> Block:
        """Return the features of the rows of a mask, of the fit or new."""
        counts = np.diff(mask.indptr)
        scaled = mask.copy()
        scaled.data = mask.data / np.sqrt(np.repeat(counts, counts))
        return Block(scaled, self.shift(counts), self.popularity, l2)


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """The map from entries and side features of rows (or of columns) to a design, for rows of the fit and new ones.

    Attributes
    ----------
    activity : Activity or None
        Implicit features; None without any.
    encoder : FeatureEncoder or None
        Encoder of side features; None without any.
    shared : bool
        Whether side features have coefficients in the factors of rows with entries too.
    cold_start : array of shape (1 + n_features, rank + 1) or None
        The map from ``(1, side features)`` to the factors and the intercept of a row without entries
        (:mod:`tribit.folding.cold_start`).
    """

    activity: Activity | None = None
    encoder: FeatureEncoder | None = None
    shared: bool = False
    cold_start: Array | None = None

    def design(self, mask: sp.csr_array, axis: Axis, table: object = None) -> Design:
        """Return the design of the rows of a mask, with a table of side features if given; without ridges."""
        blocks = [] if self.activity is None else [self.activity.block(mask, 0.0)]
        if self.encoder is not None and self.shared:
            blocks += [side_block(group, 0.0) for group in self.encoder.encode(table, axis)]
        return Design(mask.shape[0], tuple(blocks))

    def groups(self, axis: Axis, table: object) -> tuple[Group, ...]:
        """Return the side features of some rows; none without an encoder."""
        return () if self.encoder is None else self.encoder.encode(table, axis)

    def with_other_rows(self, n_new: int) -> FeatureMap:
        """Return the map after rows were added on the other side, which have no popularity as features."""
        if self.activity is None:
            return self
        popularity = np.append(self.activity.popularity, np.zeros(n_new))
        return replace(self, activity=replace(self.activity, popularity=popularity))


def side_block(group: Group, l2: float) -> Block:
    """Return centred side features; a row with missing features has zeros."""
    return Block(group.matrix, np.where(group.known, -1.0, 0.0), group.means, l2)


def side_design(groups: tuple[Group, ...], size: int) -> Design:
    """Return the design of side features alone, without ridges."""
    return Design(size, tuple(side_block(group, 0.0) for group in groups))


def mask_of(observations: Observations) -> sp.csr_array:
    """Return the 0/1 matrix of the observed entries."""
    return sp.csr_array(
        (np.ones(observations.n_observed), (observations.rows, observations.columns)),
        shape=observations.shape,
    )


def activities(
    observations: Observations, shares: tuple[float, float]
) -> tuple[Activity, Activity]:
    """Return the implicit features of the rows and of the columns."""
    rows, columns = observations.counts
    return Activity.of(rows, columns, shares[0]), Activity.of(columns, rows, shares[1])


def implicit_blocks(
    observations: Observations,
    known: tuple[Activity, Activity],
    l2: float,
    masks: tuple[ScaledMask, ScaledMask],
) -> tuple[Block, Block]:
    """Return the blocks of implicit features of rows and of columns, from the masks of the observations."""
    rows, columns = (
        Block(mask, activity.shift(counts), activity.popularity, l2)
        for mask, activity, counts in zip(masks, known, observations.counts, strict=True)
    )
    return rows, columns


def feature_maps(
    spec: ModelSpec,
    observations: Observations,
    encoders: Encoders,
) -> tuple[FeatureMap, FeatureMap]:
    """Return the maps to the features of rows and of columns of a fitted model."""
    shared: tuple[Activity | None, Activity | None] = (None, None)
    if spec.implicit_features:
        shared = activities(observations, spec.activity_floor)
    rows, columns = (
        FeatureMap(*pair, spec.side_features) for pair in zip(shared, encoders, strict=True)
    )
    return rows, columns


@dataclass(frozen=True, eq=False)
class FeatureRegression:
    """Regressions of the columns on the features of rows without entries (see the module).

    Attributes
    ----------
    features : array of shape (n_rows, 1 + n_features)
        ``g_i``, 0 for rows with entries.
    own : array of shape (n_columns, 1 + n_features)
        ``d_j``, 0 for columns that came after the fit.

    Examples
    --------
    >>> import pandas as pd
    >>> from tribit import BinaryMatrixCompletion
    >>> films = pd.DataFrame({"genre": ["crime", "drama", "crime"]})
    >>> A = [[1, -1, 1], [-1, 1, 0], [1, 0, 1]]
    >>> model = BinaryMatrixCompletion(search=False, random_state=0).fit(A, column_features=films)
    >>> model.fitted_.feature_regressions
    (None, None)
    """

    features: Array
    own: Array

    def with_rows(self, features: Array) -> FeatureRegression:
        """Return the regression with further rows."""
        return replace(self, features=np.vstack([self.features, features]).astype(self.own.dtype))

    def with_columns(self, n_new: int) -> FeatureRegression:
        """Return the regression with further columns, whose ``d_j`` are 0."""
        new = np.zeros((n_new, self.own.shape[1]), dtype=self.own.dtype)
        return replace(self, own=np.vstack([self.own, new]))

    def without_rows(self, rows: Positions) -> FeatureRegression:
        """Return the regression after some rows were given entries."""
        features = self.features.copy()
        features[rows] = 0.0
        return replace(self, features=features)


#: Regressions on the features of rows and on those of columns.
FeatureRegressions = tuple[FeatureRegression | None, FeatureRegression | None]


def with_feature_regressions(factors: Factors, regressions: FeatureRegressions) -> Factors:
    """Return the factors with the regressions as further latent factors."""
    rows, columns = [factors.row_factors], [factors.column_factors]
    for side, each in enumerate(regressions):
        if each is not None:
            (columns if side else rows).append(each.features)
            (rows if side else columns).append(each.own)
    return replace(factors, row_factors=np.hstack(rows), column_factors=np.hstack(columns))
