"""Record of a search: its candidates, its choice, and the reason for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tribit.display import html_table, html_text
from tribit.model.factors import Factors
from tribit.model.fitted import LIKE
from tribit.model.horizon import AtRisk
from tribit.model.spec import ModelSpec
from tribit.selection.half_life import HalfLife
from tribit.solvers.loop import INTERRUPTED, Iteration

HeldOut: TypeAlias = tuple[NDArray[np.floating[Any]], NDArray[np.int8], NDArray[np.floating[Any]]]

#: Reason to stop of a search that has gone through every stage.
DONE = "every stage was done"


@dataclass(frozen=True)
class Candidate:
    """Settings with their score on held-out entries.

    Attributes
    ----------
    settings : ModelSpec
        The values.
    score : float
        The measure over all held-out entries; the smaller the better.
    scores : tuple of float
        The measure in each fold.
    seconds : float or None
        How long its fits took; None in a model read from a file.
    n_iter : int
        Iterations of its fits, together.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Observations
    >>> from tribit.simulate import tables
    >>> ratings = Observations.from_frame(
    ...     tables.ratings(random_state=0), row="user", column="item", value="stars", like_at=4
    ... )
    >>> model = BinaryMatrixCompletion(n_candidates=3, random_state=0).fit(ratings)
    >>> round(model.search_.best.score, 2)
    0.64
    """

    settings: ModelSpec
    score: float
    scores: tuple[float, ...]
    seconds: float | None
    n_iter: int


@dataclass(frozen=True, eq=False)
class AddedRegression:
    """Weight of the regression that is added to a candidate; score, held-out entries and their losses of the two."""

    weight: float
    score: float
    held_out: HeldOut
    losses: NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Stack:
    """Several candidates whose weighted mean is the model (:mod:`tribit.selection.stacking`).

    Attributes
    ----------
    members : tuple of Candidate
        The candidates, the one with the largest contribution first (weight times standard deviation of ``x``).
    weights : tuple of float
        Their weights, above 0, with sum 1.
    score : float
        The measure of the weighted mean over all held-out entries, calibrated as a whole.
    alone : tuple of float
        The measure that each member alone would give.
    scores : array of shape (n_members, n_held_out) or None
        ``x`` of the held-out entries under each member; None in a model read from a file.

    Examples
    --------
    >>> from tribit.model.spec import ModelSpec
    >>> from tribit.selection import Candidate, Stack
    >>> members = [Candidate(ModelSpec(rank=rank), 0.5, (0.5,), 1.0, 9) for rank in (2, 8)]
    >>> stack = Stack(tuple(members), weights=(0.7, 0.3), score=0.48, alone=(0.5, 0.51))
    >>> [(row["rank"], row["weight"]) for row in stack.table()]
    [(2, 0.7), (8, 0.3)]
    """

    members: tuple[Candidate, ...]
    weights: tuple[float, ...]
    score: float
    alone: tuple[float, ...]
    scores: NDArray[np.floating[Any]] | None = field(default=None, repr=False)

    def mean_scores(self, n: int) -> NDArray[np.floating[Any]]:
        """Return the weighted mean of ``x`` of the first ``n`` members at the held-out entries."""
        assert self.scores is not None
        return np.average(self.scores[:n], axis=0, weights=self.weights[:n])

    def table(self) -> list[dict[str, Any]]:
        """Return one row for each member: its family, weight, score alone and settings."""
        return [
            {
                "family": each.settings.family,
                "weight": weight,
                "score": score,
                **_named(each.settings),
            }
            for each, weight, score in zip(self.members, self.weights, self.alone, strict=True)
        ]

    def __str__(self) -> str:
        parts = [
            f"{weight:.2f} {each.settings} (alone {score:.4f})"
            for each, weight, score in zip(self.members, self.weights, self.alone, strict=True)
        ]
        return f"the weighted mean of {len(parts)} fits, {self.score:.4f}: " + "; ".join(parts)


@dataclass(frozen=True, repr=False)
class Search:
    """Every candidate that was tried, in order, and the one that was chosen.

    Attributes
    ----------
    candidates : tuple of Candidate
        In the order of the search.
    best : Candidate or None
        The chosen candidate: of a stack the member with the largest contribution, else the best one of the simplest
        family that no more complex one beats; None where there were too few entries for a validation set.
    scoring, target : str
        The measure, and the entries it is for.
    n_held_out, n_folds : int
        How many entries were held out in all, and in how many folds; candidates that are no finalists are scored on
        the first of these alone.
    seconds : float or None
        Duration of the search, without the refit on all data; None in a model read from a file.
    stop_reason : str
        Why no more candidates were tried.
    density : float
        The share of the matrix that is observed.
    meaning : str
        The event of the probabilities: "a like", or the event that positive-only data identify.
    regression : float or None
        Weight of the regression of the smaller side that is added to the factors
        (:mod:`tribit.selection.positive_only`); None for none.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Observations
    >>> from tribit.simulate import tables
    >>> ratings = Observations.from_frame(
    ...     tables.ratings(random_state=0), row="user", column="item", value="stars", like_at=4
    ... )
    >>> model = BinaryMatrixCompletion(n_candidates=3, random_state=0).fit(ratings)
    >>> len(model.search_.candidates), model.search_.stop_reason
    (3, '3 candidates were tried, the most asked for')
    """

    candidates: tuple[Candidate, ...]
    best: Candidate | None
    scoring: str
    target: str
    n_held_out: int
    n_folds: int
    seconds: float | None
    stop_reason: str
    density: float
    #: Factors of the last fit of each family on the first fold, for warm starts.
    ends: dict[str, Factors] = field(default_factory=dict, compare=False)
    #: ``x``, labels and weights of the held-out entries, under the model.
    held_out: HeldOut | None = field(default=None, compare=False)
    #: The same under the best candidate with biases alone; None if none was scored on these entries.
    held_out_biases: HeldOut | None = field(default=None, compare=False)
    #: Of likes alone, the cells that the folds lack, for the probability of a like within the horizon.
    at_risk: AtRisk | None = field(default=None, compare=False)
    #: The members of the model, where it has several.
    stack: Stack | None = None
    #: Whether scores are those of calibrated probabilities.
    calibrated: bool = False
    meaning: str = LIKE
    regression: float | None = None

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the search: the choice is the best so far."""
        return self.stop_reason == INTERRUPTED

    @property
    def measure(self) -> str:
        """Name of the measure; the smaller the better."""
        if self.scoring == "log_loss" and self.meaning != LIKE:
            return "log_rank"  # likes or dislikes alone (:mod:`tribit.selection.positive_only`)
        return f"1 - {self.scoring}" if self.scoring == "auc" else self.scoring

    def families(self) -> dict[str, Candidate]:
        """Return the best candidate of each model family, in the order in which they were first tried."""
        found: dict[str, Candidate] = {}
        # Finalists alone where there are any: others have scores on the first folds only.
        last = [each for each in self.candidates if len(each.scores) == self.n_folds]
        for candidate in last or self.candidates:
            family = candidate.settings.family
            if family not in found or candidate.score < found[family].score:
                found[family] = candidate
        if self.best is not None:
            found[self.best.settings.family] = self.best
        return found

    def table(self) -> list[dict[str, Any]]:
        """Return one row for each candidate: its settings, score, seconds and iterations.

        ``pandas.DataFrame(model.search_.table())`` makes a frame of it.
        """
        return [
            {
                "family": candidate.settings.family,
                **_named(candidate.settings),
                "score": candidate.score,
                "seconds": candidate.seconds,
                "n_iter": candidate.n_iter,
                "chosen": candidate is self.best,
            }
            for candidate in self.candidates
        ]

    def _repr_html_(self) -> str:
        """Return the choice and the candidates for a notebook."""
        records = self.table()
        shown = {name: [each[name] for each in records] for name in (records or [{}])[0]}
        return html_text(str(self)) + html_table(shown, len(records))

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        if self.best is None:
            return f"Nothing was chosen from the data: {self.stop_reason}."
        measured = ", ".join(
            f"{name} {candidate.score:.4f}" for name, candidate in self.families().items()
        )
        ended = f"; {self.stop_reason}" if self.interrupted else ""
        calibrated = ", calibrated" if self.calibrated else ""
        time = "" if self.seconds is None else f", {self.seconds:.1f} s"
        stack = "" if self.stack is None else f"\nUses {self.stack}."
        added = ""
        if self.regression is not None:
            added = f"\nThe regression of the smaller side on itself is added with weight {self.regression:.3g}."
        return (
            f"Chose {self.best.settings}.\n"
            f"Best {self.measure} on {self.n_held_out} held-out entries by model family{calibrated}: {measured} "
            f"({len(self.candidates)} candidates{time}{ended}).{stack}"
            + added
            + ("" if self.meaning == LIKE else f"\nProbabilities are of {self.meaning}.")
        )


