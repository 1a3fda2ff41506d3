"""Facts about a recommender: its data, its hyperparameters and validation scores."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tribit.answers import Answer, as_json_values
from tribit.data.axis import AnyArray
from tribit.data.reading import Reading
from tribit.evaluation.held_out import BASE_RATE, BIASES, Evaluation, base_rate_scores
from tribit.metrics.entries import METRICS, Curve
from tribit.model.fitted import LIKE
from tribit.model.scores import probability_name
from tribit.nouns import Nouns, likes_and_dislikes
from tribit.questions.base import Question
from tribit.selection.record import DONE, HeldOut

if TYPE_CHECKING:
    from tribit.completion.fitted_model import FittedModel
    from tribit.data.observations import Observations
    from tribit.fitted_recommender import FittedRecommender


@dataclass(frozen=True, eq=False, repr=False)
class Facts(Answer):
    """Facts about a recommender, in words and in numbers.

    Attributes
    ----------
    about : dict of str to str
        Names and facts in words, in the order of printing.
    numbers : dict
        The same in numbers, as JSON can hold them; None where a number is unknown:

        - ``rows``, ``columns``, ``likes``, ``dislikes``, ``entries``, ``density`` (the share of cells that was
          observed) and ``base_rate`` (the share of likes among the entries);
        - ``entries_per_row`` and ``entries_per_column``: least, median and most;
        - ``hyperparameters`` by name (``rho`` is a number, or the name of a model of the mask), ``n_members``, and
          ``half_life`` in days;
        - ``search``: ``candidates``, ``entries`` (held out), ``measure``, and the best score of each of the
          ``families``; None without a search;
        - ``validation``: the measures on the validation set, with its ``baselines``; None without one;
        - ``objective``, ``n_iter`` and ``converged``;
        - ``ranker`` and ``entries_kept``, whether there are some; and ``versions``.
    evaluation : Evaluation or None
        Measures on the entries that ``fit(hold_out=)`` held out.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Recommender
    >>> A = np.array([[1, 1, 0, 0], [1, 1, 0, -1], [1, 0, 0, -1], [0, 0, 1, 1], [0, -1, 1, 0]])
    >>> facts = Recommender(random_state=0).fit(A).info()
    >>> facts.about["rows x columns"], facts.numbers["base_rate"]
    ('5 x 4', 0.7272727272727273)
    """

    about: dict[str, str]
    numbers: dict[str, Any]
    evaluation: Evaluation | None = None

    def table(self) -> dict[str, AnyArray]:
        """Return names and facts."""
        facts = self.facts()
        columns = {"name": list(facts), "fact": list(facts.values())}
        return {name: np.array(values, dtype=object) for name, values in columns.items()}

    def facts(self) -> dict[str, str]:
        """Return names and facts, then those of the evaluation."""
        found = self.evaluation
        if found is None:
            return self.about
        origin = f"{found.title()}, held out of the evaluated fit"
        measures = {f"  {name}": fact for name, fact in found.facts().items()}
        # The validation set has baselines of the same names.
        named = {name + " (test)" * (name in self.about): fact for name, fact in measures.items()}
        return {**self.about, "test set": origin, **named}

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, the evaluation, and under "facts" the facts in words."""
        evaluation = None if self.evaluation is None else self.evaluation.to_dict()
        return {**self.numbers, "evaluation": evaluation, "facts": self.about}

    def text(self, most: int | None = None) -> str:
        """Return names and facts in two columns."""
        del most
        facts = self.facts()
        width = max(map(len, facts))
        return "\n".join(f"{name:<{width}}  {fact}" for name, fact in facts.items())


@dataclass(frozen=True, eq=False)
class Info(Question[Facts]):
    """Return the model, its hyperparameters and the reasons for them, the data and the validation scores."""

    after_changes = False

    def answer(self, recommender: FittedRecommender) -> Facts:
        """Return the facts."""
        evaluated = recommender.evaluation_
        if evaluated is not None:
            evaluated = replace(evaluated, nouns=Nouns.of(recommender.reading_))
        return Facts(facts_of(recommender), numbers_of(recommender), evaluated)


def validation_of(model: FittedModel, seen: Observations) -> dict[str, Any] | None:
    """Return the measures of the chosen model and of the baselines on the validation set of the search."""
    search = model.search_
    if search is None or search.held_out is None:
        return None
    # With one observed label the order among unseen cells is the only meaningful measure.
    metrics = METRICS if model.fitted_.means_like else {"auc": METRICS["auc"]}

    def measures(curve: Curve, held_out: HeldOut) -> dict[str, float | None]:
        return {name: metric.measure(curve, *held_out) for name, metric in metrics.items()}

    _, labels, weights = search.held_out
    baselines = {}
    if model.fitted_.means_like:
        curve, x = base_rate_scores(seen, labels.size)
        baselines[BASE_RATE] = measures(curve, (x, labels, weights))
    if search.held_out_biases is not None:
        baselines[BIASES] = measures(model.scores_.link, search.held_out_biases)
    return {
        "entries": int(search.n_held_out),
        **measures(model.scores_.curve, search.held_out),
        "baselines": baselines,
    }


