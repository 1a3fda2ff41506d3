"""Stacks: weights against a general-purpose solver, members, and everything that is done with a stack."""

import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from scripted_trials import SHARES, stack_of_families
from selection_data import low_rank, observed, telling_mask

from other_parts import stacked
from tribit import BinaryMatrixCompletion, Observations, Recommender, load, positions, similar
from tribit.backends import Arithmetic
from tribit.backends.objective import features_of
from tribit.errors import InvalidInputError
from tribit.metrics.entries import log_loss
from tribit.model.factors import Factors
from tribit.model.links import Logistic, Probit
from tribit.model.spec import ModelSpec
from tribit.selection import folds as folds_module
from tribit.selection import refit as refit_module
from tribit.selection import search as search_module
from tribit.selection import stacking as stacking_module
from tribit.selection import trials as trials_module
from tribit.selection.folds import make_folds
from tribit.selection.record import DONE, Candidate, Stack
from tribit.selection.search import MIN_SHARE, stack_of
from tribit.selection.stacking import MIN_GAIN_IN_NATS, fit_weights, select_members
from tribit.selection.trials import Options, Trials
from tribit.solvers import LBFGS, Newton
from tribit.solvers.loop import INTERRUPTED, OUT_OF_TIME
from tribit.uncertainty import beta, laplace

A = low_rank((40, 30), density=0.5)
FIXED = {
    "rank": 2,
    "l2": 0.5,
    "l2_intercept": 1.0,
    "search": False,
    "n_jobs": 1,
    "random_state": 0,
}
LINKS = {"logistic": Logistic(), "probit": Probit(), "steep": Logistic(3.0)}


def labels_of(x, rng):
    return np.where(rng.random(x.size) < expit(x), 1, -1).astype(np.int8)


# The weights


