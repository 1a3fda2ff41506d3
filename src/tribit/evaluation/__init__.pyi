"""The public names of evaluation; ``__init__.py`` reads them from here."""

from .cross_validation import CrossValidation as CrossValidation
from .cross_validation import cross_validate as cross_validate
from .held_out import Baseline as Baseline
from .held_out import Evaluation as Evaluation
from .held_out import evaluate as evaluate
from .held_out import evaluate_by_time as evaluate_by_time
from .periods import Period as Period
