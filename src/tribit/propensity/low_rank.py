"""A mask of low rank in log-odds: which rows see which columns, beyond how many.

    min over U, V, b, a, c   sum_ij [log(1 + exp(x_ij)) - R_ij x_ij] + l2 / 2 (|U|^2 + |V|^2 + |a|^2 + |c|^2),
                             x_ij = b + a_i + c_j + u_i' v_j

with ``R_ij = 1`` where (i, j) is observed. That is the PU risk at ``rho = 0`` with every observed entry a like, so
the exact backends and Newton's method of the library fit it. It is bounded below: intercepts need no bound.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from tribit.backends import estimated
from tribit.backends.objective import Arithmetic, Objective
from tribit.backends.threads import single_threaded_blas
from tribit.checks import check_positive, check_whole
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, warn
from tribit.model import risks
from tribit.model.constraints import Unconstrained
from tribit.model.factors import Factors
from tribit.model.links import Logistic
from tribit.propensity.model import Propensity, check_observations, constant, resolve_floor
from tribit.propensity.row_column import row_column
from tribit.randomness import RandomState, generator
from tribit.solvers import Newton, Stopping
from tribit.solvers.resampled import minimise_resampled

#: Default rank: with ``l2 = 5`` it had the least held-out log-loss on the masks of MovieLens 100k and Coat.
RANK = 8
#: Rounds of the subspace iteration for a start, and the mean squared norm of the rows of the first factors.
ROUNDS, SIZE = 2, 0.5


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
        What was observed; the labels do not matter.
    rank : int, default=8
        Number of columns of U and V.
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
    sampled = estimated(backend, risk, observations)
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
    _, result = minimise_resampled(Newton(), objective, [Unconstrained()], start, stopping, draws)
    if not result.converged:
        warn(
            f"The fit of the mask stopped before it converged ({result.stop_reason}): raise max_iter, tol or l2.",
            ConvergenceWarning,
        )
    return Propensity("low-rank", result.factors, lowest)


def _start(
    objective: Objective, margins: Factors, rank: int, draws: np.random.Generator
) -> Factors:
    """Return the row and column effects, and factors along what they leave of the mask.

    With ``U = 0`` the gradient in U is ``(dF/dX) V`` at the effects alone: two gradients are a round of subspace
    iteration for the leading singular vectors of ``dF/dX`` (a factor that is 0 adds no penalty to its gradient).
    """
    d1, d2 = objective.shape
    none = np.zeros((d1, rank)), np.zeros((d2, rank))
    V = draws.standard_normal((d2, rank))
    with single_threaded_blas():
        for _ in range(ROUNDS):
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
        row_factors=U * np.sqrt(SIZE * d1 / rank),
        column_factors=V * np.sqrt(SIZE * d2 / rank),
    )


def _check_rank(rank: Any, shape: tuple[int, int]) -> None:
    check_whole("rank", rank)
    if not 1 <= rank <= min(shape):
        raise InvalidInputError(
            f"rank must be from 1 to {min(shape)}, the smaller side of the {shape[0]} x {shape[1]} mask; got {rank}."
        )
