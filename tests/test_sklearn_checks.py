import warnings

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tribit import BinaryMatrixCompletion
from tribit.paper.systems import SYSTEMS

pytestmark = pytest.mark.usefixtures("short_trials")

#: scikit-learn's checks call predict(X) with a matrix of samples. Ours takes the rows and columns to predict: a
#: matrix is what is completed, and it has no "new samples". That is the cause of every failure in the first
#: list.
PAIRS = "predict, predict_proba and decision_function take (rows, columns), not a matrix: "
EXPECTED_FAILURES = {
    "check_dict_unchanged": PAIRS + "the check calls predict(X) on the fitted model",
    "check_dtype_object": PAIRS + "the check fits an object matrix and then calls predict(X)",
    "check_estimator_sparse_array": PAIRS + "the check fits sparse arrays and calls predict(X)",
    "check_estimator_sparse_matrix": PAIRS + "the check fits sparse matrices and calls predict(X)",
    "check_estimators_dtypes": PAIRS + "the check fits four dtypes and then calls predict(X)",
    "check_estimators_pickle": PAIRS + "the check compares predict(X) before and after pickling",
    "check_estimators_unfitted": PAIRS + "Python refuses the call before NotFittedError is raised",
    "check_f_contiguous_array_estimator": PAIRS + "the check fits and then calls predict(X)",
    "check_fit2d_predict1d": PAIRS + "the check calls predict(X[0])",
    "check_fit_idempotent": PAIRS + "the check compares predict(X) after two fits",
    "check_methods_sample_order_invariance": PAIRS + "the check permutes the samples of predict(X)",
    "check_methods_subset_invariance": PAIRS + "the check predicts X in batches",
    "check_n_features_in_after_fitting": PAIRS + "there is no matrix whose width could be wrong",
}


#: Systems of real values read the checks' matrices as they are. These are what that shows.
SIGNS = "score is the share of right signs, and refuses values other than +1 and -1: "
MEASURED_FAILURES = EXPECTED_FAILURES | {
    "check_fit_score_takes_y": SIGNS + "the check scores real values",
    "check_pipeline_consistency": SIGNS + "the check scores real values in a pipeline",
}
#: What a check says when it fails for a reason that begins so.
WORDS = {
    PAIRS: "missing 1 required positional argument: 'columns'",
    SIGNS: "is neither +1 (like) nor -1 (dislike)",
}

#: Checks pass real-valued matrices, which like_at makes legitimate: they are ratings.
RATINGS = {"like_at": 0.5, "rank": 1, "max_iter": 3, "random_state": 0}
OPTIONS = {
    "tribit": RATINGS | {"n_jobs": 1},
    "alternating-least-squares": {"rank": 1, "max_iter": 3, "random_state": 0},
    "minimum-rank": {"max_rank": 1, "max_iter": 3, "random_state": 0},
    "nuclear-norm": {"max_iter": 3},
    "max-norm-least-squares": {"rank": 1, "max_iter": 3, "random_state": 0},
    "singular-value-thresholding": {},
    "conditional-gradient": {"max_iter": 3},
    "maximum-margin": RATINGS,
    "trace-norm-likelihood": RATINGS,
    "max-norm-likelihood": RATINGS,
    "pu": RATINGS | {"n_jobs": 1, "rho": 0.3},
}
MEASURED = tuple(SYSTEMS[name] for name in OPTIONS if "like_at" not in OPTIONS[name])


def expected_failures(estimator):
    return MEASURED_FAILURES if isinstance(estimator, MEASURED) else EXPECTED_FAILURES


@parametrize_with_checks(
    [SYSTEMS[name](**options) for name, options in OPTIONS.items()]
    + [
        BinaryMatrixCompletion((0.5, 0.3, 0.2), solver="projected_gradient", **OPTIONS["tribit"]),
        SYSTEMS["pu"](loss="squared", **OPTIONS["pu"]),
    ],
    expected_failed_checks=expected_failures,
)
def test_sklearn_check(estimator, check, request):
    mark = request.node.get_closest_marker("xfail")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            check(estimator)
        except Exception as failure:
            if mark is None:
                raise
            if not is_told_by(mark.kwargs["reason"], failure):
                return  # another failure than the one expected: a pass, which the strict mark reports
        else:
            return
    # Not the failure itself: pytest would parse all of scikit-learn's checks for each of its lines.
    raise AssertionError(mark.kwargs["reason"])


def is_told_by(reason, failure):
    """Say whether a check failed for the reason given: some checks wrap the error that they met."""
    words = [words for start, words in WORDS.items() if reason.startswith(start)]
    return words[0] in str(failure.__cause__ or failure)


def test_another_failure_than_the_expected_is_told_apart():
    assert is_told_by(
        PAIRS + "...", TypeError("f() missing 1 required positional argument: 'columns'")
    )
    assert not is_told_by(PAIRS + "...", ValueError("the value 0.5 is neither +1 (like) nor -1"))


def test_an_unexpected_pass_would_fail(request):
    # The marks above carry no strict=, so that pyproject.toml decides.
    assert request.config.getini("xfail_strict") in (True, "true")
    marks = [
        mark
        for parameter in test_sklearn_check.pytestmark[0].args[1]
        for mark in getattr(parameter, "marks", ())
    ]
    estimators = len(SYSTEMS) + 2
    real = len(MEASURED)
    assert len(marks) >= real * len(MEASURED_FAILURES) + (estimators - real) * len(
        EXPECTED_FAILURES
    )
    assert all(mark.name == "xfail" and "strict" not in mark.kwargs for mark in marks)
    assert {mark.kwargs["reason"] for mark in marks} == set(MEASURED_FAILURES.values())


def test_every_system_is_checked():
    assert list(OPTIONS) == list(SYSTEMS)


@pytest.mark.parametrize("name", SYSTEMS)
def test_tags(name):
    tags = SYSTEMS[name]().__sklearn_tags__()
    assert tags.input_tags.sparse
    assert tags.input_tags.allow_nan
    assert not tags.target_tags.required
