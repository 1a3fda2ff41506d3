"""Positions of rows and columns: biases, and a map with axes, signs and units that do not depend on the fit.

Factors are determined up to a linear map, and their means up to biases. Means of the scores are not,

    x_ij = level + bias_i + bias_j + z_ij,

with biases of mean 0 on both sides and interaction scores z of mean 0 in each row and each column. With u and v the
means of the rows of U and V, the bias of row i is ``a_i + u_i' v`` less its mean, and the interaction scores have the
singular value decomposition

    Z = (U - 1 u') (V - 1 v')' = L S R'.

The positions are those of a biplot (Gabriel 1971, "The biplot
graphic display of matrices with application to principal component analysis") with equal spread on both sides,

    p_i = sqrt(s) L_i sqrt(d1),    q_j = sqrt(s) R_j sqrt(d2),    s = S / sqrt(d1 d2),

so that ``p_i' q_j`` is the part of ``z_ij`` on the chosen axes, and s the root mean square of each axis' part. No other
positions in as many dimensions are closer to Z. The axes are the principal axes of rows and of columns, the one with
the largest share of the squared scores first. Axes with equal shares are determined up to a rotation.

With the columns fixed, the bias and the position of a row are a linear map of ``(u_i, a_i)``, so that they have a
normal posterior with the covariance of :mod:`tribit.uncertainty.row_covariances`, mapped alike. The uncertainty of the
axes and of the means is not included.

Without axes (``n=0``) the biases are left. For answers to a test and a model of rank 0 they are the abilities and the
easinesses of a Rasch model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.answers import Answer, check_headings
from tribit.backends.threads import single_threaded_blas
from tribit.checks import check_count
from tribit.data.axis import AnyArray, Axes, Axis, as_list
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, TribitWarning, parameter, warn
from tribit.explain.neighbours import NO_VARIANCE
from tribit.model.constraints import svd_of_product
from tribit.model.factors import Factors
from tribit.model.fitted import Fitted, HasFitted, as_fitted
from tribit.model.scores import read_entries
from tribit.uncertainty.calibration import check_level
from tribit.uncertainty.posterior import Posterior, check_prior, laplace
from tribit.uncertainty.row_covariances import BLOCK, RowPosterior

__all__ = ["Positions", "Side", "positions"]

Array = NDArray[np.floating[Any]]
Counts = NDArray[np.int64]


#: Number of axes by default, if the scores have as many.
DEFAULT_AXES = 2
#: Line below a printed table without standard errors.
NO_STANDARD_ERRORS = "No standard errors: they need seen, the entries of the fit."


@dataclass(frozen=True, eq=False, repr=False)
class Side(Answer):
    """Biases and positions of all rows, or of all columns.

    Attributes
    ----------
    ids : array of shape (m,)
        The user's ids where the model has them, else positions from 0.
    biases : array of shape (m,)
        Means of the scores, less their mean.
    coordinates : array of shape (m, n)
        Coordinates on the axes.
    covariances : array of shape (m, 1 + n, 1 + n) or None
        Posterior covariances of the bias and the coordinates, if the entries of the fit were given.
    entries : array of shape (m,) or None
        Numbers of observed entries. A position with few of them is shrunk towards the origin.
    name : str
        Heading of the ids in a table.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Observations, positions
    >>> seen = Observations.from_matrix([[1, 1, 0, -1], [1, 0, -1, -1], [0, -1, 1, 1]])
    >>> model = BinaryMatrixCompletion(search=False, rank=1, l2=0.1, random_state=0).fit(seen)
    >>> positions(model, seen, n=1).columns.to_frame().columns.tolist()
    ['column', 'bias', 'se_bias', 'axis_1', 'se_axis_1', 'entries']
    """

    ids: AnyArray
    biases: Array
    coordinates: Array
    covariances: Array | None = None
    entries: Counts | None = None
    name: str = "row"

    def __len__(self) -> int:
        return int(self.ids.size)

    def __str__(self) -> str:
        return _with_hint(super().__str__(), self)

    @property
    def standard_errors(self) -> Array | None:
        """Standard errors of the bias and of the coordinates, or None."""
        if self.covariances is None:
            return None
        return np.sqrt(np.diagonal(self.covariances, axis1=1, axis2=2))

    def ellipses(self, level: float = 0.9) -> Array:
        """Return the ellipse around each position on the first two axes that has it with a posterior probability.

        Parameters
        ----------
        level : float, default=0.9
            The probability.

        Returns
        -------
        array of shape (m, 3)
            Width, height and angle in degrees, as ``matplotlib.patches.Ellipse`` takes them.
        """
        level = check_level(level)
        if self.covariances is None or self.coordinates.shape[1] < 2:
            raise InvalidInputError(
                f"Ellipses need two axes and standard errors: pass {parameter('seen')}, the entries of the fit, and "
                f"{parameter('n', 2)}."
            )
        # The squared radius is chi squared with two degrees of freedom, whose quantile is -2 log(1 - level).
        variances, directions = np.linalg.eigh(self.covariances[:, 1:3, 1:3])
        across, along = (2 * np.sqrt(-2 * np.log1p(-level) * variances)).T
        angles = np.degrees(np.arctan2(directions[:, 1, 1], directions[:, 0, 1]))
        return np.column_stack([along, across, angles])

    def table(self) -> dict[str, AnyArray]:
        """Return ids, biases and coordinates, each with its standard error, and numbers of entries."""
        names = ["bias", *(f"axis_{axis + 1}" for axis in range(self.coordinates.shape[1]))]
        errors = self.standard_errors
        columns: dict[str, AnyArray] = {}
        for at, values in enumerate([self.biases, *self.coordinates.T]):
            columns[names[at]] = values
            if errors is not None:
                columns[f"se_{names[at]}"] = errors[:, at]
        if self.entries is not None:
            columns["entries"] = self.entries
        check_headings([self.name], columns)
        return {self.name: self.ids, **columns}


@dataclass(frozen=True, eq=False, repr=False)
class Positions(Answer):
    """Biases and positions of rows and columns, on the same axes.

    A score is the level, both biases, and the inner product of both positions, but for further axes.

    Attributes
    ----------
    rows, columns : Side
        Biases and positions.
    level : float
        Mean of the scores.
    shares : array of shape (n,)
        Share of each axis in the squared interaction scores, from the largest.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Observations, positions
    >>> seen = Observations.from_matrix([[1, 1, 0, -1], [1, 0, -1, -1], [0, -1, 1, 1]])
    >>> model = BinaryMatrixCompletion(search=False, rank=1, l2=0.1, random_state=0).fit(seen)
    >>> where = positions(model, seen, n=1)
    >>> where.rows.coordinates.shape, where.shares.shape
    ((3, 1), (1,))
    """

    rows: Side
    columns: Side
    level: float
    shares: Array

    def __str__(self) -> str:
        return _with_hint(super().__str__(), self.rows)

    def table(self) -> dict[str, AnyArray]:
        """Return the positions of rows, then those of columns, with the side of each."""
        sides = self.rows, self.columns
        rows, columns = (list(side.table().items()) for side in sides)
        of = np.repeat(np.array([side.name for side in sides], dtype=object), [*map(len, sides)])
        ids = np.concatenate([side.ids.astype(object) for side in sides])
        rest = {
            name: np.concatenate([first, second])
            for (name, first), (_, second) in zip(rows[1:], columns[1:], strict=True)
        }
        return {"side": of, "id": ids, **rest}

    def facts(self) -> dict[str, str]:
        """Return the mean score and the share of each axis."""
        return {"level": f"{self.level:.4g}"} | {
            f"axis {axis}": f"{share:.1%} of the squared scores less biases"
            for axis, share in enumerate(self.shares.tolist(), 1)
        }

    def to_dict(self) -> dict[str, Any]:
        """Return both sides, the mean score and the shares of the axes."""
        return {
            "rows": self.rows.to_dict(),
            "columns": self.columns.to_dict(),
            "level": self.level,
            "shares": self.shares.tolist(),
        }


def _with_hint(text: str, side: Side) -> str:
    """Return a printed table, with a line on its lack of standard errors where no entries were given."""
    return text if side.entries is not None else f"{text}\n{NO_STANDARD_ERRORS}"


def positions(
    model: HasFitted | Fitted,
    seen: object = None,
    *,
    n: int | None = None,
    polarity: object = None,
) -> Positions:
    """Return biases and coordinates of rows and columns, with axes, signs and units that do not depend on the fit.

    Biases and coordinates are on the scale of the scores (``decision_function``). A fitted calibration
    (``calibration_``) maps scores to probabilities, so that ``expit(level + biases)`` is no probability. For the
    abilities of a Rasch model fit with ``calibration=None``.

    Parameters
    ----------
    model : BinaryMatrixCompletion or Fitted
        A fitted model.
    seen : Observations, sparse matrix or array, optional
        The entries of the fit, which standard errors need. These are missing without a penalty too.
    n : int, optional
        Number of axes; 0 for the biases alone. By default 2, or with a warning fewer if the scores have fewer.
    polarity : array-like or a single value, optional
        Row ids (or positions from 0) with a positive coordinate: one for all axes or one for each. By default it is
        the row with the largest coordinate, in absolute value, on each axis.

    Returns
    -------
    Positions

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import BinaryMatrixCompletion, positions
    >>> A = np.array([[1, 1, -1, -1], [1, 1, -1, -1], [-1, -1, 1, 1], [-1, 0, 1, 1]])
    >>> model = BinaryMatrixCompletion(rank=1, l2=0.1, random_state=0).fit(A)
    >>> np.sign(positions(model, n=1, polarity=3).rows.coordinates[:, 0]).tolist()
    [-1.0, -1.0, 1.0, 1.0]
    """
    fitted = as_fitted(model, "positions")
    scores = fitted.scores
    factors = scores.factors.astype("float64")
    with single_threaded_blas():
        left, right, values = principal_axes(factors)
        n = _number_of_axes(n, values.size)
        sign = signs(left[:, :n], scores.axes.rows, polarity)
        left, right = left[:, :n] * sign, right[:, :n] * sign
    sizes = values[:n] / np.sqrt(left.shape[0] * right.shape[0])
    spreads = [np.sqrt(sizes * side.shape[0]) for side in (left, right)]
    covariances: tuple[Any, Any] = (None, None)
    counts: tuple[Any, Any] = (None, None)
    if seen is not None:
        entries = read_entries(model, seen)
        counts = _counts(scores.axes, entries)
        if _has_prior(fitted):
            # p_i = Z_i R / sqrt(s d2), and Z_i is linear in u_i; columns alike.
            maps = right / spreads[1], left / spreads[0]
            covariances = _covariances(laplace(model, entries), *maps)
    means = _means(factors), _means(factors.transposed)
    rows, columns = (
        Side(
            axis.names(np.arange(axis.size)),
            mean - np.mean(mean),
            vectors * spread,
            covariance,
            count,
            axis.name,
        )
        for axis, mean, vectors, spread, covariance, count in zip(
            scores.axes, means, (left, right), spreads, covariances, counts, strict=True
        )
    )
    shares = values[:n] ** 2 / np.sum(values**2)
    return Positions(rows, columns, float(np.mean(means[0])), shares)


def _means(factors: Factors) -> Array:
    """Return the mean score of each row."""
    of_columns = np.mean(factors.column_factors, axis=0)
    level = factors.intercept + np.mean(factors.column_intercepts)
    return np.asarray(factors.row_factors @ of_columns + factors.row_intercepts + level)


def principal_axes(factors: Factors) -> tuple[Array, Array, Array]:
    """Return left vectors, right vectors and values of the interaction scores, without axes of no variance."""
    U, V = (side - np.mean(side, axis=0) for side in factors.arrays[:2])
    if not factors.rank:
        return U, V, np.zeros(0)
    left, right, values = svd_of_product(U, V)
    kept = values**2 > NO_VARIANCE * max(values[0] ** 2, U.shape[0] * V.shape[0])
    return left[:, kept], right[:, kept], values[kept]


def signs(vectors: Array, axis: Axis, polarity: object = None) -> Array:
    """Return signs that make a coordinate on each axis positive: of given ids, or the largest."""
    n = vectors.shape[1]
    if polarity is None:
        places = np.argmax(np.abs(vectors), axis=0)
    else:
        places = axis.find(as_list(polarity))
        if places.size not in (1, n):
            raise InvalidInputError(
                f"polarity has {places.size} ids; pass one for all axes or {n}, one for each."
            )
    values = vectors[places, np.arange(n)]
    if not values.all():
        at = int(np.argmax(values == 0))
        raise InvalidInputError(
            f"The {axis.name} in {parameter('polarity')} for axis {at + 1} has the coordinate 0 there; pass another."
        )
    return np.asarray(np.sign(values))


def _number_of_axes(n: int | None, known: int) -> int:
    """Return the number of axes, by default at most ``DEFAULT_AXES`` of those of the scores."""
    axes = f"The scores have {known} {'axis' if known == 1 else 'axes'} beside biases"
    if n is None:
        if known < DEFAULT_AXES:
            warn(
                TribitWarning(
                    f"{axes}: the map has no more; {parameter('n', known)} asks for them without this warning."
                )
            )
        return min(known, DEFAULT_AXES)
    if check_count("n", n, 0) > known:
        raise InvalidInputError(
            f"{axes}; pass {parameter('n', known)}, or fit a model with {parameter('rank', n)}."
        )
    return n


def _counts(axes: Axes, entries: Observations) -> tuple[Counts, Counts]:
    rows, columns = axes.mask(entries, "seen has").nonzero()
    return np.bincount(rows, minlength=axes.rows.size), np.bincount(
        columns, minlength=axes.columns.size
    )


def _has_prior(fitted: Fitted) -> bool:
    try:
        check_prior(fitted.spec)
    except InvalidInputError:
        return False
    return True


def _covariances(posterior: Posterior, to_rows: Array, to_columns: Array) -> tuple[Array, Array]:
    """Return the covariances of biases and positions on both sides.

    For a stack these are of its first member, whose scores stand for those of the whole.
    """
    factors = posterior.fitted.factors.astype("float64")
    return (
        _map_covariances(posterior.rows, factors.column_factors, to_rows),
        _map_covariances(posterior.columns, factors.row_factors, to_columns),
    )


def _map_covariances(side: RowPosterior, others: Array, axes: Array) -> Array:
    """Return ``B' S_i B`` for every row, B the map from ``(u_i, a_i)`` to the bias and the position."""
    mean = np.mean(others, axis=0)
    by = np.column_stack([mean, (others - mean).T @ axes])
    if side.vectors.shape[1] > mean.size:
        by = np.vstack([by, np.eye(1, by.shape[1])])
    found = np.empty((side.packed.shape[0], by.shape[1], by.shape[1]))
    step = max(1, BLOCK // max(by.shape) ** 2)
    for start in range(0, found.shape[0], step):
        here = np.arange(start, min(start + step, found.shape[0]))
        found[here] = by.T @ side.covariances(here) @ by
    return found
