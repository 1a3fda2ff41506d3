"""Sentences of a report: the data, how good the model is, how it was chosen, and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scipy.special import ndtri

from tribit.evaluation import Evaluation
from tribit.model.fitted import LIKE
from tribit.report.wording import Wording, a, counted, percent, signed

#: Test entries below which a share has an interval of a tenth to either side.
MIN_PRECISE = 100
#: Entries in the median row below which a row's own tastes are hardly known.
MIN_MEDIAN = 5
#: Share of the entries that the most popular tenth of the columns has, from which popularity is a limit.
MAX_HEAD = 0.3
#: Test entries from which the calibration error is shown: of fewer, ten bins have under 20 entries each, and most of
#: the error is chance.
MIN_FOR_BINS = 200
#: Baselines as :func:`tribit.evaluate` names them.
BIASES, MAJORITY = "row and column biases", "base rate"

Facts = Mapping[str, Any]


def baseline_name(name: str, words: Wording) -> str:
    """Return the name of a baseline on the page."""
    return {BIASES: words.biases, MAJORITY: "base rate"}.get(name, name)


def of_data(facts: Facts | None, shape: tuple[int, int], words: Wording) -> str:
    """Return the size of the data, their base rate and medians."""
    size = f"{counted(shape[0], words.row)} and {counted(shape[1], words.column)}"
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
        f"The data have {size}, with {counted(n, 'entry')}: {percent(facts['density'])} of all {words.pairs}. "
        f"{labels} The median {words.row} has {median['row']:g} entries, the median {words.column} "
        f"{median['column']:g}."
    )


def of_quality(found: Evaluation, words: Wording) -> list[str]:
    """Return how good the model is beside the baselines."""
    if found.unseen is not None:
        return [_among_unseen(found, words)]
    texts = [_errors(found, words)]
    if (comparison := _comparison(found, words)) is not None:
        texts.append(comparison[1])
    if found.auc is not None:
        ends = found.intervals.get("auc")
        about = "" if ends is None else f" ({percent(ends[0])} to {percent(ends[1])})"
        texts.append(
            f"The AUC, the probability that it ranks a like above a dislike, is {percent(found.auc)}{about}"
            f"{_of_baseline(found, 'auc', BIASES, words.biases)}."
        )
    if found.calibration_error is not None and found.n_entries >= MIN_FOR_BINS:
        texts.append(
            f"Its probabilities are off by {percent(found.calibration_error)} on average (calibration error)."
        )
    return texts


def _errors(found: Evaluation, words: Wording) -> str:
    text = (
        f"On {counted(found.n_entries, 'test entry')} of {counted(found.n_rows, words.row)} the error rate of the "
        f"model is {percent(found.sign_error)}"
    )
    if (ends := found.intervals.get("sign_error")) is not None:
        text += f" ({100 * found.level:g}% interval: {percent(ends[0])} to {percent(ends[1])})"
    biases = _of_baseline(found, "sign_error", BIASES, words.biases)
    return (
        f"{text}{biases}{_of_baseline(found, 'sign_error', MAJORITY, 'the more frequent label')}."
    )


def _comparison(found: Evaluation, words: Wording) -> tuple[bool, str] | None:
    """Return whether the model beats biases by log-loss, the measure with least noise, and a sentence on it."""
    baseline = found.baselines.get(BIASES)
    if baseline is None or "log_loss" not in baseline.differences:
        return None
    difference, error = baseline.differences["log_loss"]
    reach = float(ndtri(0.5 + found.level / 2)) * error
    low, high = difference - reach, difference + reach
    numbers = (
        f"(difference of the log-loss {signed(difference, 4)}, {100 * found.level:g}% interval "
        f"{signed(low, 4)} to {signed(high, 4)})"
    )
    if high < 0:
        return True, f"It is better than {words.biases} {numbers}."
    if low > 0:
        return False, f"It is worse than {words.biases} {numbers}: use these, or check the data."
    return False, f"It does not differ significantly from {words.biases} {numbers}."


def _among_unseen(found: Evaluation, words: Wording) -> str:
    report = found.unseen
    assert report is not None
    if not report.n_unseen:
        return (
            "One label alone was observed, for every pair: no unseen pair is left to compare with."
        )
    return (
        "One label alone was observed. The AUC, the probability that the model ranks one of "
        f"{counted(report.n_entries, 'test entry')} above one of {counted(report.n_unseen, 'unseen pair')}, is "
        f"{percent(report.auc)}{_of_baseline(found, 'unseen_auc', BIASES, words.biases)}."
    )


def _of_baseline(found: Evaluation, measure: str, name: str, shown: str) -> str:
    baseline = found.baselines.get(name)
    value = None if baseline is None else baseline.measures.get(measure)
    return "" if value is None else f"; that of {shown} is {percent(value)}"


def of_lists(found: Evaluation, words: Wording) -> str | None:
    """Return how many test likes are recommended."""
    lists = found.lists
    if lists is None:
        return None
    text = (
        f"Top-{lists.n} recommendations for {counted(lists.n_users, words.row)} with a test like find "
        f"{lists.likes_shown:,} such likes (mean recall {percent(lists.recall)})"
    )
    if lists.dislikes_per_like is not None and found.unseen is None:
        text += f", and show {lists.dislikes_per_like:.2f} test dislikes for each"
    return f"{text}."


def of_search(facts: Facts | None, spec: Any) -> str:
    """Return which model family was chosen, and by how much."""
    if facts is None:
        return f"No hyperparameters were searched: the model is {spec}."
    families = facts["families"]
    chosen = next(each for each in families if each["chosen"])
    text = (
        f"The search tried {counted(facts['n_candidates'], 'candidate')} of {counted(len(families), 'model family')}. "
        f"It chose {chosen['family']}, with a validation {facts['measure']} of {chosen['score']:.4f}"
    )
    if others := [each for each in families if not each["chosen"]]:
        second = others[0]
        gap = second["score"] - chosen["score"]
        text += f"; {second['family']} has {second['score']:.4f}, {abs(gap):.4f} "
        text += "more" if gap >= 0 else "less: too little to prefer a more complex model"
    return f"{text}." if facts["average"] is None else f"{text}. The model is {facts['average']}."


def limits(
    facts: Facts | None, found: Evaluation, model: Any, words: Wording, *, ranked: bool
) -> list[str]:
    """Return the uses for which the model is not made, judged by the data and the measures."""
    texts = [_of_meaning(model, words)]
    if facts is not None:
        texts += _of_few(facts, words)
    if found.n_entries < MIN_PRECISE:
        texts.append(
            f"Not a precise measurement: the test set has {counted(found.n_entries, 'entry')}, so that every measure "
            "above has a wide interval."
        )
    if (comparison := _comparison(found, words)) is not None and not comparison[0]:
        compared = comparison[1].removeprefix("It")
        texts.append(f"Not for tastes of single {words.rows}: the model{compared}")
    if found.unseen is None and not ranked:
        texts.append(
            f"Not for predicting the {words.columns} that {a(words.row)} will meet: there is no ranker, and "
            "recommendations are ordered by the probability of a like alone."
        )
    texts.append(
        "Not for causes: explanations name the entries that a score rests on, and not why somebody likes something."
    )
    return texts


def _of_meaning(model: Any, words: Wording) -> str:
    meaning = model.fitted_.meaning
    if meaning != LIKE:
        return (
            f"Not for telling likes from dislikes: one label alone was observed, and a probability here is that of "
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


def _of_few(facts: Facts, words: Wording) -> list[str]:
    texts = []
    for side, other in (("row", "column"), ("column", "row")):
        median, empty = facts["median"][side], facts["empty"][side]
        if median < MIN_MEDIAN:
            texts.append(
                f"Not for fine differences between {words.noun(side + 's')}: half of them have at most {median:g} "
                f"entries, and are predicted mostly by their {words.noun(other + 's')}."
            )
        if empty:
            texts.append(
                f"Not for {counted(empty, words.noun(side))} without any entry (cold start): the data hold no "
                "information about them."
            )
    if facts["head"]["column"] > MAX_HEAD and facts["columns"] >= 10:
        texts.append(
            f"Not equally good everywhere: the most popular tenth of the {words.columns} has "
            f"{percent(facts['head']['column'], 0)} of the entries, and dominates the measures."
        )
    return texts
