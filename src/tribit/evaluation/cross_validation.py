"""Cross-validation of a model of a matrix: folds of entries, so that rows and columns stay known.

Folds are random and stratified by label. A clone of the model is fitted to the other folds, including its
hyperparameter search, and evaluated on the fold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from tribit.checks import check_count
from tribit.data.observations import read_entries
from tribit.display import Summarised
from tribit.errors import InvalidTypeError
from tribit.evaluation.held_out import POPULARITY, Evaluation, beside, evaluate
from tribit.factor_model import FactorModel
from tribit.progress import steps_bar
from tribit.randomness import RandomState, balanced_fold_numbers, generator
from tribit.solvers.loop import INTERRUPTED

if TYPE_CHECKING:
    from tribit.ranking import CandidateRanker

__all__ = ["CrossValidation", "cross_validate"]


@dataclass(frozen=True, repr=False)
class CrossValidation(Summarised):
    """The evaluation of a model on each fold.

    Attributes
    ----------
    evaluations : tuple of Evaluation
        One for each completed fold.
    n_folds : int
        Number of folds, completed or not.
    interrupted : bool
        Whether Ctrl-C stopped the cross-validation early.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Observations, cross_validate
    >>> from tribit.simulate import tables
    >>> ratings = Observations.from_frame(
    ...     tables.ratings(random_state=0), row="user", column="item", value="stars", like_at=4
    ... )
    >>> model = BinaryMatrixCompletion(search=False, rank=3, random_state=0)
    >>> found = cross_validate(model, ratings, folds=3, random_state=0)
    >>> found.n_folds, len(found.evaluations)
    (3, 3)
    """

    evaluations: tuple[Evaluation, ...]
    n_folds: int
    interrupted: bool = False

    @property
    def means(self) -> dict[str, float]:
        """Mean of each measure over the folds that have it."""
        return {name: float(np.mean(values)) for name, values in self._values().items()}

    @property
    def standard_errors(self) -> dict[str, float]:
        """Standard error of each mean, ``deviation over folds / sqrt(folds)``.

        It is somewhat too small, because folds share most of their training entries (Bengio and Grandvalet 2004, "No
        unbiased estimator of the variance of k-fold cross-validation").
        """
        return {
            name: float(np.std(values, ddof=1) / np.sqrt(len(values)))
            for name, values in self._values().items()
            if len(values) > 1
        }

    def facts(self) -> dict[str, str]:
        """Return formatted means and standard errors by title, then the means of the baselines."""
        first = self.evaluations[0]
        titles, errors = first.titles(), self.standard_errors
        beside_model = {
            name: self._values(lambda each, name=name: each.measures_of(name))  # type: ignore[misc]
            for name in first.baselines
        }
        popular = beside_model.pop(POPULARITY, {})
        facts = {}
        for name, mean in self.means.items():
            if first.is_informative(name):
                error = f" ± {errors[name]:.4f}" if name in errors else ""
                theirs = float(np.mean(popular[name])) if name in popular else None
                facts[titles[name]] = f"{mean:.4f}{error}{beside(theirs)}"
        for name, found in beside_model.items():
            shown = (
                f"{titles[measure]} {np.mean(values):.4f}" for measure, values in found.items()
            )
            facts[f"baseline: {name}"] = ", ".join(shown)
        return facts

    def _values(
        self,
        of: Callable[[Evaluation], Mapping[str, float | None]] = Evaluation.measures,
    ) -> dict[str, list[float]]:
        """Return the values of each measure over the folds that have it."""
        found: dict[str, list[float]] = {}
        for evaluation in self.evaluations:
            for name, value in of(evaluation).items():
                if value is not None:
                    found.setdefault(name, []).append(value)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain values for JSON."""
        return {
            "n_folds": self.n_folds,
            "interrupted": self.interrupted,
            "means": self.means,
            "standard_errors": self.standard_errors,
            "evaluations": [each.to_dict() for each in self.evaluations],
        }

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        facts = self.facts()
        width = max(len(title) for title in facts)
        n = len(self.evaluations)
        done = f"{n} folds" if n == self.n_folds else f"{n} of {self.n_folds} folds, interrupted"
        entries = sum(each.n_entries for each in self.evaluations)
        order = self.evaluations[0].order_of_lists()
        notes = f"mean ± standard error over folds{f'; {order}' if order else ''}"
        head = f"{entries} entries in {done} ({notes})"
        return "\n".join([head, *(f"  {title:<{width}}  {fact}" for title, fact in facts.items())])


def cross_validate(
    model: FactorModel,
    X: object,
    folds: int = 5,
    random_state: RandomState = None,
    *,
    row_features: object = None,
    column_features: object = None,
    ranker: CandidateRanker | None = None,
    **options: Any,
) -> CrossValidation:
    """Evaluate a model by cross-validation over entries: fit a clone without each fold, and evaluate it there.

    Parameters
    ----------
    model : BinaryMatrixCompletion or another system
        Model, which is cloned for each fold.
    X : Observations, sparse matrix or array
        Observed entries.
    folds : int, default=5
        Number of folds, at least 2. Rows and columns stay known even if all their entries are held out.
    random_state : int, Generator, RandomState or None
        Seed of the folds; fits use the model's own.
    row_features, column_features : optional
        As in :meth:`BinaryMatrixCompletion.fit`.
    ranker : CandidateRanker, optional
        Unfitted ranker. A clone is fitted to the same entries as the model, and orders its lists.
    **options
        ``n``, ``avoid_dislikes`` and ``level``, as in :func:`tribit.evaluate`.

    Returns
    -------
    CrossValidation
        Prints as a table. Ctrl-C returns the completed folds, if there are any.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import BinaryMatrixCompletion, cross_validate
    >>> A = np.sign(np.outer(np.arange(20) - 9.5, np.arange(12) - 5.5)).astype(int)
    >>> model = BinaryMatrixCompletion(search=False, rank=1, l2=0.1, l2_intercept=1.0, random_state=0)
    >>> cross_validate(model, A, folds=4, random_state=0).means["accuracy"]
    1.0
    """
    if not isinstance(model, FactorModel):
        raise InvalidTypeError(
            f"model is of type {type(model).__name__}; pass a BinaryMatrixCompletion, such as that of a Recommender."
        )
    if ranker is not None and not hasattr(ranker, "fit"):
        raise InvalidTypeError(
            f"ranker is of type {type(ranker).__name__}; pass a CandidateRanker, which is fitted without each fold."
        )
    observations = read_entries(model, X)
    n_entries = observations.n_observed
    folds = check_count("folds", folds, 2, n_entries, meaning="the number of entries")
    numbers = balanced_fold_numbers(observations.labels > 0, folds, generator(random_state))
    tables = {"row_features": row_features, "column_features": column_features}
    given = {name: table for name, table in tables.items() if table is not None}
    shown = bool(getattr(model, "verbose", 0))
    done: list[Evaluation] = []
    interrupted = False
    with steps_bar("folds", folds, shown=shown) as advance:
        try:
            for fold in range(folds):
                train, test = observations.hold_out(numbers == fold)
                fitted = _clone_without_bar(model).fit(train, **given)
                if getattr(fitted, "stop_reason_", None) == INTERRUPTED:
                    raise KeyboardInterrupt  # a fit stops early on the first Ctrl-C
                fitted_ranker = None if ranker is None else clone(ranker).fit(train)
                done.append(evaluate(fitted, test, train, ranker=fitted_ranker, **options))
                advance()
        except KeyboardInterrupt:
            if not done:
                raise
            interrupted = True
    return CrossValidation(tuple(done), folds, interrupted)


def _clone_without_bar(model: FactorModel) -> Any:
    """Return a clone without a progress bar, which would overwrite that of the folds."""
    copy = clone(model)
    return copy.set_params(verbose=0) if hasattr(copy, "verbose") else copy
