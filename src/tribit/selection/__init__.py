"""Choosing from the data what a user leaves open: held-out entries decide, not a grid and not a default.

:func:`choose` tries settings on folds of the observed entries, from the simplest model to richer ones;
``BinaryMatrixCompletion`` calls it for every parameter that is ``"auto"`` and keeps the record as ``search_``.
"""

from __future__ import annotations

from tribit.selection.record import Candidate, Search
from tribit.selection.scores import SCORINGS
from tribit.selection.search import choose
from tribit.selection.settings import CHOOSABLE, Settings
from tribit.selection.trials import Options

__all__ = [
    "CHOOSABLE",
    "SCORINGS",
    "Candidate",
    "Options",
    "Search",
    "Settings",
    "choose",
]