@dataclass(frozen=True, eq=False)
class FitRecord:
    """How a fit was found.

    Attributes
    ----------
    n_iter : int
        Iterations of the refit on all data; of several fits those of the first, as are ``history`` and ``objective``.
    converged : bool
        Whether every fit reached its tolerance.
    stop_reason : str
        Why the solver stopped.
    objective : float
        The objective at the solution.
    history : tuple of Iteration
        The state after each iteration.
    backend : {"exact", "sampled"} or None
        How sums over all entries were done; None in a record that was read from a file.
    found : Search, callable or None
        The search, or the function that parses it: ``search`` calls it once.
    half_life : HalfLife or None
        The half-life of entries with times, and how it was chosen; None where there was no choice and none was given.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion
    >>> model = BinaryMatrixCompletion(search=False, rank=1, random_state=0).fit([[1, -1], [-1, 1]])
    >>> model.record_.converged, model.record_.stop_reason
    (True, 'converged: predicted decrease below tol')
    """

    n_iter: int
    converged: bool
    stop_reason: str
    objective: float
    history: tuple[Iteration, ...] = field(default=(), repr=False)
    backend: str | None = None
    found: Search | Callable[[], Search] | None = None
    half_life: HalfLife | None = None

    @cached_property
    def search(self) -> Search | None:
        """The search; None where nothing was "auto"."""
        return self.found if self.found is None or isinstance(self.found, Search) else self.found()


def _named(settings: ModelSpec) -> dict[str, Any]:
    values = settings.choices()
    weights: Sequence[float] = values.pop("gammas")
    rho = values.pop("rho")
    named = dict(zip(("g_pn", "g_pu", "g_nu"), weights, strict=True))
    return {**named, "rho": getattr(rho, "name", rho), **values}
