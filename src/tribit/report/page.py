"""Reports: facts, rendered by templates into one file that fetches nothing and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from sklearn.utils.validation import check_is_fitted

from tribit import __version__
from tribit.data.files import atomic_path, writable
from tribit.errors import InvalidTypeError
from tribit.evaluation import Evaluation
from tribit.report.facts import page_facts
from tribit.report.trial import trial_of
from tribit.report.wording import a, counted, percent, signed

if TYPE_CHECKING:
    from tribit.recommender import Recommender

__all__ = ["Report", "make_report", "write_report"]

#: Sections in the order of the page: the name of a template, and what the contents call it.
SECTIONS = {
    "summary": "Summary",
    "data": "Data",
    "calibration": "Calibration",
    "trade-off": "Recommendations",
    "search": "Search",
    "maps": "Maps",
    "unusual": "Outliers",
    "examples": "Examples",
    "limits": "Limits",
}
STYLE, SCRIPTS = ("report.css",), ("charts.js", "sections.js", "maps.js")
#: Facts that the charts need.
DRAWN = ("beside", "data", "calibration", "trade_off", "search", "columns", "rows", "words")
#: Significant digits of numbers in the data of the charts: a picture shows three.
DIGITS = 5


@dataclass(frozen=True, eq=False)
class Report:
    """A report of what a model does: numbers, sentences and one page.

    Attributes
    ----------
    html : str
        The page.
    evaluation : Evaluation
        Measures of the test set.
    held_out_here : bool
        Whether the report has held out the test set by itself.
    facts : dict
        Everything that the page shows, by section; None for what the model or the data do not have.
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
    found = trial.evaluation()
    facts = page_facts(recommender, trial, found, title)
    return Report(render(facts), found, trial.own, facts)


def write_report(
    recommender: Recommender,
    path: str | os.PathLike[str],
    test: Any = None,
    *,
    title: str | None = None,
    random_state: Any = 0,
) -> Report:
    """Write one HTML page on the data, the quality of the model, its recommendations and its limits.

    The page needs nothing but itself: no network, no fonts, no other files. The same recommender, test and seed give
    the same bytes.

    Parameters
    ----------
    recommender : Recommender
        A fitted one, or one that was loaded.
    path : str or path-like
        The file to write: all of it, or what was there stays.
    test : Observations, sparse matrix or array, optional
        A test set: entries that it was not fitted on, matched by id where it has ids. None draws a tenth of the
        entries, fits the chosen model again on the others with the same hyperparameters, and says so.
    title : str, optional
        Heading of the page.
    random_state : int, Generator, RandomState or None, default=0
        Draws the test set.

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


def render(facts: dict[str, Any]) -> str:
    """Return the page of facts."""
    environment = templates()
    style, script = (_joined(environment, names) for names in (STYLE, SCRIPTS))
    # Whatever else should have slipped into the page, browsers run this script alone and fetch nothing.
    policy = f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    return environment.get_template("page.html").render(
        facts,
        sections=SECTIONS,
        drawn=rounded_values({name: facts[name] for name in DRAWN}),
        style=style,
        script=script,
        policy=policy,
        version=__version__,
    )


def templates() -> Environment:
    """Return the templates, in which every value is text: autoescape is on, and an undefined name is an error."""
    environment = Environment(
        loader=PackageLoader("tribit.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "a": a,
        "counted": counted,
        "decimal": lambda value, digits: "" if value is None else f"{value:.{digits}f}",
        "percent": percent,
        "signed": signed,
        "thousands": "{:,}".format,
    }
    # The filter tojson escapes all that could end a script or begin a comment inside of one.
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment


def rounded_values(values: Any) -> Any:
    """Return values as JSON has them: numbers rounded, None for NaN and infinities."""
    if isinstance(values, dict):
        return {name: rounded_values(value) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return [rounded_values(value) for value in values]
    if hasattr(values, "tolist"):
        return rounded_values(values.tolist())
    if not isinstance(values, float):
        return values
    if not math.isfinite(values):
        return None
    rounded = float(f"{values:.{DIGITS}g}")
    # Shorter, and no -0 that differs from 0 by a bit of a sum.
    return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded


def _joined(environment: Environment, names: tuple[str, ...]) -> Markup:
    """Return files of the package as they stand, one after the other."""
    assert environment.loader is not None
    sources = [environment.loader.get_source(environment, name)[0] for name in names]
    return Markup("".join(sources))  # noqa: S704 - style and scripts of the package alone


def _digest(text: str) -> str:
    """Return the name by which a policy admits a script or style."""
    found = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(found).decode('ascii')}"
