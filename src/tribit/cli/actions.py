"""Actions of the commands, for paths and typed values: fit a table, ask, update or report on a saved recommender."""

from __future__ import annotations

import os
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tribit.completion.estimator import BinaryMatrixCompletion
from tribit.data.reading import Reading, Records
from tribit.errors import InvalidInputError, parameter
from tribit.model.spec import AUTO
from tribit.questions import QUESTIONS, kinds
from tribit.questions.base import OMIT, Field, fields_of
from tribit.questions.changes import Incorporate
from tribit.recommender import Recommender

if TYPE_CHECKING:
    from tribit.report.page import Report

PathLike: TypeAlias = str | os.PathLike[str]
#: Rules of reading that are no parameters of the model.
READING_RULES = tuple(
    each.name for each in fields(Reading) if each.name not in {"like_at", "notes"}
)
#: Rules of reading that apply to a folder of parquet files.
PARQUET_RULES = ("row", "column", "value", "like_at", "duplicates")


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
    """Fit a recommender on a table of observed entries.

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
        recommender.fit(records.observations(), **options)
        recommender.reading_ = records.reading
        return recommender
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
    from tribit.cluster import connect, from_parquet  # noqa: PLC0415 - an extra

    there = "://" in os.fspath(path) or Path(path).is_dir()
    if there:
        _check_rules(reading)
    with connect(scheduler) as client:  # first, as reading may take minutes
        if there:
            X: Any = from_parquet(
                path, client, **{name: getattr(reading, name) for name in PARQUET_RULES}
            )
        else:
            records = reading.records(path, max_size=max_size)
            reading = records.reading
            X = records.observations()
        recommender.fit(X, client=client, **options)
    recommender.reading_ = reading
    return recommender


def _check_rules(reading: Reading) -> None:
    """Refuse rules that do not apply to a folder of parquet files."""
    for each in fields(reading):
        if (
            each.name not in (*PARQUET_RULES, "notes")
            and getattr(reading, each.name) != each.default
        ):
            raise InvalidInputError(
                f"{parameter(each.name)} does not apply to a folder of parquet files, whose values are +1 and -1 or "
                "ratings; leave it out."
            )
    if reading.row is None or reading.column is None:
        raise InvalidInputError(
            f"A folder of parquet files needs {parameter('row')} and {parameter('column')}, the names of its columns "
            "of ids."
        )


def answer_question(name: str, model: Path, values: dict[str, Any], rules: dict[str, Any]) -> Any:
    """Return the answer of a saved recommender, after changes by new entries and features.

    ``values`` are those of the command's options; ``rules`` replace rules of reading of the fit.
    """
    question = QUESTIONS[name].load()
    fields_given = [
        each
        for each in fields_of(question)
        if each.default_of("command") is not OMIT and each.name in values
    ]
    for each in fields_given:
        if kinds.kind_of(each.hint) is None:
            each.check(values[each.name])  # before the work
    recommender = Recommender.load(model)
    given = {
        each.name: _parse(each, values[each.name], recommender, rules) for each in fields_given
    }
    if question.after_changes:
        change = Incorporate(
            **{
                each.name: _parse(each, values.get(each.name), recommender, rules)
                for each in fields_of(Incorporate)
            }
        )
        if "rows" in given and given["rows"] is None and given.get("columns") is None:
            given["rows"] = change.rows(recommender)
        if "exclude_seen" in given and recommender.seen_ is None and change.entries is not None:
            given["exclude_seen"] = given["exclude_seen"] or change.entries
        recommender = change.apply(recommender)
    for each in fields_given:
        ids = given[each.name]
        if kinds.kind_of(each.hint) is kinds.IDS and ids is not None and not each.about.argument:
            axis = recommender.axes_[0 if each.name == "rows" else 1]
            given[each.name] = ids.split(axis)
    known = {
        each.name: each.default_of("command")
        for each in fields_of(question)
        if each.default_of("command") not in (OMIT, MISSING)
    }
    known |= {
        each.name: given[each.name]
        for each in fields_given
        # None is the default for ids and tables, and "none" for a plain value.
        if given[each.name] is not None or kinds.kind_of(each.hint) is None
    }
    return question(**known).answer(recommender)


def _parse(of: Field, value: Any, recommender: Recommender, rules: dict[str, Any]) -> Any:
    """Return the value of a field for typed words: ids as texts, paths as records or tables."""
    kind = kinds.kind_of(of.hint)
    if value is None or kind is None:
        return value
    if kind is kinds.IDS:
        texts = (value,) if isinstance(value, str) else tuple(value)
        return kinds.Texts(texts) if texts else None
    if kind is kinds.TABLE:
        return kinds.features_from(value, rules.get("max_size"))
    return _read(recommender, value, rules, pairs=kind is kinds.PAIRS)


def _read(
    recommender: Recommender, path: Path, rules: dict[str, Any], *, pairs: bool = False
) -> Records:
    """Return the records of a table, or its pairs of ids alone, read as that of the fit but for some rules."""
    changed = {name: value for name, value in rules.items() if name != "max_size"}
    reading = kinds.reading_for(recommender, **changed)
    read = reading.pairs if pairs else reading.records
    return read(path, max_size=rules.get("max_size"))


def update_file(
    model: Path, file: Path, out: Path, tables: tuple[Path | None, ...], rules: dict[str, Any]
) -> tuple[Recommender, Recommender]:
    """Write a recommender with the entries of a further table; return the one before and the new one."""
    before = Recommender.load(model)
    records = _read(before, file, rules)
    features = (kinds.features_from(path, rules.get("max_size")) for path in tables)
    after = Incorporate(records, *features).apply(before)
    after.save(out)
    return before, after


def report_file(
    model: Path, out: Path, test: Path | None, unknown: str, rules: dict[str, Any], **options: Any
) -> tuple[Report, int]:
    """Write the report of a recommender; return it and the number of test records that were left out."""
    from tribit.report.page import write_report  # noqa: PLC0415 - other questions need no report

    recommender = Recommender.load(model)
    entries, n_skipped = None, 0
    if test is not None:
        records = _read(recommender, test, rules)
        entries, n_skipped = kinds.known_entries(recommender, records, unknown)
    return write_report(recommender, out, entries, **options), n_skipped
