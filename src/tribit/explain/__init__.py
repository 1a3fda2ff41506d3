"""Reasons for a prediction: what each seen entry of the row, features and intercepts add to ``x``.

A score is a sum over the parts of its row, ``(u_i, a_i) = own part + implicit features + side features``,

    x_ij = b + c_j + a_i + u_i' v_j,

and with the columns fixed the own part is the minimiser of the row's own risk. The effect of an entry e is that of
leaving it out: ``x_ij - x_ij(without e)``, the row solved for again without e; e is then not seen either, so that
implicit features change with it. It answers "because you liked e", whatever the risk, the ball or the link. Effects do
not sum to x, as two entries may say the same.

:func:`tribit.similar`, in :mod:`tribit.explain.neighbours`, has the rows and columns that are alike.
"""

from tribit.explain.contributions import explain
from tribit.explain.explanation import EntryEffect, Explanation

__all__ = ["EntryEffect", "Explanation", "explain"]
