"""Weighted means of members of different families: predictions, new rows, reasons and files."""

import dataclasses
import pickle
import warnings

import numpy as np
import pytest
from scipy.special import expit

from other_parts import stacked
from tribit import BinaryMatrixCompletion, InvalidInputError, Observations, Recommender, load
from tribit.folding.new_rows import scores_of_new_rows
from tribit.model.calibration import Platt

RNG = np.random.default_rng(5)
SHAPE = 30, 20
TRUTH = RNG.normal(size=(30, 2)) @ RNG.normal(size=(2, 20)) + RNG.normal(size=20)
A = np.where(RNG.random(SHAPE) < expit(2 * TRUTH), 1, -1)
A = np.where(RNG.random(SHAPE) < 0.5, A, 0)
A[0, :3], A[:3, 0] = 1, -1
NEW = np.vstack([A[4:7], np.zeros(20, dtype=int)])
NEW[3, 2] = 1
FIXED = {
    "l2": 1.5,
    "l2_intercept": 0.7,
    "search": False,
    "n_jobs": 1,
    "random_state": 0,
}
FAMILIES = {
    "plain": {"rank": 2},
    "implicit": {
        "implicit_features": True,
        "l2_implicit": 2.0,
        "activity_floor": (1, 0.5),
        "rank": 3,
    },
    "mixture": {
        "gammas": (0.6, 0.2, 0.2),
        "radius": 1.0,
        "rho": 0.5,
        "rank": 2,
    },
}
WEIGHTS = (1.0, 3.0)
PAIRS = [
    ("plain", "implicit"),
    ("implicit", "plain"),
    ("plain", "mixture"),
    ("mixture", "implicit"),
    ("plain", "plain"),
]
pairs = pytest.mark.parametrize("names", PAIRS, ids=" and ".join)
dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


