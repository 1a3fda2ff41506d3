"""The public names of the search; ``__init__.py`` reads them from here."""

from .record import Average as Average
from .record import Candidate as Candidate
from .record import Search as Search
from .search import Freedom as Freedom
from .search import choose as choose
from .trials import Options as Options
