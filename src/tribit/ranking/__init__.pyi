"""The public names of candidate ranking; ``__init__.py`` reads them from here."""

from .candidate_ranker import CandidateRanker as CandidateRanker
from .rate_ranker import RateRanker as RateRanker
from .scores import Ranker as Ranker
