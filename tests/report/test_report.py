"""Reports: their numbers are the library's, with a given or a held-out test set."""

from dataclasses import asdict

import numpy as np
import pytest

import tribit
from report_models import Parsed, bundle, draw, fixed
from tribit import (
    BinaryMatrixCompletion,
    InvalidInputError,
    InvalidTypeError,
    Observations,
    Recommender,
)
from tribit.evaluation.ranking import ranking_report
from tribit.metrics.entries import reliability
from tribit.report import make_report, write_report
from tribit.report.facts import histogram, map_facts
from tribit.report.trial import split_entries
from tribit.selection import Stack


@pytest.fixture(scope="module")
def data():
    return draw().split(0.2, random_state=10)


@pytest.fixture(scope="module")
def fitted(data):
    return bundle(data[0])


@pytest.fixture(scope="module")
def tested(fitted, data):
    return make_report(fitted, data[1])


@pytest.fixture(scope="module")
def searched(data):
    return Recommender(random_state=0).fit(data[0])


def test_measures_are_those_of_evaluate(tested, fitted, data):
    found = tribit.evaluate(fitted.model_, data[1], data[0], ranker=fitted.ranker_)
    assert tested.evaluation == found
    assert not tested.held_out_here
    words = Parsed(tested.html).words
    assert f"the error rate of the model is {100 * found.error_rate:.1f}%" in words
    low, high = found.intervals["error_rate"]
    assert f"(95% interval: {100 * low:.1f}% to {100 * high:.1f}%)" in words
    effects = found.baselines["row and column biases"]
    assert f"that of row and column biases is {100 * effects.measures['error_rate']:.1f}%" in words
    difference = f"{effects.differences['log_loss'][0]:+.4f}".replace("-", "\N{MINUS SIGN}")
    assert f"difference of the log-loss {difference}" in words


