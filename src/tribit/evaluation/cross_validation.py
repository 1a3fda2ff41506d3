"""Cross-validation of a model of a matrix: entries are held out, and rows and columns stay known.

Each of the folds has a share of the likes and a share of the dislikes, drawn at random. A clone of the model is fitted
on the others, with all that it chooses for itself, and evaluated on the fold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from tribit.checks import check_count
from tribit.data.observations import as_observations
from tribit.errors import InvalidTypeError
from tribit.evaluation.held_out import Evaluation, evaluate
from tribit.factor_model import FactorModel
from tribit.progress import steps_bar
from tribit.randomness import RandomState, balanced_fold_numbers, generator
from tribit.solvers.loop import INTERRUPTED

__all__ = ["CrossValidation", "cross_validate"]


@dataclass(frozen=True)
class CrossValidation:
    """The evaluation of a model on each fold.

    Attributes
    ----------
    evaluations : tuple of Evaluation
        One for each fold that was done.
    n_folds : int
        How many were asked for.
    interrupted : bool
        Whether Ctrl-C has left some of them out.
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

        Folds share most of their training entries, so that it is somewhat too small for another data set of the same
        kind (Bengio and Grandvalet 2004, "No unbiased estimator of the variance of k-fold cross-validation").
        """
        return {
            name: float(np.std(values, ddof=1) / np.sqrt(len(values)))
            for name, values in self._values().items()
            if len(values) > 1
        }

    def facts(self) -> dict[str, str]:
        """Return means and standard errors as a report shows them, by title, and the means of the baselines."""
        titles, errors = self.evaluations[0].titles(), self.standard_errors
        facts = {
            titles[name]: f"{mean:.4f}" + (f" ± {errors[name]:.4f}" if name in errors else "")
            for name, mean in self.means.items()
            if self.evaluations[0].is_informative(name)
        }
        for name in self.evaluations[0].baselines:
            found = self._values(lambda each, name=name: each.baselines[name].measures)
            shown = (
                f"{titles[measure]} {np.mean(values):.4f}" for measure, values in found.items()
            )
            facts[f"baseline: {name}"] = ", ".join(shown)
        return facts

    def _values(self, of: Callable[..., Any] = Evaluation.measures) -> dict[str, list[float]]:
        """Return the values of each measure over the folds that have it."""
        found: dict[str, list[float]] = {}
        for evaluation in self.evaluations:
            for name, value in of(evaluation).items():
                if value is not None:
                    found.setdefault(name, []).append(value)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        return {
            "n_folds": self.n_folds,
            "interrupted": self.interrupted,
            "means": self.means,
            "standard_errors": self.standard_errors,
            "evaluations": [each.to_dict() for each in self.evaluations],
        }

    def __str__(self) -> str:
        facts = self.facts()
        width = max(len(title) for title in facts)
        n = len(self.evaluations)
        done = f"{n} folds" if n == self.n_folds else f"{n} of {self.n_folds} folds, interrupted"
        entries = sum(each.n_entries for each in self.evaluations)
        head = f"{entries} entries in {done} (mean ± standard error over folds)"
        return "\n".join([head, *(f"  {title:<{width}}  {fact}" for title, fact in facts.items())])


def cross_validate(
    model: FactorModel,
    X: Any,
    folds: int = 5,
    random_state: RandomState = None,
    *,
    row_features: Any = None,
    column_features: Any = None,
    ranker: Any = None,
    **options: Any,
) -> CrossValidation:
    """Fit clones of a model on all folds of the entries but one, and evaluate each on the fold it has not seen.

    Parameters
    ----------
    model : BinaryMatrixCompletion or another system
        Cloned for each fold, and left as it is.
    X : Observations, sparse matrix or array
        What was observed.
    folds : int, default=5
        Number of folds, at least 2. Every row and column stays known, those whose entries are all held out too.
    random_state : int, Generator, RandomState or None
        Draws the folds; the fits have the model's own.
    row_features, column_features : optional
        As in :meth:`BinaryMatrixCompletion.fit`.
    ranker : CandidateRanker, optional
        Not fitted; a clone is fitted on the same entries as the model, and orders its lists.
    **options
        ``n``, ``avoid_dislikes`` and ``level``, as in :func:`tribit.evaluate`.

    Returns
    -------
    CrossValidation
        Printed, a table. Ctrl-C ends it with the folds that were done, if there are any.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import BinaryMatrixCompletion, cross_validate
    >>> A = np.sign(np.outer(np.arange(20) - 9.5, np.arange(12) - 5.5)).astype(int)
    >>> model = BinaryMatrixCompletion((1, 0, 0), rank=1, l2=0.1, l2_intercept=1.0, random_state=0)
    >>> cross_validate(model, A, folds=4, random_state=0).means["accuracy"]
    1.0
    """
    if not isinstance(model, FactorModel):
        raise InvalidTypeError(
            f"model is of type {type(model).__name__}; pass a BinaryMatrixCompletion, such as that of a Recommender."
        )
    observations = as_observations(X, like_at=getattr(model, "like_at", None))
    most = observations.n_observed
    folds = check_count("folds", folds, 2, most, meaning="the number of entries")
    numbers = balanced_fold_numbers(observations.labels > 0, folds, generator(random_state))
    tables = {"row_features": row_features, "column_features": column_features}
    given = {name: table for name, table in tables.items() if table is not None}
    shown = bool(getattr(model, "verbose", 0))  # a bar of folds
    done: list[Evaluation] = []
    interrupted = False
    with steps_bar("folds", folds, shown=shown) as advance:
        try:
            for part in range(folds):
                train, test = observations.hold_out(numbers == part)
                fitted = _quietly(clone(model)).fit(train, **given)
                if getattr(fitted, "stop_reason_", None) == INTERRUPTED:
                    raise KeyboardInterrupt  # a fit takes the first Ctrl-C for itself, and is half done
                fitted_ranker = None if ranker is None else clone(ranker).fit(train)
                done.append(
                    evaluate(
                        fitted,
                        test,
                        train,
                        ranker=fitted_ranker,
                        **options,
                    )
                )
                advance()
        except KeyboardInterrupt:
            if not done:
                raise
            interrupted = True
    return CrossValidation(tuple(done), folds, interrupted)


def _quietly(model: Any) -> Any:
    """Return a clone without a bar of its own, beside which that of the folds could not be read."""
    return model.set_params(verbose=0) if hasattr(model, "verbose") else model
