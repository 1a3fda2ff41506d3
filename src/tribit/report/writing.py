"""Reports: everything that a page shows, computed once, and the page."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from tribit import __version__
from tribit.data.files import atomic_path, writable
from tribit.errors import InvalidTypeError
from tribit.evaluation import Evaluation
from tribit.report import interactive, sections, sentences
from tribit.report.examples import example_facts
from tribit.report.maps import map_facts
from tribit.report.page import page
from tribit.report.quality import beside_facts, evaluation_of, reliability_facts
from tribit.report.search_facts import search_facts
from tribit.report.table_facts import table_facts
from tribit.report.trade_off import trade_off
from tribit.report.trial import trial_of
from tribit.report.unusual import unusual_facts
from tribit.report.wording import Wording

if TYPE_CHECKING:
    from tribit.recommender import Recommender

__all__ = ["Report", "make_report", "write_report"]


@dataclass(frozen=True, eq=False)
class Report:
    """A report of what a model does: numbers, sentences and one page.

    Attributes
    ----------
    html : str
        The page.
    evaluation : Evaluation
        Measures of the held-out entries.
    held_out_here : bool
        Whether the report has held them out by itself.
    facts : dict
        What the sections show, by name; None for what the model or the data do not have.
    """

    html: str
    evaluation: Evaluation
    held_out_here: bool
    facts: dict[str, Any]

    @property
    def size(self) -> int:
        """Bytes of the page."""
        return len(self.html.encode("utf-8"))


def make_report(
    recommender: Recommender, test: Any = None, *, title: str | None = None, random_state: Any = 0
) -> Report:
    """Return the report of a fitted recommender; see :func:`write_report`."""
    from tribit.recommender import Recommender  # noqa: PLC0415

    if not isinstance(recommender, Recommender):
        raise InvalidTypeError(
            f"recommender is of type {type(recommender).__name__}; pass a tribit.Recommender: fit one, or "
            "Recommender.load of a model file."
        )
    check_is_fitted(recommender)
    trial = trial_of(recommender, test, random_state, recommender.model_.refit)
    words = Wording.of(recommender.reading_)
    model, seen = recommender.model_, recommender.seen_
    found = evaluation_of(trial)
    facts: dict[str, Any] = {
        "beside": beside_facts(found, words),
        "data": None if seen is None else table_facts(seen),
        "calibration": reliability_facts(trial),
        "trade_off": trade_off(trial),
        "search": search_facts(model.search_),
        "columns": map_facts(model.scores_, seen, "columns"),
        "rows": map_facts(model.scores_, seen, "rows"),
        "unusual": unusual_facts(trial, seen),
        "examples": example_facts(recommender),
    }
    about = sentences.of_data(facts["data"], model.shape_, words)
    lists = sentences.of_lists(found, words)
    chosen = sentences.of_search(facts["search"], model.spec_)
    meaning = model.fitted_.meaning
    opening = [about, *sentences.of_quality(found, words), *([lists] if lists else []), chosen]
    limits = sentences.limits(
        facts["data"], found, model, meaning, words, ranked=trial.ranker is not None
    )
    facts["limits"] = limits
    parts = [
        sections.summary(opening, trial.notes, found, facts["beside"], words),
        sections.data(facts["data"], sentences.of_spread(facts["data"], words), words),
        sections.calibration(facts["calibration"], words),
        interactive.trade_off(facts["trade_off"], words),
        interactive.search(facts["search"], sentences.of_settings(facts["search"], model.spec_)),
        interactive.maps(facts["columns"], facts["rows"], words),
        sections.unusual(facts["unusual"], words),
        sections.examples(facts["examples"], words),
        sections.limits(limits),
    ]
    drawn = {
        name: facts[name]
        for name in ("beside", "data", "calibration", "trade_off", "search", "columns", "rows")
    }
    drawn["words"] = words.to_json()
    html = page(
        "What the model does" if title is None else title,
        parts,
        drawn,
        f"Made by tribit {__version__}. The page holds names of {words.rows} and {words.columns} and some of their "
        "entries: share it with those who may see these.",
    )
    return Report(html, found, trial.own, facts)


def write_report(
    recommender: Recommender,
    path: str | os.PathLike[str],
    test: Any = None,
    *,
    title: str | None = None,
    random_state: Any = 0,
) -> Report:
    """Write one HTML page that says what the data are, how good the model is, and what it does with them.

    The page needs nothing but itself: no network, no fonts, no other files. The same recommender, test and seed give
    the same bytes.

    Parameters
    ----------
    recommender : Recommender
        A fitted one, or one that was loaded.
    path : str or path-like
        The file to write: all of it, or what was there stays.
    test : Observations, sparse matrix or array, optional
        Entries that it was not fitted on, matched by id where it has ids. None holds out a tenth of the entries, fits
        the chosen model again on the others with the same settings, and says so.
    title : str, optional
        Heading of the page.
    random_state : int, Generator, RandomState or None, default=0
        Draws what is held out.

    Returns
    -------
    Report
        The page, and the numbers on it.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Recommender
    >>> from tribit.report import make_report
    >>> A = np.random.default_rng(0).choice([-1, 0, 1], (12, 8))
    >>> report = make_report(Recommender(random_state=0).fit(A))
    >>> report.held_out_here, report.facts["data"]["rows"]
    (True, 12)
    """
    writable(path)  # an unwritable path is refused before the work
    report = make_report(recommender, test, title=title, random_state=random_state)
    with atomic_path(path) as temporary:
        Path(temporary).write_text(report.html, encoding="utf-8", newline="\n")
    return report
