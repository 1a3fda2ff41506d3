"""The public names of uncertainty; ``__init__.py`` reads them from here."""

from .calibration import CALIBRATORS as CALIBRATORS
from .calibration import Beta as Beta
from .calibration import Calibrator as Calibrator
from .calibration import Identity as Identity
from .calibration import Isotonic as Isotonic
from .calibration import Platt as Platt
from .calibration import beta as beta
from .calibration import calibrate as calibrate
from .calibration import calibration_losses as calibration_losses
from .calibration import calibrator_from as calibrator_from
from .calibration import cross_fit_probabilities as cross_fit_probabilities
from .calibration import identity as identity
from .calibration import isotonic as isotonic
from .calibration import platt as platt
from .label_sets import Conformal as Conformal
from .label_sets import LabelSets as LabelSets
from .label_sets import conformal as conformal
from .posterior import Adjustment as Adjustment
from .posterior import Intervals as Intervals
from .posterior import Posterior as Posterior
from .posterior import laplace as laplace
from .posterior import mean_probability as mean_probability
