"""Uncertainty: calibrated probabilities, intervals, and sets of labels.

- :func:`calibrate` fits a map from ``x`` to the probability of a like on held-out entries.
- :func:`laplace` gives a normal posterior of ``x`` around the row and column solutions, and so an interval for each
  entry; :meth:`Posterior.with_adjustment` corrects its centre and width.
- :func:`conformal` gives a set of labels for each entry, which has the true one with a chosen probability for any
  model.

Each uses a fitted model and held-out entries. A model of the mask (:mod:`tribit.propensity`) makes the results hold for
all user-item pairs and not only for self-selected ones.
"""

from tribit.model.calibration import (
    CALIBRATORS,
    Calibrator,
    Identity,
    Isotonic,
    Platt,
    calibration_losses,
    calibrator_from,
    cross_fit_probabilities,
    identity,
    isotonic,
    platt,
)
from tribit.uncertainty.calibration import calibrate
from tribit.uncertainty.label_sets import Conformal, LabelSets, conformal
from tribit.uncertainty.posterior import Adjustment, Intervals, Posterior, laplace, mean_probability

__all__ = [
    "CALIBRATORS",
    "Adjustment",
    "Calibrator",
    "Conformal",
    "Identity",
    "Intervals",
    "Isotonic",
    "LabelSets",
    "Platt",
    "Posterior",
    "calibrate",
    "calibration_losses",
    "calibrator_from",
    "conformal",
    "cross_fit_probabilities",
    "identity",
    "isotonic",
    "laplace",
    "mean_probability",
    "platt",
]
