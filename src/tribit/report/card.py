"""The model card of a page: the meaning of a like, the data, the fit, the file, and intended and unsuitable uses."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tribit.errors import quoted
from tribit.evaluation.held_out import Evaluation
from tribit.nouns import Nouns, with_article, with_noun
from tribit.report.summary import quality_lines
from tribit.report.wording import name_of, percent

if TYPE_CHECKING:
    from tribit.data.reading import Reading
    from tribit.recommender import Recommender

#: Maximum number of words for likes on the card.
MAX_WORDS = 4


def card_facts(
    recommender: Recommender,
    found: Evaluation,
    limits: Sequence[str],
    model_file: str | os.PathLike[str] | None,
) -> dict[str, Any]:
    """Return the lines of the card by name, those with code, and the measures beside the baselines."""
    words, summary = Nouns.of(recommender.reading_), recommender.summary_
    origin = summary.get("origin", {})
    alone = found.unseen is not None and summary.get("likes", 1) > 0
    lines = {
        "A like is": describe_like(recommender.reading_, words, alone=alone),
        "Data": describe_table(recommender, words, origin.get("files", [])),
        "Model": str(recommender.model_.spec_),
        "Intended use": describe_use(recommender, words),
        "Unsuitable uses": " ".join(f"{text.partition(':')[0]}." for text in limits),
    }
    if versions := summary.get("versions"):
        lines["Fitted by"] = f"tribit {versions['tribit']} on Python {versions['python']}"
    code = {"Command": "\n".join(origin["commands"])} if origin else {}
    if model_file is not None:
        path = Path(model_file)
        written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        lines["Model file"] = f"{name_of(path.name)}, written on {written:%Y-%m-%d}"
        with path.open("rb") as file:
            code["SHA-256 of the file"] = hashlib.file_digest(file, "sha256").hexdigest()
    return {"lines": lines, "code": code, "quality": quality_lines(found, words, "test")}


def describe_like(reading: Reading, words: Nouns, *, alone: bool) -> str:
    """Return the meaning of a like, by the rules of reading; ``alone`` if likes alone were observed."""
    column = f" under {quoted(name_of(reading.value))}" if reading.value is not None else ""
    if reading.like_at is not None:
        text = f"a value of at least {reading.like_at:g}{column}"
        if reading.dislike_at is not None:
            dislike = f"one of at most {reading.dislike_at:g}; those between are left out"
        else:
            dislike = "a lower one"
    elif reading.like or reading.dislike:
        text = f"{_list_words(reading.like) or 'another value'}{column}"
        dislike = _list_words(reading.dislike) or "another value"
    elif alone:
        text = f"a {words.row}-{words.column} pair in the table"
        return f"{text}{f' with +1, 1, yes or true{column}' if column else ''}; no dislike was observed"
    else:
        text, dislike = f"+1, 1, yes or true{column}", "\N{MINUS SIGN}1, 0, no or false"
    zeros = reading.zero_text()
    return f"{text}; a dislike is {dislike}{f'; {zeros}' if zeros else ''}"


def _list_words(given: Sequence[str] | None) -> str:
    some = [name_of(word) for word in given or ()]
    return ", ".join([*some[:MAX_WORDS], *(["..."] if len(some) > MAX_WORDS else [])])


def describe_table(recommender: Recommender, words: Nouns, files: Sequence[str]) -> str:
    """Return the files of a fit and the size of the data."""
    shape = recommender.model_.shape_
    text = f"{with_noun(shape[0], words.row)} and {with_noun(shape[1], words.column)}"
    summary = recommender.summary_
    if "likes" in summary:
        likes, n = summary["likes"], summary["likes"] + summary["dislikes"]
        rate = f", base rate {percent(likes / n)}" if 0 < likes < n else ""
        text = f"{with_noun(n, 'entry')} of {text}{rate}"
    return f"{', '.join(map(name_of, files))}: {text}" if files else text


def describe_use(recommender: Recommender, words: Nouns) -> str:
    """Return the intended use of a model."""
    model = recommender.model_
    if not model.fitted_.means_like:
        return (
            f"Top-N lists of the {words.columns} that {with_article(words.row)} has not got yet, in the order of the "
            "probability of a new entry."
        )
    pairs = f"all {words.pairs}" if model.target == "all" else f"{words.pairs} like the observed"
    lists = f", and top-N lists of {words.columns}" if recommender.seen_ is not None else ""
    return f"The probability that {with_article(words.row)} likes {with_article(words.column)}, for {pairs}{lists}."