def test_the_data_are_counted(tested, data):
    facts, seen = tested.facts["data"], data[0]
    assert (facts["likes"], facts["dislikes"]) == (seen.n_likes, seen.n_dislikes)
    for side, places in (("row", seen.rows), ("column", seen.columns)):
        counts = np.bincount(places, minlength=facts[f"{side}s"])
        bars = facts["histograms"][side]
        assert sum(bars["counts"]) == facts[f"{side}s"]
        for label, n in zip(bars["labels"], bars["counts"], strict=True):
            low, _, high = label.partition("\N{EN DASH}")
            assert n == np.count_nonzero((counts >= int(low)) & (counts <= int(high or low)))
        tenth = np.sort(counts)[::-1][: counts.size // 10].sum() / counts.sum()
        assert facts["head"][side] == pytest.approx(tenth)
        assert facts["popularity"][side]["entries"][4] == pytest.approx(tenth)


@pytest.mark.parametrize(
    ("counts", "labels"),
    [
        ([3, 5, 4, 3], ["3", "4", "5"]),
        ([20, 60, 21], ["20-23", "24-27", "28-31"]),
        ([0, 1, 2, 900], ["0", "1", "2-3"]),
    ],
)
def test_bars_are_single_of_equal_width_or_doubling(counts, labels):
    bars = histogram(np.array(counts))
    assert [each.replace("\N{EN DASH}", "-") for each in bars["labels"]][:3] == labels
    assert sum(bars["counts"]) == len(counts)
    last = bars["labels"][-1].split("\N{EN DASH}")
    assert int(last[0]) <= max(counts) <= int(last[-1])


def test_calibration_is_the_reliability_curve(tested, fitted, data):
    scores = fitted.model_.scores_
    placed = scores.place_entries(data[1])
    rows, columns, labels = placed.rows, placed.columns, placed.labels
    likely = scores.probability(scores.x(rows, columns))
    facts = tested.facts["calibration"]
    curve = reliability(likely, labels, bins=min(10, labels.size // 20))
    np.testing.assert_allclose(facts["predicted"], curve.predicted)
    np.testing.assert_allclose(facts["observed"], curve.observed)
    # By hand: the error of the first bin, over rows.
    first = np.argsort(likely, kind="stable")[: curve.counts[0]]
    residual = ((labels[first] > 0) - curve.observed[0]) / first.size
    sums = np.array([residual[rows[first] == row].sum() for row in np.unique(rows[first])])
    error = np.sqrt(sums.size / (sums.size - 1) * np.sum(sums**2))
    assert facts["high"][0] == pytest.approx(curve.observed[0] + 1.959964 * error)


def test_the_trade_off_is_that_of_lists(tested, fitted, data):
    facts = tested.facts["trade_off"]
    for weight, report in zip(facts["weights"], facts["reports"], strict=True):
        options = {"avoid_dislikes": weight, "ranker": fitted.ranker_}
        found = ranking_report(fitted.model_, data[0], data[1], facts["n"], **options)
        assert report == asdict(found)
    lists = fitted.recommend(facts["rows"], facts["n"], avoid_dislikes=facts["weights"][-1])
    for names, shown in zip(lists.columns, facts["lists"][-1], strict=True):
        assert [each[0] for each in shown] == names.tolist()
    truth = data[1].to_sparse()
    row = data[1].row_index([facts["rows"][0]])[0]
    for name, likely, label in facts["lists"][-1][0]:
        assert label == truth[row, data[1].column_index([name])[0]]
        assert likely == pytest.approx(fitted.predict_proba(facts["rows"][0], name)[0])


def test_similar_columns_are_those_of_the_library(tested, fitted):
    facts = tested.facts["columns"]
    for k in (0, 7):
        found = fitted.similar(columns=[facts["names"][k]], n=6)
        assert [facts["names"][other] for other in facts["near"][k]] == found.nearest[0].tolist()
    assert facts["kept"] == pytest.approx(1.0)  # of rank 2


def test_ids_beside_those_on_a_map_are_found(fitted, data, monkeypatch):
    monkeypatch.setattr("tribit.report.facts.MAX_POINTS", 4)
    monkeypatch.setattr("tribit.report.facts.MAX_NAMES", 9)
    found = map_facts(fitted.model_.scores_, data[0], "columns")
    counts = data[0].counts[1]
    assert (found["drawn"], found["searched"], found["of"]) == (4, 9, 40)
    most = np.sort(counts)[::-1]
    assert sorted(found["counts"][:4], reverse=True) == most[:4].tolist()
    assert sorted(found["counts"][4:9], reverse=True) == most[4:9].tolist()
    assert len(found["names"]) == len(found["x"]) == len(found["counts"]) >= 9
    for name, near in zip(found["names"], found["near"], strict=False):
        expected = fitted.similar(columns=[name], n=6).nearest[0].tolist()
        assert [found["names"][other] for other in near] == expected


def test_distances_on_a_map_are_those_of_scores(tested, fitted):
    x = fitted.model_.scores_.factors
    scores = (x.row_factors - x.row_factors.mean(axis=0)) @ x.column_factors.T
    facts = tested.facts["columns"]
    points = np.stack([facts["x"], facts["y"]], axis=1)

    def distances(each):
        return np.linalg.norm(each[:, None] - each[None], axis=2)

    ratio = distances(points)[0, 1:] / distances(scores.T)[0, 1:]
    np.testing.assert_allclose(ratio, ratio[0], rtol=0.05)  # coordinates have three digits


def test_unusual_rows_are_worst_by_hand(tested, fitted, data):
    scores = fitted.model_.scores_
    placed = scores.place_entries(data[1])
    rows, columns, labels = placed.rows, placed.columns, placed.labels
    likely = scores.probability(scores.x(rows, columns))
    loss = -np.log(np.where(labels > 0, likely, 1 - likely))
    found = tested.facts["unusual"]["worst"]["rows"]
    excess = {}
    for row in np.unique(rows):
        own = loss[rows == row]
        if own.size >= 3:
            excess[row] = (own - loss.mean()).sum() / (own.size + 5)
    worst = sorted(excess, key=lambda row: -excess[row])[:5]
    assert [each["name"] for each in found] == [f"person {row}" for row in worst]
    first = worst[0]
    assert found[0]["loss"] == pytest.approx(loss[rows == first].mean(), rel=1e-5)


def test_reasons_are_those_of_explain(tested, fitted):
    for example in tested.facts["examples"]:
        assert len(example["columns"]) == 5
        for column in example["columns"]:
            why = fitted.explain(example["row"], column["name"])
            assert column["probability"] == pytest.approx(why.probability)
            by_name = {each.column: each for each in why.entries}
            assert column["reasons"]
            for each in column["reasons"]:
                entry = by_name[each["name"]]
                assert each["change"] == pytest.approx(entry.probability_change, abs=1e-6)
                assert each["label"] == entry.label
            strongest = max(why.entries, key=lambda each: each.probability_change)
            assert column["reasons"][0]["name"] == strongest.column


def named_lists(facts):
    """Return lists by row: name, probability and reasons (label, name, points) of each place."""
    names = facts["names"]
    found = {}
    for row, columns, likely, why in zip(
        *(facts[each] for each in ("rows", "columns", "probabilities", "reasons")), strict=True
    ):
        reasons = [
            [
                ("liked", names[k], points) if k >= 0 else ("disliked", names[-1 - k], points)
                for k, points in place
            ]
            for place in why or []
        ]
        found[row] = [names[k] for k in columns], list(likely), reasons
    return found


def test_every_row_has_its_list_with_reasons(tested, fitted):
    facts = tested.facts["lookup"]
    ids = fitted.axes_.rows.ids
    assert facts["rows"] == ids.tolist()
    assert facts["of"] == facts["explained"] == ids.size
    counts = fitted.seen_.counts[0]
    np.testing.assert_array_equal(facts["likes"] + facts["dislikes"], counts)
    lists = fitted.recommend(None, 10, level=None)
    found = named_lists(facts)
    for i, row in enumerate(ids):
        columns, likely, _ = found[row]
        assert columns == lists.columns[i].tolist()
        assert likely == pytest.approx(lists.probabilities[i], abs=6e-4)
    for row in ids[[0, 7, 31]]:
        columns, _, reasons = found[row]
        for column, why in zip(columns, reasons, strict=True):
            entries = sorted(
                fitted.explain(row, column).entries, key=lambda e: -e.probability_change
            )
            wanted = [
                (
                    "liked" if e.label > 0 else "disliked",
                    e.column,
                    pytest.approx(100 * e.probability_change, abs=0.051),
                )
                for e in entries[:2]
                if e.probability_change >= 0.0005
            ]
            assert why == wanted


def test_many_lists_are_a_sample_and_costly_reasons_are_left_out(fitted, data, monkeypatch):
    counts = fitted.seen_.counts[0]
    monkeypatch.setattr("tribit.report.reasons.MAX_LOOKUP_ROWS", 10)
    monkeypatch.setattr("tribit.report.reasons.MAX_PAIRS", int((counts**2).mean() * 5))
    report = make_report(fitted, data[1], model_file=None)
    facts = report.facts["lookup"]
    order = np.sort(counts)
    kept = {f"person {k}" for k in range(counts.size)} & set(facts["rows"])
    assert len(kept) == 10
    held = np.sort([counts[int(row.split()[1])] for row in facts["rows"]])
    assert (held[0], held[-1]) == (order[0], order[-1])
    assert 3 <= facts["explained"] <= 6
    words = Parsed(report.html).words
    assert f"Searches 10 of {counts.size} rows, evenly spaced by their number of entries" in words
    assert "tribit recommend MODEL --for ID" in words
    assert (
        f"{facts['explained']} lists have reasons; for others: tribit explain MODEL ID ID" in words
    )


def test_the_search_is_shown(searched, data):
    report = make_report(searched, data[1])
    facts, search = report.facts["search"], searched.model_.search_
    assert [each["score"] for each in facts["candidates"]] == [c.score for c in search.candidates]
    chosen = [each for each in facts["families"] if each["chosen"]]
    assert [each["score"] for each in chosen] == [search.best.score]
    assert f"It chose {search.best.settings.family}" in Parsed(report.html).words
    mixed = [each for each in facts["candidates"] if each["shares"]]
    assert all(sum(each["shares"]) == pytest.approx(1.0) for each in mixed)
    assert (facts["view"] is not None) == any(c.settings.uses_unobserved for c in search.candidates)


def test_the_same_input_gives_the_same_bytes(fitted, tmp_path):
    write_report(fitted, tmp_path / "one.html")
    fitted.save(tmp_path / "model.tribit")
    loaded = Recommender.load(tmp_path / "model.tribit")
    report = write_report(loaded, tmp_path / "two.html")
    written = (tmp_path / "two.html").read_bytes()
    assert written == (tmp_path / "one.html").read_bytes()
    assert written.decode() == report.html
    assert report.size == len(written)
    assert make_report(fitted, random_state=1).html != report.html


def stack_of_two(trials, best, most):
    """Return the stack of the best candidate and the first, whatever it gains."""
    members = (best, next(each for each in trials.candidates if each is not best))
    x = np.array([trials.scores[each] for each in members])
    return None if most < 2 else Stack(members, (0.7, 0.3), 0.5, (0.51, 0.6), x)


@pytest.mark.usefixtures("short_trials")
def test_seconds_of_a_search_are_not_on_the_page(data, monkeypatch):
    monkeypatch.setattr("tribit.selection.search.stack_of", stack_of_two)
    model = BinaryMatrixCompletion((1, 0, 0), implicit_features=False, members=2, random_state=0)
    pages = [make_report(Recommender(model, random_state=0).fit(data[0])) for _ in range(2)]
    assert "The model is the weighted mean of 2 fits" in Parsed(pages[0].html).words
    assert pages[0].html == pages[1].html


def test_a_model_without_entries_needs_a_test(fitted, data, tmp_path):
    fitted.model_.save(tmp_path / "model.tribit")
    alone = Recommender.load(tmp_path / "model.tribit")
    with pytest.raises(InvalidInputError, match=r"keeps no entries.*test="):
        make_report(alone)
    report = make_report(alone, data[1])
    assert report.evaluation.log_loss == pytest.approx(
        tribit.evaluate(fitted.model_, data[1]).log_loss
    )
    assert "no baselines" in Parsed(report.html).words
    assert report.facts["trade_off"] is None
    assert report.facts["examples"] == []


def test_a_test_with_entries_of_the_fit_is_refused(fitted, data):
    with pytest.raises(
        InvalidInputError, match=r"^5 of the 5 test entries were also training entries"
    ):
        make_report(fitted, data[0].take(np.arange(5)))


def test_another_object_than_a_recommender_is_refused(fitted, data):
    with pytest.raises(InvalidTypeError, match=r"pass a tribit\.Recommender"):
        make_report(fitted.model_, data[1])


def test_an_unwritable_path_is_refused_before_the_work(fitted, tmp_path):
    with pytest.raises(InvalidInputError, match="directory does not exist"):
        write_report(fitted, tmp_path / "nowhere" / "report.html")


def test_limits_come_from_the_data(tested, data):
    texts = " ".join(tested.facts["limits"])
    assert "calibrated on pairs like the observed ones" in texts
    assert "few" not in texts.lower()
    short = data[0].take(np.arange(0, data[0].n_observed, 12))
    texts = " ".join(make_report(bundle(short)).facts["limits"])
    assert "Not a precise measurement" in texts
    assert "half of them have at most" in texts


def test_no_ids_are_named_by_position(data):
    plain = Observations(data[0].rows, data[0].columns, data[0].labels, data[0].shape)
    facts = make_report(bundle(plain)).facts
    assert facts["columns"]["names"][3] == "column 3"
    assert facts["examples"][0]["row"].startswith("row ")
    assert facts["examples"][0]["columns"][0]["reasons"][0]["name"].startswith("column ")


def test_a_map_has_the_principal_components_of_the_scores(fitted, data):
    scores = fitted.model_.scores_
    X = scores.factors.row_factors.astype(float) @ scores.factors.column_factors.T.astype(float)
    X -= X.mean(axis=0)
    X -= X.mean(axis=1, keepdims=True)
    _, values, right = np.linalg.svd(X)
    points = right[:2].T * values[:2]
    points *= np.sign(points[np.argmax(np.abs(points), axis=0), [0, 1]])
    found = map_facts(scores, data[0], "columns")
    np.testing.assert_allclose(
        np.column_stack([found["x"], found["y"]]), points / np.abs(points).max(), atol=2e-3
    )
    assert found["kept"] == pytest.approx(np.sum(values[:2] ** 2) / np.sum(values**2), rel=1e-4)
    for k, axis in enumerate(found["axes"]):
        assert axis["share"] == pytest.approx(values[k] ** 2 / np.sum(values**2), rel=1e-4)
        order = np.argsort(
            points[:, k], kind="stable"
        )  # all 40 are among the 100 with the most entries
        assert axis["low"] == [f"film {place}" for place in order[:3]]
        assert axis["high"] == [f"film {place}" for place in order[::-1][:3]]


def test_without_a_test_set_entries_are_held_out(fitted, data):
    report = make_report(fitted, random_state=11)
    assert report.held_out_here
    assert report.evaluation.n_entries == data[0].n_observed // 10
    assert "No test set was given" in Parsed(report.html).words
    train, held_out = split_entries(data[0], 11)
    assert held_out.n_observed == data[0].n_observed // 10
    assert not (np.abs(train.to_sparse()).multiply(np.abs(held_out.to_sparse()))).nnz
    again = fixed(random_state=11).fit(train)
    found = tribit.evaluate(again, held_out, train)
    assert report.evaluation.log_loss == pytest.approx(found.log_loss, rel=1e-4)


@pytest.mark.parametrize("options", [{}, {"implicit_features": True, "l2_implicit": 3.0}])
def test_a_refit_on_the_same_entries_is_the_same_model(data, options):
    model = fixed(activity_floor=(1, 1), **options).fit(data[0])
    again = model.with_fitted(model.refit(data[0], 0))
    assert again.n_members_ == model.n_members_
    np.testing.assert_allclose(again.complete(), model.complete(), atol=0.02)


def test_a_refit_of_likes_alone_has_the_regression_again():
    likes = draw((40, 60))
    likes = likes.take(np.flatnonzero(likes.labels > 0))
    found = Recommender(random_state=0).fit(likes).model_
    again = found.with_fitted(found.refit(likes, 0))
    assert again.rank_ == found.rank_
    np.testing.assert_allclose(again.complete(), found.complete(), atol=0.05)
