"""Estimates from a partly seen table: means with intervals, cells to fill next, and values of lists."""

from tribit.estimates.asked import AskedCells, Plan, ask_cells
from tribit.estimates.designs import Draws
from tribit.estimates.estimation import Groups, estimate_means
from tribit.estimates.list_value import ListValues, estimate_list_values
from tribit.estimates.means import Means
from tribit.estimates.simulated_asking import SimulatedAsking, simulate_asking

__all__ = [
    "AskedCells",
    "Draws",
    "Groups",
    "ListValues",
    "Means",
    "Plan",
    "SimulatedAsking",
    "ask_cells",
    "estimate_list_values",
    "estimate_means",
    "simulate_asking",
]
