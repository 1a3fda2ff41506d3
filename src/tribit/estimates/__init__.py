"""Estimates from a partly seen table: means of rows, columns and groups, with confidence intervals."""

from tribit.estimates.estimation import Groups, estimate_means
from tribit.estimates.means import Means

__all__ = ["Groups", "Means", "estimate_means"]
