"""A bundle's report, from the files of a user to a page."""

from __future__ import annotations

from typing import Any

from tribit.data.files import check_different, writable
from tribit.report import Report, write_report
from tribit.workflows.bundles import PathLike, known_entries, opened, reading_of


def report_file(
    model_path: PathLike,
    out: PathLike,
    test: PathLike | None = None,
    *,
    title: str | None = None,
    random_state: Any = 0,
    unknown: str = "error",
    max_size: int | None = None,
    **rules: Any,
) -> tuple[Report, int]:
    """Write the page of a bundle (:func:`tribit.report.write_report`).

    Parameters
    ----------
    model_path : str or path-like
        A bundle, or with a test a model alone.
    out : str or path-like
        The page to write.
    test : str or path-like, optional
        A table of observed entries that the model was not fitted on; without one the report holds some out.
    title : str, optional
        Heading of the page.
    random_state : int, default=0
        Draws what is held out.
    unknown : {"error", "skip"}, default="error"
        Whether a test with ids that the model does not know is refused, or such records left out.
    max_size : int, optional
        The most bytes to read of the test.
    **rules
        Of :class:`tribit.data.reading.Reading`, where the test differs from the table of the fit.

    Returns
    -------
    report : Report
        The page and its numbers.
    n_skipped : int
        How many records of the test were left out.
    """
    writable(out)  # before the work
    for source in (model_path, test):
        if source is not None:
            check_different(source, out)
    bundle = opened(model_path)
    entries, n_skipped = None, 0
    if test is not None:
        records = reading_of(bundle, **rules).records(test, max_size=max_size)
        entries, n_skipped = known_entries(bundle, records, unknown)
    report = write_report(bundle, out, entries, title=title, random_state=random_state)
    return report, n_skipped