def problem(seed, link):
    """Return scores of candidates near a truth, some nearly equal and one that is its opposite, labels and weights."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(1, 7)), int(rng.integers(60, 400))
    truth = rng.normal(0, rng.uniform(0.3, 2.5), n)
    x = truth * rng.uniform(0.3, 2.0, (m, 1)) + rng.normal(0, rng.uniform(0.05, 2.0), (m, n))
    if seed % 3 == 0:
        x[-1] = -truth
    if seed % 2 == 0 and m > 2:
        x[1] = x[0] + 1e-3 * rng.normal(size=n)
    weights = rng.uniform(0.01, 5.0, n) if seed % 4 else np.ones(n)
    scale = link.level(0.75) / Logistic().level(0.75)
    return x * scale, labels_of(truth + rng.normal(), rng), weights


def mean_loss(x, labels, weights, link):
    """Return the mean loss and its gradient in the weights and the offset, from the link alone."""
    design, share = np.vstack([x, np.ones(labels.size)]), weights / weights.sum()

    def value(unknowns):
        z = unknowns @ design
        p = link.probability(labels * z)  # of the label: both links are symmetric
        loss = -share @ np.log(np.maximum(p, 1e-300))
        slopes = np.where(labels > 0, link.first(z, 1), link.first(z, -1))
        return float(loss), design @ (share * slopes)

    return value


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("seed", range(12))
def test_weights_are_the_minimum_of_a_general_solver_and_meet_the_optimality_conditions(seed, name):
    link = LINKS[name]
    x, labels, weights = problem(seed, link)
    found = fit_weights(x, labels, weights, link)
    value = mean_loss(x, labels, weights, link)
    m = len(x)
    best = minimize(
        value,
        np.append(np.full(m, 1.0 / m), 0.0),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * m + [(None, None)],
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000, "maxfun": 20000},
    )
    loss, gradient = value(np.append(found.weights, found.offset))
    assert found.loss == pytest.approx(loss, rel=1e-12)
    assert found.loss <= best.fun + 1e-8
    # First-order conditions: no slope where a weight is free, none downwards where it is 0.
    used = np.append(found.weights > 0.0, True)
    np.testing.assert_allclose(gradient[used], 0.0, atol=1e-4)
    assert np.all(gradient[~used] > -1e-6)
    assert np.all(found.weights >= 0.0)
    if found.weights.any():
        np.testing.assert_allclose(found.shares, found.weights / found.weights.sum(), rtol=1e-12)


def test_bounds_are_active_in_some_of_these_problems():
    zero = [
        (fit_weights(*problem(seed, Logistic()), Logistic()).weights == 0.0) for seed in range(12)
    ]
    assert 5 < np.concatenate(zero).sum() < np.concatenate(zero).size


def test_a_second_start_has_the_same_minimum():
    x, labels, weights = problem(1, Logistic())
    first = fit_weights(x, labels, weights, Logistic())
    again = fit_weights(x, labels, weights, Logistic(), start=np.full(len(x), 3.0))
    assert again.loss == pytest.approx(first.loss, abs=1e-8)


def test_a_weight_of_two_is_an_entry_twice():
    x, labels, _ = problem(5, Logistic())
    counts = 1 + np.arange(labels.size) % 2
    twice = np.repeat(np.arange(labels.size), counts)
    one = fit_weights(x, labels, counts.astype(float), Logistic())
    other = fit_weights(x[:, twice], labels[twice], np.ones(twice.size), Logistic())
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-6)
    assert one.loss == pytest.approx(other.loss, rel=1e-10)


@pytest.mark.parametrize(
    "x",
    [
        np.zeros((2, 60)),
        np.array([np.ones(60), np.arange(60) / 30 - 1.0]),
        1e8 * np.array([np.arange(60) - 30.0, 30.0 - np.arange(60)]),
    ],
    ids=["nothing", "a constant", "certain everywhere"],
)
def test_scores_without_curvature_have_finite_weights(x):
    labels = np.where(np.arange(60) % 3, 1, -1).astype(np.int8)
    found = fit_weights(x, labels, np.ones(60), Logistic())
    assert np.all(np.isfinite(found.weights))
    assert np.all(found.weights >= 0.0)
    assert np.isfinite(found.loss)
    assert found.shares.sum() == pytest.approx(1.0)
    assert select_members(x, labels, np.ones(60), Logistic(), most=2)


@pytest.mark.parametrize("size", [20.0, 40.0, 400.0])
def test_where_no_entry_is_uncertain_the_weights_are_still_the_minimum(size):
    """One score for all entries: the best probability is the share of likes, however certain the start is."""
    labels = np.repeat([1, -1], [900, 100])
    found = fit_weights(np.full((1, 1000), size), labels, np.ones(1000), Logistic())
    assert found.loss == pytest.approx(-0.9 * np.log(0.9) - 0.1 * np.log(0.1), rel=1e-9)
    assert found.weights[0] * size + found.offset == pytest.approx(np.log(9.0), abs=1e-4)


# The members


def noisy(n=4000, members=4, noise=1.0, seed=0):
    """Return scores with errors of their own around the truth, and labels drawn from that."""
    rng = np.random.default_rng(seed)
    truth = 1.5 * rng.standard_normal(n)
    scores = truth + noise * rng.standard_normal((members, n))
    return scores, labels_of(truth, rng)


def best_pair(x, labels, first):
    """Return the best place beside the first, by fits of all pairs."""
    ones = np.ones(labels.size)
    pairs = {k: fit_weights(x[[first, k]], labels, ones, Logistic()).loss for k in range(len(x))}
    del pairs[first]
    return min(pairs, key=pairs.get)


def test_members_are_added_by_their_gain():
    x, labels = noisy(noise=np.array([[1.0], [0.8], [1.2], [2.5]]))
    ones = np.ones(labels.size)
    alone = [fit_weights(x[[k]], labels, ones, Logistic()).loss for k in range(4)]
    chosen = select_members(x, labels, ones, Logistic(), most=4)
    assert chosen[0] == int(np.argmin(alone)) == 1
    assert chosen[1] == best_pair(x, labels, 1) == 0
    assert len(set(chosen)) == len(chosen)
    assert select_members(x, labels, ones, Logistic(), most=2) == chosen[:2]
    assert select_members(x, labels, ones, Logistic(), most=1) == chosen[:1]
    assert select_members(x, labels, ones, Logistic(), most=4, first=3)[0] == 3
    # Each gains what it must.
    losses = [
        fit_weights(x[chosen[:k]], labels, ones, Logistic()).loss for k in range(1, len(chosen) + 1)
    ]
    assert np.all(-np.diff(losses) * labels.size >= MIN_GAIN_IN_NATS)


def test_the_gain_is_counted_in_entries_of_even_weight():
    x, labels = noisy(n=300, members=2)
    ones = np.ones(300)
    one, two = (fit_weights(x[:k], labels, ones, Logistic()).loss for k in (1, 2))
    nats = 300 * (one - two)
    assert nats > MIN_GAIN_IN_NATS
    for share, wanted in ((0.99, [0, 1]), (1.01, [0])):
        options = {"most": 2, "first": 0, "min_gain": share * nats}
        assert select_members(x, labels, ones, Logistic(), **options) == wanted
        # The same entries, each of weight 7: no more is known.
        assert select_members(x, labels, 7.0 * ones, Logistic(), **options) == wanted


def test_noise_is_not_added():
    more = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        truth = rng.standard_normal(600)
        x = np.vstack([truth, rng.standard_normal((12, 600))])
        labels = labels_of(truth, rng)
        chosen = select_members(x, labels, np.ones(600), Logistic(), most=5)
        assert chosen[0] == 0
        more += len(chosen) > 1
    # Twice the gain is chi-square with 1 degree of freedom, half of them cut off at 0: a probability of .0023 each.
    assert more <= 2


def test_the_same_scores_again_or_worse_ones_are_not_added():
    x, labels = noisy(members=1)
    tried = np.vstack([x, x, -x, 0.0 * x, 2.0 * x])
    assert len(select_members(tried, labels, np.ones(labels.size), Logistic(), most=5)) == 1


def test_candidates_whose_weight_would_be_negative_do_not_crowd_out_the_best():
    x, labels = noisy(members=6, noise=np.array([[1.0]] * 5 + [[1.8]]))
    tried = np.vstack([x[0], -x[1:5], x[5]])
    chosen = select_members(tried, labels, np.ones(labels.size), Logistic(), most=3, first=0)
    assert chosen == [0, 5]


def test_each_addition_fits_the_three_candidates_with_the_largest_predicted_gains(monkeypatch):
    x, labels = noisy(members=7)
    sizes = []

    def counted(x, *rest):
        sizes.append(len(x))
        return fit_weights(x, *rest)

    monkeypatch.setattr(stacking_module, "fit_weights", counted)
    assert len(select_members(x, labels, np.ones(labels.size), Logistic(), most=3)) == 3
    # Each candidate alone, the first member, and three for each of two additions.
    assert sizes == [1] * 8 + [2] * 3 + [3] * 3


# The stack of some trials


class Held:
    """Held-out entries of which only the number is asked."""

    def __init__(self, n):
        self.n_observed = n


def trials_of(x, labels, *, calibration=None, eligible=lambda _: True):
    """Return trials whose candidates have these scores at the held-out entries."""
    folds = make_folds(observed(A), None, np.random.default_rng(0))
    trials = Trials(
        folds,
        Options(Arithmetic("float32", 1, "auto")),
        scoring="log_loss",
        most=None,
        deadline=None,
        calibration=calibration,
        eligible=eligible,
    )
    trials.labels, trials.weights = labels, np.ones(labels.size)
    trials.folds = [replace(folds[0], held_out=Held(labels.size))]
    for rank, scores in enumerate(x, start=1):
        candidate = Candidate(ModelSpec(rank=rank), *trials.judge(scores, Logistic()), 1.0, 1)
        trials.candidates.append(candidate)
        trials.scores[candidate] = scores
    return trials


def test_a_stack_has_its_members_weights_and_score():
    x, labels = noisy(noise=np.array([[1.0], [0.8], [1.2], [2.5]]))
    trials = trials_of(x, labels)
    found = stack_of(trials, trials.best, 3)
    assert [each.settings.rank for each in found.members] == [2, 1, 3]
    wanted = fit_weights(x[[1, 0, 2]], labels, np.ones(labels.size), Logistic()).shares
    np.testing.assert_allclose(found.weights, wanted, atol=1e-6)
    assert list(found.weights) == sorted(found.weights, reverse=True)
    assert sum(found.weights) == pytest.approx(1.0)
    assert min(found.weights) >= MIN_SHARE
    np.testing.assert_array_equal(found.scores, x[[1, 0, 2]])
    mean = found.mean_scores(3)
    np.testing.assert_allclose(mean, np.array(found.weights) @ x[[1, 0, 2]])
    assert found.score == pytest.approx(log_loss(Logistic(), mean, labels))
    assert found.alone == tuple(each.score for each in found.members)
    assert found.score < min(found.alone)
    # Of a part of the members: weights relative to each other.
    np.testing.assert_allclose(
        found.mean_scores(2), np.average(x[[1, 0]], axis=0, weights=found.weights[:2])
    )


def test_no_stack_of_one_or_of_ineligible_candidates():
    x, labels = noisy()
    trials = trials_of(x, labels)
    assert stack_of(trials, trials.best, 1) is None
    only = trials_of(x, labels, eligible=lambda settings: settings.rank == 1)
    assert stack_of(only, only.best, 5) is None
    two = trials_of(x, labels, eligible=lambda settings: settings.rank < 3)
    assert {each.settings.rank for each in stack_of(two, two.best, 5).members} == {1, 2}


def test_no_stack_where_hardly_one_label_is_held_out():
    x, labels = noisy(n=800)
    rare = np.where(np.arange(800) < 10, -1, 1).astype(np.int8)
    trials = trials_of(x, rare)
    assert stack_of(trials, trials.best, 5) is None
    assert np.count_nonzero(labels < 0) > 20
    even = trials_of(x, labels)
    assert stack_of(even, even.best, 5) is not None


def test_the_text_and_the_table_of_a_stack():
    members = tuple(
        Candidate(ModelSpec(rank=rank), 0.62, (), seconds, 1)
        for rank, seconds in ((10, 1.0), (5, 0.5))
    )
    stack = Stack(members, (0.75, 0.25), 0.6, (0.61, 0.62))
    assert str(stack) == (
        "the weighted mean of 2 fits, 0.6000: 0.75 factors: rank 10, l2 5 (alone 0.6100); "
        "0.25 factors: rank 5, l2 5 (alone 0.6200)"
    )
    first, second = stack.table()
    assert (first["family"], first["weight"], first["score"], first["rank"]) == (
        "factors",
        0.75,
        0.61,
        10,
    )
    assert (second["weight"], second["rank"]) == (0.25, 5)


# The mean of factors


def random_factors(rng, rank, shape=(7, 5)):
    return Factors(
        rng.standard_normal((shape[0], rank)),
        rng.standard_normal((shape[1], rank)),
        float(rng.standard_normal()),
        rng.standard_normal(shape[0]),
        rng.standard_normal(shape[1]),
    )


def entries(factors):
    P, Q = factors.product_factors()
    return P @ Q.T


def test_the_mean_of_factors_has_the_mean_of_the_entries():
    rng = np.random.default_rng(0)
    members = [random_factors(rng, rank) for rank in (1, 3, 2)]
    mean = Factors.mean_of(members)
    assert mean.rank == 6
    np.testing.assert_allclose(entries(mean), np.mean([entries(each) for each in members], axis=0))
    assert Factors.mean_of(members[:1]) is members[0]
    single = Factors.mean_of([each.astype("float32") for each in members])
    assert single.row_factors.dtype == single.row_intercepts.dtype == np.float32


def test_the_mean_of_parts_combines_to_the_mean_of_factors():
    rng = np.random.default_rng(1)
    seen = observed(rng.choice([-1, 0, 1], (7, 5)))
    features = features_of(ModelSpec(implicit_features=True), seen, None)
    members = [random_factors(rng, rank, (12, 12)) for rank in (2, 3)]
    whole = features.combine(Factors.mean_of(members))
    parts = [entries(features.combine(each)) for each in members]
    np.testing.assert_allclose(entries(whole), np.mean(parts, axis=0))


# A model of several families, from the search to the answers

TABLE = telling_mask((120, 40))
IDS = [f"u{n}" for n in range(120)], [f"i{n}" for n in range(40)]
SEEN = Observations.from_pairs(
    *np.nonzero(TABLE),
    TABLE[np.nonzero(TABLE)],
    shape=TABLE.shape,
    row_ids=IDS[0],
    column_ids=IDS[1],
)
ROWS, COLUMNS = np.array(["u0", "u7", "u119"]), np.array(["i5", "i39", "i0"])
#: Hyperparameters that make a short search; the families are intercepts, factors and implicit features.
OPTIONS = {
    "gammas": (1, 0, 0),
    "l2_intercept": 3.0,
    "l2_power": 1.0,
    "n_jobs": 1,
    "random_state": 0,
}


@pytest.fixture(scope="module", autouse=True)
def short_search():
    """Fit candidates by few iterations and stack the best of each family: no test here asks which are best."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials_module, "MAX_SWEEPS", 4)
        patch.setattr(search_module, "stack_of", stack_of_families)
        yield


