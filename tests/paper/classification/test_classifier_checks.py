import warnings

from sklearn.utils.estimator_checks import parametrize_with_checks

from tribit.paper.classification import RiskClassifier

#: The checks label with 0 and 1 (which the PU risk reads as unlabelled and positive, so it is the one that is
#: checked), with 0, 1 and 2, or with words. Ours are -1, 0 and +1 whatever y holds.
LABELS = "labels are -1, 0 (unlabelled) and +1: "
EXPECTED_FAILURES = {
    "check_classifier_not_supporting_multiclass": LABELS + "the label 2 is refused in other words",
    "check_classifier_data_not_an_array": LABELS + "the check labels with 1 and 2",
    "check_classifiers_classes": LABELS + "the check labels with words",
    "check_classifiers_train": LABELS + "the check expects 0 to be a class to predict",
    "check_estimators_dtypes": LABELS + "the check labels with 1 and 2",
    "check_fit2d_1feature": LABELS + "the check labels with 0, 1 and 2",
}


@parametrize_with_checks(
    [
        RiskClassifier("pu", prior=0.3, l2=0.01, n_centres=20, random_state=0),
        RiskClassifier("pu", prior=0.3, l2=0.01, basis="linear", loss="logistic", random_state=0),
    ],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
def test_sklearn_check(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)
