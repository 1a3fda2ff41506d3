"""Answers to what was typed: a saved recommender is read, changed and asked."""

from __future__ import annotations

from dataclasses import MISSING
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tribit.questions import QUESTIONS, kinds
from tribit.questions.base import OMIT, Field, fields_of
from tribit.questions.changes import Incorporate
from tribit.questions.kinds import kind_of
from tribit.recommender import Recommender

if TYPE_CHECKING:
    from tribit.report import Report


def asked(name: str, model: Path, values: dict[str, Any], rules: dict[str, Any]) -> Any:
    """Return the answer of a saved recommender, after the changes that were asked for.

    ``values`` are those of the options of the command, and ``rules`` say how tables differ from that of the fit.
    """
    question = QUESTIONS[name].load()
    asked_for = [
        each
        for each in fields_of(question)
        if each.default_of("command") is not OMIT and each.name in values
    ]
    for each in asked_for:
        if kind_of(each.hint) is None:
            each.check(values[each.name])  # a wrong option is refused before the work
    recommender = Recommender.load(model)
    given = {each.name: _read(each, values[each.name], recommender, rules) for each in asked_for}
    if question.after_changes:
        change = Incorporate(
            **{
                each.name: _read(each, values.get(each.name), recommender, rules)
                for each in fields_of(Incorporate)
            }
        )
        if "rows" in given and given["rows"] is None and given.get("columns") is None:
            given["rows"] = change.rows(recommender)
        if "exclude_seen" in given and recommender.seen_ is None and change.entries is not None:
            given["exclude_seen"] = given["exclude_seen"] or change.entries
        recommender = change.apply(recommender)
    known = {
        each.name: each.default_of("command")
        for each in fields_of(question)
        if each.default_of("command") not in (OMIT, MISSING)
    }
    known |= {
        each.name: given[each.name]
        for each in asked_for
        # No ids or table is the default; of a plain value it is what was typed: none.
        if given[each.name] is not None or kind_of(each.hint) is None
    }
    return question(**known).answer(recommender)


def _read(of: Field, value: Any, recommender: Recommender, rules: dict[str, Any]) -> Any:
    """Return what was typed as the question takes it: ids as texts, paths as records or tables."""
    kind = kind_of(of.hint)
    if value is None or kind is None:
        return value
    if kind is kinds.IDS:
        texts = (value,) if isinstance(value, str) else tuple(value)
        return kinds.Texts(texts) if texts else None
    options = dict(rules)
    max_size = options.pop("max_size", None)
    if kind is kinds.TABLE:
        return kinds.features_from(value, max_size)
    reading = kinds.reading_of(recommender, **options)
    read = reading.pairs if kind is kinds.PAIRS else reading.records
    return read(value, max_size=max_size)


def updated(
    model: Path, file: Path, out: Path, tables: tuple[Path | None, ...], rules: dict[str, Any]
) -> tuple[Recommender, Recommender]:
    """Write a recommender that knows the entries of a further table; return it behind the one before."""
    before, options = Recommender.load(model), dict(rules)
    max_size = options.pop("max_size", None)
    records = kinds.reading_of(before, **options).records(file, max_size=max_size)
    features = (kinds.features_from(path, max_size) for path in tables)
    after = Incorporate(records, *features).apply(before)
    after.save(out)
    return before, after


def reported(
    model: Path, out: Path, test: Path | None, rules: dict[str, Any], **options: Any
) -> tuple[Report, int]:
    """Write the report of a recommender; return it, and how many records of the test were left out."""
    from tribit.report import write_report  # noqa: PLC0415 - other questions need no report

    recommender, told = Recommender.load(model), dict(rules)
    max_size, unknown = told.pop("max_size", None), told.pop("unknown")
    entries, n_skipped = None, 0
    if test is not None:
        records = kinds.reading_of(recommender, **told).records(test, max_size=max_size)
        entries, n_skipped = kinds.known_entries(recommender, records, unknown)
    return write_report(recommender, out, entries, **options), n_skipped
