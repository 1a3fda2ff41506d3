"""The held-out entries of a report: a test that was given, or entries that the report holds out by itself.

In the second case the model that was chosen is fitted again on the other entries, with every setting as it is (no
search), its probabilities keep the calibrator of the bundle, and a ranker is fitted again too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from tribit.backends.threads import single_threaded_blas
from tribit.data.axis import Positions
from tribit.data.observations import Observations, as_observations
from tribit.errors import InvalidInputError, either
from tribit.folding.positions import placed
from tribit.model.spec import ModelSpec, is_auto
from tribit.randomness import generator
from tribit.report.names import counted
from tribit.selection.last_fit import fit_members
from tribit.selection.resolve import options_of
from tribit.selection.trials import default_solver
from tribit.solvers import Stopping, as_solver

if TYPE_CHECKING:
    from tribit.completion import BinaryMatrixCompletion
    from tribit.recommender import Recommender

#: One entry of so many is held out: a tenth leaves the refit close to the model of the bundle.
ONE_OF = 10


@dataclass(frozen=True, eq=False)
class Trial:
    """A model and entries that it was not fitted on.

    Attributes
    ----------
    model : BinaryMatrixCompletion
        The bundle's, or one that was fitted again without the held-out entries.
    ranker : CandidateRanker or None
        Alike.
    train : Observations or None
        What they were fitted on; None where the bundle keeps no entries.
    held_out : Observations
        The others, in the rows and columns of the model.
    own : bool
        Whether the report has held them out by itself.
    notes : tuple of str
        What a reader of the measures should know.
    """

    model: BinaryMatrixCompletion
    ranker: Any
    train: Observations | None
    held_out: Observations
    own: bool
    notes: tuple[str, ...]

    @property
    def places(self) -> tuple[Positions, Positions, NDArray[np.int8]]:
        """Rows, columns and labels of the held-out entries."""
        return self.held_out.rows, self.held_out.columns, self.held_out.labels

    @property
    def probabilities(self) -> NDArray[np.floating[Any]]:
        """Probability of a like at each of them."""
        return self.model._probability(self.scores)

    @property
    def scores(self) -> NDArray[np.floating[Any]]:
        """``x`` at each of them."""
        return self.model._decision(self.model._factors().at(*self.places[:2]))


def trial_of(recommender: Recommender, test: Any, random_state: Any) -> Trial:
    """Return the trial of a bundle: on a test, else on entries that are held out here."""
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
    model, notes = recommender.model_, []
    notes.append(
        f"No test was given: {counted(len(held_out), 'entry')} of the {seen.n_observed:,} were held out at random, and "
        "the chosen model was fitted again on the others with the same settings."
    )
    if model.search_ is not None:
        notes.append(
            "The settings had been chosen on all entries, so that these figures flatter the model a little; entries "
            "that came after the fit would not."
        )
    if model.spec_.side_features:
        notes.append(
            "The model uses side features, which its file does not keep: it was fitted again without "
            "them, and the measures are of that model."
        )
    if model.imputed is not None:
        notes.append(
            "The model was fitted with imputed probabilities; it was fitted again without them."
        )
    again = refitted(model, train, random_state)
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


def refitted(model: BinaryMatrixCompletion, train: Observations, random_state: Any) -> Any:
    """Return the model fitted to other entries of the same matrix, nothing chosen again."""
    rho = _rho(model)
    specs = [replace(spec, rho=rho, side_features=False, imputed=None) for spec in _specs(model)]
    solver = None if is_auto(model.solver) else as_solver(model.solver)
    first = default_solver(specs[0]) if solver is None else solver
    most = first.max_iter if model.max_iter is None else model.max_iter
    search = None if model.search_ is None else replace(model.search_, ends={})
    with single_threaded_blas():
        fits = fit_members(
            specs,
            train,
            search,
            solver,
            Stopping(most, model.tol, model.max_time, None),
            options_of(model),
            generator(random_state),
        )
    again = clone(model)
    again._set_fitted(fits.factors(model.dtype), train)
    again._set_members(fits.specs, fits.unknowns(model.dtype))
    again.calibration_, again.search_ = model.calibration_, model.search_
    return again


def _specs(model: BinaryMatrixCompletion) -> list[ModelSpec]:
    """Return the models whose mean it is, with the columns that they had before a regression was added."""
    specs, search = list(model.member_specs_), model.search_
    if search is None or search.regression is None or search.best is None:
        return specs
    chosen = (search.best,) if search.average is None else search.average.members
    return [
        replace(spec, rank=each.settings.rank) for spec, each in zip(specs, chosen, strict=True)
    ]


def _rho(model: BinaryMatrixCompletion) -> Any:
    """Return the probability of being missing as it was asked for, to be found again without the held-out entries."""
    if not is_auto(model.rho):
        return model.rho
    if model.spec_.rho == 0.0:  # chosen where one label alone was observed
        return 0.0
    return "low-rank" if model.target == "all" or model.inverse_power else None


def _given(recommender: Recommender, test: Any) -> Trial:
    model = recommender.model_
    rows, columns, labels = model._observed(test)
    if not labels.size:
        raise InvalidInputError(f"{either('test', 'The test')} has no entries; give some.")
    given = as_observations(test, like_at=model.like_at)
    held_out = placed(given, rows, columns, *model._axes)
    seen = recommender.seen_
    if seen is not None:
        n = int(np.count_nonzero(seen.to_sparse()[held_out.rows, held_out.columns]))
        if n:
            raise InvalidInputError(
                f"{n} of the {labels.size} test entries were part of the fit, so that measures of them would flatter "
                "the model: give entries that it was not fitted on, or no test, and the report holds some out."
            )
    notes = [f"Measured on the {counted(len(held_out), 'entry')} of the test that was given."]
    if seen is None:
        notes.append("The model keeps no entries, so that there are no baselines and no lists.")
    return Trial(model, recommender.ranker_, seen, held_out, False, tuple(notes))
