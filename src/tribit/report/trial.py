"""The test set of a report: entries that were given, or a tenth that the report holds out by itself.

In the second case the model that was chosen is fitted again on the other entries, with the same hyperparameters (no
search), its probabilities keep the calibrator, and a ranker is fitted again too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from tribit.data.axis import Positions
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, either
from tribit.evaluation import Evaluation, evaluate
from tribit.folding.new_rows import place_entries
from tribit.model.fitted import Fitted
from tribit.model.scores import Scores, read_entries
from tribit.randomness import generator
from tribit.report.wording import counted

if TYPE_CHECKING:
    from tribit.recommender import Recommender

#: Function from entries and a seed to the chosen model, fitted to them.
Refit: TypeAlias = Callable[[Observations, Any], Fitted]

#: One entry of so many is held out: a tenth leaves the refit close to the model.
ONE_OF = 10
#: Level of the confidence intervals of a report.
LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Trial:
    """A model and entries that it was not fitted on.

    Attributes
    ----------
    scores : Scores
        Those of the fit, or of one without the held-out entries.
    ranker : CandidateRanker or None
        Alike.
    train : Observations or None
        What they were fitted on; None where the recommender keeps no entries.
    held_out : Observations
        The test set, in the rows and columns of the model.
    own : bool
        Whether the report has held them out by itself.
    notes : tuple of str
        How the test set was made, and how this biases the measures.
    """

    scores: Scores
    ranker: Any
    train: Observations | None
    held_out: Observations
    own: bool
    notes: tuple[str, ...]

    @property
    def places(self) -> tuple[Positions, Positions, NDArray[np.int8]]:
        """Rows, columns and labels of the test set."""
        return self.held_out.rows, self.held_out.columns, self.held_out.labels

    @property
    def probabilities(self) -> NDArray[np.floating[Any]]:
        """Probability of a like at each of them."""
        return self.scores.probability(self.x)

    @property
    def x(self) -> NDArray[np.floating[Any]]:
        """``x`` at each of them."""
        return self.scores.x(*self.places[:2])

    def evaluation(self) -> Evaluation:
        """Return the measures of the test set."""
        return evaluate(self.scores, self.held_out, self.train, ranker=self.ranker, level=LEVEL)


def trial_of(recommender: Recommender, test: Any, random_state: Any, refit: Refit) -> Trial:
    """Return the trial of a recommender: on a test, else on entries that are held out here.

    ``refit`` fits the chosen model again, to other entries.
    """
    if test is not None:
        return _given(recommender, test)
    seen = recommender.seen_
    if seen is None:
        raise InvalidInputError(
            "The model keeps no entries, so that none can be held out to measure it on: give entries that it was not "
            f"fitted on ({either('test=', '--test FILE')}), or fit it with "
            f"{either('keep_seen=True', 'its entries (without --no-seen)')}."
        )
    train, held_out = _split(seen, random_state)
    model = recommender.model_
    text = (
        f"No test was given: the test set is {len(held_out):,} of the {counted(seen.n_observed, 'entry')}, drawn at "
        "random, and the chosen model was fitted again on the others with the same hyperparameters."
    )
    notes = [text]
    if model.search_ is not None:
        notes.append(
            "The hyperparameters were tuned on all entries, so that these measures are slightly optimistic. Those of "
            "entries collected after the fit are not."
        )
    if model.spec_.side_features:
        notes.append(
            "The model uses side features, which its file does not keep. It was fitted again without them, and the "
            "measures are of that model."
        )
    if model.imputed is not None:
        notes.append(
            "The model was fitted with imputed probabilities; it was fitted again without them."
        )
    again = refit(train, random_state).scores
    ranker = recommender.ranker_
    if ranker is not None:
        ranker = clone(ranker).set_params(random_state=random_state).fit(train)
    return Trial(again, ranker, train, held_out, True, tuple(notes))


def _split(seen: Observations, random_state: Any) -> tuple[Observations, Observations]:
    """Return the entries to fit on, with both labels where there are both, and a tenth to hold out."""
    # Of each label the entry that comes last in a random order stays, or a tiny table could lose one.
    order = generator(random_state).permutation(seen.n_observed)
    kept = {int(order[seen.labels[order] == label][-1]) for label in np.unique(seen.labels)}
    free = [place for place in order.tolist() if place not in kept]
    if not free:
        raise InvalidInputError(
            f"The model was fitted on {counted(seen.n_observed, 'entry')}, too few to hold one out to measure it on: "
            f"give entries that it was not fitted on ({either('test=', '--test FILE')})."
        )
    chosen = np.zeros(seen.n_observed, dtype=bool)
    chosen[free[: max(1, seen.n_observed // ONE_OF)]] = True
    return seen.hold_out(chosen)


def _given(recommender: Recommender, test: Any) -> Trial:
    model = recommender.model_
    given = read_entries(model, test)
    rows, columns, labels = model.scores_.place_entries(given)
    if not labels.size:
        raise InvalidInputError(f"{either('test', 'The test')} has no entries; give some.")
    held_out = place_entries(given, rows, columns, *model.axes_)
    seen = recommender.seen_
    if seen is not None:
        n = int(np.count_nonzero(seen.to_sparse()[held_out.rows, held_out.columns]))
        if n:
            raise InvalidInputError(
                f"{n} of the {labels.size} test entries were part of the fit, so that measures of them would flatter "
                "the model: give entries that it was not fitted on, or no test, and the report holds some out."
            )
    notes = [f"Measured on the {counted(len(held_out), 'entry')} of the test set that was given."]
    if seen is None:
        notes.append(
            "The model keeps no entries, so that there are no baselines and no recommendations."
        )
    return Trial(model.scores_, recommender.ranker_, seen, held_out, False, tuple(notes))