@pytest.fixture(scope="module")
def model(short_search):
    return BinaryMatrixCompletion(**OPTIONS, tol=1e-6).fit(SEEN)


@pytest.fixture(scope="module")
def recommender(model):
    plain = BinaryMatrixCompletion(**{**FIXED, "l2": 5.0})
    return Recommender(plain, random_state=0).fit(SEEN).replace(fitted=model.fitted_)


def members_of(model):
    """Return a model for each member of another."""
    return [
        model.with_fitted(model.fitted_.member(number))
        for number in range(len(model.fitted_.members))
    ]


def weighted(model, values):
    """Return the weighted mean of something that each member has."""
    return np.average(list(values), axis=0, weights=[each.weight for each in model.fitted_.members])


def scores(model):
    return model.complete("score").astype(float)


def test_the_members_are_of_different_families_and_have_the_weights_of_the_stack(model):
    search, members = model.search_, model.fitted_.members
    stack = search.stack
    assert model.n_members_ == len(members) == len(stack.members) > 1
    assert len({each.spec.family for each in members}) == 3
    assert tuple(each.weight for each in members) == stack.weights == SHARES
    assert search.best is stack.members[0]
    assert model.spec_.family == search.best.settings.family
    for member, candidate in zip(members, stack.members, strict=True):
        assert member.spec.is_close(replace(candidate.settings, rho=member.spec.rho))
    assert f"Uses {stack}" in str(search)
    assert set(search.families()) == {each.spec.family for each in members}
    assert search.stop_reason.startswith(DONE)


