"""Fits of the propensity models to the mask by penalised maximum likelihood.

    min over b, a, c, U, V   sum_ij [log(1 + exp(x_ij)) - R_ij x_ij] + l2 / 2 (|a|^2 + |c|^2 + |U|^2 + |V|^2),
                             x_ij = b + a_i + c_j + u_i' v_j

with ``R_ij = 1`` where (i, j) is observed. :func:`row_column` has no factors. Then only the numbers of observed entries
of each row and column enter (Rasch 1960, "Probabilistic models for some intelligence and attainment tests"), and the
minimum is unique in ``x``: rows with equal numbers have equal effects. The d1 x d2 sum becomes one over distinct
numbers. There are at most ``sqrt(2 n) + 1`` of them on a side: Newton's method takes milliseconds.

:func:`low_rank` is the PU risk at ``rho = 0`` with every observed entry as a like, fitted by Newton's method of the
library. The risk is bounded below, so that intercepts need no bound.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import expit, logit

from tribit.backends import uses_estimates
from tribit.backends.objective import Arithmetic, Objective
from tribit.backends.threads import single_threaded_blas
from tribit.checks import check_not_negative, check_positive, check_whole
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, warn_unconverged
from tribit.model import risks
from tribit.model.constraints import Unconstrained
from tribit.model.factors import Factors
from tribit.model.links import Logistic
from tribit.propensity.model import Propensity, check_observations, constant, resolve_floor
from tribit.randomness import RandomState, generator
from tribit.solvers import Newton, Stopping
from tribit.solvers.loop import minimise_in_stages

Array = NDArray[np.float64]

#: Most steps of Newton's method, and most halvings of one.
MAX_STEPS, MAX_HALVINGS = 100, 40
#: First-order decrease that ends the iteration, as Newton's method squares what is left; and the Armijo constant.
MIN_DECREASE = 1e-10
ARMIJO = 1e-4


def row_column(
    observations: Observations, *, l2: float = 1.0, floor: float | None = None
) -> Propensity:
    """Fit ``logit q_ij = b + a_i + c_j`` to the mask by penalised maximum likelihood.

    Minimises ``-log P(mask) + l2 / 2 (|a|^2 + |c|^2)``; ``b`` is free.

    Parameters
    ----------
    observations : Observations
        The observed entries; the labels do not matter.
    l2 : float, default=1.0
        Weight of the ridge penalty: 1 says that effects have a standard deviation of about 1 in log-odds. At 0 the
        expected number of observed entries of every row and column is the actual one, and none may be
        empty or full, for its effect would be infinite.
    floor : float or None, default=None
        Smallest probability; None for a tenth of the share that is observed.

    Returns
    -------
    Propensity
        Where every entry is observed, ``q = 1``.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.propensity import row_column
    >>> from tribit.simulate import observe
    >>> seen = observe(np.ones((40, 30), dtype=np.int8), 0.7, random_state=0)
    >>> row_column(seen).name
    'row-column'
    """
    check_observations(observations)
    l2 = check_not_negative("l2", l2)
    lowest = resolve_floor(floor, observations)
    shape = observations.shape
    if observations.n_observed == shape[0] * shape[1]:
        return Propensity("row-column", constant(observations).factors, lowest)
    rows, row_groups = _margin(observations.counts[0])
    columns, column_groups = _margin(observations.counts[1])
    if not l2:
        _check_margin(rows, shape[1], "row", "column")
        _check_margin(columns, shape[0], "column", "row")
    with single_threaded_blas():
        b, a, c = _newton(rows, columns, float(logit(observations.density)), float(l2))
    U, V = (np.zeros((size, 0)) for size in shape)
    return Propensity("row-column", Factors(U, V, b, a[row_groups], c[column_groups]), lowest)


class _Margin(NamedTuple):
    """Distinct numbers of observed entries, and how many rows (or columns) have each."""

    counts: Array
    sizes: Array


def _margin(numbers: NDArray[np.int64]) -> tuple[_Margin, NDArray[np.intp]]:
    counts, groups, sizes = np.unique(numbers, return_inverse=True, return_counts=True)
    return _Margin(counts.astype(np.float64), sizes.astype(np.float64)), groups


def _check_margin(margin: _Margin, full: int, axis: str, other: str) -> None:
    """Refuse empty and full rows or columns where nothing keeps their effects finite."""
    for count, word in ((0, "no"), (full, "every")):
        if count in margin.counts:
            raise InvalidInputError(
                f"A {axis} with {word} observed entry has an infinite effect at l2 = 0: pass l2 > 0, or leave out "
                f"each {axis} that has entries in no {other} or in all."
            )


def _newton(rows: _Margin, columns: _Margin, level: float, l2: float) -> tuple[float, Array, Array]:
    """Return ``b``, ``a`` and ``c`` of each group, with ``a`` and ``c`` of mean 0 over rows and columns."""
    m, n = rows.sizes, columns.sizes
    G = m.size
    linear = np.concatenate([[float(m @ rows.counts)], m * rows.counts, n * columns.counts])
    ridge = l2 * np.concatenate([[0.0], m, n])

    def log_odds(z: Array) -> Array:
        return np.asarray(z[0] + z[1 : G + 1, None] + z[None, G + 1 :])

    def loss(z: Array) -> tuple[float, float]:
        """Return the loss and the size of its rounding error."""
        total = float(m @ np.logaddexp(0.0, log_odds(z)) @ n) + 0.5 * float(ridge @ z**2)
        seen = float(linear @ z)
        return total - seen, 64 * np.finfo(np.float64).eps * (total + abs(seen))

    z = np.concatenate([[level], np.zeros(m.size + n.size)])
    value, rounding = loss(z)
    for _ in range(MAX_STEPS):
        q = expit(log_odds(z))
        gradient = np.concatenate([[m @ q @ n], m * (q @ n), n * (m @ q)]) - linear + ridge * z
        try:
            step = -cho_solve(cho_factor(_curvature(q, m, n, ridge)), gradient)
        except LinAlgError:
            break
        gain = -float(gradient @ step)
        if not np.isfinite(gain):
            break
        if gain <= MIN_DECREASE:
            z = z + step
            return float(z[0]), z[1 : G + 1], z[G + 1 :]
        length = 1.0
        for _ in range(MAX_HALVINGS):
            trial = z + length * step
            reached, trial_rounding = loss(trial)
            if reached <= value - ARMIJO * length * gain + rounding:
                break
            length *= 0.5
        z, value, rounding = trial, reached, trial_rounding
    raise InvalidInputError(
        f"The row and column effects of the mask have no finite maximum of the likelihood at l2 = {l2:g}: raise l2."
    )


def _curvature(q: Array, m: Array, n: Array, ridge: Array) -> Array:
    """Return the second derivatives in ``(b, a, c)``.

    Moving a constant from ``a`` or ``c`` into ``b`` leaves ``x`` as it is. The squares of both means are
    added: they are 0 at every step, and they make the matrix regular also without a ridge.
    """
    W = m[:, None] * n * q * (1.0 - q)
    G, size = m.size, 1 + m.size + n.size
    H = np.zeros((size, size))
    by_row, by_column = W.sum(axis=1), W.sum(axis=0)
    scale = W.sum()
    H[0, 0] = scale
    H[0, 1 : G + 1] = H[1 : G + 1, 0] = by_row
    H[0, G + 1 :] = H[G + 1 :, 0] = by_column
    H[1 : G + 1, G + 1 :] = W
    H[G + 1 :, 1 : G + 1] = W.T
    H[1 : G + 1, 1 : G + 1] = np.outer(m, m) * (scale / m.sum() ** 2)
    H[G + 1 :, G + 1 :] = np.outer(n, n) * (scale / n.sum() ** 2)
    H[np.diag_indices(size)] += ridge + np.concatenate([[0.0], by_row, by_column])
    return H


#: Default rank: with ``l2 = 5`` it had the least held-out log-loss on the masks of MovieLens 100k and Coat.
RANK = 8
#: Rounds of the subspace iteration for a start, and the mean squared norm of the rows of the first factors.
START_ROUNDS, START_ROW_NORM = 2, 0.5


def low_rank(
    observations: Observations,
    *,
    rank: int = RANK,
    l2: float = 5.0,
    floor: float | None = None,
    max_iter: int = 100,
    tol: float = 1e-5,
    n_jobs: int | None = 1,
    random_state: RandomState = None,
    backend: str = "auto",
) -> Propensity:
    """Fit ``logit q_ij = b + a_i + c_j + u_i' v_j`` to the mask by penalised maximum likelihood.

    Minimises ``-log P(mask) + l2 / 2 (|U|^2 + |V|^2 + |a|^2 + |c|^2)``, ``b`` free, to a local
    minimum. Every sweep visits all d1 x d2 entries, tile by tile, or a sample of them where they are too many.

    Parameters
    ----------
    observations : Observations
        The observed entries; the labels do not matter.
    rank : int, default=8
        Number of latent factors.
    l2 : float, default=5.0
        Weight of the ridge penalty. With too little the model follows the draws of the mask: it then gives the
        entries that happened to be observed too large a ``q``.
    floor : float or None, default=None
        Smallest probability; None for a tenth of the share that is observed.
    max_iter : int, default=100
        Most sweeps.
    tol : float, default=1e-5
        Stop when a sweep's first-order decrease is at most this share of the loss.
    n_jobs : int or None, default=1
        Threads; None or -1 for every core. The result has the same bits for any number.
    random_state : int, Generator, RandomState or None
        Draws the first factors, and the sample where there is one.
    backend : {"auto", "exact", "sampled"}, default="auto"
        How the sum over all entries is done, as in :class:`~tribit.BinaryMatrixCompletion`.

    Returns
    -------
    Propensity
        Where every entry is observed, ``q = 1``.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.propensity import low_rank
    >>> from tribit.simulate import observe
    >>> seen = observe(np.ones((40, 30), dtype=np.int8), 0.7, random_state=0)
    >>> low_rank(seen, rank=2, random_state=0).name
    'low-rank'
    """
    check_observations(observations)
    _check_rank(rank, observations.shape)
    l2 = check_positive("l2", l2)
    lowest = resolve_floor(floor, observations)
    # Ctrl-C is for whoever asked for the model: half a mask would pass for a whole one.
    stopping = Stopping(max_iter, tol, interruptible=False)
    draws = generator(random_state)
    if observations.n_observed == observations.shape[0] * observations.shape[1]:
        return Propensity("low-rank", constant(observations).factors, lowest)
    # The one array as long as the observations: the backend reads signs, and to the mask each is a like.
    mask = observations.as_likes()
    risk = risks.pu(0.0)
    sampled = uses_estimates(backend, risk, observations)
    objective = Objective(
        mask,
        Logistic(),
        risk,
        l2=l2,
        intercept=True,
        arithmetic=Arithmetic(
            "float32",
            n_jobs,
            "sampled" if sampled else "exact",
            seed=int(draws.integers(2**32)) if sampled else 0,
        ),
    )
    margins = row_column(observations, l2=l2).factors
    start = _start(objective.refit_control_variates(margins), margins, int(rank), draws)
    _, result = minimise_in_stages(Newton(), objective, [Unconstrained()], start, stopping, draws)
    if not result.converged:
        warn_unconverged(
            f"The fit of the mask stopped before it converged ({result.stop_reason}): raise max_iter, tol or l2."
        )
    return Propensity("low-rank", result.factors, lowest)


def _start(
    objective: Objective, margins: Factors, rank: int, draws: np.random.Generator
) -> Factors:
    """Return the row and column effects, and factors along the residual of the mask.

    With ``U = 0`` the gradient in U is ``(dF/dX) V`` at the effects alone: two gradients are a round of subspace
    iteration for the leading singular vectors of ``dF/dX`` (a factor that is 0 adds no penalty to its gradient).
    """
    d1, d2 = objective.shape
    none = np.zeros((d1, rank)), np.zeros((d2, rank))
    V = draws.standard_normal((d2, rank))
    with single_threaded_blas():
        for _ in range(START_ROUNDS):
            at = replace(margins, row_factors=none[0], column_factors=V)
            U = np.linalg.qr(-objective.gradient(at, value=False)[1].row_factors)[0]
            at = replace(margins, row_factors=U, column_factors=none[1])
            V = np.linalg.qr(-objective.gradient(at, value=False)[1].column_factors)[0]
        at = replace(margins, row_factors=none[0], column_factors=V)
        core = U.T @ -objective.gradient(at, value=False)[1].row_factors
        left, _, right = np.linalg.svd(core)
    U, V = U @ left, V @ right.T
    return replace(
        margins,
        row_factors=U * np.sqrt(START_ROW_NORM * d1 / rank),
        column_factors=V * np.sqrt(START_ROW_NORM * d2 / rank),
    )


def _check_rank(rank: Any, shape: tuple[int, int]) -> None:
    check_whole("rank", rank)
    if not 1 <= rank <= min(shape):
        raise InvalidInputError(
            f"rank must be from 1 to {min(shape)}, the smaller side of the {shape[0]} x {shape[1]} mask; got {rank}."
        )
