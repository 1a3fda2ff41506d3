"""Sentences of a report: what the data are, how good the model is, which kind of model won, what it is not for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scipy.special import ndtri

from tribit.evaluation import Evaluation
from tribit.model.fitted import LIKE
from tribit.report.names import counted, percent, signed
from tribit.report.wording import Wording, a

#: Held-out entries below which a share has an interval of a tenth to either side, and a reader is told.
FEW_HELD_OUT = 100
#: Entries in the median row below which a row's own tastes are hardly known.
FEW_ENTRIES = 5
#: Share of the entries that the most popular tenth of the columns has from which a reader is told; with entries spread
#: evenly it is a tenth.
TOP_HEAVY = 0.3
#: Held-out entries from which the calibration error is told: of fewer, ten bins have under 20 entries each, and most of
#: the error is chance.
ENOUGH_FOR_BINS = 200
EFFECTS, MAJORITY = "row and column effects", "share of likes"


def of_data(facts: Mapping[str, Any] | None, shape: tuple[int, int], words: Wording) -> str:
    """Return what the data are."""
    size = f"{counted(shape[0], words.row)} and {counted(shape[1], words.column)}"
    if facts is None:
        return f"The model knows {size}. It does not keep the entries that it was fitted on."
    n = facts["likes"] + facts["dislikes"]
    text = f"The data have {size}, with {counted(n, 'entry')}: {percent(facts['density'])} of the cells. "
    if not facts["dislikes"]:
        text += "All of them are likes; no dislike was observed. "
    elif not facts["likes"]:
        text += "All of them are dislikes; no like was observed. "
    else:
        text += (
            f"{facts['likes']:,} are likes and {facts['dislikes']:,} dislikes "
            f"({percent(facts['likes'] / n)} likes). "
        )
    medians = facts["median"]
    return (
        text + f"The median {words.row} has {medians['row']:g} entries, the median {words.column} "
        f"{medians['column']:g}."
    )


def of_spread(facts: Mapping[str, Any] | None, words: Wording) -> str:
    """Return how entries are spread over the table."""
    if facts is None:
        return "The model does not keep the entries that it was fitted on, so that there is nothing to draw."
    text = f"{percent(facts['density'])} of the cells were observed. "
    empty = [
        counted(facts["empty"][side], words.noun(side))
        for side in ("row", "column")
        if facts["empty"][side]
    ]
    if not empty:
        return text + f"Every {words.row} and every {words.column} has an entry."
    return text + f"Without any entry: {' and '.join(empty)}."


def of_settings(facts: Mapping[str, Any] | None, spec: Any) -> str:
    """Return the settings that were chosen."""
    if facts is None:
        return f"Nothing was searched for: the model is {spec}."
    return (
        f"Candidates were compared by {facts['measure']} on {counted(facts['n_held_out'], 'held-out entry')}. "
        f"Chosen: {facts['chosen']}."
    )


def of_quality(found: Evaluation, words: Wording) -> list[str]:
    """Return how good the model is beside the baselines."""
    if found.unseen is not None:
        return _among_unseen(found, words)
    texts = [_signs(found, words)]
    if (verdict := _verdict(found, words)) is not None:
        texts.append(verdict)
    if found.auc is not None:
        text = f"Of a like and a dislike it puts the like first in {percent(found.auc)} of all pairs (AUC"
        ends = found.intervals.get("auc")
        text += ")" if ends is None else f", {percent(ends[0])} to {percent(ends[1])})"
        theirs = _of_baseline(found, EFFECTS, "auc")
        texts.append(
            text + ("." if theirs is None else f"; {words.effects} do in {percent(theirs)}.")
        )
    if found.calibration_error is not None and found.n_entries >= ENOUGH_FOR_BINS:
        texts.append(
            f"Its probabilities are off by {percent(found.calibration_error)} on average (calibration error)."
        )
    return texts


def _signs(found: Evaluation, words: Wording) -> str:
    text = (
        f"On {counted(found.n_entries, 'held-out entry')} of {counted(found.n_rows, words.row)} the model has the "
        f"wrong sign in {percent(found.sign_error)}"
    )
    if (ends := found.intervals.get("sign_error")) is not None:
        text += f" ({100 * found.level:g}% interval: {percent(ends[0])} to {percent(ends[1])})"
    others = []
    if (theirs := _of_baseline(found, EFFECTS, "sign_error")) is not None:
        others.append(f"{words.effects} alone in {percent(theirs)}")
    if (theirs := _of_baseline(found, MAJORITY, "sign_error")) is not None:
        others.append(f"the more frequent label, said of every cell, in {percent(theirs)}")
    return text + (f"; {', '.join(others)}." if others else ".")


def _verdict(found: Evaluation, words: Wording) -> str | None:
    """Return whether the model is better than row and column effects, by log-loss, the measure with least noise."""
    baseline = found.baselines.get(EFFECTS)
    if baseline is None or "log_loss" not in baseline.differences:
        return None
    difference, error = baseline.differences["log_loss"]
    reach = float(ndtri(0.5 + found.level / 2)) * error
    low, high = difference - reach, difference + reach
    numbers = (
        f"(difference of the log-loss {signed(difference, 4)}, {100 * found.level:g}% interval "
    )
    numbers += f"{signed(low, 4)} to {signed(high, 4)})"
    if high < 0:
        return f"It is better than {words.effects} {numbers}."
    if low > 0:
        return (
            f"It is worse than {words.effects} {numbers}: use these, or look for what went wrong."
        )
    return f"It cannot be told from {words.effects} on these entries {numbers}."


def _among_unseen(found: Evaluation, words: Wording) -> list[str]:
    report = found.unseen
    assert report is not None
    if not report.n_unseen:
        return [
            "One label alone was observed, in every cell: there is no other cell to tell it from."
        ]
    text = (
        f"{counted(report.n_entries, 'held-out entry')} of the one label that was observed stand among "
        f"{counted(report.n_unseen, 'unseen cell')}: the model puts one of them before an unseen cell in "
        f"{percent(report.auc)} of all pairs (AUC)"
    )
    theirs = _of_baseline(found, EFFECTS, "unseen_auc")
    return [text + ("." if theirs is None else f"; {words.effects} do in {percent(theirs)}.")]


def _of_baseline(found: Evaluation, name: str, measure: str) -> float | None:
    baseline = found.baselines.get(name)
    return None if baseline is None else baseline.measures.get(measure)


def of_lists(found: Evaluation, words: Wording) -> str | None:
    """Return what lists of ten find."""
    lists = found.lists
    if lists is None:
        return None
    text = (
        f"Lists of {lists.n} for {counted(lists.n_users, words.row)} with a held-out like find {lists.likes_shown:,} "
        f"such likes, {percent(lists.recall)} of those of {a(words.row)} on average"
    )
    if lists.dislikes_per_like is not None and found.unseen is None:
        text += f", and show {lists.dislikes_per_like:.2f} held-out dislikes for each"
    return text + "."


def of_search(facts: Mapping[str, Any] | None, spec: Any) -> str:
    """Return which kind of model won, and by how much."""
    if facts is None:
        return f"Nothing was searched for: the model is {spec}."
    families = facts["families"]
    tried = f"The search tried {counted(facts['n_candidates'], 'candidate')}"
    chosen = next(each for each in families if each["chosen"])
    text = (
        f"{tried} of {counted(len(families), 'kind')} of model on held-out entries. It chose {chosen['name']}, "
        f"with a {facts['measure']} of {chosen['score']:.4f}"
    )
    others = [each for each in families if not each["chosen"]]
    if others:
        second = others[0]
        gap = second["score"] - chosen["score"]
        if gap >= 0:
            text += (
                f"; the next best kind, {second['name']}, has {second['score']:.4f}, {gap:.4f} more"
            )
        else:
            text += (
                f"; {second['name']} has {second['score']:.4f}, {-gap:.4f} less, which is not clearly better for a "
                "richer model"
            )
    text += "."
    return text if facts["average"] is None else f"{text} The model is {facts['average']}."


def limits(
    facts: Mapping[str, Any] | None,
    found: Evaluation,
    model: Any,
    meaning: str,
    words: Wording,
    *,
    ranked: bool,
) -> list[str]:
    """Return what the model is not for, as the data and the measures tell."""
    texts = []
    if meaning != LIKE:
        texts.append(
            f"Not for telling likes from dislikes: one label alone was observed, and a probability here is that of "
            f"{meaning}. A cell that was not seen may be liked by one who has not met it."
        )
    elif model.target != "all":
        texts.append(
            "Not for every cell: entries are missing for reasons (people choose what they rate), and probabilities are "
            'calibrated on cells like the observed ones. For any cell fit with target="all".'
        )
    else:
        texts.append(
            "Not without its assumption: for cells unlike the observed ones the model relies on estimated "
            "propensities, which no held-out entry can check."
        )
    if facts is not None:
        texts += _of_few(facts, words)
    if found.n_entries < FEW_HELD_OUT:
        texts.append(
            f"Not a precise measurement: {counted(found.n_entries, 'held-out entry')} alone, so that every measure "
            "above is known roughly."
        )
    if (verdict := _verdict(found, words)) is not None and "better" not in verdict.split("(")[0]:
        texts.append(f"Not for tastes of single {words.rows}: {verdict[0].lower()}{verdict[1:]}")
    if found.unseen is None and not ranked:
        texts.append(
            f"Not for lists of what {a(words.row)} will come to see: there is no ranker, and lists are ordered by the "
            "probability of a like alone."
        )
    texts.append(
        "Not for causes: reasons say which entries the score rests on, and not why somebody likes something."
    )
    return texts


def _of_few(facts: Mapping[str, Any], words: Wording) -> list[str]:
    texts = []
    for side, other in (("row", "column"), ("column", "row")):
        if facts["median"][side] < FEW_ENTRIES:
            texts.append(
                f"Not for fine differences between {words.noun(side + 's')}: half of them have at most "
                f"{facts['median'][side]:g} entries, and are predicted mostly by their {words.noun(other + 's')}."
            )
        if facts["empty"][side]:
            texts.append(
                f"Not for {counted(facts['empty'][side], words.noun(side))} without any entry: the model knows "
                f"nothing of {'it' if facts['empty'][side] == 1 else 'them'}."
            )
    if facts["head"]["column"] > TOP_HEAVY and facts["columns"] >= 10:
        texts.append(
            f"Not equally good everywhere: the most popular tenth of the {words.columns} has "
            f"{percent(facts['head']['column'], 0)} of the entries, and measures are mostly of these."
        )
    return texts