def test_held_out_scores_are_the_weighted_mean_and_calibrate_the_whole(model):
    stack = model.search_.stack
    x, labels, weights = model.search_.held_out
    np.testing.assert_allclose(x, np.array(stack.weights) @ stack.scores)
    assert x.size == model.search_.n_held_out == SEEN.n_observed
    assert model.calibration_ == beta(x, labels, weights)


def test_predictions_are_the_weighted_mean_of_the_members_and_one_calibrator(model):
    each = members_of(model)
    mean = weighted(model, (one.decision_function(ROWS, COLUMNS) for one in each))
    np.testing.assert_allclose(model.decision_function(ROWS, COLUMNS), mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        model.predict_proba(ROWS, COLUMNS), model.calibration_(mean), rtol=1e-5
    )
    assert all(one.calibration_ is None for one in each)
    np.testing.assert_allclose(scores(model), weighted(model, map(scores, each)), atol=2e-5)
    assert np.ptp(model.complete()) > 0.2


def test_new_rows_updates_and_the_transpose_are_those_of_each_member(model):
    new = Observations.from_pairs(
        [0, 0, 0], [1, 4, 9], [1, -1, 1], shape=(1, 40), row_ids=["new"], column_ids=IDS[1]
    )
    more = Observations.from_pairs(
        [0, 1], [2, 30], [-1, 1], shape=(2, 40), row_ids=["u3", "late"], column_ids=IDS[1]
    )
    each = members_of(model)
    for change in (
        lambda one: one.fold_in(new),
        lambda one: one.update(more, SEEN),
        lambda one: one.with_fitted(one.fitted_.transposed),
    ):
        found, wanted = (
            scores(change(model)),
            weighted(model, (scores(change(one)) for one in each)),
        )
        np.testing.assert_allclose(found, wanted, atol=5e-5)
    assert scores(model.fold_in(new)).shape == (121, 40)
    turned = scores(model.with_fitted(model.fitted_.transposed))
    np.testing.assert_allclose(turned.T, scores(model), atol=1e-6)


