import numpy as np
import pytest

from tribit import InvalidInputError
from tribit.metrics.entries import calibration_error, reliability


def test_bins_of_equal_numbers_by_hand():
    rng = np.random.default_rng(0)
    likely = rng.random(103)
    labels = np.where(rng.random(103) < 0.5, 1, -1)
    order = np.argsort(likely)
    total = 0.0
    for part in range(10):
        chosen = order[103 * part // 10 : 103 * (part + 1) // 10]
        total += abs(np.sum(labels[chosen] > 0) - likely[chosen].sum())
    assert calibration_error(likely, labels) == pytest.approx(total / 103)
    table = reliability(likely, labels)
    assert set(table.counts) == {10, 11}
    assert (np.diff(table.predicted) > 0).all()
    assert table.error == calibration_error(likely, labels)


def test_true_probabilities_are_calibrated_and_others_are_off_by_what_they_are_off():
    rng = np.random.default_rng(1)
    likely = rng.uniform(0.2, 0.8, 200_000)
    labels = np.where(rng.random(likely.size) < likely, 1, -1)
    assert calibration_error(likely, labels) < 0.01
    assert calibration_error(likely + 0.15, labels) == pytest.approx(0.15, abs=0.005)


def test_one_bin_compares_the_means():
    likely, labels = np.array([0.1, 0.4, 0.7]), np.array([1, -1, 1])
    assert calibration_error(likely, labels, bins=1) == pytest.approx(2 / 3 - 0.4)


def test_equal_probabilities_stay_together_in_any_order():
    likely = np.repeat([0.2, 0.6, 0.9], [7, 9, 4])
    labels = np.where(np.arange(20) % 3 == 0, 1, -1)
    errors = set()
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(20)
        errors.add(round(calibration_error(likely[order], labels[order], bins=4), 12))
    assert len(errors) == 1
    assert calibration_error([0.3] * 10, [1, -1] * 5) == pytest.approx(0.2)


def test_more_bins_than_entries():
    table = reliability([0.3, 0.8], [-1, 1], bins=10)
    np.testing.assert_allclose(table.predicted, [0.3, 0.8])
    np.testing.assert_array_equal(table.observed, [0, 1])
    assert table.error == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("likely", "labels", "bins", "sentence"),
    [
        ([0.1, 0.2], [1], 10, r"have the shapes \(2,\) and \(1,\)"),
        ([], [], 10, "at least one"),
        ([0.1, 1.2], [1, 1], 10, "position 1: the probability 1.2 is not between 0 and 1"),
        ([np.nan], [1], 10, "position 0: the probability nan is not between 0 and 1"),
        ([0.1, 0.2], [1, 0], 10, r"position 1: the label 0 is not \+1"),
        ([0.1], [1], 0, "bins must be a whole number, at least 1; got 0"),
        ([0.1], [1], True, "bins must be a whole number"),
    ],
)
def test_bad_input_is_refused(likely, labels, bins, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        calibration_error(likely, labels, bins=bins)


def test_certain_predictions_are_probabilities_too():
    found = reliability(np.array([0.0, 1.0]), np.array([-1, 1]), bins=2)
    assert found.error == 0.0
    assert found.predicted.tolist() == found.observed.tolist() == [0.0, 1.0]
