"""One page on a model: the data, its quality, recommendations, the search, maps, explanations and limits."""

from tribit.report.page import Report, make_report, write_report

__all__ = ["Report", "make_report", "write_report"]
