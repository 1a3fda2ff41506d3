"""The test set of a report: given entries, or a tenth of the training entries that the report holds out.

In the second case the chosen model is refitted to the other entries with the same hyperparameters and the same
calibrator. The ranker is refitted too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tribit.data.axis import Positions
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, either
from tribit.evaluation.held_out import Evaluation, evaluate
from tribit.folding.new_rows import place_entries
from tribit.model.fitted import Fitted
from tribit.model.scores import Scores
from tribit.nouns import with_noun
from tribit.questions.kinds import held_out_entries
from tribit.randomness import RandomState, generator
from tribit.ranking.rate_ranker import fit_ranker

if TYPE_CHECKING:
    from tribit.ranking.scores import Ranker
    from tribit.recommender import Recommender

#: Function from entries and a seed to the chosen model, refitted to these entries.
Refit: TypeAlias = Callable[[Observations, RandomState], Fitted]

#: Number of entries for each held-out one: without a tenth, the refit stays close to the model.
ENTRIES_PER_HELD_OUT = 10
#: Level of the confidence intervals of a report.
LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Trial:
    """A model and a test set that it was not fitted on.

    Attributes
    ----------
    scores : Scores
        Scores of the model, or of its refit without the held-out entries.
    ranker : RateRanker or None
        Ranker that was fitted to the same entries.
    train : Observations or None
        Training entries; None if the recommender keeps no entries.
    test : Observations
        Test set, which may have ids that the model was not fitted on.
    held_out : Observations
        The entries of the test set in the rows and columns of the model.
    held_out_here : bool
        Whether the report held out the test set from the training entries.
    notes : tuple of str
        Origin of the test set, and the resulting bias of the measures.
    unknown : {"popularity", "skip", "error"}
        Treatment of unknown ids by the evaluation.
    """

    scores: Scores
    ranker: Ranker | None
    train: Observations | None
    test: Observations
    held_out: Observations
    held_out_here: bool
    notes: tuple[str, ...]
    unknown: str = "error"

    @property
    def places(self) -> tuple[Positions, Positions, NDArray[np.int8]]:
        """Rows, columns and labels of the entries with known ids."""
        return self.held_out.rows, self.held_out.columns, self.held_out.labels

    @property
    def probabilities(self) -> NDArray[np.floating[Any]]:
        """Probability of a like at each test entry."""
        return self.scores.probability(self.x)

    @property
    def x(self) -> NDArray[np.floating[Any]]:
        """``x`` at each test entry."""
        return self.scores.x(*self.places[:2])

    def evaluation(self) -> Evaluation:
        """Return the measures on the test set."""
        return evaluate(
            self.scores,
            self.test,
            self.train,
            ranker=self.ranker,
            level=LEVEL,
            unknown=self.unknown,
        )


def make_trial(
    recommender: Recommender,
    test: object,
    random_state: RandomState,
    refit: Refit,
    unknown: str = "popularity",
) -> Trial:
    """Return the trial of a recommender on a given test set, else on entries that are held out here.

    ``refit`` fits the chosen model to other entries; ``unknown`` is the treatment of unknown ids in the test set.
    """
    if test is not None:
        return trial_on(recommender, test, unknown)
    seen = recommender.seen_
    if seen is None:
        raise InvalidInputError(
            "The model keeps no entries, so that no test set can be held out: give entries that it was not fitted on "
            f"({either('test=', '--test FILE')}), or fit it with "
            f"{either('keep_seen=True', 'its entries (without --no-seen)')}."
        )
    train, held_out = split_entries(seen, random_state)
    model = recommender.model_
    text = (
        f"No test set was given: a random sample of {len(held_out):,} of the {with_noun(seen.n_observed, 'entry')} was "
        "held out, and the chosen model was refitted to the others with the same hyperparameters."
    )
    notes = [text]
    if model.search_ is not None:
        notes.append(
            "These measures are slightly optimistic, because the hyperparameters were tuned on all entries. Entries "
            "that were collected after the fit give unbiased measures."
        )
    if model.spec_.side_features:
        notes.append(
            "The model uses side features, which its file does not keep. The measures are those of a refit without "
            "side features."
        )
    if model.imputed is not None:
        notes.append(
            "The model was fitted with imputed probabilities. The measures are those of a refit without them."
        )
    again = refit(train, random_state).scores
    ranker = recommender.ranker_
    if ranker is not None:
        ranker = fit_ranker(train, device=model.device, random_state=random_state)
    return Trial(again, ranker, train, held_out, held_out, True, tuple(notes), unknown)


def split_entries(
    seen: Observations, random_state: RandomState
) -> tuple[Observations, Observations]:
    """Return training entries, which keep an entry of each label, and a random tenth to hold out."""
    # The last entry of each label in a random order stays: a tiny table could lose a label.
    order = generator(random_state).permutation(seen.n_observed)
    kept = {int(order[seen.labels[order] == label][-1]) for label in np.unique(seen.labels)}
    free = [place for place in order.tolist() if place not in kept]
    if not free:
        raise InvalidInputError(
            f"The model was fitted on {with_noun(seen.n_observed, 'entry')}, too few to hold out a test set: give "
            f"entries that it was not fitted on ({either('test=', '--test FILE')})."
        )
    chosen = np.zeros(seen.n_observed, dtype=bool)
    chosen[free[: max(1, seen.n_observed // ENTRIES_PER_HELD_OUT)]] = True
    return seen.hold_out(chosen)


def trial_on(recommender: Recommender, test: object, unknown: str) -> Trial:
    """Return the trial of a recommender on given entries, none of them from the fit."""
    scores = recommender.model_.scores_
    given = held_out_entries(recommender, test, unknown)
    if not len(given):
        raise InvalidInputError(f"{either('test', 'The test')} has no entries; give some.")
    placed = scores.place_entries(given, unknown)
    known = placed.known(scores.shape)
    if not known.any():
        raise InvalidInputError(
            "No test entry has a row and a column that the model was fitted on; give entries of the same ids."
        )
    at = placed.take(known)
    held_out = place_entries(given.take(np.flatnonzero(known)), at.rows, at.columns, *scores.axes)
    seen = recommender.seen_
    if seen is not None:
        n = int(np.count_nonzero(seen.observed_at(held_out.rows, held_out.columns)))
        if n:
            raise InvalidInputError(
                f"{n} of the {at.labels.size} test entries were also training entries, which biases the measures: give "
                "entries that the model was not fitted on, or none, and the report holds some out."
            )
    notes = [f"The given test set has {with_noun(len(given), 'entry')}."]
    if n := len(given) - len(held_out):
        treated = {
            "popularity": "The measures predict them from the known side, and lists and charts leave them out.",
            "skip": "They were left out.",
        }
        notes.append(
            f"{n:,} of them have an id that the model was not fitted on. {treated[unknown]}"
        )
    if seen is None:
        notes.append(
            "The model keeps no entries, so that there are no baselines and no recommendations."
        )
    return Trial(scores, recommender.ranker_, seen, given, held_out, False, tuple(notes), unknown)
