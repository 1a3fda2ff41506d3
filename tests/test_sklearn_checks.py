import warnings

from sklearn.utils.estimator_checks import parametrize_with_checks

from tribit import BinaryMatrixCompletion

#: scikit-learn's checks call predict(X) with a matrix of samples. Ours takes the rows and columns to predict: a
#: matrix is what is completed, and it has no "new samples". That is the one cause of every failure below.
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


@parametrize_with_checks(
    [
        # Checks pass real-valued matrices, which like_at makes legitimate: they are ratings.
        BinaryMatrixCompletion(like_at=0.5, rank=1, max_iter=3, n_jobs=1, random_state=0),
        BinaryMatrixCompletion(
            (0.5, 0.3, 0.2),
            like_at=0.5,
            rank=1,
            max_iter=3,
            solver="projected_gradient",
            n_jobs=1,
            random_state=0,
        ),
    ],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
def test_sklearn_check(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def test_an_unexpected_pass_would_fail(request):
    # The marks above carry no strict=, so that pyproject.toml decides.
    assert request.config.getini("xfail_strict") in (True, "true")
    marks = [
        mark
        for parameter in test_sklearn_check.pytestmark[0].args[1]
        for mark in getattr(parameter, "marks", ())
    ]
    assert len(marks) >= 2 * len(EXPECTED_FAILURES)
    assert all(mark.name == "xfail" and "strict" not in mark.kwargs for mark in marks)
    assert {mark.kwargs["reason"] for mark in marks} == set(EXPECTED_FAILURES.values())


def test_tags():
    tags = BinaryMatrixCompletion().__sklearn_tags__()
    assert tags.input_tags.sparse
    assert tags.input_tags.allow_nan
    assert not tags.target_tags.required
