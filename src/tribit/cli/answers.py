"""Answers of the commands that ask a saved recommender, for paths and typed values; no estimator is imported."""

from __future__ import annotations

from dataclasses import MISSING
from pathlib import Path
from typing import Any

from tribit.data.reading import Reading, Records
from tribit.data.sources import is_standard
from tribit.data.tables import has_table_ending
from tribit.fitted_recommender import FittedRecommender, SeenTable
from tribit.questions import QUESTIONS, kinds
from tribit.questions.base import OMIT, Field, fields_of
from tribit.questions.changes import Incorporate

#: Fields with ids of columns; others have ids of rows.
OF_COLUMNS = ("columns", "among")


def answer_question(name: str, model: Path, values: dict[str, Any], rules: dict[str, Any]) -> Any:
    """Return the answer of a saved recommender, after changes by new entries and features.

    ``values`` are those of the command's options; ``rules`` replace rules of reading of the fit.
    """
    question = QUESTIONS[name].load()
    model, values = question.sources(model, values)
    fields_given = [
        each
        for each in fields_of(question)
        if each.default_of("command") is not OMIT and each.name in values
    ]
    for each in fields_given:
        if kinds.kind_of(each.hint) is None:
            each.check(values[each.name])  # before the work
    recommender = _recommender(model, rules, of_entries=QUESTIONS[name].of_entries)
    given = {
        each.name: _parse(each, values[each.name], recommender, rules) for each in fields_given
    }
    if question.after_changes:
        change = Incorporate(
            **{
                each.name: _parse(each, values.get(each.name), recommender, rules)
                for each in fields_of(Incorporate)
                if each.default_of("command") is not OMIT
            },
            new_columns="error" if values.get("unknown") == "error" else "warn",
        )
        if "rows" in given and given["rows"] is None and given.get("columns") is None:
            given["rows"] = change.rows(recommender)
        if "exclude_seen" in given and recommender.seen_ is None and change.entries is not None:
            given["exclude_seen"] = given["exclude_seen"] or change.entries
        recommender = change.apply(recommender)
    for each in fields_given:
        ids = given[each.name]
        if kinds.kind_of(each.hint) is kinds.IDS and ids is not None and not each.about.argument:
            given[each.name] = ids.split(recommender.axes_[each.name in OF_COLUMNS])
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


def _recommender(path: Path, rules: dict[str, Any], *, of_entries: bool) -> FittedRecommender:
    """Return a saved recommender or, for a question about entries alone, a table."""
    if not of_entries or not ("format" in rules or is_standard(path) or has_table_ending(path)):
        return FittedRecommender.load(path)
    given = dict(rules)
    max_size = given.pop("max_size", None)
    return SeenTable.of(Reading(**given).records(path, max_size=max_size))


def _parse(of: Field, value: Any, recommender: FittedRecommender, rules: dict[str, Any]) -> Any:
    """Return the value of a field for typed words: ids as texts, paths as records or tables."""
    kind = kinds.kind_of(of.hint)
    if value is None or kind is None:
        return value
    if kind is kinds.IDS:
        texts = (value,) if isinstance(value, str) else tuple(value)
        return kinds.Texts(texts) if texts else None
    if kind is kinds.TABLE:
        return kinds.features_from(value, rules.get("max_size"))
    return read_records(recommender, value, rules, pairs=kind is kinds.PAIRS)


def read_records(
    recommender: FittedRecommender, path: Path, rules: dict[str, Any], *, pairs: bool = False
) -> Records:
    """Return the records of a table, or its pairs of ids alone, read as that of the fit but for some rules."""
    changed = {name: value for name, value in rules.items() if name != "max_size"}
    reading = kinds.reading_for(recommender, **changed)
    read = reading.pairs if pairs else reading.records
    return read(path, max_size=rules.get("max_size"))
