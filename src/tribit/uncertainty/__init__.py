"""Uncertainty: calibrated probabilities, intervals, and sets of labels.

- :func:`calibrate` fits a map from ``x`` to the probability of a like on held-out entries.
- :func:`laplace` gives a normal posterior of ``x`` around the row and column solutions, and so an interval for each
  entry; :meth:`Posterior.with_adjustment` corrects its centre and width.
- :func:`conformal` gives a set of labels for each entry, which has the true one with a chosen probability for any
  model.

Each uses a fitted model and held-out entries. A model of the mask (:mod:`tribit.propensity`) makes the results hold for
all user-item pairs and not only for self-selected ones.

The names are listed in ``__init__.pyi``: the intervals of a list need neither calibration nor sets.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
