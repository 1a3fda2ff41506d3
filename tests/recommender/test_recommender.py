"""Recommender: one object for lists, probabilities, reasons and new data, and one file."""

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.base import clone

from tribit import (
    BinaryMatrixCompletion,
    InvalidInputError,
    InvalidTypeError,
    Observations,
    Recommender,
    load,
)
from tribit.ranking import CandidateRanker
from tribit.uncertainty import laplace

FIXED = {"gammas": (1, 0, 0), "rank": 3, "l2": 1.0, "l2_intercept": 1.0, "l2_implicit": 2.0}
FIXED |= {"implicit_features": True, "radius": None, "n_jobs": 1, "random_state": 0}


def drawn(shape=(40, 25), seed=0, density=0.4):
    rng = np.random.default_rng(seed)
    U, V = rng.standard_normal((shape[0], 2)), rng.standard_normal((shape[1], 2))
    labels = np.where(rng.random(shape) < 1 / (1 + np.exp(-2 * U @ V.T)), 1, -1)
    return np.where(rng.random(shape) < density, labels, 0)


A = drawn()
ROWS = [f"r{n}" for n in range(40)]
COLUMNS = [f"c{n}" for n in range(25)]


def entries(A, rows=None, columns=None):
    i, j = np.nonzero(A)
    return Observations.from_pairs(i, j, A[i, j], shape=A.shape, row_ids=rows, column_ids=columns)


def made(X, **options):
    model = BinaryMatrixCompletion(**FIXED)
    return Recommender(model, random_state=0, **options).fit(X)


@pytest.fixture(scope="module")
def recommender():
    return made(entries(A, ROWS, COLUMNS))


def test_its_parts_are_those_of_their_own_fits(recommender):
    seen = entries(A, ROWS, COLUMNS)
    model = BinaryMatrixCompletion(**FIXED).fit(seen)
    np.testing.assert_array_equal(recommender.model_.complete(), model.complete())
    ranker = CandidateRanker(random_state=0).fit(seen)
    found = recommender.recommend(["r3", "r0"], 6, avoid_dislikes=0.7)
    expected = model.recommend(
        ["r3", "r0"], 6, exclude_seen=seen, ranker=ranker, avoid_dislikes=0.7
    )
    np.testing.assert_array_equal(found.columns, expected.columns)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-7)


def test_lists_leave_out_what_was_seen_and_every_row_has_one(recommender):
    found = recommender.recommend(n=25)
    assert found.rows.tolist() == ROWS
    for i, shown in enumerate(found.positions):
        assert set(shown) == set(np.flatnonzero(A[i] == 0))
    everything = recommender.recommend(["r5"], 25, exclude_seen=False)
    assert everything.lengths.tolist() == [25]


def test_given_entries_are_left_out_in_the_place_of_the_kept_ones(recommender):
    one = entries(np.array([[1]]), ["r5"], ["c7"])
    found = recommender.recommend(["r5"], 25, exclude_seen=one)
    assert set(found.columns[0]) == set(COLUMNS) - {"c7"}
    with pytest.raises(InvalidTypeError, match="exclude_seen is None"):
        recommender.recommend(["r5"], exclude_seen=None)


def test_probabilities_intervals_and_trade_off_stand_beside_the_scores(recommender):
    found = recommender.recommend(["r3", "r8"], 5, level=0.8)
    rows, columns, _ = found.pairs()
    np.testing.assert_allclose(found.probabilities.values, recommender.predict_proba(rows, columns))
    posterior = laplace(recommender.model_, recommender.seen_)
    interval = posterior.interval(rows, columns, level=0.8)
    np.testing.assert_allclose(found.intervals.lower, interval.lower, rtol=1e-5)
    np.testing.assert_allclose(found.intervals.upper, interval.upper, rtol=1e-5)
    q, d = np.asarray(found.likes), np.asarray(found.dislikes)
    np.testing.assert_allclose(found.dislikes_per_like, d.sum(axis=1) / q.sum(axis=1))
    i, j = np.array([3, 8]).repeat(5), found.positions.values
    likes, dislikes = (rates[i, j] for rates in recommender.ranker_.log_rates(np.arange(40)))
    chance = found.probabilities.values
    p = expit((logit(chance) + likes - dislikes) / 2)
    rate = np.exp(likes) + np.exp(dislikes)
    value = rate * (2 * p - 1)
    assert (value > 0).any()
    np.testing.assert_allclose(found.scores.values[value > 0], value[value > 0])
    observed = recommender.ranker_.horizon_(np.log(rate))  # within the horizon
    np.testing.assert_allclose(q.ravel(), observed * p)
    np.testing.assert_allclose(d.ravel(), observed * (1 - p))
    table = found.table()
    assert list(table)[:4] == ["row", "column", "place", "score"]
    assert {values.shape for values in table.values()} == {(10,)}
    assert recommender.recommend(["r3"], level=None).intervals is None
    with pytest.raises(InvalidInputError, match="level"):
        recommender.recommend(["r3"], level=1.5)