def test_explanations_sum_to_the_score_of_the_whole(model):
    row = IDS[0][SEEN.rows[0]]
    found = model.explain(row, "i5", SEEN)
    each = [one.explain(row, "i5", SEEN) for one in members_of(model)]
    assert found.x == pytest.approx(model.decision_function([row], ["i5"])[0], abs=1e-5)
    assert sum(found.parts.values()) == pytest.approx(found.x, abs=1e-5)
    assert found.residual == pytest.approx(
        weighted(model, (one.residual for one in each)), abs=1e-5
    )


def test_intervals_are_those_of_the_first_member(model):
    first = members_of(model)[0]
    ours, theirs = laplace(model, SEEN), laplace(first, SEEN)
    for what in ("score", "probability"):
        interval, alone = (each.interval(ROWS, COLUMNS, what=what) for each in (ours, theirs))
        np.testing.assert_array_equal(interval.lower, alone.lower)
        np.testing.assert_array_equal(interval.upper, alone.upper)
    assert np.all(interval.upper > interval.lower)


def test_positions_and_neighbours_are_those_of_the_weighted_mean(model):
    X = scores(model)
    Z = X - X.mean(axis=0) - X.mean(axis=1, keepdims=True) + X.mean()
    left, values, right = np.linalg.svd(Z)
    found = positions(model, n=2)
    P, Q = found.rows.coordinates, found.columns.coordinates
    np.testing.assert_allclose(P @ Q.T, left[:, :2] * values[:2] @ right[:2], atol=1e-4 * values[0])
    product = model.row_factors_.astype(float) @ model.column_factors_.T.astype(float)
    alike = np.corrcoef(product.T)[5]
    alike[5] = -np.inf
    nearest = similar(model, columns=["i5"], n=3)
    assert nearest.nearest[0].tolist() == [f"i{n}" for n in np.argsort(-alike)[:3]]


