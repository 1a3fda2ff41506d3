"""The public names of the search; ``__init__.py`` reads them from here."""

from .gammas import SuggestedGammas as SuggestedGammas
from .gammas import suggest_gammas as suggest_gammas
from .record import Candidate as Candidate
from .record import Search as Search
from .record import Stack as Stack
from .search import Budget as Budget
from .search import choose as choose
from .space import Criterion as Criterion
from .space import SearchSpace as SearchSpace
from .trials import Options as Options
