"""Reports: one HTML file from facts and templates, which loads nothing and runs only its own script."""

from __future__ import annotations

import base64
import hashlib
import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from sklearn.utils.validation import check_is_fitted

from tribit import __version__
from tribit.answers import as_json_values
from tribit.data.files import atomic_path, writable
from tribit.data.tables import finite_or_none
from tribit.display import html_text
from tribit.errors import InvalidTypeError, printable
from tribit.evaluation.held_out import Evaluation
from tribit.nouns import with_article, with_noun
from tribit.randomness import RandomState
from tribit.report.against import against_facts
from tribit.report.facts import page_facts
from tribit.report.trial import make_trial
from tribit.report.wording import percent, with_sign

if TYPE_CHECKING:
    from tribit.recommender import Recommender

__all__ = ["Report", "make_report", "write_report"]

#: Sections in order: the name of the template, and its title in the contents.
SECTIONS = {
    "summary": "Summary",
    "data": "Data",
    "calibration": "Calibration",
    "accuracy": "Accuracy",
    "against": "Comparison",
    "trade-off": "Recommendations",
    "search": "Search",
    "maps": "Maps",
    "unusual": "Outliers",
    "examples": "Reasons",
    "limits": "Limits",
}
STYLE, SCRIPTS = (
    ("report.css",),
    ("charts.js", "sections.js", "maps.js", "lists.js", "downloads.js"),
)
#: Significant digits of numbers in the data of the charts and of the download; the page shows three.
N_DIGITS = 5


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """A report on a model: the page and its numbers. It prints as the path of the page, in a notebook as a link.

    Attributes
    ----------
    html : str
        The page.
    evaluation : Evaluation
        Measures of the test set.
    held_out_here : bool
        Whether the report held out the test set from the training entries.
    facts : dict
        All facts of the page by section; None for sections that the model or the data lack.
    path : Path or None
        The file that has the page; None if it was not written.

    Examples
    --------
    >>> from tribit import Recommender
    >>> from tribit.report import make_report
    >>> A = [[1, 1, 0, 0], [1, 1, 0, -1], [1, 0, 0, -1], [0, 0, 1, 1], [0, -1, 1, 0]]
    >>> report = make_report(Recommender(random_state=0).fit(A), title="Films")
    >>> report.facts["title"]
    'Films'
    """

    html: str
    evaluation: Evaluation
    held_out_here: bool
    facts: dict[str, Any]
    path: Path | None = None

    @property
    def size(self) -> int:
        """Size of the page in bytes."""
        return len(self.html.encode("utf-8"))

    def write(self, path: str | os.PathLike[str]) -> Report:
        """Write the page to a file, which is unchanged if writing fails; return the report with its path."""
        with atomic_path(path) as temporary:
            Path(temporary).write_text(self.html, encoding="utf-8", newline="\n")
        return replace(self, path=Path(path))

    def __repr__(self) -> str:
        where = "not written: use write(path)" if self.path is None else str(self.path)
        return f"Report({self._about}, {printable(where)})"

    def _repr_html_(self) -> str:
        """Return a link to the page for a notebook, relative to its folder."""
        if self.path is None:
            return html_text(repr(self))
        address = quote(Path(os.path.relpath(self.path)).as_posix())
        name = escape(printable(str(self.path)))
        return f'<p>Report: <a href="{address}" target="_blank">{name}</a> ({self._about})</p>'

    @property
    def _about(self) -> str:
        return f"evaluated on {self.evaluation.n_entries:,} entries, {self.size / 1000:.0f} kB"


def make_report(
    recommender: Recommender,
    test: object = None,
    *,
    title: str | None = None,
    random_state: RandomState = 0,
    unknown: str = "popularity",
    model_file: str | os.PathLike[str] | None = None,
    against: object = None,
) -> Report:
    """Return the report of a fitted recommender; see :func:`write_report`.

    Examples
    --------
    >>> from tribit import Recommender
    >>> from tribit.report import make_report
    >>> A = [[1, 1, 0, 0], [1, 1, 0, -1], [1, 0, 0, -1], [0, 0, 1, 1], [0, -1, 1, 0]]
    >>> report = make_report(Recommender(random_state=0).fit(A))
    >>> report.html[:15]
    '<!DOCTYPE html>'
    """
    from tribit.recommender import Recommender  # noqa: PLC0415

    if not isinstance(recommender, Recommender):
        raise InvalidTypeError(
            f"recommender is of type {type(recommender).__name__}; pass a tribit.Recommender: fit one, or "
            "Recommender.load of a model file."
        )
    check_is_fitted(recommender)
    trial = make_trial(recommender, test, random_state, recommender.model_.refit, unknown)
    found = trial.evaluation()
    compared = against_facts(recommender, trial, against, found, random_state)
    facts = page_facts(recommender, trial, found, title, model_file, compared)
    return Report(render(facts), found, trial.held_out_here, facts)


