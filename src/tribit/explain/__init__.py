"""Explanations of a prediction: contributions of observed entries, features and intercepts to ``x``.

A score is a sum over the terms of its row, ``(u_i, a_i) = own part + implicit features + side features``,

    x_ij = b + c_j + a_i + u_i' v_j,

and with the columns fixed the own part minimises the row's own risk. The effect of an entry e is that of leaving it
out, ``x_ij - x_ij(without e)``: the row is solved again without e, and its implicit features change too. This holds for
every risk, ball and link. Effects do not sum to x, as entries may carry the same information.

:func:`tribit.similar`, in :mod:`tribit.explain.neighbours`, finds similar rows or columns.
"""

from tribit.explain.contributions import explain
from tribit.explain.explanation import EntryEffect, Explanation

__all__ = ["EntryEffect", "Explanation", "explain"]