def test_more_dislikes_avoided_are_fewer_expected(recommender):
    expected = [
        found.dislikes.values.sum() / found.likes.values.sum()
        for found in (recommender.recommend(avoid_dislikes=w, level=None) for w in (0.0, 0.5, 8.0))
    ]
    assert expected[0] > expected[1] > expected[2]


def test_a_bundle_is_the_same_again(recommender, tmp_path):
    path = tmp_path / "bundle"
    recommender.save(path)
    again = Recommender.load(path)
    one, other = recommender.recommend(n=4), again.recommend(n=4)
    np.testing.assert_array_equal(one.columns, other.columns)
    np.testing.assert_allclose(one.scores, other.scores, rtol=1e-9)
    np.testing.assert_allclose(one.intervals.lower, other.intervals.lower)
    assert again.info().to_dict() == recommender.info().to_dict()
    again.save(tmp_path / "again")
    assert path.read_bytes() == (tmp_path / "again").read_bytes()
    np.testing.assert_array_equal(load(path).complete(), recommender.model_.complete())


def test_a_model_file_is_a_recommender_without_its_other_parts(tmp_path):
    BinaryMatrixCompletion(**FIXED).fit(A).save(tmp_path / "model")
    bare = Recommender.load(tmp_path / "model")
    assert bare.ranker_ is None
    assert bare.predict([0], [1]).shape == (1,)
    for ask in (bare.recommend, lambda: bare.explain(0, 1), lambda: bare.update(A)):
        with pytest.raises(InvalidInputError, match="keeps no entries"):
            ask()
    assert bare.recommend([0], exclude_seen=False).lengths.all()
    assert "no ranker" in bare.info().about["ranking"]


def test_without_its_entries_a_file_has_no_ranker_and_lists_take_what_to_leave_out(
    recommender, tmp_path
):
    private = made(entries(A, ROWS, COLUMNS), keep_seen=False)
    private.save(tmp_path / "private")
    whole = tmp_path / "whole"
    recommender.save(whole)
    again = Recommender.load(tmp_path / "private")
    assert again.seen_ is None
    assert whole.stat().st_size > (tmp_path / "private").stat().st_size
    with pytest.raises(InvalidInputError, match="keeps no entries"):
        again.recommend(["r1"])
    # Entries of the fit are ranked with a ranker of these, unless it is not wanted.
    for wanted in (True, False):
        found = again.recommend(["r1"], exclude_seen=entries(A, ROWS, COLUMNS), ranker=wanted)
        expected = recommender.recommend(["r1"], ranker=wanted)
        np.testing.assert_array_equal(found.columns, expected.columns)
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-9)
    assert (again.ranker_, again.ranker) == (None, False)
    assert "no ranker" in again.info().about["ranking"]


def test_new_rows_are_folded_in_and_have_lists_and_reasons(recommender, tmp_path):
    new = drawn((3, 25), seed=7, density=0.5)
    names = ["n0", "n1", "n2"]
    more = recommender.fold_in(entries(new, names, COLUMNS))
    assert recommender.model_.shape_ == (40, 25)
    assert more.model_.shape_ == (43, 25)
    assert more.seen_.n_observed == np.count_nonzero(A) + np.count_nonzero(new)
    found = more.recommend(names, 25)
    for i in range(3):
        assert set(found.positions[i]) == set(np.flatnonzero(new[i] == 0))
    old = more.recommend(["r2"], 5)
    np.testing.assert_array_equal(old.columns, recommender.recommend(["r2"], 5).columns)
    reason = more.explain("n1", found.columns[1, 0])
    assert len(reason.entries) == np.count_nonzero(new[1])
    more.save(tmp_path / "more")
    again = Recommender.load(tmp_path / "more").recommend(names, 5)
    np.testing.assert_array_equal(again.columns, more.recommend(names, 5).columns)