def fitted(name, dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return BinaryMatrixCompletion(**FIXED, **FAMILIES[name], dtype=dtype).fit(A)


def mean_of(models, weights=WEIGHTS):
    """The model whose members are those of the models, with such weights."""
    return stacked(models, weights)


@pytest.fixture(scope="module")
def made():
    """Return the two models and their mean, each fitted once."""
    models = {}

    def make(names, dtype="float64"):
        for name in names:
            if (name, dtype) not in models:
                models[name, dtype] = fitted(name, dtype)
        two = [models[name, dtype] for name in names]
        return two, mean_of(two)

    return make


def x(model):
    return model.complete("score")


def weighted(first, second):
    return (np.asarray(first, dtype=np.float64) + 3.0 * np.asarray(second)) / 4.0


@pairs
@dtypes
def test_the_score_is_the_weighted_mean_of_the_members(made, names, dtype):
    (first, second), mean = made(names, dtype)
    near = {"rtol": 1e-12, "atol": 1e-12} if dtype == "float64" else {"atol": 2e-5}
    np.testing.assert_allclose(x(mean), weighted(x(first), x(second)), **near)
    rows, columns = np.array([0, 7, 29]), np.array([19, 3, 0])
    found = weighted(*(each.decision_function(rows, columns) for each in (first, second)))
    np.testing.assert_allclose(mean.decision_function(rows, columns), found, **near)
    np.testing.assert_allclose(mean.predict_proba(rows, columns), expit(found), **near)
    np.testing.assert_array_equal(mean.complete("sign"), np.where(x(mean) >= 0, 1, -1))
    assert mean.row_factors_.shape == (30, first.rank_ + second.rank_)
    assert mean.row_factors_.dtype == dtype
    assert mean.n_members_ == 2
    assert mean.spec_ is first.spec_
    for number, each in enumerate((first, second)):
        np.testing.assert_array_equal(
            mean.fitted_.member(number).scores.factors.at(rows, columns),
            each.decision_function(rows, columns),
        )


@pairs
def test_the_order_of_the_members_does_not_matter_to_the_score(made, names):
    two, mean = made(names)
    np.testing.assert_allclose(x(mean_of(two[::-1], (6.0, 2.0))), x(mean), rtol=1e-12, atol=1e-12)


def test_weights_are_relative_and_the_calibrator_is_that_of_the_mean(made):
    two, mean = made(PAIRS[0])
    np.testing.assert_allclose(x(mean_of(two, (0.25, 0.75))), x(mean), rtol=1e-12, atol=1e-12)
    equal = mean_of(two, (7.0, 7.0))
    np.testing.assert_allclose(x(equal), (x(two[0]) + x(two[1])) / 2.0, rtol=1e-12, atol=1e-12)
    calibrated = mean.with_fitted(dataclasses.replace(mean.fitted_, calibrator=Platt(0.5, 0.1)))
    np.testing.assert_allclose(calibrated.complete(), expit(0.5 * x(mean) + 0.1), rtol=1e-12)
    assert calibrated.fitted_.member(1).calibrator is None


# New rows and columns


@pairs
@dtypes
@pytest.mark.parametrize("prior", ["fit", "new"])
def test_a_new_row_is_folded_into_each_member(made, names, dtype, prior):
    two, mean = made(names, dtype)
    found = x(mean.fold_in(NEW, prior=prior))
    near = {"rtol": 1e-9, "atol": 1e-9} if dtype == "float64" else {"atol": 2e-5}
    np.testing.assert_allclose(
        found, weighted(*(x(each.fold_in(NEW, prior=prior)) for each in two)), **near
    )
    np.testing.assert_array_equal(found[:30], x(mean))
    assert np.abs(found[30:] - x(mean)[0]).max() > 0.1


@pairs
def test_a_new_column_is_folded_into_each_member(made, names):
    two, mean = made(names)
    found = x(mean.fold_in(A[:, :4], axis="columns"))
    expected = weighted(*(x(each.fold_in(A[:, :4], axis="columns")) for each in two))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pairs
def test_scores_of_new_rows_are_those_of_the_fold(made, names):
    _, mean = made(names)
    found = scores_of_new_rows(mean.fitted_, Observations.from_matrix(NEW))
    rows, columns = (each.ravel() for each in np.indices(NEW.shape))
    np.testing.assert_allclose(
        found.x(rows, columns),
        mean.fold_in(NEW, prior="new").decision_function(rows + 30, columns),
        rtol=1e-12,
        atol=1e-12,
    )


@pairs
def test_an_update_is_one_of_each_member(made, names):
    two, mean = made(names)
    more = np.zeros((32, 21), dtype=int)
    more[2, 5], more[31, :6], more[:5, 20] = -1, 1, 1
    found = x(mean.update(more, A))
    expected = weighted(*(x(each.update(more, A)) for each in two))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_nothing_known_is_the_mean_of_nothing_known(made):
    two, mean = made(PAIRS[0])
    corner = np.array([30]), np.array([20])
    found = mean.fitted_.factors_with_unseen.at(*corner)
    each = [one.fitted_.factors_with_unseen.at(*corner) for one in two]
    np.testing.assert_allclose(found, weighted(*each), rtol=1e-12)


# Reasons


@pairs
def test_the_parts_and_effects_of_an_explanation_are_weighted_means(made, names):
    two, mean = made(names)
    for row, column in ((4, 9), (0, 0)):
        found = mean.explain(row, column, A)
        alone = [each.explain(row, column, A) for each in two]
        assert found.x == pytest.approx(mean.decision_function(row, column)[0], rel=1e-12)
        assert sum(found.parts.values()) == pytest.approx(found.x, abs=1e-9)
        for name in {name for each in alone for name in each.parts}:
            expected = weighted(*(each.parts.get(name, 0.0) for each in alone))
            assert found.parts[name] == pytest.approx(expected, abs=1e-9)
        assert found.residual == pytest.approx(
            weighted(*(each.residual for each in alone)), abs=1e-9
        )
        effects, first, second = (
            {each.column: each.contribution for each in one.entries} for one in (found, *alone)
        )
        assert set(effects) == set(np.flatnonzero(A[row]))
        for name, effect in effects.items():
            assert effect == pytest.approx(weighted(first[name], second[name]), abs=1e-9)


@pairs
def test_a_row_that_was_folded_in_is_explained(made, names):
    two, mean = made(names)
    seen = np.vstack([A, NEW])
    found = mean.fold_in(NEW).explain(31, 9, seen)
    alone = [each.fold_in(NEW).explain(31, 9, seen) for each in two]
    assert found.x == pytest.approx(weighted(*(each.x for each in alone)), abs=1e-9)
    assert sum(found.parts.values()) == pytest.approx(found.x, abs=1e-9)
    assert len(found.entries) == np.count_nonzero(NEW[1])


# Files


@pairs
@dtypes
def test_a_file_keeps_it_bit_for_bit(made, names, dtype, tmp_path):
    _, mean = made(names, dtype)
    mean.save(tmp_path / "one")
    copy = load(tmp_path / "one")
    for what in ("probability", "score", "sign"):
        np.testing.assert_array_equal(copy.complete(what), mean.complete(what), strict=True)
    for ours, theirs in zip(mean.fitted_.members, copy.fitted_.members, strict=True):
        check_same(theirs, ours, rho=False)
    copy.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    np.testing.assert_array_equal(x(copy.fold_in(NEW)), x(mean.fold_in(NEW)))
    np.testing.assert_array_equal(x(copy.update(A[:3], A)), x(mean.update(A[:3], A)))
    assert str(copy.explain(4, 9, A)) == str(mean.explain(4, 9, A))


def check_same(found, member, *, rho=True):
    """Check that a member is the other one, to the bit; a file does not keep every rho."""
    spec = member.spec if rho else dataclasses.replace(member.spec, rho=found.spec.rho)
    assert found.spec == spec
    assert (found.own_rank, found.weight) == (member.own_rank, member.weight)
    for kind in ("unknowns", "factors"):
        ours, theirs = getattr(member, kind), getattr(found, kind)
        assert theirs.intercept == ours.intercept
        for one, other in zip(ours.arrays, theirs.arrays, strict=True):
            np.testing.assert_array_equal(other, one, strict=True)
    for one, other in zip(member.maps, found.maps, strict=True):
        assert (one.shared, one.encoder) == (other.shared, other.encoder)
        for kind in ("cold_start", "activity"):
            assert (getattr(one, kind) is None) == (getattr(other, kind) is None)
        if one.activity is not None:
            assert (one.activity.typical, one.activity.floor) == (
                other.activity.typical,
                other.activity.floor,
            )
            np.testing.assert_array_equal(other.activity.popularity, one.activity.popularity)


def test_a_copy_and_another_process_have_the_same_bits(made):
    _, mean = made(PAIRS[0])
    copy = pickle.loads(pickle.dumps(mean))
    np.testing.assert_array_equal(x(copy), x(mean))
    np.testing.assert_array_equal(x(copy.fold_in(NEW)), x(mean.fold_in(NEW)))


def test_a_recommender_of_such_a_mean_answers_and_survives_a_file(made, tmp_path):
    (first, _), mean = made(PAIRS[0])
    plain = Recommender(first, random_state=0).fit(A)
    found = plain.replace(fitted=mean.fitted_)
    np.testing.assert_array_equal(found.model_.complete(), mean.complete())
    found.save(tmp_path / "model")
    copy = Recommender.load(tmp_path / "model")
    np.testing.assert_array_equal(copy.model_.complete(), mean.complete())
    for name in ("columns", "scores", "probabilities"):
        ours, theirs = (getattr(each.recommend(range(30), 4), name) for each in (found, copy))
        np.testing.assert_array_equal(theirs, ours)
    entries = [(int(j), int(NEW[0, j])) for j in np.flatnonzero(NEW[0])]
    assert entries
    one = Observations.from_matrix(NEW[:1])
    scores, _ = copy.new_rows(one)
    columns = np.arange(20)
    np.testing.assert_allclose(
        scores.x(np.zeros(20, dtype=int), columns),
        mean.fold_in(NEW[:1], prior="new").decision_function(np.full(20, 30), columns),
        rtol=1e-12,
    )


# Members in general


@pytest.mark.parametrize("name", FAMILIES)
@dtypes
def test_a_fold_after_a_load_is_that_before_the_save_to_the_bit(made, name, dtype, tmp_path):
    (model, _), _ = made((name, name), dtype)
    model.save(tmp_path / "model")
    copy = load(tmp_path / "model")
    check_same(copy.fitted_.members[0], model.fitted_.members[0], rho=False)
    for answer in (
        lambda each: each.fold_in(NEW),
        lambda each: each.fold_in(NEW, prior="new"),
        lambda each: each.fold_in(A[:, :5], axis="columns"),
        lambda each: each.fold_in(NEW).fold_in(np.vstack([A, NEW])[:, :2], axis="columns"),
        lambda each: each.update(A[:5], A),
    ):
        ours, theirs = answer(model), answer(copy)
        np.testing.assert_array_equal(x(theirs), x(ours))
        for one, other in zip(ours.unknowns_.arrays, theirs.unknowns_.arrays, strict=True):
            np.testing.assert_array_equal(other, one, strict=True)


def test_a_folded_model_is_kept_exactly_too(made, tmp_path):
    for name in FAMILIES:
        (model, _), _ = made((name, name), "float32")
        folded = model.fold_in(NEW)
        folded.save(tmp_path / name)
        copy = load(tmp_path / name)
        check_same(copy.fitted_.members[0], folded.fitted_.members[0], rho=False)
        np.testing.assert_array_equal(x(copy.fold_in(A[:3])), x(folded.fold_in(A[:3])))


def test_the_unknowns_of_members_of_one_family_alone_have_a_mean(made):
    _, mean = made(("plain", "implicit"))
    with pytest.raises(InvalidInputError, match="different features, so that their unknowns have"):
        _ = mean.unknowns_
    two, mean = made(("plain", "plain"))
    assert mean.unknowns_.row_factors.shape == (30, 4)
    assert mean.fitted_.members[0].unknowns is two[0].fitted_.members[0].unknowns