def test_a_file_keeps_the_stack_and_its_answers(model, recommender, tmp_path):
    model.save(tmp_path / "model")
    copy = load(tmp_path / "model")
    assert copy.members == "auto"
    assert copy.n_members_ == model.n_members_
    for what in ("probability", "score", "sign"):
        np.testing.assert_array_equal(copy.complete(what), model.complete(what), strict=True)
    ours, theirs = model.search_.stack, copy.search_.stack
    assert str(theirs) == str(ours)
    assert theirs.scores is None
    assert theirs.members[0] is copy.search_.best
    for name in ("weights", "score", "alone"):
        assert getattr(theirs, name) == getattr(ours, name)
    assert [each.settings.choices()["rank"] for each in theirs.members] == [
        each.settings.rank for each in ours.members
    ]
    copy.save(tmp_path / "again")
    assert (tmp_path / "model").read_bytes() == (tmp_path / "again").read_bytes()
    recommender.save(tmp_path / "recommender")
    loaded = Recommender.load(tmp_path / "recommender")
    lists = [each.recommend(list(ROWS), 4) for each in (recommender, loaded)]
    np.testing.assert_array_equal(lists[1].columns, lists[0].columns)
    np.testing.assert_array_equal(lists[1].probabilities, lists[0].probabilities)


def test_exported_vectors_have_the_scores_of_the_whole(recommender, model):
    (_, left), (_, right) = recommender.vectors(dtype="float64").sides.values()
    product = left @ right.T
    np.testing.assert_allclose(product, scores(model), atol=1e-5)


def test_a_refit_keeps_members_weights_and_calibrator(model):
    again = model.with_fitted(model.refit(SEEN, 0))
    assert [each.spec.family for each in again.fitted_.members] == [
        each.spec.family for each in model.fitted_.members
    ]
    assert [each.weight for each in again.fitted_.members] == [
        each.weight for each in model.fitted_.members
    ]
    assert again.calibration_ == model.calibration_
    np.testing.assert_allclose(again.complete(), model.complete(), atol=0.1)
    assert np.mean(np.abs(again.complete() - model.complete())) < 0.005


