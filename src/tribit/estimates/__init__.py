"""Estimates from a partly seen table: means with confidence intervals, and cells to fill next."""

from tribit.estimates.asked import AskedCells, Plan, ask_cells
from tribit.estimates.designs import Draws
from tribit.estimates.estimation import Groups, estimate_means
from tribit.estimates.means import Means

__all__ = ["AskedCells", "Draws", "Groups", "Means", "Plan", "ask_cells", "estimate_means"]