def numbers_of(recommender: FittedRecommender) -> dict[str, Any]:
    """Return the numbers of :class:`Facts`."""
    model, summary = recommender.model_, recommender.summary_
    rows, columns = model.shape_
    likes, dislikes = summary.get("likes"), summary.get("dislikes")
    entries = None if likes is None or dislikes is None else likes + dislikes
    search = model.search_
    numbers = {
        "rows": rows,
        "columns": columns,
        "likes": likes,
        "dislikes": dislikes,
        "entries": entries,
        "density": None if entries is None else entries / (rows * columns),
        "base_rate": likes / entries if entries else None,
        "entries_per_row": summary.get("entries_per_row"),
        "entries_per_column": summary.get("entries_per_column"),
        "hyperparameters": {**model.spec_.choices(), "rho": _rho(model)},
        "n_members": model.n_members_,
        "half_life": model.half_life_,
        "search": None
        if search is None
        else {
            "candidates": len(search.candidates),
            "entries": search.n_held_out,
            "measure": search.measure,
            "families": {name: each.score for name, each in search.families().items()},
        },
        "validation": summary.get("validation"),
        "objective": model.objective_,
        "n_iter": model.n_iter_,
        "converged": model.converged_,
        "ranker": recommender.ranker_ is not None,
        "entries_kept": recommender.seen_ is not None,
        "versions": summary.get("versions"),
    }
    return dict(as_json_values(numbers))


def _rho(model: FittedModel) -> float | str:
    """Return the probability that an entry is unobserved, or the name of its model."""
    rho: Any = model.rho_ if isinstance(model.rho_, float) else model.rho
    return rho if isinstance(rho, float) else str(getattr(rho, "name", rho))


def facts_of(recommender: FittedRecommender) -> dict[str, str]:
    """Return names and facts, in the order of printing."""
    model, summary = recommender.model_, recommender.summary_
    nouns = Nouns.of(recommender.reading_)
    facts = {f"{nouns.rows} x {nouns.columns}": "{} x {}".format(*model.shape_)}
    if summary:
        n = summary["likes"] + summary["dislikes"]
        share = n / (summary["rows"] * summary["columns"])
        facts["entries"] = (
            f"{n} ({share:.2%} observed): {likes_and_dislikes(summary['likes'], summary['dislikes'])}"
        )
        if recommender.seen_ is not None and recommender.seen_.weights is not None:
            facts["weights of entries"] = recommender.seen_.weight_text()
        for side in ("row", "column"):
            least, median, most = summary[f"entries_per_{side}"]
            facts[f"entries per {nouns.noun(side)}"] = (
                f"median {median:g}, from {least:g} to {most:g}"
            )
    facts |= time_facts(recommender)
    facts["model"] = str(model.spec_)
    facts |= _reasons(model)
    if validation := summary.get("validation"):
        facts["validation set"] = f"{_measures_text(validation)} ({validation['entries']} entries)"
        for name, measures in validation["baselines"].items():
            title = nouns.biases if name == BIASES else name
            facts[f"  baseline: {title}"] = _measures_text(measures)
    rho = _rho(model)
    facts["rho"] = f"{rho:.4f}" if isinstance(rho, float) else f"by entry, {rho}"
    facts["fit"] = (
        f"objective {model.objective_:.6g}, {model.n_iter_} iterations ({model.stop_reason_})"
    )
    facts["probabilities"] = "the link's" if model.calibration_ is None else model.calibration_.name
    facts["ranking"] = _ranking(recommender)
    facts["entries kept"] = _entries(recommender)
    features = [
        f"{side}s"
        for side, maps in zip(("row", "column"), model.fitted_.members[0].maps, strict=True)
        if maps.encoder is not None
    ]
    facts["side features"] = " and ".join(features) or "none"
    facts["read as"] = _rules(recommender.reading_)
    if versions := summary.get("versions"):
        facts["versions"] = ", ".join(f"{name} {number}" for name, number in versions.items())
    return facts


def time_facts(recommender: FittedRecommender) -> dict[str, str]:
    """Return the range of times and the half-life; none without times."""
    times, found = recommender.summary_.get("times"), recommender.model_.record_.half_life
    facts = {} if times is None else {"times": str(times)}
    return facts if found is None else {**facts, "half-life": str(found)}


def _measures_text(measures: dict[str, Any]) -> str:
    """Return measures with their titles."""
    return ", ".join(
        f"{metric.title} {measures[name]:.4f}"
        for name, metric in METRICS.items()
        if measures.get(name) is not None
    )


def _reasons(model: FittedModel) -> dict[str, str]:
    """Return the reasons of the search for its choice."""
    search = model.search_
    if search is None:
        return {"hyperparameters": "as given"}
    if search.best is None:
        return {"hyperparameters": f"not tuned: {search.stop_reason}"}
    scores = ", ".join(f"{name} {each.score:.4f}" for name, each in search.families().items())
    found = {
        "hyperparameters": f"best of {len(search.candidates)} candidates by {search.measure} on the validation set",
        "best of each family": scores,
    }
    if search.stop_reason != DONE:
        found["search"] = search.stop_reason
    if search.stack is not None:
        found["stack"] = str(search.stack)
    if search.meaning != LIKE:
        found["probabilities are of"] = str(search.meaning)
    return found


def _rules(reading: Reading) -> str:
    """Return the rules of reading that are not the defaults."""
    usual = Reading()
    given = {
        each.name: getattr(reading, each.name)
        for each in fields(reading)
        if each.compare and getattr(reading, each.name) != getattr(usual, each.name)
    }
    texts = {
        name: ", ".join(value)
        if isinstance(value, tuple)
        else f"{value:g}"
        if isinstance(value, float)
        else value
        for name, value in given.items()
    }
    return "; ".join(f"{name} {text}" for name, text in texts.items()) or "a matrix"


def _ranking(recommender: FittedRecommender) -> str:
    if recommender.ranker_ is not None:
        return "by the rate of likes minus that of dislikes"
    return f"by {probability_name(recommender.model_.fitted_.meaning)} (no ranker)"


def _entries(recommender: FittedRecommender) -> str:
    if recommender.seen_ is not None:
        return f"{recommender.seen_.n_observed}"
    return "none: recommend needs the entries to leave out; explain and update are not possible"
