"""The public names of the models of the mask; ``__init__.py`` reads them from here."""

from .cross_fitted import CrossFittedPropensity as CrossFittedPropensity
from .cross_fitted import HashedPropensity as HashedPropensity
from .cross_fitted import cross_fitted as cross_fitted
from .fits import low_rank as low_rank
from .fits import row_column as row_column
from .model import Calibration as Calibration
from .model import Propensity as Propensity
from .model import calibration as calibration
from .model import constant as constant
from .model import effective_sample_size as effective_sample_size
from .model import inverse_weights as inverse_weights
from .model import log_loss as log_loss
from .named import fit_propensity as fit_propensity
from .names import NAMES as NAMES
from .names import unknown_name_error as unknown_name_error