@pytest.mark.parametrize("max_iter", [None, 7])
def test_each_member_has_the_iterations_of_its_own_solver(monkeypatch, max_iter):
    """Newton's method needs few, L-BFGS for implicit features many: one must not be cut off by the other's limit."""
    used, fit_one = [], refit_module.minimise_in_stages

    def spy(solver, objective, constraints, start, stopping, draws):
        used.append((type(solver), stopping.max_iter))
        return fit_one(solver, objective, constraints, start, stopping, draws)

    monkeypatch.setattr(refit_module, "minimise_in_stages", spy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BinaryMatrixCompletion(**OPTIONS, max_iter=max_iter).fit(SEEN)
        wanted = [
            (LBFGS if family in ("implicit features", "intercepts") else Newton)
            for family in (each.spec.family for each in model.fitted_.members)
        ]
        assert set(wanted) == {LBFGS, Newton}
        assert used == [(kind, max_iter or kind.max_iter) for kind in wanted]
        used.clear()
        model.refit(SEEN, 0)
    assert used == [(kind, max_iter or kind.max_iter) for kind in wanted]
    assert model.converged_ is (max_iter is None)


def test_the_bits_do_not_depend_on_the_threads(model):
    again = BinaryMatrixCompletion(**{**OPTIONS, "n_jobs": 2}, tol=1e-6).fit(SEEN)
    assert again.search_.stack.weights == model.search_.stack.weights
    np.testing.assert_array_equal(again.row_factors_, model.row_factors_)
    assert again.calibration_ == model.calibration_


# How many


def test_one_member_is_the_single_best_model(model):
    alone = BinaryMatrixCompletion(**OPTIONS, members=1).fit(SEEN)
    search = alone.search_
    assert (alone.n_members_, search.stack) == (1, None)
    # The stages are the same, and so is what they found.
    ours = [each.settings for each in search.candidates]
    assert ours == [each.settings for each in model.search_.candidates]
    x, labels, weights = search.held_out
    least = min(each.score for each in search.candidates)
    assert (search.best.score - least) * x.size <= MIN_GAIN_IN_NATS
    assert alone.calibration_ == beta(x, labels, weights)


def test_so_many_members_at_most(model):
    assert model.n_members_ == 3
    assert BinaryMatrixCompletion(**OPTIONS, members=2).fit(SEEN).n_members_ == 2


def test_a_rank_that_is_given_is_that_of_the_model():
    given = BinaryMatrixCompletion(**OPTIONS, rank=3).fit(SEEN)
    assert given.n_members_ == 1
    assert given.row_factors_.shape[1] == 3


def test_without_a_search_there_is_one_fit():
    assert BinaryMatrixCompletion(**FIXED, members=3).fit(A).n_members_ == 1


@pytest.mark.parametrize("value", [0, -1, 1.5, "many", None])
def test_a_number_that_is_none_is_refused(value):
    with pytest.raises(InvalidInputError, match="members must be a whole number, at least 1"):
        BinaryMatrixCompletion(**FIXED, members=value).fit(A)


# What ends early


def few_entries_first(monkeypatch):
    """Let the stages use two folds of the five, so that finalists are fitted on three more."""
    monkeypatch.setattr(folds_module, "MIN_HELD_OUT_OF_STAGES", SEEN.n_observed // 3)


def further_fits_end(monkeypatch, error):
    """Let an error end the second finalist."""
    original, calls = Trials.score, []

    def score(trials, settings):
        if len(trials.folds) == 3:
            calls.append(settings)
            if len(calls) == 2:
                raise error
        return original(trials, settings)

    few_entries_first(monkeypatch)
    monkeypatch.setattr(Trials, "score", score)
    return calls


def test_finalists_are_fitted_on_every_fold(monkeypatch):
    few_entries_first(monkeypatch)
    search = BinaryMatrixCompletion(**OPTIONS).fit(SEEN).search_
    assert (search.n_folds, search.n_held_out) == (5, SEEN.n_observed)
    sizes = [len(each.scores) for each in search.candidates]
    assert set(sizes) == {2, 5}
    assert 1 < sizes.count(5) < len(sizes) // 2 + 5
    assert len(search.best.scores) == 5
    finalists = [each for each in search.candidates if len(each.scores) == 5]
    assert {"intercepts", "factors"} <= {each.settings.family for each in finalists}
    assert all(any(each is one for one in finalists) for each in search.families().values())
    assert all(any(each is one for one in finalists) for each in search.stack.members)
    assert search.held_out[0].size == search.held_out_biases[0].size == SEEN.n_observed


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (trials_module.SearchEndedError(OUT_OF_TIME), OUT_OF_TIME),
        (KeyboardInterrupt(), INTERRUPTED),
    ],
    ids=["max_time", "Ctrl-C"],
)
def test_a_search_that_ends_among_the_finalists_keeps_the_first_folds(monkeypatch, error, reason):
    calls = further_fits_end(monkeypatch, error)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = BinaryMatrixCompletion(**OPTIONS).fit(SEEN)
    search = model.search_
    assert len(calls) == 2
    assert search.stop_reason == reason
    assert search.n_folds == 2
    assert all(len(each.scores) == 2 for each in search.candidates)
    assert search.held_out[0].size == search.n_held_out < SEEN.n_observed
    assert model.calibration_ is not None
    assert any("Interrupted" in str(each.message) for each in caught) is (reason == INTERRUPTED)
    # Ctrl-C ends it at once, so that there are no further refits either.
    assert model.n_members_ == (1 if reason == INTERRUPTED else 3)


