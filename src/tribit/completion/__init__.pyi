"""The public names of matrix completion; ``__init__.py`` reads them from here."""

from .estimator import BinaryMatrixCompletion as BinaryMatrixCompletion
from .fitted_model import FittedModel as FittedModel