def write_report(
    recommender: Recommender,
    path: str | os.PathLike[str],
    test: object = None,
    *,
    title: str | None = None,
    random_state: RandomState = 0,
    unknown: str = "popularity",
    model_file: str | os.PathLike[str] | None = None,
    against: object = None,
) -> Report:
    """Write an HTML page on the data, the quality of the model, its recommendations and its limits.

    The page is self-contained: it needs no network, fonts or other files. Equal recommenders, test sets and seeds give
    equal bytes.

    Parameters
    ----------
    recommender : Recommender
        A fitted or loaded recommender.
    path : str or path-like
        File to write. If writing fails, an existing file is unchanged.
    test : Observations, sparse matrix or array, optional
        Test set of entries that it was not fitted on, matched by id where it has ids. By default a random tenth of the
        entries is held out, and the chosen model is refitted to the others with the same hyperparameters.
    title : str, optional
        Heading of the page.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the test set.
    unknown : {"popularity", "skip", "error"}, default="popularity"
        Treatment of ids in the test set that the model was not fitted on, as in :func:`tribit.evaluate`.
    model_file : str or path-like, optional
        File of the recommender, whose name, date and SHA-256 are then on the page.
    against : Recommender, path-like, Observations, sparse matrix or array, optional
        A second recommender, or its file, for a comparison on the test entries that both know. Without ``test`` both
        are refitted without the held-out entries. Or entries of a second test set, such as those of a later period,
        for a comparison of the same model on both test sets.

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
    writable(path)  # refuse an unwritable path before the work
    report = make_report(
        recommender,
        test,
        title=title,
        random_state=random_state,
        unknown=unknown,
        model_file=model_file,
        against=against,
    )
    return report.write(path)


def render(facts: dict[str, Any]) -> str:
    """Return the page with given facts."""
    environment = templates()
    sections = {n: t for n, t in SECTIONS.items() if n != "against" or facts[n] is not None}
    style, script = (_join_files(environment, names) for names in (STYLE, SCRIPTS))
    # Browsers run this script alone and load nothing, whatever the page contains.
    policy = f"default-src 'none'; style-src '{_policy_hash(style)}'; script-src '{_policy_hash(script)}'"
    return environment.get_template("page.html").render(
        facts,
        sections=sections,
        drawn=rounded_values(facts),
        style=style,
        script=script,
        policy=policy,
        version=__version__,
    )


def templates() -> Environment:
    """Return the environment of the templates: values are escaped, and an undefined name is an error."""
    environment = Environment(
        loader=PackageLoader("tribit.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "with_article": with_article,
        "with_noun": with_noun,
        "decimal": lambda value, digits: "" if value is None else f"{value:.{digits}f}",
        "percent": percent,
        "with_sign": with_sign,
        "thousands": "{:,}".format,
    }
    # The filter tojson escapes all characters that could end a script or start a comment.
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment


def rounded_values(values: object) -> Any:
    """Return values for JSON: rounded numbers, None for NaN and infinities."""
    return as_json_values(values, _round)


def _round(value: object) -> object:
    if not isinstance(value, float) or not math.isfinite(value):
        return finite_or_none(value)
    rounded = float(f"{value:.{N_DIGITS}g}")
    # An integer is shorter, and has no negative zero.
    return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded


def _join_files(environment: Environment, names: tuple[str, ...]) -> Markup:
    """Return the concatenated files of the package, unescaped."""
    assert environment.loader is not None
    sources = [environment.loader.get_source(environment, name)[0] for name in names]
    return Markup("".join(sources))  # noqa: S704 - style and scripts of the package alone


def _policy_hash(text: str) -> str:
    """Return the hash by which a content security policy allows a script or style."""
    found = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(found).decode('ascii')}"
