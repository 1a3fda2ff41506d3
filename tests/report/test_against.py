"""Comparison of a report: the same entries, paired errors, lists, and what is refused."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

import tribit
from report_models import Parsed, bundle, draw
from tribit import InvalidInputError, InvalidTypeError, Observations, Recommender
from tribit.report import make_report
from tribit.report.trial import split_entries


@pytest.fixture(scope="module")
def data():
    train, test = draw().split(0.3, random_state=10)
    return train, *test.split(0.5, random_state=10)


@pytest.fixture(scope="module")
def first(data):
    return bundle(data[0])


def shuffled(observations, seed=0):
    """Return the same entries with rows and columns in another order, without the last ones of these."""
    rng = np.random.default_rng(seed)
    rows, columns = (rng.permutation(n)[: n - 5] for n in observations.shape)
    signs = observations.to_sparse().toarray()[np.ix_(rows, columns)]
    ids = (axis.ids[some] for axis, some in zip(observations.axes, (rows, columns), strict=True))
    i, j = np.nonzero(signs)
    return Observations(i, j, signs[i, j], signs.shape, *ids)


@pytest.fixture(scope="module")
def second(data):
    return bundle(shuffled(data[0]), rank=1, l2=5.0)


@pytest.fixture(scope="module")
def compared(first, second, data):
    return make_report(first, data[1], against=second)


def measures(report):
    return {each["name"]: each for each in report.facts["against"]["measures"]}


def common(data, second):
    """Return the test entries that the second model knows too."""
    rows, columns = (set(axis.ids) for axis in second.axes_)
    test = data[1]
    known = [
        test.axes.rows.ids[i] in rows and test.axes.columns.ids[j] in columns
        for i, j in zip(test.rows, test.columns, strict=True)
    ]
    return test.take(np.flatnonzero(known))


def test_both_are_measured_on_the_entries_that_both_know(compared, first, second, data):
    test, found = common(data, second), measures(compared)
    assert 0 < len(test) < len(data[1])
    for model, side in ((first, "first"), (second, "second")):
        expected = tribit.evaluate(model.model_, test, unknown="skip")
        for name in ("error_rate", "log_loss", "auc", "calibration_error", "ndcg"):
            assert found[name][side] == pytest.approx(getattr(expected, name)), (name, side)
        lists = tribit.evaluate(model.model_, test, model.seen_, ranker=model.ranker_).lists
        assert found["lists_ndcg"][side] == pytest.approx(lists.ndcg)
        assert found["lists_recall"][side] == pytest.approx(lists.recall)
    words = Parsed(compared.html).words
    assert f"on the {len(test)} test entries that both models know" in words
    assert f"{len(data[1]) - len(test)} test entries with an id that a model does not know" in words


def test_differences_are_paired_by_entry_and_clustered_by_row(compared, first, second, data):
    test = common(data, second)
    pairs = test.axes.rows.ids[test.rows], test.axes.columns.ids[test.columns]
    likely = [model.predictions(pairs).probabilities for model in (first, second)]
    loss = [-np.log(np.where(test.labels > 0, each, 1 - each)) for each in likely]
    gap = loss[1] - loss[0]
    sums = np.bincount(test.rows, (gap - gap.mean()) / gap.size)[np.unique(test.rows)]
    error = np.sqrt(sums.size / (sums.size - 1) * np.sum(sums**2))
    found = measures(compared)["log_loss"]
    ends = gap.mean() - 1.959964 * error, gap.mean() + 1.959964 * error
    assert found["difference"] == pytest.approx(gap.mean(), rel=1e-4)
    assert found["interval"] == pytest.approx(ends, rel=1e-4)
    assert found["better"] == (gap.mean() < 0)
    assert found["chance"] == (ends[0] <= 0 <= ends[1])
    luck = "could be luck" if found["chance"] else "is unlikely to be luck"
    said = "better" if found["better"] else "worse"
    words = Parsed(compared.html).words
    assert re.search(rf"The other model is {said} on .*\. The difference {luck}\.", words)


def test_weights_of_test_entries_count(first, data):
    test = data[1].with_weights(np.random.default_rng(0).integers(1, 4, len(data[1])))
    other = bundle(data[0], rank=1)
    found = measures(make_report(first, test, against=other))
    expected = tribit.evaluate(other.model_, test)
    assert found["log_loss"]["second"] == pytest.approx(expected.log_loss)
    assert found["calibration_error"]["second"] == pytest.approx(expected.calibration_error)


def test_most_different_entries_and_rows(compared, first, second, data):
    test = common(data, second)
    pairs = test.axes.rows.ids[test.rows], test.axes.columns.ids[test.columns]
    likely = [model.predictions(pairs).probabilities for model in (first, second)]
    gap = np.abs(likely[1] - likely[0])
    differing = compared.facts["against"]["differing"]
    best = np.argsort(-gap)[:10]
    for place, each in zip(best, differing["entries"], strict=True):
        assert (each["row"], each["column"]) == (pairs[0][place], pairs[1][place])
        assert each["label"] == test.labels[place]
        assert [each["first"], each["second"]] == pytest.approx([p[place] for p in likely])
    for each in differing["sides"]["rows"]:
        theirs = gap[pairs[0] == each["name"]]
        assert (each["n"], each["gap"]) == (theirs.size, pytest.approx(theirs.mean()))


def test_overlap_of_lists(compared, first, second, data):
    test = common(data, second)
    users = np.unique(test.rows[test.labels > 0])
    names = test.axes.rows.ids[users]
    lists = [model.recommend(names, 10).columns for model in (first, second)]
    shared = [len({*lists[0][k]} & {*lists[1][k]}) for k in range(len(users))]
    found = compared.facts["against"]["lists"]
    assert found["rows"] == len(users)
    assert found["shared"] == pytest.approx(np.mean(shared))
    assert found["counts"] == np.bincount(shared, minlength=11).tolist()
    same = [lists[0][k, 0] == lists[1][k, 0] for k in range(len(users))]
    assert found["same_first"] == pytest.approx(np.mean(same))


def test_settings_that_differ(compared, first, second):
    found = {each["name"]: each for each in compared.facts["against"]["specs"]}
    assert set(found) == {"data", "rank", "l2"}
    assert (found["l2"]["first"], found["l2"]["second"]) == ("1", "5")
    assert f"{second.shape_[0]} rows" in found["data"]["second"]
    same = make_report(first, against=first).facts["against"]
    assert same["specs"] == []
    assert same["texts"][0] == "There is no difference in any measure."


def test_without_a_test_set_both_are_refitted_without_the_held_out_entries(first, data):
    other = bundle(data[0], rank=1)
    found = measures(make_report(first, against=other))
    train, held_out = split_entries(data[0], 0)
    for model, side in ((first, "first"), (other, "second")):
        again = model.model_.refit(train, 0).scores
        assert found["log_loss"][side] == tribit.evaluate(again, held_out).log_loss


def test_a_second_test_set(first, data):
    _, test, later = data
    report = make_report(first, test, against=later)
    found = measures(report)
    for entries, side in ((test, "first"), (later, "second")):
        expected = tribit.evaluate(first.model_, entries, data[0], ranker=first.ranker_)
        assert found["auc"][side] == pytest.approx(expected.auc)
        assert found["lists_ndcg"][side] == pytest.approx(expected.lists.ndcg)
        assert found["base_rate"][side] == pytest.approx(np.mean(entries.labels > 0))
        pairs = (
            axis.ids[at]
            for axis, at in zip(entries.axes, (entries.rows, entries.columns), strict=True)
        )
        predicted = first.predictions(tuple(pairs)).probabilities
        assert found["predicted"][side] == pytest.approx(np.mean(predicted))
    words = Parsed(report.html).words
    assert "on the second test set than on the first" in words
    assert f"the second {len(later)} entries of" in words
    assert report.facts["against"]["specs"] is None


def test_unknown_ids_of_a_second_test_set(first, data):
    _, test, later = data
    ids = [axis.ids.copy() for axis in later.axes]
    ids[0][later.rows[0]] = "stranger"
    later = Observations(later.rows, later.columns, later.labels, later.shape, *ids)
    n = np.count_nonzero(later.rows == later.rows[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tribit.UnknownIdWarning)
        words = Parsed(make_report(first, test, against=later).html).words
    share = f"{100 * n / len(later):.1f}%"
    assert f"{share} of the second test set have an id that the model was not fitted on" in words
    with pytest.raises(InvalidInputError, match="stranger"):
        make_report(first, test, against=later, unknown="error")


def test_likes_alone_are_compared_by_lists(data):
    likes = data[0].take(np.flatnonzero(data[0].labels > 0))
    test = data[1].take(np.flatnonzero(data[1].labels > 0))
    models = [
        Recommender(tribit.BinaryMatrixCompletion(rank=rank, search=False, random_state=0)).fit(
            likes
        )
        for rank in (1, 3)
    ]
    report = make_report(models[0], test, against=models[1])
    assert set(measures(report)) == {"lists_ndcg", "lists_recall"}
    assert "NDCG@10 of lists" in report.facts["against"]["texts"][0]
    seen = Recommender(random_state=0).fit(likes)  # of a pair being seen and liked
    mixed = make_report(seen, test, against=bundle(data[0])).facts["against"]
    assert "Their probabilities are those of different events" in " ".join(mixed["texts"])
    assert mixed["differing"] is None


def test_a_file_and_another_threshold(first, second, data, tmp_path):
    path = tmp_path / "second.tribit"
    second.save(path)
    report = make_report(first, data[1], against=path)
    assert "Comparison with second.tribit" in Parsed(report.html).words
    rated = Recommender.load(path)
    rated.reading_ = replace(rated.reading_, like_at=4.0)
    words = " ".join(make_report(first, data[1], against=rated).facts["against"]["texts"])
    assert "The models differ in what a like is" in words


def test_a_model_without_a_recommender(first, data):
    with pytest.raises(InvalidTypeError, match="against is of type BinaryMatrixCompletion"):
        make_report(first, data[1], against=first.model_)


@pytest.mark.parametrize("given", [True, False], ids=["test", "held out"])
def test_what_cannot_be_compared(given, first, data):
    train, test, _ = data
    numbers = Recommender(first.model, random_state=0).fit(train.to_sparse().toarray())
    other = Observations(
        train.rows,
        train.columns,
        train.labels,
        train.shape,
        [f"r{k}" for k in range(train.shape[0])],
        train.axes.columns.ids,
    )
    cases = {"by position": numbers, "knows the ids of no test entry": bundle(other)}
    if given:
        cases["were training entries of the other model"] = bundle(test)
    else:
        forgetful = bundle(train, rank=1)
        forgetful.seen_ = None  # as a file by --no-seen
        cases["keeps no entries"] = forgetful
    for message, model in cases.items():
        with pytest.raises(InvalidInputError, match=message):
            make_report(first, test if given else None, against=model)
