"""Answers to what was typed: a saved recommender is read, changed and asked."""

from __future__ import annotations

from dataclasses import MISSING
from pathlib import Path
from typing import Any

from tribit.questions import QUESTIONS, kinds
from tribit.questions.base import OMIT, Field, fields_of
from tribit.questions.changes import Incorporate
from tribit.questions.kinds import kind_of
from tribit.recommender import Recommender


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
