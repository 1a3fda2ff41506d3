"""Propensity models: estimates of ``q_ij = P(entry (i, j) is observed)``.

    logit q_ij = b                                  constant
    logit q_ij = b + a_i + c_j                      row_column
    logit q_ij = b + a_i + c_j + u_i . v_j          low_rank

each fitted to the mask, all d1 x d2 entries of it, by penalised maximum likelihood. The mask is a binary matrix that is
fully seen, so no label and no dense array enters. A fitted :class:`Propensity` is a
:class:`~tribit.Missingness`: pass it, or its name, as ``rho``. With ``1 / q_ij`` in its corrections PU and NU
stay unbiased where the mask is not uniform (Schnabel, Swaminathan, Singh, Chandak and Joachims 2016, "Recommendations
as treatments: debiasing learning and evaluation"), as long as an entry's being observed does not depend on its label
once ``q_ij`` is known. The last model has parameters enough to follow the draws of its own mask, so
:func:`cross_fitted` gives each observed entry the propensity of a fit without it: the name "low-rank" stands for that.

The names are listed in ``__init__.pyi``: predictions need no model of the mask.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
