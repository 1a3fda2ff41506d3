"""Refusal of scikit-learn's cross-validation on a matrix: it divides rows, and a model of a matrix predicts entries.

``GridSearchCV`` and ``cross_val_score`` fit an estimator on some rows and score it on others. A model knows nothing of
rows that it was not fitted on, so each score fails, and scikit-learn makes NaN of an error in a score: a search then
returns a choice that nothing was measured for, with no more than a warning. An error in ``fit`` it does pass on where
every fit fails. A fit cannot know from its matrix that rows are missing; it can know who called it.
"""

from __future__ import annotations

import sys

from tribit.errors import InvalidInputError

#: The function of scikit-learn that fits and scores one fold, and where it is.
FITS_A_FOLD, IN_MODULE = "_fit_and_score", "sklearn.model_selection._validation"


def check_not_row_folds() -> None:
    """Refuse a fit that scikit-learn's cross-validation has called, itself or through its pipelines.

    An estimator of somebody else's that fits a model on its own account, as :class:`tribit.EntryClassifier` does, may
    be cross-validated: from the fit up frames are looked at as long as they are scikit-learn's.
    """
    frame = sys._getframe(1).f_back  # who called fit
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("sklearn."):
        if frame.f_code.co_name == FITS_A_FOLD and frame.f_globals["__name__"] == IN_MODULE:
            raise InvalidInputError(
                "scikit-learn's cross-validation divides a matrix by rows, and a model knows nothing of rows that it "
                "was not fitted on: use tribit.cross_validate, or tribit.EntryClassifier on pairs (row, column) with "
                "GridSearchCV and cross_val_score."
            )
        frame = frame.f_back
