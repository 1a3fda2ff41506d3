import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from other_parts import with_factors, with_parts
from tribit import BinaryMatrixCompletion, InvalidInputError, InvalidTypeError, Observations, Probit
from tribit.evaluation.ranking import ranking_report
from tribit.model import ease
from tribit.model.ease import choose_l2, fit_ease
from tribit.ranking import CandidateRanker, Ranker, rate_ranker
from tribit.ranking.rates import log_linear
from tribit.uncertainty import Platt


def mask(shape=(14, 6), share=0.4, seed=0):
    return (np.random.default_rng(seed).random(shape) < share).astype(float)


def table(shape=(40, 15), seed=0):
    """Labels with popular columns and two kinds of rows, each of which comes to half of the columns."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(2, size=shape[0])[:, None] == (np.arange(shape[1]) % 2)
    often = np.where(kinds, 0.8, 0.15) * rng.uniform(0.2, 1.0, shape[1])
    likes = np.where(rng.random(shape) < np.where(kinds, 0.8, 0.4), 1, -1)
    return likes * (rng.random(shape) < often)


def without(F, i, j):
    F = F.copy()
    F[i, j] = 0
    return F


def predicted(F, i, j, l2):
    """What a ridge regression of column j on the others says of row i: no shortcut at all."""
    others = np.delete(F, j, axis=1)
    weights = np.linalg.solve(others.T @ others + l2 * np.eye(others.shape[1]), others.T @ F[:, j])
    return others[i] @ weights


def held_out_by_hand(F, l2):
    """The same, of a matrix in which the entry was not observed, for every entry."""
    return np.array(
        [[predicted(without(F, i, j), i, j, l2) for j in range(F.shape[1])] for i in range(len(F))]
    )


def judge_of(A, seed=0, **parameters):
    rng = np.random.default_rng(seed)
    model = BinaryMatrixCompletion(
        rank=2,
        l2=5.0,
        max_iter=1,
        tol=1.0,
        n_jobs=1,
        random_state=0,
        search=False,
    )
    model.set_params(**parameters).fit(A)
    return with_factors(
        model,
        row_factors=rng.normal(size=model.row_factors_.shape),
        column_factors=rng.normal(size=model.column_factors_.shape),
    )


class Given:
    """A ranker that is no estimator: rates from outside."""

    def __init__(self, likes, dislikes):
        self.likes, self.dislikes = likes, dislikes
        self.shape_ = likes.shape
        self.row_ids_ = self.column_ids_ = None

    def log_rates(self, rows):
        with np.errstate(divide="ignore"):
            return np.log(self.likes[rows]), np.log(self.dislikes[rows])


# The regression of every column on all others


@pytest.mark.parametrize("l2", [0.3, 2.0, 40.0])
def test_each_entry_is_predicted_as_if_it_had_not_been_observed(l2):
    F = mask()
    F[3], F[:, 2] = 0, 0  # a row and a column of which nothing is known
    scores = fit_ease(sp.csr_array(F), l2).scores(sp.csr_array(F))
    np.testing.assert_allclose(scores, held_out_by_hand(F, l2), rtol=1e-9, atol=1e-12)


def test_some_rows_have_the_same_bits_as_all():
    F = sp.csr_array(mask((30, 9)))
    regression = fit_ease(F, 2.0)
    some = np.array([7, 0, 29])
    assert np.array_equal(regression.scores(F[some]), regression.scores(F)[some])


def error(F, l2):
    F = sp.csr_array(F)
    return np.sum((F.toarray() - fit_ease(F, l2).scores(F)) ** 2)


@pytest.mark.parametrize("sharp", [0.15, 0.45, 0.7, 1.0])
def test_the_ridge_has_the_least_error_of_held_out_entries(sharp):
    rng = np.random.default_rng(1)
    kinds = rng.integers(3, size=80)[:, None] == np.arange(12) % 3
    F = (rng.random((80, 12)) < np.where(kinds, sharp, 0.1)).astype(float)
    chosen = choose_l2(sp.csr_array(F), np.arange(80))
    unit = F.sum() / 12
    least = min(error(F, unit * 2**power) for power in np.linspace(-6, 16, 89))
    assert error(F, chosen) <= least * 1.001


@pytest.mark.parametrize(("lowest", "first", "highest"), [(-6, -3, 0), (3, 5, 9)])
def test_the_ridge_stays_in_its_range(monkeypatch, lowest, first, highest):
    F = mask((40, 6), 0.15)  # the best power is about 0.9
    monkeypatch.setattr(ease, "MIN_POWER", lowest)
    monkeypatch.setattr(ease, "FIRST_POWER", first)
    monkeypatch.setattr(ease, "MAX_POWER", highest)
    bound = highest if highest < 1 else lowest
    assert choose_l2(sp.csr_array(F), np.arange(40)) == F.sum() / 6 * 2.0**bound


def test_the_ridge_is_chosen_on_the_rows_given_by_blocks(monkeypatch):
    F = table() != 0
    F = F.astype(float)
    rows = np.arange(0, 40, 2)
    whole = choose_l2(sp.csr_array(F), rows)
    monkeypatch.setattr(ease, "BLOCK_SCORES", 4 * F.shape[1])
    assert choose_l2(sp.csr_array(F), rows) == pytest.approx(whole, rel=1e-9)
    assert choose_l2(sp.csr_array(F), np.arange(40)) != pytest.approx(whole, rel=1e-3)


# Log-linear rates


def draws(n=300, k=3, seed=0):
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), rng.normal(size=(n, k))])
    came = rng.random(n) < 0.2 * expit(x @ [0.0, 1.0, -0.5, 0.0])
    return x[came].sum(axis=0), x[~came], rng.uniform(1, 3, np.count_nonzero(~came))


def test_the_coefficients_maximise_the_likelihood():
    events, at_risk, weights = draws()

    def loss(t):
        return -(events @ t - weights @ np.exp(at_risk @ t) - 0.7 / 2 * t[1:] @ t[1:])

    t = log_linear(events, at_risk, weights, 0.7)
    other = scipy.optimize.minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(t, other.x, atol=1e-5)
    slopes = scipy.optimize.approx_fprime(t, loss, 1e-6)
    np.testing.assert_allclose(slopes, 0, atol=1e-3)


def test_thinning_the_events_moves_the_intercept_only():
    events, at_risk, weights = draws()
    t, thinned = (log_linear(c * events, at_risk, weights, c * 0.5) for c in (1.0, 1e-3))
    np.testing.assert_allclose(thinned[1:], t[1:], rtol=0.05, atol=0.02)
    exact = log_linear(1e-3 * events, at_risk, 1e-3 * weights, 1e-3 * 0.5)
    np.testing.assert_allclose(exact, t, rtol=1e-6)


def test_events_that_a_feature_tells_apart_have_finite_coefficients():
    at_risk = np.column_stack([np.ones(50), np.linspace(-60, -1, 50)])
    t = log_linear(np.array([5.0, 300.0]), at_risk, np.ones(50), 1.0)
    assert np.isfinite(t).all()
    rates = np.exp(at_risk @ t)
    gradient = np.array([5.0, 300.0]) - at_risk.T @ rates - np.array([0.0, 1.0]) * t
    np.testing.assert_allclose(gradient, 0, atol=1e-4)


def test_a_step_that_is_too_long_is_halved():
    # One cell of a thousand looks like the events: the first Newton step is far too long.
    at_risk = np.column_stack([np.ones(1000), np.r_[np.zeros(999), 30.0]])
    events, weights = np.array([100.0, 3000.0]), np.ones(1000)
    t = log_linear(events, at_risk, weights, 1.0)
    gradient = events - at_risk.T @ np.exp(at_risk @ t) - [0.0, t[1]]
    np.testing.assert_allclose(gradient, 0, atol=1e-3)


# The ranker


def features_by_hand(A, l2):
    """Four features of each entry, every one from a matrix without that entry."""
    seen, liked = (A != 0).astype(float), (A > 0).astype(float)
    found = np.empty((4, *A.shape))
    for i, j in np.ndindex(A.shape):
        rest, kept = without(seen, i, j), without(liked, i, j)
        # Floors: a tenth of the column's mean, which is drawn to that of all columns.
        floors = (0.1 * (F[:, j].mean() + 0.1 * G.mean()) for F, G in ((kept, liked), (rest, seen)))
        found[:, i, j] = (
            np.log(max(predicted(kept, i, j, l2), 0) + next(floors)),
            np.log(max(predicted(rest, i, j, l2), 0) + next(floors)),
            np.log(1 + rest[:, j].sum()),
            np.log(1 + rest[i].sum()),
        )
    return found


def test_the_rates_by_hand():
    A, l2 = table((25, 8)), 3.0
    ranker = CandidateRanker(l2=l2, random_state=0).fit(A)
    x = features_by_hand(A, l2)
    flat = x.reshape(4, -1).T
    scale = flat.std(axis=0)

    def loss(t, label):
        log_rate = t[0] + x.T @ t[1:]
        ridge = 0.5 * np.sum((t[1:] * scale) ** 2)
        return -log_rate.T[label == A].sum() + np.exp(log_rate.T[A == 0]).sum() + ridge

    for label, rates, t in zip(
        (1, -1), ranker.log_rates(np.arange(25)), ranker.coefficients_, strict=True
    ):
        np.testing.assert_allclose(rates, t[0] + np.tensordot(t[1:], x, 1), rtol=1e-8, atol=1e-8)
        slopes = scipy.optimize.approx_fprime(t, loss, 1e-6, label)
        np.testing.assert_allclose(slopes, 0, atol=2e-3)
    # As many events as were observed: the intercept bears no penalty.
    likes, dislikes = ranker.log_rates(np.arange(25))
    assert np.exp(likes)[A == 0].sum() == pytest.approx(np.count_nonzero(A > 0), rel=1e-6)
    assert np.exp(dislikes)[A == 0].sum() == pytest.approx(np.count_nonzero(A < 0), rel=1e-6)


def test_the_ridges_are_chosen_for_likes_and_for_the_mask():
    A = table()
    ranker = CandidateRanker(random_state=0).fit(A)
    expected = [choose_l2(sp.csr_array(F.astype(float)), np.arange(40)) for F in (A > 0, A != 0)]
    assert ranker.l2_ == pytest.approx(expected)
    assert CandidateRanker(l2=7, random_state=0).fit(A).l2_ == (7.0, 7.0)


def test_a_part_of_the_unobserved_stands_for_all(monkeypatch):
    # The mask comes from the seed that the ranker has: its draws must be others.
    A = table((600, 30)) * (mask((600, 30), 0.3) > 0)
    whole = CandidateRanker(random_state=0).fit(A)
    monkeypatch.setattr("tribit.ranking.rates.MIN_AT_RISK_CELLS", 10)
    part, again, other = (CandidateRanker(random_state=seed).fit(A) for seed in (0, 0, 1))
    assert np.array_equal(part.coefficients_, again.coefficients_)
    assert not np.array_equal(part.coefficients_, other.coefficients_)
    assert not np.array_equal(part.coefficients_, whole.coefficients_)
    np.testing.assert_allclose(part.coefficients_[:, 1:], whole.coefficients_[:, 1:], atol=0.5)
    rates = (np.exp(ranker.log_rates(np.arange(600))[0]) for ranker in (part, whole))
    some, every = (rate[A == 0].sum() for rate in rates)
    assert every == pytest.approx(np.count_nonzero(A > 0), rel=1e-6)
    assert some == pytest.approx(every, rel=0.2)


def test_a_large_matrix_is_learned_from_some_of_its_rows(monkeypatch):
    A = table((400, 15))
    whole = CandidateRanker(random_state=0).fit(A)
    monkeypatch.setattr(rate_ranker, "MAX_FIT_CELLS", 200 * 15)
    monkeypatch.setattr(rate_ranker, "MIN_FIT_ROWS", 1)
    part = CandidateRanker(random_state=0).fit(A)
    assert part.l2_ != whole.l2_
    np.testing.assert_allclose(part.coefficients_[:, 1:], whole.coefficients_[:, 1:], atol=0.6)
    assert part.log_rates(np.arange(400))[0].shape == (400, 15)


def test_likes_alone_are_enough():
    A = np.maximum(table(), 0)
    ranker = CandidateRanker(random_state=0).fit(sp.csr_array(A))
    likes, dislikes = ranker.log_rates(np.arange(40))
    assert np.isfinite(likes).all()
    assert (dislikes == -np.inf).all()
    lists = ranker.recommend(range(40), 3, exclude_seen=A)
    np.testing.assert_allclose(
        lists.scores, np.take_along_axis(np.exp(likes), np.asarray(lists.positions), 1)
    )
    # It has no opinion on what is liked, so the model alone has.
    # Calibrated, so that it is the calibrated probability that counts.
    judge = with_parts(judge_of(table()), calibrator=Platt(0.5, 0.3))
    chance = judge.predict_proba(np.arange(40).repeat(15), np.tile(np.arange(15), 40)).reshape(
        40, 15
    )
    lists = judge.recommend(range(40), 15, ranker=ranker, avoid_dislikes=0.0)
    expected = np.take_along_axis(np.exp(likes) * chance, np.asarray(lists.positions), 1)
    np.testing.assert_allclose(lists.scores, expected, rtol=1e-8)


def test_a_full_matrix_has_rates_too():
    A = np.where(mask() > 0, 1, -1)
    ranker = CandidateRanker(random_state=0).fit(A)
    likes, dislikes = (np.exp(rates) for rates in ranker.log_rates(np.arange(14)))
    assert np.abs(ranker.coefficients_).max() < 10
    assert likes.sum() == pytest.approx(np.count_nonzero(A > 0), rel=1e-6)
    assert dislikes.sum() == pytest.approx(np.count_nonzero(A < 0), rel=1e-6)
    assert not ranker.recommend(range(14), 3, exclude_seen=A).lengths.any()


def test_a_row_without_entries_is_shown_what_is_popular():
    A = table((200, 15))
    A[5] = 0
    ranker = CandidateRanker(random_state=0).fit(A)
    popular = (A > 0).sum(axis=0)
    for asked in (ranker, ranker.with_rows(np.where(np.arange(200)[:, None] == 5, 0, A))):
        lists = asked.recommend([5], 3, avoid_dislikes=0.0)
        assert np.isfinite(asked.log_rates([5])).all()
        assert set(lists.positions[0]) == set(np.argsort(-popular)[:3])


def test_it_finds_held_out_likes_and_a_model_helps_to_avoid_dislikes():
    gained, shown = [], []
    for seed in (3, 4, 5):
        train, held_out = Observations.from_matrix(table((300, 40), seed=seed)).split(
            0.2, random_state=0
        )
        judge = BinaryMatrixCompletion(
            rank=2, l2=5.0, l2_intercept=5.0, search=False, random_state=0
        ).fit(train)
        ranker = CandidateRanker(random_state=0).fit(train)
        few, many = (
            ranking_report(judge, train, held_out, ranker=ranker, avoid_dislikes=weight)
            for weight in (4.0, 0.0)
        )
        gained.append(many.ndcg - ranking_report(judge, train, held_out).ndcg)
        shown.append((few.dislikes_per_like, many.dislikes_per_like))
    assert min(gained) > 0.05
    fewer, more = np.mean(shown, axis=0)
    assert fewer < more - 0.01


# Likes and dislikes to be expected


def exposed(seed, shape=(400, 60)):
    """Labels whose exposure follows popularity, activity and the preference of rows."""
    rng = np.random.default_rng(seed)
    tastes = rng.normal(size=(shape[0], 2)) @ rng.normal(size=(2, shape[1]))
    often = tastes + rng.normal(size=shape[1]) + rng.normal(size=shape[0])[:, None] - 2.5
    labels = np.where(rng.random(shape) < expit(2 * tastes), 1, -1)
    return np.where(rng.random(shape) < expit(often), labels, 0)


def test_expected_likes_and_dislikes_are_those_held_out():
    sums, bins = [], []
    for seed in range(3):
        train, test = Observations.from_matrix(exposed(seed)).split(1 / 11, random_state=seed)
        ranker = CandidateRanker(random_state=0).fit(train)
        unseen = train.to_sparse().toarray() == 0
        after = test.to_sparse().toarray()[unseen]  # a tenth more entries: the horizon
        rates = [np.exp(each[unseen]) for each in ranker.log_rates(np.arange(400))]
        likes, dislikes = ranker.expected(*rates)
        assert (likes + dislikes).max() <= 1
        sums.append([likes.sum(), (after > 0).sum(), dislikes.sum(), (after < 0).sum()])
        order = np.argsort(likes)
        share = np.cumsum(likes[order]) / likes.sum()
        parts = np.split(order, np.searchsorted(share, [0.25, 0.5, 0.75]))
        bins.append([[likes[part].sum(), (after[part] > 0).sum()] for part in parts])
    expected_likes, found_likes, expected_dislikes, found_dislikes = np.sum(sums, axis=0)
    assert expected_likes == pytest.approx(found_likes, abs=2.5 * np.sqrt(found_likes))
    assert expected_dislikes == pytest.approx(found_dislikes, abs=2.5 * np.sqrt(found_dislikes))
    for expected, found in np.sum(bins, axis=0):
        assert expected == pytest.approx(found, abs=2.5 * np.sqrt(found))


def test_expected_likes_never_fall_in_the_rate_and_share_it_as_the_rates_do():
    ranker = CandidateRanker(random_state=0).fit(table())
    likes, dislikes = (np.exp(rates) for rates in ranker.log_rates(np.arange(40)))
    found = ranker.expected(likes, dislikes)
    chance = np.sum(found, axis=0)
    order = np.argsort(likes + dislikes, axis=None)
    assert (np.diff(chance.ravel()[order]) >= -1e-15).all()
    np.testing.assert_allclose(found[0] * dislikes, found[1] * likes)
    assert np.array_equal(ranker.expected(np.zeros(1), np.zeros(1)), np.zeros((2, 1)))


def test_the_table_of_lists_has_the_likes_and_dislikes_to_be_expected():
    A = table()
    ranker = CandidateRanker(random_state=0).fit(A)
    lists = judge_of(A).recommend(range(40), 4, exclude_seen=A, ranker=ranker)
    found = lists.table()
    np.testing.assert_array_equal(found["expected_likes"], lists.likes.values)
    np.testing.assert_array_equal(found["expected_dislikes"], lists.dislikes.values)
    assert lists.likes.values.min() > 0
    assert lists.dislikes.values.min() > 0
    assert not np.allclose(lists.likes.values, lists.dislikes.values)


def test_of_likes_alone_no_dislike_is_expected():
    A = sp.csr_array(np.maximum(table(), 0))
    ranker = CandidateRanker(random_state=0).fit(A)
    lists = judge_of(A).recommend(range(40), 4, exclude_seen=A, ranker=ranker)
    assert not lists.dislikes.values.any()
    log_likes = ranker.log_rates(np.arange(40))[0][lists.positions.index, lists.positions.values]
    np.testing.assert_allclose(lists.likes.values, ranker.horizon_(log_likes))


def test_the_rates_of_another_ranker_are_not_calibrated():
    A = table((12, 9))
    given = Given(np.ones(A.shape), np.ones(A.shape))
    lists = judge_of(A).recommend(range(12), 9, ranker=given)
    assert lists.likes is lists.dislikes is None
    assert "expected_likes" not in lists.table()


# Lists by rates


def worth(likes, dislikes, p, weight):
    value = p - weight * (1 - p)
    return np.where(value > 0, (likes + dislikes) * value, value)


@pytest.mark.parametrize("weight", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("link", ["logistic", Probit(0.8)])
def test_a_ranker_beside_a_model_by_hand(weight, link):
    A = table((12, 9))
    rng = np.random.default_rng(0)
    ranker = Given(rng.uniform(0, 1, A.shape), rng.uniform(0, 1, A.shape))
    judge = judge_of(A, link=link)
    chance = judge.predict_proba(np.arange(12).repeat(9), np.tile(np.arange(9), 12)).reshape(
        A.shape
    )
    p = expit((logit(chance) + np.log(ranker.likes / ranker.dislikes)) / 2)
    expected = worth(ranker.likes, ranker.dislikes, p, weight)
    lists = judge.recommend(range(12), 9, ranker=ranker, avoid_dislikes=weight)
    assert np.array_equal(lists.positions, np.argsort(-expected, axis=1))
    np.testing.assert_allclose(lists.scores, -np.sort(-expected, axis=1), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("weight", [0.0, 1.0, 3.0])
def test_a_ranker_alone_by_hand(weight):
    A = table()
    ranker = CandidateRanker(random_state=0).fit(A)
    likes, dislikes = (np.exp(rates) for rates in ranker.log_rates(np.arange(40)))
    expected = worth(likes, dislikes, likes / (likes + dislikes), weight)
    expected[A != 0] = -np.inf
    lists = ranker.recommend(range(40), 4, exclude_seen=A, avoid_dislikes=weight)
    np.testing.assert_allclose(lists.scores, -np.sort(-expected, axis=1)[:, :4], rtol=1e-9)
    assert not A[lists.positions.index, lists.positions.values].any()


def test_what_is_not_worth_its_place_comes_by_the_chance_of_a_like():
    # At weight 3 a like must be three times as likely: nobody comes to the second, and yet the first is better.
    ranker = Given(np.array([[6.0, 0.001, 1.0]]), np.array([[4.0, 0.001, 0.1]]))
    judge = with_factors(
        judge_of(np.array([[1, 0, -1]])),
        row_factors=np.zeros((1, 2)),
        intercept=0.0,
        row_intercepts=np.zeros(1),
        column_intercepts=np.zeros(3),
    )
    lists = judge.recommend([0], 3, ranker=ranker, avoid_dislikes=3.0)
    assert lists.positions.tolist() == [[2, 0, 1]]
    assert lists.scores[0, 0] > 0 > lists.scores[0, 1]


def test_a_calibrated_model_may_be_sure():
    A = table((12, 9))
    ranker = Given(np.full(A.shape, 2.0), np.full(A.shape, 1.0))
    judge = with_parts(judge_of(A), calibrator=lambda x: np.clip(x, 0.0, 1.0))
    x = judge.decision_function(np.arange(12).repeat(9), np.tile(np.arange(9), 12)).reshape(A.shape)
    assert ((x < 0).any(), (x > 1).any()) == (True, True)
    p = expit((logit(np.clip(x, 0, 1)) + np.log(2)) / 2)
    lists = judge.recommend(range(12), 9, ranker=ranker)
    expected = np.take_along_axis(worth(2.0, 1.0, p, 1.0), np.asarray(lists.positions), 1)
    np.testing.assert_allclose(lists.scores, expected, rtol=1e-9)
    alone = judge.recommend(range(12), 9)
    with np.errstate(divide="ignore"):
        chances = np.log(np.take_along_axis(np.clip(x, 0, 1), np.asarray(alone.positions), 1))
    np.testing.assert_allclose(alone.scores, chances)


def test_a_ranker_is_matched_by_id():
    A = table((12, 9))
    rows, columns = np.nonzero(A)
    names, films = [f"u{i}" for i in range(12)], [f"f{j}" for j in range(9)]
    seen = Observations.from_pairs(
        rows, columns, A[rows, columns], shape=A.shape, row_ids=names, column_ids=films
    )
    i, j = np.random.default_rng(0).permutation(12), np.random.default_rng(1).permutation(9)
    back = np.argsort(i), np.argsort(j)
    moved = Observations.from_pairs(
        back[0][rows],
        back[1][columns],
        A[rows, columns],
        shape=A.shape,
        row_ids=[names[k] for k in i],
        column_ids=[films[k] for k in j],
    )
    judge = judge_of(seen)
    one, other = (CandidateRanker(l2=3.0, random_state=0).fit(X) for X in (seen, moved))
    expected = judge.recommend(names, 4, ranker=one, exclude_seen=seen)
    lists = judge.recommend(names, 4, ranker=other, exclude_seen=seen)
    assert lists.columns.tolist() == expected.columns.tolist()
    np.testing.assert_allclose(lists.scores, expected.scores, rtol=1e-6)
    assert other.recommend("u3", 2).rows.tolist() == ["u3"]


def test_a_report_ranks_as_the_ranker_recommends():
    A = table((60, 15))
    train, held_out = Observations.from_matrix(A).split(0.3, random_state=0)
    ranker = CandidateRanker(random_state=0).fit(train)
    hidden = held_out.to_sparse().toarray()
    for weight in (0.0, 2.0):
        report = ranking_report(ranker, train, held_out, 5, avoid_dislikes=weight)
        users = np.flatnonzero((hidden > 0).any(axis=1))
        lists = ranker.recommend(users, 5, exclude_seen=train, avoid_dislikes=weight)
        shown = hidden[users[lists.positions.index], lists.positions.values]
        assert (report.likes_shown, report.dislikes_shown) == ((shown > 0).sum(), (shown < 0).sum())
    with pytest.raises(InvalidTypeError, match="takes no second ranker"):
        ranking_report(ranker, train, held_out, ranker=ranker)


def test_the_protocol_is_kept():
    assert isinstance(CandidateRanker(random_state=0).fit(table()), Ranker)
    assert isinstance(Given(np.eye(2), np.eye(2)), Ranker)


def test_ratings_and_an_estimator_of_scikit_learn():
    A = table()
    ratings = np.where(A == 0, np.nan, np.where(A > 0, 5.0, 2.0))
    ranker = CandidateRanker(like_at=4, random_state=0)
    rated = clone(ranker).fit(ratings)
    labelled = CandidateRanker(random_state=0).fit(sp.csr_array(A))
    assert np.array_equal(rated.coefficients_, labelled.coefficients_)
    assert (rated.n_features_in_, rated.shape_) == (15, (40, 15))
    assert ranker.get_params() == {
        "like_at": 4,
        "l2": "auto",
        "n_jobs": None,
        "device": "cpu",
        "random_state": 0,
    }


@parametrize_with_checks([CandidateRanker(like_at=0.5, random_state=0)])
def test_sklearn_check(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("A", "options", "sentence"),
    [
        (-np.abs(table()), {}, "X has no like"),
        (table(), {"l2": 0.0}, "l2 must be a positive finite number; got 0.0"),
        (table(), {"l2": "small"}, "l2 must be a positive number or \"auto\"; got 'small'"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(A, options, sentence):
    with pytest.raises(InvalidInputError, match=sentence) as caught:
        CandidateRanker(random_state=0, **options).fit(A)
    assert str(caught.value).count(". ") == 0


def test_a_ranker_that_was_not_fitted_is_refused():
    with pytest.raises(NotFittedError):
        CandidateRanker().log_rates(np.arange(2))
    with pytest.raises(NotFittedError):
        CandidateRanker().recommend([0])
    with pytest.raises(NotFittedError):
        judge_of(table()).recommend([0], ranker=CandidateRanker())
    ranker = CandidateRanker(random_state=0).fit(table())
    with pytest.raises(InvalidInputError, match="the row 40 is not between 0 and 39"):
        ranker.recommend([40])
    with pytest.raises(InvalidInputError, match="recommends has 14 columns and the model 15"):
        judge_of(table()[:, :14]).recommend([0], ranker=ranker)