def test_the_keyboard_in_the_second_refit_keeps_a_calibrated_first_one():
    starts = []

    def interrupt(iteration):
        starts.append(iteration.iteration)
        if starts.count(1) == 2:
            raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="[Ii]nterrupted"):
        model = BinaryMatrixCompletion(**OPTIONS, callback=interrupt).fit(SEEN)
    stack = model.search_.stack
    assert len(stack.members) > 1
    assert model.n_members_ == 1
    assert model.stop_reason_ == INTERRUPTED
    assert not model.converged_
    _, labels, weights = model.search_.held_out
    assert model.calibration_ == beta(stack.scores[0], labels, weights)


def test_refits_that_time_cuts_off_leave_a_calibrated_mean_of_the_others(monkeypatch, model):
    """Time ends before the third member, and the calibrator is that of the mean of two."""
    done, fit_one = [], refit_module.minimise_in_stages

    def counted(*arguments):
        done.append(1)
        return fit_one(*arguments)

    monkeypatch.setattr(refit_module, "minimise_in_stages", counted)
    clock = SimpleNamespace(perf_counter=lambda: 0.0 if len(done) < 2 else 1e9)
    monkeypatch.setattr(refit_module, "time", clock)
    cut = BinaryMatrixCompletion(**OPTIONS, tol=1e-6, max_time=1e6).fit(SEEN)
    stack = cut.search_.stack
    assert stack.weights == model.search_.stack.weights
    assert cut.n_members_ == 2 < len(stack.members)
    assert tuple(each.weight for each in cut.fitted_.members) == stack.weights[:2]
    _, labels, weights = cut.search_.held_out
    assert cut.calibration_ == beta(stack.mean_scores(2), labels, weights)
    kept = stacked(members_of(model)[:2], stack.weights[:2])
    np.testing.assert_allclose(
        cut.decision_function(ROWS, COLUMNS), kept.decision_function(ROWS, COLUMNS), atol=1e-5
    )


def scored_entries(n=200):
    """Scores of five candidates at labels with weights, and the entries of them."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(5, n))
    labels = np.where(rng.random(n) < expit(x[0] + 0.5 * x[1]), 1, -1)
    weights = rng.random(n) + 0.5
    return stacking_module._Entries(x, labels, weights / weights.sum(), Logistic())


def test_the_minimum_of_a_quadratic_model_is_that_of_a_solver():
    rng = np.random.default_rng(0)
    for _ in range(5):
        root = rng.normal(size=(4, 4))
        curvature, gradient, at = root @ root.T + 0.1 * np.eye(4), rng.normal(size=4), rng.random(4)

        def value(z, gradient=gradient, curvature=curvature, at=at):
            return gradient @ (z - at) + 0.5 * (z - at) @ curvature @ (z - at)

        bounds = [(0, None)] * 3 + [(None, None)]
        expected = minimize(value, at, bounds=bounds, options={"ftol": 1e-14, "gtol": 1e-10}).x
        found = stacking_module._quadratic_minimum(at, gradient, curvature)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_predicted_gains_are_those_of_one_newton_step_of_all_weights():
    entries = scored_entries()
    chosen = [0, 3]
    found = fit_weights(entries.x[chosen], entries.labels, entries.weights, Logistic())
    gains = stacking_module._predicted_gains(entries, chosen, found)
    assert np.all(gains[chosen] == 0.0)
    z = np.append(found.weights, found.offset) @ np.vstack([entries.x[chosen], np.ones(200)])
    _, first, second = entries.derivatives(z)
    for place in (1, 2, 4):
        design = np.vstack([entries.x[[*chosen, place]], np.ones(200)])
        curvature, slope = (design * second) @ design.T, entries.x[place] @ first
        # The chosen ones are at their minimum: only the slope of the new weight is not 0.
        expected = slope**2 * np.linalg.inv(curvature)[2, 2] / 2 if slope < 0 else 0.0
        assert gains[place] == pytest.approx(expected, rel=1e-4, abs=1e-12)
