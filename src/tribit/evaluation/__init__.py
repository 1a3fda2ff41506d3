"""Evaluation of models on entries that they were not fitted on.

:func:`evaluate` computes the measures of :mod:`tribit.metrics` on a test set, with confidence intervals and baselines.
:func:`cross_validate` holds out each entry once. :mod:`tribit.evaluation.ranking` measures top-N lists.

The names are listed in ``__init__.pyi``: an evaluation that a file keeps is read without the estimators.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
