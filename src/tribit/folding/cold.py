"""Rows and columns without entries: factors from their side features alone.

In a fit the features of a row share the work with its own part, and learn little where its entries say more. A row that
was never seen has no part of its own: its factors are a map of its features ``f_i = (1, features)``,

    Z = argmin  sum over observed entries of the loss at  x_ij = f_i' Z (v_j, 1) + c_j + b,  plus  l2 / 2 |Z|^2

with the other side fixed, own parts and implicit features left out. Factors of the other side have seen the entries
that the map is fitted to, and would make it overconfident: rows are divided into folds, and the entries of a fold meet
factors that were solved for without them. One fold, held out whole, chooses ``l2``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize

from tribit.data.observations import Observations
from tribit.model.features import Design, mask_of

if TYPE_CHECKING:
    from tribit.folding.half import Half

Array = NDArray[np.floating[Any]]

#: Folds of rows.
FOLDS = 5
#: Ridge weights of the map, in units of four times the link's curvature at 0.
WEIGHTS = (1000.0, 300.0, 100.0, 30.0)
#: Ridge weight of the constant, which only keeps it finite.
OF_CONSTANT = 1e-3
#: Most iterations of a minimisation, and entries of each label from which one is worth while.
ITERATIONS, LEAST = 60, 20


def mapped(design: Design, Z: Array) -> Array:
    """Return ``(1, features) Z`` of each row: its factors and its intercept."""
    return np.asarray(Z[0] + design.shared(Z[1:]))


def cold_map(half: Half, entries: Observations, design: Design, draws: Any) -> Array | None:
    """Return Z, of one row for each feature and one column for each factor and the intercept; None on little data.

    Parameters
    ----------
    half : Half
        The fitted model, with the side that has the features as its rows.
    entries : Observations
        What it was fitted on.
    design : Design
        The side features of the rows.
    draws : Generator
        Draws the folds of rows.
    """
    seen = np.unique(entries.rows)
    if min(entries.n_likes, entries.n_dislikes) < LEAST or seen.size < FOLDS:
        return None
    fold = np.zeros(entries.shape[0], dtype=np.int64)
    fold[draws.permutation(seen)] = np.arange(seen.size) % FOLDS
    number = fold[entries.rows]
    against, offsets = _met(half, entries, number)
    link = half.spec.link
    unit = 4.0 * float(link.second(np.zeros(1), 1)[0])

    def fitted(chosen: NDArray[np.bool_], l2: float, start: Array | None) -> Array:
        part = entries._at(chosen)
        return _fitted(link, part, design, against[chosen], offsets[chosen], l2, start)

    test = number == 0
    best, least, Z = WEIGHTS[0], np.inf, None
    for weight in WEIGHTS:
        Z = fitted(~test, unit * weight, Z)
        x = offsets[test] + np.einsum(
            "ij,ij->i", mapped(design, Z)[entries.rows[test]], against[test]
        )
        loss = float(np.mean(np.where(entries.labels[test] > 0, link.loss(x, 1), link.loss(x, -1))))
        if loss >= least:
            break
        best, least = weight, loss
    return fitted(np.ones(number.size, dtype=bool), unit * best, Z)


def _met(
    half: Half, entries: Observations, number: NDArray[np.integer[Any]]
) -> tuple[Array, Array]:
    """Return ``(v_j, 1)`` and ``b + c_j`` that each entry meets: solved for without the rows of its fold."""
    k = half.factors.rank
    against, offsets = np.empty((number.size, k + 1)), np.empty(number.size)
    columns = half.transposed
    everywhere = np.arange(half.axes.columns.size)
    for part in range(FOLDS):
        met = number == part
        if not met.any():
            continue
        rest = entries._at(~met).transpose()
        again = columns.solved(everywhere, rest, _shared_without(columns, entries, rest)).factors
        j = entries.columns[met]
        against[met, :k], against[met, k] = again.row_factors[j], 1.0
        offsets[met] = again.intercept + again.row_intercepts[j]
    return against, offsets


def _shared_without(
    columns: Half, entries: Observations, rest: Observations
) -> tuple[Array, Array]:
    """Return what features add to the columns, implicit ones without the entries that are left out."""
    side = columns.left_by_side(entries.transpose())
    implicit = columns.shared_by_activity(mask_of(rest))
    return implicit[0] + side[0], implicit[1] + side[1]


def _fitted(
    link: Any,
    entries: Observations,
    design: Design,
    against: Array,
    offsets: Array,
    l2: float,
    start: Array | None,
) -> Array:
    """Return ``argmin_Z``, by L-BFGS."""
    shape = 1 + design.n_parts - design.size, against.shape[1]
    ridge = np.full((shape[0], 1), l2)
    ridge[0] = OF_CONSTANT
    likes, rows = entries.labels > 0, entries.rows
    # Entries are in the order of rows: sums over the entries of a row are sums of runs.
    of_row = sp.csr_array(
        (
            np.ones(rows.size),
            np.arange(rows.size),
            np.searchsorted(rows, np.arange(design.size + 1)),
        ),
        shape=(design.size, rows.size),
    )

    def value_and_gradient(z: Array) -> tuple[float, Array]:
        Z = z.reshape(shape)
        x = offsets + np.einsum("ij,ij->i", mapped(design, Z)[rows], against)
        loss = np.where(likes, link.loss(x, 1), link.loss(x, -1))
        slope = np.where(likes, link.first(x, 1), link.first(x, -1))
        of_rows = of_row @ (slope[:, None] * against)
        shared = (block.transposed_times(of_rows) for block in design.blocks)
        gradient = np.vstack([np.sum(of_rows, axis=0), *shared]) + ridge * Z
        return float(np.sum(loss) + 0.5 * np.sum(ridge * Z**2)), gradient.ravel()

    first = np.zeros(shape) if start is None else start
    function: Callable[..., Any] = value_and_gradient
    found = minimize(
        function,
        first.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": ITERATIONS, "ftol": 1e-6},
    )
    return np.asarray(found.x.reshape(shape))
