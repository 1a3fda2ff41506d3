"""Probabilities one can trust: calibration, and how sure a model is of an entry.

- :func:`calibrate` fits a map from ``x`` to the probability of a like to held-out entries.
- :func:`laplace` gives a normal posterior of ``x`` around the row and column solutions, and so an interval for each
  entry; :meth:`Posterior.with_adjustment` corrects its centre and width.
- :func:`conformal` gives a set of labels for each entry, right with a chosen probability whatever the model is worth.

Each takes a fitted model, held-out entries it has not seen, and, where every cell should count alike and not only cells
like the observed ones, a model of the mask (:mod:`tribit.propensity`).
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
from tribit.uncertainty.conformal import Conformal, LabelSets, conformal
from tribit.uncertainty.laplace import Adjustment, Intervals, Posterior, laplace, mean_probability

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
