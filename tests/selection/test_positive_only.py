"""Likes alone (or dislikes alone): the probability of a cell being seen and liked, against plain formulae."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from selection_data import observed
from sklearn.metrics import average_precision_score, roc_auc_score

from tribit import (
    BinaryMatrixCompletion,
    InvalidInputError,
    Recommender,
    TribitWarning,
    load,
)
from tribit.cli.actions import fit_file
from tribit.metrics.full_ranking import unseen_report
from tribit.model.ease import choose_l2, fit_ease, regression_factors, with_regression
from tribit.selection.positive_only import RANK_SHARE, rank_losses

FIXED = {"gammas": (0, 1, 0), "rho": 0.0, "l2": 1.0, "l2_intercept": 0.5}


def make(**parameters):
    return BinaryMatrixCompletion(**{"n_jobs": 1, "random_state": 0, **parameters})


def tastes(shape=(120, 90), seed=0, level=-2.0, scale=2.0):
    rng = np.random.default_rng(seed)
    U, V = rng.standard_normal((shape[0], 3)), rng.standard_normal((shape[1], 3))
    return scale * U @ V.T / np.sqrt(3) + rng.standard_normal(shape[1]) + level


def likes_of(X, seed=1):
    return (np.random.default_rng(seed).random(X.shape) < expit(X)).astype(int)


def split(A, seed=2):
    held_out = A * (np.random.default_rng(seed).random(A.shape) < 0.1)
    return A - held_out, held_out


def report_of(model, train, held_out):
    scores = model.scores_
    placed = (scores.place_entries(observed(each)) for each in (train, held_out))
    return unseen_report(scores, *placed)


@pytest.fixture(scope="module")
def parts():
    return split(likes_of(tastes()))


@pytest.fixture(scope="module")
def model(parts):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return make().fit(observed(parts[0]))


def test_likes_alone_are_told_from_what_was_not_seen(model, parts):
    train, held_out = parts
    report = report_of(model, train, held_out)
    share = held_out.sum() / (train == 0).sum()
    assert report.auc > 0.75
    assert report.average_precision > 3 * share
    assert model.gammas_ == (0.0, 1.0, 0.0)
    assert model.rho_ == 0.0
    assert model.radius_ is None
    assert "seen and liked" in str(model.search_)


def test_the_probabilities_are_of_being_seen_and_liked(model, parts):
    # The likes that were held out are no likes to the model, and its training likes it knows by heart.
    unseen = parts[0] == 0
    truth, found = 0.9 * expit(tastes())[unseen], model.complete()[unseen]
    assert np.mean(found) == pytest.approx(np.mean(truth), rel=0.15)
    for low, high in ((0.05, 0.15), (0.15, 0.3), (0.3, 0.6)):
        here = (found > low) & (found <= high)
        assert here.sum() > 100
        assert np.mean(found[here]) == pytest.approx(np.mean(truth[here]), rel=0.35)


def test_expected_likes_are_those_that_were_held_out(model, parts):
    train, held_out = parts
    unseen = train == 0
    growth = held_out.sum() / train.sum()
    expected = model.scores_.expected_likes(model.complete("score")[unseen], growth)
    found = held_out[unseen]
    assert expected.sum() == pytest.approx(found.sum(), rel=0.02)
    assert expected.sum() < 0.3 * model.complete()[unseen].sum()
    horizon = model.fitted_.horizon(np.linspace(-40.0, 40.0, 5001))
    assert (np.diff(horizon) >= 0).all()
    assert 0 < horizon[0] < horizon[-1] <= 0.95


def test_expected_likes_are_calibrated_over_draws():
    sums = np.zeros((2, 2))
    for draw in range(10, 18):
        train, held_out = split(likes_of(tastes(seed=draw), seed=100 + draw), seed=200 + draw)
        model = make().fit(observed(train))
        unseen = train == 0
        growth = held_out.sum() / train.sum()
        expected = model.scores_.expected_likes(model.complete("score")[unseen], growth)
        order = np.argsort(expected)
        upper = np.cumsum(expected[order]) > expected.sum() / 2
        for part, each in enumerate((expected, held_out[unseen])):
            sums[:, part] += np.bincount(upper, each[order], 2)
    # Some 950 likes in each half: a standard error of 3%. Folds of a fifth instead of a tenth have .85 and 1.15.
    ratios = sums[:, 1] / sums[:, 0]
    np.testing.assert_allclose(ratios, 1.0, atol=0.12)
    assert (
        ratios[0] < 1.0 < ratios[1]
    )  # the fit to all likes orders cells a little better than the folds


def test_lists_and_predictions_have_the_expected_likes_of_likes_alone(model, parts, tmp_path):
    recommender = Recommender(make(), random_state=0).fit(observed(parts[0]))
    np.testing.assert_array_equal(recommender.model_.complete(), model.complete())
    path = tmp_path / "likes.tribit"
    recommender.save(path)
    for asked in (recommender, Recommender.load(path)):
        lists = asked.recommend([3], 5, level=None)
        x = model.decision_function(np.full(5, 3), lists.positions.values)
        expected = model.fitted_.horizon(x)
        np.testing.assert_allclose(lists.likes.values, expected, rtol=1e-5)
        table = lists.table()
        assert "expected_dislikes" not in table
        np.testing.assert_array_equal(table["expected_likes"], lists.likes.values)
        pairs = asked.predictions((np.full(5, 3), lists.positions.values))
        np.testing.assert_allclose(pairs.table()["expected_likes"], expected, rtol=1e-5)
    known = np.zeros((1, 90))
    known[0, :4] = 1
    new = recommender.recommend(entries=known, n=3, level=None)
    folded = recommender.fold_in(known).recommend([120], 3, level=None)
    np.testing.assert_allclose(new.likes.values, folded.likes.values, rtol=1e-4)
    turned = model.fitted_.transposed.scores
    np.testing.assert_array_equal(turned.horizon.places, model.fitted_.horizon.places)


@pytest.mark.usefixtures("short_trials")
def test_models_of_something_else_expect_no_likes(parts):
    train = parts[0]
    both = np.where(train, 1, -1) * (np.random.default_rng(0).random(train.shape) < 0.5)
    for A, parameters in (
        (both, {}),
        (-train, {}),
        (train, {"search": False}),
        (train, {"rho": 0.7}),
    ):
        assert make(**parameters).fit(observed(A)).fitted_.horizon is None


@pytest.mark.parametrize("seed", [3, 4])
def test_noise_stays_with_intercepts(seed):
    A = (np.random.default_rng(seed).random((60, 40)) < 0.12).astype(int)
    assert make().fit(observed(A)).search_.best.settings.family == "intercepts"


@pytest.mark.usefixtures("short_trials")
def test_dislikes_alone_are_the_mirror_image(model, parts):
    train, held_out = parts
    mirrored = make().fit(observed(-train))
    assert mirrored.gammas_ == (0.0, 0.0, 1.0)
    # Other entries are held out than of likes, and that is all.
    assert mirrored.rank_ == model.rank_
    away = np.abs(mirrored.complete() - (1.0 - model.complete()))
    assert np.mean(away) < 0.03
    report = report_of(mirrored, -train, -held_out)
    assert report.auc == pytest.approx(report_of(model, train, held_out).auc, abs=0.01)
    assert "not being seen and disliked" in str(mirrored.search_)


@pytest.mark.parametrize("sign", [1, -1])
def test_intercepts_are_those_of_the_dense_logistic_problem(sign):
    A = likes_of(tastes((14, 11), seed=5))
    gammas = (0, 1, 0) if sign > 0 else (0, 0, 1)
    fitted = make(**{**FIXED, "gammas": gammas}, rank=0, tol=1e-9, dtype="float64").fit(
        observed(sign * A)
    )

    def dense(z):
        X = z[0] + z[1:15, None] + z[15:]
        return np.sum(np.logaddexp(0, X) - A * X) + 0.25 * np.sum(z[1:] ** 2)

    found = minimize(dense, np.zeros(26), method="BFGS", options={"gtol": 1e-6})
    assert fitted.objective_ == pytest.approx(found.fun, rel=1e-7)
    expected = found.x[0] + found.x[1:15, None] + found.x[15:]
    np.testing.assert_allclose(sign * fitted.complete("score"), expected, atol=1e-3)


@pytest.mark.parametrize("features", [False, True])
def test_factors_are_at_a_minimum_of_the_dense_problem_without_a_ball(features):
    A = likes_of(tastes((16, 12), seed=6))
    fitted = make(
        **FIXED, rank=2, implicit_features=features, l2_implicit=3.0, tol=1e-10, dtype="float64"
    ).fit(observed(A))
    assert fitted.radius_ is None
    X = fitted.complete("score")
    parts = fitted.unknowns_
    own = (parts.row_factors[:16], parts.column_factors[:12])
    ridge = 0.5 * sum(np.sum(F**2) for F in own)
    ridge += 0.25 * sum(
        np.sum(a**2) for a in (parts.row_intercepts[:16], parts.column_intercepts[:12])
    )
    rest = (
        parts.row_factors[16:],
        parts.column_factors[12:],
        parts.row_intercepts[16:],
        parts.column_intercepts[12:],
    )
    ridge += 1.5 * sum(np.sum(part**2) for part in rest)
    value = np.sum(np.logaddexp(0, X) - A * X)
    assert fitted.objective_ == pytest.approx(value + ridge, rel=1e-9)
    # At a minimum the ridge balances the gradient of the dense risk.
    gradient = (expit(X) - A) @ fitted.column_factors_
    np.testing.assert_allclose(gradient, -own[0], atol=2e-3)
    assert np.abs(gradient).max() > 0.1


def test_a_given_rho_makes_it_the_probability_of_a_like():
    X = tastes((150, 120), seed=22, level=0.0)
    liked = likes_of(X)
    seen = liked * (np.random.default_rng(8).random(X.shape) < 0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known, unknown = make(rho=0.7).fit(observed(seen)), make().fit(observed(seen))
    assert np.mean(unknown.complete()) == pytest.approx(seen.mean(), rel=0.15)
    assert np.mean(known.complete()) == pytest.approx(liked.mean(), rel=0.2)
    assert np.corrcoef(known.complete().ravel(), expit(X).ravel())[0, 1] > 0.45
    assert "if rho" in str(known.search_)
    assert known.calibration_ is None


def test_the_report_is_that_of_every_unseen_cell(model, parts):
    train, held_out = parts
    unseen = train == 0
    x, found = model.complete("score")[unseen], held_out[unseen] > 0
    report = report_of(model, train, held_out)
    assert report.n_entries == found.sum()
    assert report.n_unseen == (~found).sum()
    assert report.auc == pytest.approx(roc_auc_score(found, x), abs=1e-4)
    assert report.average_precision == pytest.approx(average_precision_score(found, x), rel=0.02)
    expected = model.scores_.expected_likes(x, found.sum() / train.sum())
    groups = np.array(report.tenths)
    np.testing.assert_allclose(groups.sum(axis=0), [expected.sum(), found.sum()], rtol=0.01)
    assert groups[:, 0].max() < 1.3 * groups[:, 0].min()
    order = np.argsort(x)
    half = np.searchsorted(np.cumsum(expected[order]), groups[:5, 0].sum())
    assert groups[:5, 1].sum() == pytest.approx(found[order][:half].sum(), abs=2)
    with pytest.raises(InvalidInputError, match="in train too"):
        report_of(model, train, train)
    with pytest.raises(InvalidInputError, match="one label alone"):
        report_of(model, train, held_out - np.eye(*train.shape, dtype=int) * (held_out == 0))


@pytest.mark.parametrize("sign", [1, -1])
def test_rank_losses_are_those_of_the_ranks_alone(sign):
    rng = np.random.default_rng(9)
    x = np.concatenate([rng.normal(1, 1, 50), rng.normal(0, 1, 300)]).round(1)  # with ties
    labels = (sign * np.repeat([1, -1], [50, 300])).astype(np.int8)
    weights = np.concatenate([np.ones(50), rng.integers(1, 5, 300)])
    losses = rank_losses(sign * x, labels, weights)
    others = np.repeat(x[50:], weights[50:].astype(int))
    ranks = [np.sum(others > each) + 0.5 * np.sum(others == each) for each in x[:50]]
    np.testing.assert_allclose(losses, np.log(1 + np.array(ranks) / (RANK_SHARE * 50)))
    np.testing.assert_array_equal(rank_losses(sign * x**3, labels, weights), losses)


@pytest.mark.parametrize("shape", [(30, 12), (12, 30)])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_factors_of_the_regression_are_its_scores(shape, sign):
    A = likes_of(tastes(shape, seed=10, level=-1.0))
    seen = observed(sign * A)
    F = observed(A if shape[0] > shape[1] else A.T).to_sparse().astype(float)
    fitted = fit_ease(F, choose_l2(F, np.arange(F.shape[0])))
    B = np.eye(12) - fitted.inverse / fitted.inverse.diagonal()
    S = F @ B if shape[0] > shape[1] else (F @ B).T
    found = regression_factors(seen)
    np.testing.assert_allclose(found.row_factors @ found.column_factors.T, sign * S, atol=1e-9)
    both = with_regression(found, found, 3.0)
    X = both.row_factors @ both.column_factors.T
    np.testing.assert_allclose(X, 4.0 * sign * S, atol=1e-9)


@pytest.fixture(scope="module")
def chamber():
    """Members in pairs that nearly always go together, whatever all the others do: far from low rank."""
    rng = np.random.default_rng(11)
    pairs = rng.random((60, 300)) < 0.15
    A = np.repeat(pairs, 2, axis=0) & (rng.random((120, 300)) < 0.9)
    return split(A.astype(int), seed=12)


def test_a_regression_is_added_where_it_tells_more(chamber, monkeypatch, tmp_path):
    train, held_out = chamber
    plain = {"implicit_features": False, "l2": 6.0, "l2_intercept": 1.0}
    fitted = make(**plain).fit(observed(train))
    assert fitted.search_.regression is not None
    assert "regression" in str(fitted.search_)
    (member,) = fitted.fitted_.members
    assert fitted.rank_ == member.own_rank == fitted.row_factors_.shape[1] - 120
    assert member.without_regression().factors.rank == member.own_rank
    again = make(**plain, n_jobs=2).fit(observed(train))
    np.testing.assert_array_equal(fitted.row_factors_, again.row_factors_)
    fitted.save(tmp_path / "model.tribit")
    copy = load(tmp_path / "model.tribit")
    np.testing.assert_array_equal(copy.complete(), fitted.complete())
    assert copy.fitted_.members[0].own_rank == member.own_rank
    assert copy.search_.regression == fitted.search_.regression
    monkeypatch.setattr("tribit.model.ease.MAX_REGRESSED_ROWS", 10)
    without = make(**plain).fit(observed(train))
    assert without.search_.regression is None
    reports = [report_of(each, train, held_out) for each in (fitted, without)]
    assert reports[0].average_precision > reports[1].average_precision + 0.05


def test_a_regression_of_a_nearly_square_table_has_more_factors_than_rows(tmp_path):
    rng = np.random.default_rng(13)
    A = np.repeat(rng.random((50, 105)) < 0.15, 2, axis=0) & (rng.random((100, 105)) < 0.9)
    train, _ = split(A.astype(int), seed=14)
    recommender = Recommender(make(implicit_features=False, l2=6.0, l2_intercept=1.0)).fit(
        observed(train)
    )
    assert recommender.model_.search_.regression is not None
    assert recommender.model_.row_factors_.shape[1] > max(train.shape)
    recommender.save(tmp_path / "model.tribit")
    copy = Recommender.load(tmp_path / "model.tribit")
    i, j = 7, int(np.flatnonzero(train[7] == 0)[0])
    x = float(recommender.model_.complete("score")[i, j])
    for asked in (recommender, copy):
        parts = asked.explain(i, j).parts
        assert "regression of the smaller side" in parts
        assert sum(parts.values()) == pytest.approx(x, rel=1e-4)
    # A new row with the entries of one of two that go together has the likes of the other.
    new = copy.recommend(entries=train[[7]], n=5, level=None)
    places = new.positions.values
    assert np.mean(A[6, places]) > 3 * A.mean()


def test_what_is_fixed_is_kept(parts):
    fitted = make(rank=4, implicit_features=False, l2_intercept=2.0).fit(observed(parts[0]))
    assert (fitted.rank_, fitted.implicit_features_, fitted.l2_intercept_) == (4, False, 2.0)
    assert fitted.search_.best.settings.rank == 4
    assert report_of(fitted, *parts).auc > 0.7


@pytest.mark.parametrize("shape", [(150, 2), (1, 300)])
def test_narrow_tables_are_searched(shape):
    A = (np.random.default_rng(13).random(shape) < 0.5).astype(int)
    fitted = make().fit(observed(A))
    assert fitted.search_.best is not None
    assert np.isfinite(fitted.complete()).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_full_table_of_likes_has_nothing_to_tell_them_from(sign):
    fitted = make().fit(observed(np.full((20, 10), sign)))
    assert "every cell" in fitted.search_.stop_reason
    assert (sign * fitted.complete("score") > 0).all()


def test_a_handful_of_likes_is_fitted_without_a_search():
    A = np.zeros((6, 5), dtype=int)
    A[[0, 1, 2], [0, 1, 2]] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = make().fit(observed(A))
    assert "too few" in fitted.search_.stop_reason
    assert np.isfinite(fitted.complete()).all()
    assert fitted.complete().mean() < 0.5


def test_a_file_of_likes_needs_nothing_else(parts, tmp_path):
    table = tmp_path / "likes.csv"
    lines = [f"u{i},v{j}" for i, j in zip(*np.nonzero(parts[0]), strict=True)]
    table.write_text("\n".join(["user,item", *lines]) + "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = fit_file(table, row="user", column="item", random_state=0, n_jobs=1).model_
    i, j = np.nonzero(parts[1])
    found = fitted.predict_proba([f"u{a}" for a in i], [f"v{b}" for b in j])
    assert np.mean(found) > 1.5 * np.mean(fitted.complete())


def test_features_that_are_left_out_are_named():
    x = tastes((30, 20))
    A = np.where(np.random.default_rng(1).random(x.shape) < expit(x), 1, 0)
    features = np.random.default_rng(2).normal(size=(20, 2))
    fixed = {"rank": 1, "implicit_features": False, "n_candidates": 1}
    with pytest.warns(TribitWarning, match="features of rows and columns are left out"):
        make(**fixed).fit(observed(A), column_features=features)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TribitWarning)
        asked = make(**fixed, side_features=True).fit(observed(A), column_features=features)
    assert asked.side_features_ is True
