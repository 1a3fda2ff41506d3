"""Fold-in and cold start: new rows and columns for a fitted model, without a refit.

With the columns fixed a row is a convex problem of its own,

    u_i, a_i = argmin  sum over the entries of row i of the risk
                       + l2 / 2 |u_i - s_i|^2 + l2_intercept / 2 (a_i - t_i)^2

inside the ball of the model if it has one. ``s_i`` and ``t_i`` are the contributions of the row's features, 0 without
any. A fit solves the same problem for each row, by the same half-sweeps, so that a row of the fit that is folded in
again has the same factors. A row without entries has ``u_i = s_i``, or a prediction from its side features
(:mod:`tribit.folding.cold_start`).
"""

from tribit.folding.new_rows import (
    entries_at_known,
    factors_of_new_rows,
    fold_in,
    update,
    warn_of_unknown_rows,
)

__all__ = ["entries_at_known", "factors_of_new_rows", "fold_in", "update", "warn_of_unknown_rows"]
