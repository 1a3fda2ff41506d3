"""The public names and where they live; ``__init__.py`` reads them from here."""

from .backends.objective import Objective as Objective
from .completion.estimator import BinaryMatrixCompletion as BinaryMatrixCompletion
from .completion.files import load as load
from .completion.files import save as save
from .data.observations import Observations as Observations
from .errors import InvalidInputError as InvalidInputError
from .errors import InvalidTypeError as InvalidTypeError
from .errors import OutOfMemoryError as OutOfMemoryError
from .errors import TribitError as TribitError
from .errors import TribitWarning as TribitWarning
from .errors import UnboundedRiskWarning as UnboundedRiskWarning
from .errors import UnknownRhoWarning as UnknownRhoWarning
from .evaluation.cross_validation import CrossValidation as CrossValidation
from .evaluation.cross_validation import cross_validate as cross_validate
from .evaluation.entry_classifier import EntryClassifier as EntryClassifier
from .evaluation.held_out import evaluate as evaluate
from .evaluation.results import Evaluation as Evaluation
from .explain.explanation import Explanation as Explanation
from .explain.neighbours import similar as similar
from .model.constraints import EntryBound as EntryBound
from .model.constraints import MaxNorm as MaxNorm
from .model.constraints import Rank as Rank
from .model.constraints import Ridge as Ridge
from .model.constraints import TraceNorm as TraceNorm
from .model.constraints import Unconstrained as Unconstrained
from .model.links import Link as Link
from .model.links import Logistic as Logistic
from .model.links import Probit as Probit
from .model.risks import Missingness as Missingness
from .model.risks import Risk as Risk
from .model.risks import doubly_robust as doubly_robust
from .model.risks import nu as nu
from .model.risks import pn as pn
from .model.risks import pnu as pnu
from .model.risks import pu as pu
from .model.risks import punu as punu
from .model.risks import tri as tri
from .recommender import Recommender as Recommender
from .solvers import LBFGS as LBFGS
from .solvers import AugmentedLagrangian as AugmentedLagrangian
from .solvers import Iteration as Iteration
from .solvers import Newton as Newton
from .solvers import ProjectedGradient as ProjectedGradient
from .solvers import SolverResult as SolverResult

__version__: str
