"""New rows and columns for a fitted model, without a new fit.

With the columns fixed a row is a convex problem of its own,

    u_i, a_i = argmin  sum over the entries of row i of the risk
                       + l2 / 2 |u_i - s_i|^2 + l2_intercept / 2 (a_i - t_i)^2

with ``s_i`` and ``t_i`` what the row's features add (0 without any), inside the ball of the model where it has one:
the problem that a fit solves for each of its rows, by the same half-sweeps. A row of the fit that is folded in again
has the same factors. A row without entries has ``u_i = s_i``, or what :mod:`tribit.folding.cold_start` and
:mod:`tribit.folding.cold_start` make of its side features.
"""

from tribit.folding.new_rows import fold_in, update

__all__ = ["fold_in", "update"]
