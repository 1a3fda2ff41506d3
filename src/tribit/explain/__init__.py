"""Reasons for a prediction: what each seen entry of the row, features and intercepts add to ``x``.

A score is a sum over the parts of its row, ``(u_i, a_i) = own part + implicit features + side features``,

    x_ij = b + c_j + a_i + u_i' v_j,

and with the columns fixed the own part is the minimiser of the row's own risk. Two measures of an entry e follow:

    leave one out   x_ij - x_ij(without e), the row solved for again without e; e is then not seen either, so that
                    implicit features change with it
    stationarity    l2 p_i = - sum_e r'(x_ie) v_e and l2_intercept a_i = - sum_e r'(x_ie) at the minimum, r the risk
                    of an entry, so that e adds - r'(x_ie) (v_e' v_j / l2 + 1 / l2_intercept), and its share of the
                    implicit features

Leaving one out is the default: it answers "because you liked e", whatever the risk, the ball or the link. Its numbers
do not sum to x, as two entries may say the same. Those of stationarity do, but an entry that the model already expected
has a small slope and a small share, however much rests on it.

:func:`tribit.similar`, in :mod:`tribit.explain.neighbours`, has the rows and columns that are alike.
"""

from tribit.explain.explanation import EntryEffect, Explanation
from tribit.explain.reasons import explain

__all__ = ["EntryEffect", "Explanation", "explain"]