def test_without_ids_new_rows_go_on_counting():
    recommender = made(A)
    new = drawn((2, 25), seed=9)
    more = recommender.fold_in(new)
    np.testing.assert_array_equal(more.seen_.to_sparse().toarray(), np.vstack([A, new]))
    found = more.recommend([41], 25)
    assert set(found.positions[0]) == set(np.flatnonzero(new[1] == 0))


def test_new_columns_and_updates_are_ranked_too(recommender):
    new = drawn((40, 2), seed=11, density=0.5)
    more = recommender.fold_in(entries(new, ROWS, ["x0", "x1"]), axis="columns")
    assert more.recommend(["r0"], 27, exclude_seen=False).lengths.sum() == 27
    entry = entries(np.array([[1, -1]]), ["brand new"], ["c3", "c4"])
    updated = recommender.update(entry)
    assert updated.model_.shape_ == (41, 25)
    assert updated.seen_.n_observed == recommender.seen_.n_observed + 2
    assert not {"c3", "c4"} & set(updated.recommend(["brand new"], 23).columns[0])
    assert updated.ranker_.shape_ == (41, 25)


def test_likes_alone_need_no_ranker():
    likes = np.abs(drawn((40, 25), density=0.2))
    found = Recommender(random_state=0).fit(likes, zeros="unobserved")
    assert found.ranker_ is None
    lists = found.recommend([0, 1], 5)
    assert lists.lengths.tolist() == [5, 5]
    assert "being seen" in found.info().about["probabilities are of"]


def test_parameters_are_scikit_learns(recommender):
    again = clone(recommender)
    assert again.get_params()["model__rank"] == 3
    assert not hasattr(again, "model_")
    again.set_params(model__rank=2)
    assert again.model.rank == 2
    with pytest.raises(InvalidTypeError, match="BinaryMatrixCompletion"):
        Recommender(model=3).fit(A)
    for bad in ({"ranker": "maybe"}, {"keep_seen": 2}):
        with pytest.raises((InvalidInputError, InvalidTypeError), match=next(iter(bad))):
            made(A, **bad)


def test_ratings_become_labels():
    ratings = np.where(A == 0, 0, A + 3)
    found = Recommender(BinaryMatrixCompletion(**FIXED), like_at=4, random_state=0).fit(ratings)
    np.testing.assert_array_equal(found.seen_.to_sparse().toarray(), A)


def test_information_is_about_the_data_and_the_choice(tmp_path):
    found = Recommender(random_state=0).fit(A)
    facts = found.info().about
    assert facts["rows x columns"] == "40 x 25"
    assert f"{np.count_nonzero(A)} (" in facts["entries"]
    assert "validation set" in facts["hyperparameters"]
    assert "log-loss" in facts["validation set"]
    found.save(tmp_path / "bundle")
    assert Recommender.load(tmp_path / "bundle").info().about == facts


def test_lists_of_columns_without_entries_have_intervals():
    likes = Observations([0], [1], [1], (2, 3))
    lists = Recommender(random_state=0).fit(likes).recommend(0, 2)
    assert sorted(lists.columns[0].tolist()) == [0, 2]
    assert (lists.intervals.lower <= lists.probabilities[0]).all()
    assert (lists.probabilities[0] <= lists.intervals.upper).all()


def test_a_model_for_every_cell_has_the_intervals_of_its_file(tmp_path):
    model = BinaryMatrixCompletion(
        **FIXED | {"implicit_features": False}, target="all", calibration="platt"
    )
    recommender = Recommender(model, random_state=0).fit(A)
    recommender.save(tmp_path / "bundle")
    lists, again = (
        each.recommend(3, 4) for each in (recommender, Recommender.load(tmp_path / "bundle"))
    )
    np.testing.assert_allclose(lists.intervals.lower, again.intervals.lower)
    assert (lists.intervals.lower < lists.intervals.upper).all()


def test_a_model_that_imputes_a_fitted_one_keeps_it():
    A = np.random.default_rng(0).choice([-1, 0, 1], (30, 20))
    options = {"rank": 2, "l2": 1.0, "l2_intercept": 1.0, "implicit_features": False}
    inner = BinaryMatrixCompletion((1, 0, 0), **options, random_state=0).fit(A)
    options |= {"radius": None, "random_state": 0}
    model = BinaryMatrixCompletion((0.6, 0.2, 0.2), imputed=inner, **options)
    copied = clone(model)
    assert copied.imputed is inner
    assert copied.get_params() == model.get_params()
    bundle = Recommender(model, random_state=0).fit(A)
    np.testing.assert_array_equal(bundle.model_.row_factors_, model.fit(A).row_factors_)
    assert not hasattr(clone(model), "row_factors_")
