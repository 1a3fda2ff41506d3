"""One page that shows what a model does: the data, how good it is, its lists, the search, maps, reasons and limits."""

from tribit.report.writing import Report, make_report, write_report

__all__ = ["Report", "make_report", "write_report"]
