"""Summary of a fit in a few lines: the data, the model family that was chosen, and its quality beside two baselines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tribit.errors import Message, with_mentions
from tribit.evaluation.held_out import BASE_RATE, BIASES, POPULARITY, Evaluation
from tribit.model.fitted import LIKE
from tribit.nouns import Nouns, with_article, with_noun
from tribit.questions.info import time_facts
from tribit.report.wording import describe_choice, percent
from tribit.selection.record import DONE

if TYPE_CHECKING:
    from tribit.recommender import Recommender

Measures = Mapping[str, float | None]

#: Advice where nothing was held out.
NOT_MEASURED = "not measured: fit with --hold-out 0.1, or evaluate the model on a test set"


def fit_facts(recommender: Recommender) -> dict[str, str]:
    """Return names and facts of a fit, as ``tribit fit`` prints them."""
    model, words = recommender.model_, Nouns.of(recommender.reading_)
    facts = {"data": _data(recommender, words), "model": _model(recommender)}
    facts |= time_facts(recommender)
    if model.fitted_.meaning != LIKE:
        facts["probabilities"] = Message(f"of {with_mentions(model.fitted_.meaning)}")
    facts |= _quality(recommender, words)
    if not model.converged_:
        facts["not converged"] = model.stop_reason_
    return facts


def _data(recommender: Recommender, words: Nouns) -> str:
    """Return the size of the table and its base rate."""
    n_rows, n_columns = recommender.model_.shape_
    likes, dislikes = (recommender.summary_[name] for name in ("likes", "dislikes"))
    n = likes + dislikes
    labels = f"{with_noun(likes, 'like')} and {with_noun(dislikes, 'dislike') if dislikes else 'no dislikes'}"
    seen, weights = recommender.seen_, ""
    base_rate = likes / n
    if seen is not None and seen.weights is not None:
        base_rate, weights = seen.base_rate, f"; weights {seen.weight_text()}"
    rate = f" (base rate {percent(base_rate)})" if likes and dislikes else ""
    zeros = recommender.reading_.zero_text()
    return (
        f"{with_noun(n_rows, words.row)} and {with_noun(n_columns, words.column)}; {labels}{rate}, "
        f"{percent(n / (n_rows * n_columns))} of all pairs{weights}{f'; {zeros}' if zeros else ''}"
    )


def _model(recommender: Recommender) -> str:
    """Return the chosen model family with its validation score and that of the next best."""
    search, spec = recommender.model_.search_, recommender.model_.spec_
    if search is None:
        return f"{spec}, as given"
    if search.best is None:
        return Message(f"{spec}; not tuned: {with_mentions(search.stop_reason)}")
    text = describe_choice(search)
    if search.stack is not None:
        n = len(search.stack.members)
        text += f"; the weighted mean of {n} fits has {search.stack.score:.4f}"
    if not search.stop_reason.startswith(DONE):
        text += f"; the search ended early: {with_mentions(search.stop_reason)}"
    return Message(text)


def _quality(recommender: Recommender, words: Nouns) -> dict[str, str]:
    """Return the error rate and the AUC beside the baselines: on held-out entries, else on the validation set."""
    found, validation = recommender.evaluation_, recommender.summary_["validation"]
    if found is not None:
        return quality_lines(found, words, "held-out")
    if validation is None:
        return {"quality": NOT_MEASURED}
    several = f"{validation['entries']:,} validation"
    return _lines(validation, validation["baselines"], "auc", several, words)


def quality_lines(found: Evaluation, words: Nouns, kind: str) -> dict[str, str]:
    """Return error rate, AUC and recall of an evaluation beside the baselines; ``kind`` is that of its entries."""
    name = "auc" if found.unseen is None else "unseen_auc"
    baselines = {title: each.measures for title, each in found.baselines.items()}
    measures = {
        measure: value
        for measure, value in found.measures().items()
        if value is not None and math.isfinite(value)
    }
    lines = _lines(measures, baselines, name, f"{found.n_entries:,} {kind}", words)
    lists, popular = found.lists, found.measures_of(POPULARITY).get("lists_recall")
    if lists is not None and popular is not None:
        lines[f"recall@{lists.n}"] = (
            f"{percent(lists.recall)} of the {kind} likes of {with_article(words.row)} are in the top-{lists.n} list; "
            f"by popularity {percent(popular)}"
        )
    return lines


def _lines(
    measures: Mapping[str, Any],
    baselines: Mapping[str, Measures],
    auc: str,
    several: str,
    words: Nouns,
) -> dict[str, str]:
    titles = {BIASES: words.biases, BASE_RATE: "the more frequent label"}

    def beside(name: str, titles: Mapping[str, str]) -> str:
        values = {title: baselines.get(key, {}).get(name) for key, title in titles.items()}
        shown = [
            f"{title} {percent(value)}" for title, value in values.items() if value is not None
        ]
        return f"; {', '.join(shown)}" if shown else ""

    found = {}
    both = measures.get("error_rate") is not None and auc == "auc"
    if both:
        error = percent(measures["error_rate"])
        found["error rate"] = f"{error} of {several} entries{beside('error_rate', titles)}"
    if measures.get(auc) is not None:
        ranked = (
            "a like ranks above a dislike"
            if both
            else f"one of {several} likes ranks above an unseen pair"
        )
        alone = {BIASES: words.biases}
        found["AUC"] = f"{percent(measures[auc])}, how often {ranked}{beside(auc, alone)}"
    return found
