"""Actions of the commands that fit, update or report, for paths and typed values."""

from __future__ import annotations

import os
import shlex
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tribit.cli.answers import read_records
from tribit.completion.estimator import BinaryMatrixCompletion
from tribit.data.reading import Reading
from tribit.data.sources import STANDARD
from tribit.data.tables import has_table_ending
from tribit.errors import InvalidInputError, parameter
from tribit.model.spec import AUTO
from tribit.questions import kinds
from tribit.questions.changes import Incorporate
from tribit.recommender import Recommender

if TYPE_CHECKING:
    from tribit.report.page import Report

PathLike: TypeAlias = str | os.PathLike[str]
#: Rules of reading that are no parameters of the model.
READING_RULES = tuple(
    each.name for each in fields(Reading) if each.name not in {"like_at", "notes", "settled"}
)


def fit_file(
    path: PathLike,
    *,
    max_size: int | None = None,
    row_features: PathLike | None = None,
    column_features: PathLike | None = None,
    ranker: Any = AUTO,
    keep_seen: bool = True,
    hold_out: float | None = None,
    scheduler: str | None = None,
    **parameters: Any,
) -> Recommender:
    r"""Fit a recommender on a table of observed entries.

    Parameters
    ----------
    path : str or path-like
        A file that :func:`tribit.data.tables.read_table` reads.
    max_size : int, optional
        The most bytes to read; see :func:`tribit.data.reading.observations_from_file`.
    row_features, column_features : str or path-like, optional
        Tables of features of rows and columns, ids in the first column. Tags are separated by ``|``.
    ranker, keep_seen, hold_out
        Of :class:`tribit.Recommender` and its ``fit``.
    scheduler : str, optional
        The address of a dask scheduler, on whose workers to fit. The path may then be a folder of parquet files, which
        the workers read; the recommender then has no ranker and keeps no entries.
    **parameters
        Of :class:`BinaryMatrixCompletion`, and the rules of :class:`tribit.data.reading.Reading`.

    Returns
    -------
    Recommender
        With ``reading_``, the rules for reading the table, its column names among them.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tribit.cli.actions import fit_file
    >>> path = Path("opinions.csv")
    >>> _ = path.write_text("user,item,opinion\nann,tea,yes\nann,milk,no\nbob,tea,yes\n")
    >>> fit_file(path, rank=1, random_state=0).shape_
    (2, 2)
    """
    rules = {name: parameters.pop(name) for name in READING_RULES if name in parameters}
    model = BinaryMatrixCompletion(**parameters)
    reading = Reading(**rules, like_at=model.like_at)
    recommender = Recommender(
        model, ranker=ranker, keep_seen=keep_seen, random_state=model.random_state
    )
    of_rows, of_columns = (
        kinds.features_from(table, max_size) for table in (row_features, column_features)
    )
    options = {"row_features": of_rows, "column_features": of_columns, "hold_out": hold_out}
    if scheduler is None:
        records = reading.records(path, max_size=max_size)
        return recommender.fit(records.observations(), **options)
    return fit_on_cluster(recommender, path, reading, scheduler, options, max_size=max_size)


def fit_on_cluster(
    recommender: Recommender,
    path: str | os.PathLike[str],
    reading: Reading,
    scheduler: str,
    options: dict[str, Any],
    *,
    max_size: int | None = None,
) -> Recommender:
    """Return the recommender, fitted on the workers of the scheduler at an address.

    Parameters
    ----------
    recommender : Recommender
        Not fitted.
    path : str or path-like
        A folder of parquet files (or an address such as ``s3://bucket/folder``), which the workers read; or a file,
        which is read here and cut into partitions.
    reading : Reading
        The rules for reading the table.
    scheduler : str
        The address.
    options : dict
        Of the fit: tables of features of rows and of columns, on this machine, or None.
    max_size : int, optional
        The most bytes to read of a file.
    """
    from tribit.cluster import RULES, check_rules, connect, from_parquet  # noqa: PLC0415 - an extra

    there = "://" in os.fspath(path) or Path(path).is_dir()
    if there:
        check_rules(reading, "a folder of parquet files")
        if reading.row is None or reading.column is None:
            raise InvalidInputError(
                f"A folder of parquet files needs {parameter('row')} and {parameter('column')}, the names of its "
                "columns of ids."
            )
    with connect(scheduler) as client:  # first, as reading may take minutes
        if there:
            X: Any = from_parquet(path, client, **{name: getattr(reading, name) for name in RULES})
        else:
            records = reading.records(path, max_size=max_size)
            reading = records.reading
            X = records.observations()
        recommender.fit(X, client=client, **options)
    recommender.reading_ = recommender.model_.reading_ = reading
    return recommender


def note_origin(
    recommender: Recommender, file: PathLike, command: list[str], *models: Path
) -> None:
    """Add a table and the command that read it to the facts about the data, which a saved recommender keeps.

    Paths of models are MODEL: equal fits give equal files, whatever their names.
    """
    name = os.fspath(file)
    words = ["MODEL" if Path(word) in models else word for word in command]
    known = recommender.summary_.get("origin", {"files": [], "commands": []})
    name = "standard input" if name == STANDARD else Path(name).name
    recommender.summary_["origin"] = {
        "files": [*known["files"], name],
        "commands": [*known["commands"], shlex.join(words)],
    }


def update_file(
    model: Path,
    file: Path,
    out: Path,
    tables: tuple[Path | None, ...],
    rules: dict[str, Any],
    command: list[str],
) -> tuple[Recommender, Recommender]:
    """Write a recommender with the entries of a further table; return the one before and the new one."""
    before = Recommender.load(model)
    records = read_records(before, file, rules)
    features = (kinds.features_from(path, rules.get("max_size")) for path in tables)
    after = Incorporate(records, *features).apply(before)
    if origin := before.summary_.get("origin"):
        after.summary_["origin"] = origin
        note_origin(after, file, command, model, out)
    after.save(out)
    return before, after


def report_file(
    model: Path,
    out: Path,
    test: Path | None,
    against: Path | None,
    rules: dict[str, Any],
    **options: Any,
) -> Report:
    """Write the report of a recommender, and return it; ``against`` is a table if its name ends like one."""
    from tribit.report.page import write_report  # noqa: PLC0415 - other questions need no report

    recommender = Recommender.load(model)
    entries = None if test is None else read_records(recommender, test, rules)
    other: Any = against
    if against is not None and has_table_ending(against):
        other = read_records(recommender, against, rules)
    return write_report(recommender, out, entries, model_file=model, against=other, **options)
