"""Curves, histogram and groups of a report, beside scikit-learn and sums by hand."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics import auc, precision_recall_curve, roc_auc_score, roc_curve

from report_models import Parsed, bundle, draw
from tribit.evaluation.held_out import fit_biases
from tribit.metrics.entries import calibration_error, ndcg_of_rows
from tribit.report import make_report
from tribit.report.accuracy import MAX_CURVE_POINTS, curve_facts


@pytest.fixture(scope="module")
def parts():
    return draw((80, 50), 0.5).split(0.3, random_state=0)


@pytest.fixture(scope="module")
def report(parts):
    return make_report(bundle(parts[0]), parts[1])


@pytest.mark.parametrize("ties", [False, True])
def test_curves_are_those_of_scikit_learn(ties):
    rng = np.random.default_rng(0)
    labels = rng.choice(np.array([-1, 1], dtype=np.int8), 150)
    likely = np.clip(0.5 + 0.2 * labels + 0.3 * rng.standard_normal(150), 0, 1)
    likely = np.round(likely, 1) if ties else likely
    found = curve_facts(likely, labels)
    false, true, thresholds = roc_curve(labels > 0, likely, drop_intermediate=False)
    np.testing.assert_allclose(found["thresholds"], thresholds[1:])
    np.testing.assert_allclose(found["recall"], true[1:])
    np.testing.assert_allclose(found["false_likes"], false[1:])
    precision, _, _ = precision_recall_curve(labels > 0, likely)
    np.testing.assert_allclose(found["precision"], precision[:-1][::-1])
    at = found["half"]
    assert found["recall"][at] == pytest.approx(np.mean(likely[labels > 0] >= 0.5))


def test_long_curves_are_thinned_and_keep_their_area():
    rng = np.random.default_rng(0)
    labels = rng.choice(np.array([-1, 1], dtype=np.int8), 5000)
    likely = 1 / (1 + np.exp(-labels - 2 * rng.standard_normal(5000)))
    found = curve_facts(likely, labels)
    assert len(found["recall"]) <= MAX_CURVE_POINTS + 1
    area = auc(np.append(0, found["false_likes"]), np.append(0, found["recall"]))
    assert area == pytest.approx(roc_auc_score(labels > 0, likely), abs=1e-3)


@pytest.mark.parametrize("likely", [[0.1, 0.2, 0.3], [0.7, 0.8, 0.9]])
def test_the_threshold_of_one_half_may_be_beyond_all(likely):
    found = curve_facts(np.array(likely), np.array([-1, 1, 1], dtype=np.int8))
    assert found["half"] == (None if likely[0] < 0.5 else 2)


def test_groups_partition_the_test_set_and_have_its_errors(report, parts):
    train, test = parts
    facts = report.facts["accuracy"]
    for side, places, counts in zip(
        ("row", "column"), (test.rows, test.columns), train.counts, strict=True
    ):
        groups = facts["groups"][side]
        assert len(groups) > 2
        assert sum(each["entries"] for each in groups) == len(test)
        assert all(a["most"] < b["least"] for a, b in pairwise(groups))
        n = counts[places]
        for each in groups:
            some = (n >= each["least"]) & (n <= each["most"])
            assert each["entries"] == some.sum()
            assert each["observed"] == pytest.approx(np.mean(test.labels[some] > 0))
            assert each["interval"][0] <= each["error_rate"] <= each["interval"][1]
        found = report.evaluation
        totals = [
            ("error_rate", found.error_rate),
            ("biases", found.baselines["row and column biases"].measures["error_rate"]),
            ("base_rate", found.baselines["base rate"].measures["error_rate"]),
        ]
        for name, expected in totals:
            total = sum(each[name] * each["entries"] for each in groups) / len(test)
            assert total == pytest.approx(expected)


def test_the_histogram_counts_the_test_set(report, parts):
    histogram = report.facts["accuracy"]["histogram"]
    assert sum(histogram["likes"]) == parts[1].n_likes
    assert sum(histogram["dislikes"]) == parts[1].n_dislikes


def test_all_facts_are_in_the_page_for_the_download(report):
    data = Parsed(report.html).data
    assert set(data) == set(report.facts)
    assert data["accuracy"]["groups"]["row"][0]["error_rate"] == pytest.approx(
        report.facts["accuracy"]["groups"]["row"][0]["error_rate"], rel=1e-4
    )


def test_baselines_have_a_calibration_error_and_biases_an_ndcg(report, parts):
    train, test = parts
    rate = (train.n_likes + 1) / (len(train) + 2)
    rows = {each["title"]: each["baselines"] for each in report.facts["measures"]["rows"]}
    constant, of_biases = rows["calibration error"]
    assert constant == pytest.approx(abs(np.mean(test.labels > 0) - rate))
    scores = fit_biases(train).scores_
    likely = scores.probability(scores.x(test.rows, test.columns))
    assert of_biases == pytest.approx(calibration_error(likely, test.labels))
    order = np.mean(ndcg_of_rows(test.rows, likely, test.labels))
    assert rows["NDCG of a row's entries"] == [None, pytest.approx(order)]
