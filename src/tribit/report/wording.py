"""Words of a page: nouns for rows and columns, ids and numbers as text, and sentences on the data and the model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from scipy.special import ndtri

from tribit.data.axis import Axis, Positions
from tribit.errors import printable
from tribit.evaluation.held_out import BASE_RATE, BIASES, POPULARITY, Evaluation
from tribit.model.fitted import LIKE
from tribit.nouns import Nouns, with_article, with_noun

if TYPE_CHECKING:
    from tribit.completion.estimator import BinaryMatrixCompletion
    from tribit.model.spec import ModelSpec
    from tribit.selection.record import Search

#: Maximum length of a name, and the lengths of the two ends of a shortened one: a page has thousands of names, and a
#: phone shows forty letters.
MAX_NAME_LENGTH, HEAD, TAIL = 60, 40, 15
#: Minimum number of test entries for a precise measurement: with 100, the interval of a share reaches a tenth to either
#: side.
MIN_TEST_ENTRIES = 100
#: Minimum number of entries in the median row for a good estimate of its factors.
MIN_MEDIAN_ENTRIES = 5
#: Maximum share of entries in the most popular tenth of the columns without a warning.
MAX_HEAD_SHARE = 0.3
#: Minimum number of test entries to show the calibration error: with fewer, ten bins have under 20 entries each, and
#: most of the error is sampling noise.
MIN_FOR_CALIBRATION = 200

#: Meaning of each measure of an evaluation, in a line.
MEANINGS = {
    "error_rate": "share of test entries whose more probable label is wrong; lower is better",
    "log_loss": "mean of -log P(observed label), large for confident errors; lower is better",
    "auc": "how often a random like is ranked above a random dislike; 0.5 is a random order, 1 perfect",
    "calibration_error": "mean distance between predicted probabilities and shares of likes, in ten bins",
    "ndcg": "order of the test entries of each {row}, in which likes at the top count most; 1 is perfect",
    "lists_ndcg": "the same for top-N lists, with test likes as likes and all else as misses",
    "lists_precision": "share of the places of a top-N list that are test likes",
    "lists_recall": "share of the test likes of {a_row} that are in the top-N list",
    "lists_dislikes_per_like": "test dislikes / test likes shown, summed over the lists of each {row} with a test like",
    "lists_coverage": "share of all {columns} that are in at least one top-N list",
    "lists_novelty": "mean of -log2(share of {rows} with an entry of the {column}) over the places, in bits",
    "lists_popularity": "mean share of {columns} with fewer entries than the one in a place; 0.5 is average",
    "unseen_auc": "how often a test entry is ranked above an unseen pair; 0.5 is a random order, 1 perfect",
    "unseen_average_precision": "mean share of test entries among the pairs ranked as high as a test entry",
}

Facts = Mapping[str, Any]


def name_of(value: object) -> str:
    """Return an id as text, shortened, with escapes for control and direction characters."""
    text = str(value)
    if len(text) > MAX_NAME_LENGTH:  # before escapes, which lengthen the text
        text = f"{text[:HEAD]}…{text[-TAIL:]}"
    text = printable(text)
    return text if len(text) <= MAX_NAME_LENGTH else f"{text[:HEAD]}…{text[-TAIL:]}"


def names_at(axis: Axis, positions: Positions) -> list[str]:
    """Return the ids at positions as text; without ids "row 3"."""
    if axis.ids is None:
        return [f"{axis.name} {place}" for place in positions.tolist()]
    return [name_of(name) for name in axis.names(positions).tolist()]


def with_sign(value: float, digits: int) -> str:
    """Return a number with its sign, with a typographic minus."""
    return f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def percent(share: float, digits: int = 1) -> str:
    """Return a share in percent; shares below 0.1% have two significant digits."""
    value = 100.0 * share
    return f"{value:.{digits}f}%" if value == 0 or value >= 0.1 else f"{value:.2g}%"


def baseline_name(name: str, words: Nouns) -> str:
    """Return the name of a baseline on the page."""
    return words.biases if name == BIASES else name


def describe_data(facts: Facts | None, shape: tuple[int, int], words: Nouns) -> str:
    """Return sentences on the size of the data, the base rate and the medians."""
    size = f"{with_noun(shape[0], words.row)} and {with_noun(shape[1], words.column)}"
    if facts is None:
        return f"The model knows {size}. It does not keep the entries that it was fitted on."
    likes, dislikes, median = facts["likes"], facts["dislikes"], facts["median"]
    n = likes + dislikes
    if not dislikes:
        labels = "All of them are likes; no dislike was observed."
    elif not likes:
        labels = "All of them are dislikes; no like was observed."
    else:
        labels = f"{likes:,} are likes and {dislikes:,} dislikes (base rate {percent(likes / n)})."
    return (
        f"The data have {size}, with {with_noun(n, 'entry')}: {percent(facts['density'])} of all {words.pairs}. "
        f"{labels} The median {words.row} has {median['row']:g} entries, the median {words.column} "
        f"{median['column']:g}."
    )


def describe_quality(found: Evaluation, words: Nouns) -> list[str]:
    """Return sentences on the measures of the model and of the baselines."""
    if found.unseen is not None:
        return [_describe_unseen(found, words)]
    texts = [_describe_errors(found, words)]
    if (comparison := _compare_with_biases(found, words)) is not None:
        texts.append(comparison[1])
    if found.auc is not None:
        ends = found.intervals.get("auc")
        about = "" if ends is None else f" ({percent(ends[0])} to {percent(ends[1])})"
        texts.append(
            f"The AUC, the probability that it ranks a like above a dislike, is {percent(found.auc)}{about}"
            f"{_baseline_clause(found, 'auc', BIASES, words.biases)}."
        )
    if found.calibration_error is not None and found.n_entries >= MIN_FOR_CALIBRATION:
        texts.append(
            f"Its probabilities are off by {percent(found.calibration_error)} on average (calibration error)."
        )
    return texts


def _describe_errors(found: Evaluation, words: Nouns) -> str:
    text = (
        f"On {with_noun(found.n_entries, 'test entry')} of {with_noun(found.n_rows, words.row)} the error rate of the "
        f"model is {percent(found.error_rate)}"
    )
    if (ends := found.intervals.get("error_rate")) is not None:
        text += f" ({100 * found.level:g}% interval: {percent(ends[0])} to {percent(ends[1])})"
    biases = _baseline_clause(found, "error_rate", BIASES, words.biases)
    return f"{text}{biases}{_baseline_clause(found, 'error_rate', BASE_RATE, 'the more frequent label')}."


def _compare_with_biases(found: Evaluation, words: Nouns) -> tuple[bool, str] | None:
    """Return whether the model has a significantly lower log-loss than biases, and a sentence on it."""
    baseline = found.baselines.get(BIASES)
    if baseline is None or "log_loss" not in baseline.differences:
        return None
    difference, error = baseline.differences["log_loss"]
    reach = float(ndtri(0.5 + found.level / 2)) * error
    low, high = difference - reach, difference + reach
    numbers = (
        f"(difference of the log-loss {with_sign(difference, 4)}, {100 * found.level:g}% interval "
        f"{with_sign(low, 4)} to {with_sign(high, 4)})"
    )
    if high < 0:
        return True, f"It is better than {words.biases} {numbers}."
    if low > 0:
        return False, f"It is worse than {words.biases} {numbers}: use these, or check the data."
    return False, f"It does not differ significantly from {words.biases} {numbers}."


def _describe_unseen(found: Evaluation, words: Nouns) -> str:
    report = found.unseen
    assert report is not None
    if not report.n_unseen:
        return (
            "One label alone was observed, for every pair: no unseen pair is left to compare with."
        )
    return (
        "One label alone was observed. The AUC, the probability that the model ranks one of "
        f"{with_noun(report.n_entries, 'test entry')} above one of {with_noun(report.n_unseen, 'unseen pair')}, is "
        f"{percent(report.auc)}{_baseline_clause(found, 'unseen_auc', BIASES, words.biases)}."
    )


def _baseline_clause(found: Evaluation, measure: str, name: str, shown: str) -> str:
    baseline = found.baselines.get(name)
    value = None if baseline is None else baseline.measures.get(measure)
    return "" if value is None else f"; that of {shown} is {percent(value)}"


def describe_lists(found: Evaluation, words: Nouns) -> str | None:
    """Return a sentence on the test likes in top-N lists."""
    lists = found.lists
    if lists is None:
        return None
    text = (
        f"Top-{lists.n} recommendations for {with_noun(lists.n_users, words.row)} with a test like find "
        f"{lists.likes_shown:,} such likes (mean recall {percent(lists.recall)}"
    )
    popular = found.measures_of(POPULARITY).get("lists_recall")
    text += f"; by popularity {percent(popular)})" if popular is not None else ")"
    if lists.dislikes_per_like is not None and found.unseen is None:
        text += f", and show {lists.dislikes_per_like:.2f} test dislikes for each"
    return f"{text}."


def describe_search(search: Search | None, spec: ModelSpec) -> str:
    """Return sentences on the model family that was chosen, and on the next best."""
    if search is None or search.best is None:
        return f"No hyperparameters were searched: the model is {spec}."
    text = (
        f"The search tried {with_noun(len(search.candidates), 'candidate')} of "
        f"{with_noun(len(search.families()), 'model family')}. It chose {describe_choice(search)}."
    )
    stack = search.stack
    return text if stack is None else f"{text} The model is {stack}."


def describe_choice(search: Search) -> str:
    """Return the model family that was chosen, with its validation score and that of the next best."""
    best, families = search.best, search.families()
    assert best is not None
    family = best.settings.family
    text = f"{family}: validation {search.measure.replace('_', '-')} {best.score:.4f}"
    others = [each for name, each in families.items() if name != family]
    if others:
        second = min(others, key=lambda each: each.score)
        gap = second.score - best.score
        share = percent(abs(gap) / best.score) if best.score else f"{abs(gap):.4f}"
        text += f"; {second.settings.family} {second.score:.4f}, {share} "
        text += "more" if gap >= 0 else "less, too little to prefer it"
    return text


def named_measures(found: Evaluation, words: Nouns) -> dict[str, str]:
    """Return the title of each measure, with the noun for a row."""
    return replace(found, nouns=words).titles()


def measure_terms(found: Evaluation, titles: Mapping[str, str], words: Nouns) -> dict[str, str]:
    """Return the meaning of the measures by title, and those of the baselines and of the interval."""
    measures = found.measures()
    terms = {
        titles[name]: meaning.format(a_row=with_article(words.row), **words.to_json())
        for name, meaning in MEANINGS.items()
        if measures.get(name) is not None
    }
    if found.intervals:
        terms[f"{100 * found.level:g}% interval"] = (
            f"range of the measure for other samples of {words.rows} of this size"
        )
    if BASE_RATE in found.baselines:
        terms["base rate"] = "share of likes, predicted for every pair: the simplest baseline"
    if BIASES in found.baselines:
        terms[words.biases] = (
            f"baseline with one number for each {words.row} and each {words.column}, without tastes"
        )
    if POPULARITY in found.baselines:
        terms[POPULARITY] = (
            f"baseline of top-N lists: the {words.columns} with the most likes, the same for all {words.rows}"
        )
    return terms


def hyperparameter_terms(spec: ModelSpec, words: Nouns) -> dict[str, str]:
    """Return the meaning of the hyperparameters that the text of a model names."""
    named = set(re.findall(r"\w+", str(spec)))

    def said(text: str) -> str:
        text = re.sub(r"\b(rows?|columns?)\b", lambda found: words.noun(found[0]), text)
        return text.replace(" [auto]", "").rstrip(".")

    return {
        each.name: said(str(each.metadata["help"]))
        for each in fields(spec)
        if each.name in named and "help" in each.metadata
    }


def describe_limits(
    facts: Facts | None,
    found: Evaluation,
    model: BinaryMatrixCompletion,
    words: Nouns,
    *,
    ranked: bool,
) -> list[str]:
    """Return uses for which the data or the measures show that the model is unsuitable."""
    texts = [_limits_of_meaning(model, words)]
    if facts is not None:
        texts += _limits_of_data(facts, words)
    if found.n_entries < MIN_TEST_ENTRIES:
        texts.append(
            f"Not a precise measurement: the test set has {with_noun(found.n_entries, 'entry')}, and all measures have "
            "wide intervals."
        )
    if (comparison := _compare_with_biases(found, words)) is not None and not comparison[0]:
        compared = comparison[1].removeprefix("It")
        texts.append(f"Not for individual tastes of {words.rows}: the model{compared}")
    if found.unseen is None and not ranked:
        texts.append(
            f"Not for predicting the {words.columns} that {with_article(words.row)} will be exposed to: there is no "
            "ranker, and recommendations are ordered by the probability of a like alone."
        )
    texts.append(
        "Not for causal claims: explanations name the entries that contribute to a score, not the reasons of a taste."
    )
    return texts


def _limits_of_meaning(model: BinaryMatrixCompletion, words: Nouns) -> str:
    meaning = model.fitted_.meaning
    if meaning != LIKE:
        return (
            "Not for distinguishing likes from dislikes: one label alone was observed, and a probability is that of "
            f"{meaning}. An unseen pair is not a dislike."
        )
    if model.target != "all":
        return (
            "Not for all pairs: observed entries are self-selected, and probabilities are calibrated on pairs like the "
            f'observed ones. For all {words.pairs} fit with target="all".'
        )
    return (
        "Not without its assumption: for pairs unlike the observed ones the model relies on estimated propensities, "
        "which no test entry can check."
    )


def _limits_of_data(facts: Facts, words: Nouns) -> list[str]:
    texts = []
    for side, other in (("row", "column"), ("column", "row")):
        median, empty = facts["median"][side], facts["empty"][side]
        if median < MIN_MEDIAN_ENTRIES:
            texts.append(
                f"Not for fine differences between {words.noun(side + 's')}: half of them have at most {median:g} "
                f"entries, and their predictions rest mostly on their {words.noun(other + 's')}."
            )
        if empty:
            texts.append(
                f"Not for {with_noun(empty, words.noun(side))} without any entry (cold start): the data hold no "
                "information about them."
            )
    if facts["head"]["column"] > MAX_HEAD_SHARE and facts["columns"] >= 10:
        texts.append(
            f"Not equally good everywhere: the most popular tenth of the {words.columns} has "
            f"{percent(facts['head']['column'], 0)} of the entries, and dominates the measures."
        )
    return texts
