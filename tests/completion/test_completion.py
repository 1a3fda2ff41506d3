import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.special import expit, log_ndtr, ndtr
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from tribit import (
    BinaryMatrixCompletion,
    InvalidInputError,
    InvalidTypeError,
    Iteration,
    Logistic,
    Newton,
    Observations,
    Probit,
    ProjectedGradient,
    TribitError,
    TribitWarning,
    UnboundedRiskWarning,
    UnknownRhoWarning,
)
from tribit.backends import layout, tiles
from tribit.model import completed
from tribit.model.factors import Factors
from tribit.simulate import low_rank_target, observe, quantise

NAN, INF = float("nan"), float("inf")
PN, PU, MIXTURE = (1, 0, 0), (0, 1, 0), (0.5, 0.3, 0.2)
SPARSE = [
    getattr(sp, f"{kind}_{family}")
    for kind in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
    for family in ("matrix", "array")
]
FITTED = ("row_factors_", "column_factors_", "row_intercepts_", "column_intercepts_")

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def labels_of(shape=(14, 11), *, observed=0.5, likes=0.6, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(shape) < likes, 1, -1)
    return np.where(rng.random(shape) < observed, labels, 0)


A = labels_of()
ROW_IDS = ["u", 3, 1.5, "3", *range(100, 110)]


def make(**parameters):
    return BinaryMatrixCompletion(**{"rank": 2, "n_jobs": 1, "random_state": 0, **parameters})


def entries(model):
    """X from the attributes, in float64."""
    U, V, a, c = (np.asarray(getattr(model, name), dtype=np.float64) for name in FITTED)
    return U @ V.T + model.intercept_ + a[:, None] + c[None, :]


def losses(link, X):
    """l(X, +1) and l(X, -1), in the plain formulae."""
    if isinstance(link, Probit):
        return -log_ndtr(X / link.sigma), -log_ndtr(-X / link.sigma)
    return np.logaddexp(0, -link.scale * X), np.logaddexp(0, link.scale * X)


def objective(A, model, gammas, rho, link, l2):
    """The penalised risk at the model's factors, from the table of MATH.md, section 2."""
    q = 1 - rho
    tables = (
        {1: (1, 0), 0: (0, 0), -1: (0, 1)},
        {1: (1 / q, -rho / q), 0: (0, 1), -1: (0, 1)},
        {1: (1, 0), 0: (1, 0), -1: (-rho / q, 1 / q)},
    )
    liked, disliked = losses(link, entries(model))
    total = 0.0
    for gamma, table in zip(gammas, tables, strict=True):
        for kind, (plus, minus) in table.items():
            here = np.equal(A, kind)
            total += gamma * (plus * liked[here].sum() + minus * disliked[here].sum())
    squares = sum(np.sum(np.asarray(getattr(model, name), np.float64) ** 2) for name in FITTED)
    return total + l2 / 2 * squares


def assert_same_fit(model, other):
    for name in FITTED:
        np.testing.assert_array_equal(getattr(model, name), getattr(other, name), strict=True)
    assert model.intercept_ == other.intercept_


# What is fitted


@pytest.mark.parametrize(
    "kind", [*SPARSE, np.asfortranarray, np.ndarray.tolist, Observations.from_matrix]
)
def test_every_kind_of_matrix_gives_the_same_fit(kind):
    assert_same_fit(make().fit(kind(A)), make().fit(A))


def test_nan_is_unobserved_and_labels_may_be_floats():
    with_nan = np.where(A == 0, NAN, A)
    assert_same_fit(make().fit(with_nan), make().fit(A))


def test_like_at_splits_ratings():
    ratings = np.select([A == 1, A == -1], [4.0, 3.5], 0.0)
    assert_same_fit(make(like_at=4).fit(ratings), make().fit(A))
    with pytest.raises(InvalidInputError, match=r"neither .*like_at"):
        make().fit(ratings)


@quiet
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("gammas", [PN, PU, (0, 0, 1), (0, 0.4, 0.6), MIXTURE])
@pytest.mark.parametrize("link", [Logistic(), Logistic(7.0), Probit(0.5)])
def test_objective_is_the_formula_at_the_returned_factors(dtype, intercept, gammas, link):
    model = make(
        gammas=gammas, rho=0.7, link=link, l2=0.3, dtype=dtype, intercept=intercept, max_iter=6
    ).fit(A)
    assert model.objective_ == pytest.approx(
        objective(A, model, gammas, 0.7, link, 0.3), rel=1e-6, abs=1e-9
    )
    for name in FITTED:
        assert getattr(model, name).dtype == dtype


@quiet
@pytest.mark.parametrize("solver", ["newton", "projected_gradient"])
def test_rho_is_by_default_the_share_of_unobserved_entries(solver):
    model = make(gammas=MIXTURE, solver=solver, max_iter=20, dtype="float64").fit(A)
    assert model.rho_ == pytest.approx(np.mean(A == 0), rel=1e-12)
    expected = objective(A, model, MIXTURE, np.mean(A == 0), Logistic(), 5.0)
    assert model.objective_ == pytest.approx(expected, rel=1e-6)


@quiet
def test_more_iterations_lower_the_objective():
    values = [
        make(gammas=MIXTURE, l2=0.1, max_iter=n, tol=0.0).fit(A).objective_ for n in (1, 3, 30)
    ]
    assert values[0] > values[1] > values[2]


def test_a_low_rank_matrix_is_recovered():
    M = low_rank_target((120, 90), 2, random_state=0)
    Y = quantise(M, Logistic(20.0), random_state=1)
    seen = observe(Y, 0.5, random_state=2)
    model = make(link=Logistic(20.0), intercept=False, l2=0.5).fit(seen)
    unseen = seen.to_sparse().toarray() == 0
    floor = np.mean((M >= 0)[unseen] != (Y > 0)[unseen])
    error = np.mean(model.complete("sign")[unseen] != Y[unseen])
    assert error < floor + 0.05
    assert error < 0.25


def test_fitted_attributes():
    model = make().fit(A)
    assert model.row_factors_.shape == (14, 2)
    assert model.column_factors_.shape == (11, 2)
    assert model.row_intercepts_.shape == (14,)
    assert model.column_intercepts_.shape == (11,)
    assert isinstance(model.intercept_, float)
    assert isinstance(model.objective_, float)
    assert model.n_features_in_ == 11
    assert model.n_iter_ == len(model.history_)
    assert model.converged_ is True
    assert "tol" in model.stop_reason_
    assert model.radius_ is None
    assert model.row_ids_ is None
    assert model.column_ids_ is None


@pytest.mark.parametrize(
    ("solver", "parameters"),
    [
        ("lbfgs", {}),  # which keeps no ball, not even one around nothing
        *(
            (solver, parameters)
            for solver in ("auto", "newton", "projected_gradient")
            for parameters in ({}, {"radius": 1.0}, {"gammas": MIXTURE})
        ),
    ],
    ids=str,
)
def test_rank_0_is_intercepts_alone(solver, parameters):
    options = {"gammas": PN, "l2": 1.0, "l2_intercept": 0.5, "dtype": "float64", **parameters}
    model = make(rank=0, solver=solver, tol=1e-9, max_iter=3000, **options).fit(A)
    assert model.row_factors_.shape == (14, 0)
    assert model.column_factors_.shape == (11, 0)
    assert model.rank_ == 0
    assert model.converged_
    X = model.intercept_ + model.row_intercepts_[:, None] + model.column_intercepts_
    np.testing.assert_allclose(model.complete("score"), X, rtol=1e-12)
    assert np.ptp(X) > 0.5
    # The ridge on factors has nothing to weigh; a model with factors that it removes is the same.
    other = make(rank=2, **{**options, "l2": 50.0}, tol=1e-9, max_iter=3000).fit(A)
    np.testing.assert_allclose(other.complete("score"), X, atol=2e-3)


def test_without_intercepts_they_are_zero():
    model = make(intercept=False).fit(A)
    assert model.intercept_ == 0.0
    assert not model.row_intercepts_.any()
    assert not model.column_intercepts_.any()


def test_fit_returns_the_model_and_a_second_fit_overwrites_the_first():
    ids = Observations.from_pairs([0, 1, 1], [0, 0, 1], [1, -1, 1], row_ids=["a", "b"])
    model = make(rank=1)
    assert model.fit(ids) is model
    assert model.row_ids_.tolist() == ["a", "b"]
    model.fit(A)
    assert model.row_ids_ is None
    assert_same_fit(model, make(rank=1).fit(A))


# Randomness


@quiet
@pytest.mark.parametrize("solver", ["newton", "projected_gradient"])
@pytest.mark.parametrize("gammas", [PN, MIXTURE])
@pytest.mark.usefixtures("short_trials")
def test_the_bits_depend_on_the_seed_and_not_on_the_threads(gammas, solver, monkeypatch):
    # Several panels: with one there is nothing to share out, and a sum of two has no order.
    for module, name, size in (
        (tiles, "HEIGHT", 16),
        (tiles, "WIDTH", 16),
        (tiles, "PANELS_PER_SUM", 1),
        (layout, "BATCH_ENTRIES", 60),
    ):
        monkeypatch.setattr(module, name, size)
    labels = labels_of((53, 27), observed=0.2)
    options = {"gammas": gammas, "solver": solver, "max_iter": 4, "n_candidates": 2}
    model = make(**options).fit(labels)
    threaded = make(**options, n_jobs=2).fit(labels)
    assert_same_fit(threaded, model)
    assert [h.objective for h in threaded.history_] == [h.objective for h in model.history_]
    assert threaded.objective_ == model.objective_
    assert_same_fit(make(**options).fit(labels), model)
    assert not np.array_equal(
        make(**options, random_state=1).fit(labels).row_factors_, model.row_factors_
    )


@quiet
@pytest.mark.parametrize("gammas", [PN, MIXTURE])
@pytest.mark.usefixtures("short_trials")
def test_panels_of_their_usual_size_have_the_same_bits_on_any_number_of_threads(gammas):
    labels = labels_of((530, 270), observed=0.2)  # three panels of 256 rows
    alone, threaded = (
        make(gammas=gammas, solver="newton", max_iter=2, n_candidates=2, n_jobs=n).fit(labels)
        for n in (1, 2)
    )
    assert_same_fit(threaded, alone)
    assert threaded.objective_ == alone.objective_


@pytest.mark.parametrize("random_state", [np.random.RandomState(3), np.random.default_rng(3), None])
def test_every_kind_of_random_state(random_state):
    assert np.isfinite(make(random_state=random_state).fit(A).objective_)


# Predictions


@quiet
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("link", "f"), [(Logistic(3.0), lambda x: expit(3 * x)), (Probit(2.0), lambda x: ndtr(x / 2))]
)
@pytest.mark.parametrize("gammas", [PN, MIXTURE])
def test_predictions_are_the_formula_of_the_attributes(dtype, link, f, gammas):
    model = make(link=link, dtype=dtype, gammas=gammas, l2=0.5, max_iter=10).fit(A)
    rows, columns = np.array([0, 13, 5, 5, 0]), np.array([10, 0, 3, 3, 1])
    X = entries(model)
    x = X[rows, columns]
    np.testing.assert_allclose(model.decision_function(rows, columns), x, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(rows, columns), f(x), rtol=1e-10)
    signs = model.predict(rows, columns)
    np.testing.assert_array_equal(signs, np.where(x >= 0, 1, -1))
    assert signs.dtype == np.int8
    np.testing.assert_allclose(model.complete("score"), X, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(model.complete(), f(X), rtol=1e-10)
    np.testing.assert_array_equal(model.complete("sign"), np.where(X >= 0, 1, -1))


def test_both_signs_are_predicted_and_even_odds_are_a_like():
    model = make(l2=0.5).fit(A)
    assert set(np.unique(model.complete("sign"))) == {-1.0, 1.0}
    nothing = Factors.of(np.zeros_like(model.row_factors_), np.zeros_like(model.column_factors_))
    (member,) = model.fitted_.members
    model.fitted_ = replace(model.fitted_, members=(replace(member, factors=nothing),))
    assert (model.intercept_, *(getattr(model, name).any() for name in FITTED)) == (0.0,) * 5
    assert model.predict([0], [0]).tolist() == [1]
    assert model.complete("sign")[0, 0] == 1


def test_no_pair_gives_no_prediction():
    model = make().fit(A)
    assert model.predict([], []).shape == (0,)
    assert model.predict_proba([], []).shape == (0,)


@pytest.mark.parametrize("bare", [int, np.int64, np.array])
def test_a_single_row_and_column_may_be_given_bare(bare):
    model = make().fit(A)
    np.testing.assert_array_equal(
        model.decision_function(bare(3), bare(4)), model.decision_function([3], [4])
    )


def test_positions_may_be_a_list_of_numpy_integers():
    model = make().fit(A)
    np.testing.assert_array_equal(
        model.predict(list(np.arange(3)), [0, np.int32(1), 2]), model.predict([0, 1, 2], [0, 1, 2])
    )


@pytest.mark.parametrize("bare", [str, np.str_])
def test_a_single_id_may_be_given_bare(bare):
    i, j = np.nonzero(A)
    model = make().fit(Observations.from_pairs(i, j, A[i, j], row_ids=ROW_IDS))
    np.testing.assert_array_equal(
        model.predict_proba(bare("u"), 3), model.predict_proba(["u"], [3])
    )


def test_ids_of_every_kind_at_predict_time():
    rows, columns = np.nonzero(A)
    names = [f"item {j}" for j in range(11)]
    seen = Observations.from_pairs(
        rows, columns, A[rows, columns], shape=A.shape, row_ids=ROW_IDS, column_ids=names
    )
    model, plain = make().fit(seen), make().fit(A)
    assert_same_fit(model, plain)
    wanted = [1.5, 3, "3", "u", 109]
    np.testing.assert_array_equal(
        model.predict_proba(wanted, ["item 0", "item 10", "item 3", "item 3", "item 0"]),
        plain.predict_proba([2, 1, 3, 0, 13], [0, 10, 3, 3, 0]),
    )
    np.testing.assert_array_equal(
        model.predict(["u"], np.array(["item 4"])), plain.predict([0], [4])
    )


@pytest.mark.parametrize(
    ("rows", "columns", "kind", "match"),
    [
        (
            [0, 1],
            [1] * 3,
            InvalidInputError,
            "must have the same length, or .* single id; got 2 and 3",
        ),
        ([0.0], [1], InvalidTypeError, "Each row must be an integer position, not float64"),
        ([0], [1.5], InvalidTypeError, "Each column must be an integer position, not float64"),
        ([True], [1], InvalidTypeError, "Each row must be an integer position, not bool"),
        (["a"], [1], InvalidTypeError, "Each row must be an integer position"),
        ([14], [0], InvalidInputError, "the row 14 is not between 0 and 13; count from 0"),
        ([0, -1], [0, 0], InvalidInputError, "position 1: the row -1 is not between 0 and 13"),
        ([0], [11], InvalidInputError, "the column 11 is not between 0 and 10"),
        (np.zeros((3, 2), int), np.zeros(3, int), InvalidInputError, "single id; got 3 x 2 and 3"),
        ("ab", [0], InvalidTypeError, "Each row must be an integer position"),
    ],
)
def test_wrong_positions_are_one_sentence(rows, columns, kind, match):
    model = make().fit(A)
    for method in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(kind, match=match):
            method(rows, columns)


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        ([0, 3, 5], 2),
        (4, [1, 2]),
        ([7], [1, 2, 3]),
        (np.arange(6).reshape(2, 3), 1),
        (np.arange(4)[:, None], np.arange(3)),
        (np.arange(6).reshape(2, 3, 1), np.arange(4)),
        (np.array(3), 2),
    ],
)
def test_rows_and_columns_are_broadcast(rows, columns):
    model = make().fit(A)
    i, j = np.broadcast_arrays(np.atleast_1d(rows), np.atleast_1d(columns))
    expected = [model.predict_proba(a, b)[0] for a, b in zip(i.ravel(), j.ravel(), strict=True)]
    found = model.predict_proba(rows, columns)
    assert found.shape == i.shape == model.predict(rows, columns).shape
    assert found.ravel().tolist() == expected


@pytest.mark.parametrize(
    ("rows", "columns", "match"),
    [
        (
            ["u", "zz"],
            ["c0", "c0"],
            r"The row id 'zz' at position 1 of the list is unknown; pass.*'u'",
        ),
        (["103"], ["c0"], "The row id '103' at position 0"),  # 103 is one, the text is not
        (["u"], ["c11"], "The column id 'c11' at position 0 of the list is unknown.*'c0'"),
        ([0], ["c0"], "The row id 0 at position 0"),
    ],
)
def test_an_unknown_id_is_named(rows, columns, match):
    i, j = np.nonzero(A)
    names = [f"c{j}" for j in range(11)]
    seen = Observations.from_pairs(i, j, A[i, j], row_ids=ROW_IDS, column_ids=names)
    with pytest.raises(InvalidInputError, match=match):
        make(rank=1).fit(seen).predict(rows, columns)


def test_a_large_completion_is_refused_unless_forced(monkeypatch):
    model = make().fit(A)
    monkeypatch.setattr(completed, "MAX_DENSE_CELLS", 14 * 11)
    assert model.complete().shape == (14, 11)
    monkeypatch.setattr(completed, "MAX_DENSE_CELLS", 14 * 11 - 1)
    with pytest.raises(
        InvalidInputError, match=r"14 x 11 entries, 0\.0 GB: call predict_proba.*force=True"
    ):
        model.complete()
    assert model.complete(force=True).shape == (14, 11)


@pytest.mark.parametrize("what", ["probabilities", None, 3])
def test_an_unknown_kind_of_completion(what):
    with pytest.raises(InvalidInputError, match="what must be one of probability, sign, score"):
        make().fit(A).complete(what)


def test_score_is_the_accuracy_on_observed_entries():
    train, test = Observations.from_matrix(A).split(0.3, random_state=0)
    model = make(l2=0.5).fit(train)
    right = np.mean(model.predict(test.rows, test.columns) == test.labels)
    assert 0 < right < 1
    assert model.score(test) == pytest.approx(right)
    assert model.score(test.to_sparse()) == pytest.approx(right)


# Data of special kinds


@pytest.mark.parametrize("l2", [0.0, 1.0])
@pytest.mark.parametrize(
    "solver", ["newton", "projected_gradient", ProjectedGradient(grow=True)], ids=str
)
def test_rows_and_columns_with_nothing_seen_are_predicted_from_intercepts(solver, l2):
    labels = A.copy()
    labels[3] = 0
    labels[:, [2, 7]] = 0
    model = make(rank=4, solver=solver, l2=l2, radius=2.0, max_iter=300, tol=1e-3).fit(labels)
    assert not model.row_factors_[3].any()
    assert not model.column_factors_[[2, 7]].any()
    expected = model.intercept_ + model.row_intercepts_[3] + model.column_intercepts_[:]
    np.testing.assert_allclose(model.complete("score")[3], expected, rtol=1e-5, atol=1e-6)
    if l2:
        # Next to nothing pulls their intercepts away from 0 either.
        assert abs(model.row_intercepts_[3]) < 0.1
        assert abs(model.column_intercepts_[2] - model.column_intercepts_[7]) < 1e-6


@pytest.mark.parametrize("label", [1, -1])
@pytest.mark.parametrize("l2", [0.0, 5.0])
@pytest.mark.parametrize("link", ["logistic", "probit"])
@pytest.mark.parametrize("solver", ["newton", "projected_gradient"])
@quiet
def test_one_label_alone_warns_under_pn_and_stays_finite(label, l2, link, solver):
    words = "likes" if label == 1 else "dislikes"
    model = make(gammas=PN, l2=l2, link=link, solver=solver, max_iter=60)
    with pytest.warns(UnboundedRiskWarning, match=f"Only {words} were observed") as caught:
        model.fit(label * np.abs(A), zeros="unobserved")
    assert caught[0].filename == __file__
    assert all(np.isfinite(getattr(model, name)).all() for name in (*FITTED, "objective_"))
    likely = model.complete()
    assert np.isfinite(likely).all()
    assert (likely > 0.9).all() if label == 1 else (likely < 0.1).all()


@quiet
@pytest.mark.parametrize(
    "options", [{"radius": 1.0}, {"l2": 1.0}, {"gammas": (0.9, 0.1, 0.0), "rho": 0.5}]
)
def test_bounded_fits_of_likes_alone_do_not_warn(options):
    with warnings.catch_warnings():
        warnings.simplefilter("error", TribitWarning)
        make(**{"gammas": PN, "l2": 0.0, "intercept": False, **options}).fit(
            np.abs(A), zeros="unobserved"
        )


def pu_data(shape=(150, 120), rho=0.7):
    """Likes alone, each seen with probability 1 - rho: MATH.md, section 4."""
    M = low_rank_target(shape, 3, random_state=0)
    Y = quantise(M, Logistic(7.0), random_state=1)
    seen = (Y > 0) & (np.random.default_rng(2).random(shape) >= rho)
    return Y, seen


@pytest.mark.parametrize("kind", [lambda seen: seen, lambda seen: sp.csr_array(seen.astype(int))])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.usefixtures("short_trials")
def test_positives_and_unobserved_entries_alone(intercept, kind):
    Y, seen = pu_data()
    model = make(gammas=PU, rho=0.7, link=Logistic(7.0), rank=3, intercept=intercept)
    completed = model.fit(kind(seen), zeros="unobserved").complete("sign")
    assert np.mean(completed[~seen] == Y[~seen]) > 0.6
    assert 0.3 < np.mean(completed == 1) < 0.7


def test_positives_alone_without_rho_warn():
    _, seen = pu_data((30, 20))
    with pytest.warns(UnknownRhoWarning, match="rho") as caught:
        make(gammas=PU, rho=None).fit(seen, zeros="unobserved")
    assert caught[0].filename == __file__
    for category in (UnboundedRiskWarning, UnknownRhoWarning):
        assert issubclass(category, TribitWarning)
    assert issubclass(TribitWarning, UserWarning)


@quiet
@pytest.mark.parametrize(
    ("link", "radius"),
    [("logistic", np.log(3)), (Logistic(7.0), np.log(3) / 7), (Probit(0.1), 0.06744897501960817)],
)
@pytest.mark.parametrize("solver", ["newton", "projected_gradient"])
def test_a_mixture_without_a_radius_is_given_one(link, radius, solver):
    model = make(gammas=MIXTURE, link=link, solver=solver, l2=0.0, max_iter=40, rank=4).fit(A)
    assert model.radius_ == pytest.approx(radius, rel=1e-6)
    squares = [np.sum(F.astype(float) ** 2, axis=1).max() for F in factors_of(model)]
    assert max(squares) <= radius * (1 + 1e-6)
    assert max(squares) > 0.5 * radius  # the ball is felt
    assert np.abs(model.row_intercepts_).max() <= radius * (1 + 1e-6)
    assert np.abs(model.column_intercepts_).max() <= radius * (1 + 1e-6)


def factors_of(model):
    return model.row_factors_, model.column_factors_


@quiet
def test_every_bound_is_kept():
    options = {"gammas": MIXTURE, "l2": 0.0, "max_iter": 30, "rank": 4}
    trace = make(norm="trace", radius=3.0, solver="projected_gradient", **options).fit(A)
    U, V = factors_of(trace)
    assert (np.sum(U**2) + np.sum(V**2)) / 2 == pytest.approx(3.0, rel=1e-3)
    bounded = make(alpha=0.2, solver="projected_gradient", **options).fit(A)
    U, V = factors_of(bounded)
    assert np.abs(U @ V.T).max() == pytest.approx(0.2, rel=1e-3)
    within = make(radius=0.4, alpha=0.5, **options).fit(A)  # Newton: the ball implies it
    assert np.sum(within.row_factors_**2, axis=1).max() == pytest.approx(0.4, rel=1e-3)


def test_newton_refuses_a_bound_it_cannot_keep():
    with pytest.raises(
        InvalidInputError, match=r"cannot keep \|X\| <= alpha.*augmented_lagrangian"
    ):
        make(alpha=0.5, radius=1.0, solver="newton").fit(A)
    with pytest.raises(InvalidInputError, match=r"cannot keep TraceNorm.*augmented_lagrangian"):
        make(norm="trace", radius=1.0, solver="newton").fit(A)


# Stopping


def test_a_fit_that_is_cut_short_warns():
    model = make(max_iter=1, tol=0.0)
    match = r"stopped after max_iter=1 iterations, before tol=0.0 was reached: raise max_iter"
    with pytest.warns(ConvergenceWarning, match=match) as caught:
        model.fit(A)
    assert caught[0].filename == __file__
    assert model.n_iter_ == 1
    assert model.converged_ is False
    assert model.stop_reason_ == "max_iter was reached"


def test_a_fit_that_converges_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make().fit(A).converged_


def test_max_time():
    model = make(max_time=1e-9, tol=0.0).fit(A)
    assert model.n_iter_ == 1
    assert model.stop_reason_ == "max_time was reached"
    assert not model.converged_
    assert np.isfinite(model.objective_)


@pytest.mark.parametrize("solver", ["newton", "projected_gradient"])
def test_the_callback_sees_every_iteration(solver):
    seen = []
    model = make(callback=seen.append, solver=solver).fit(A)
    assert all(isinstance(entry, Iteration) for entry in seen)
    assert seen == model.history_
    assert [entry.iteration for entry in seen] == list(range(1, model.n_iter_ + 1))
    assert seen[-1].objective < seen[0].objective


@pytest.mark.parametrize(
    "solver", ["newton", "projected_gradient", ProjectedGradient(grow=True)], ids=str
)
def test_the_callback_stops_the_fit(solver):
    seen = []

    def stop(iteration):
        seen.append(iteration)
        return iteration.iteration == 2

    model = make(callback=stop, tol=0.0, solver=solver).fit(A)
    assert len(seen) == 2
    assert model.n_iter_ == 2
    assert model.stop_reason_ == "stopped by the callback"
    assert not model.converged_


def test_a_callback_that_stops_the_last_iteration_is_no_failure_to_converge():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(callback=lambda step: step.iteration == 2, tol=0.0, max_iter=2).fit(A)


def test_an_interruption_keeps_what_there_is():
    def interrupt(iteration):
        if iteration.iteration == 3:
            raise KeyboardInterrupt

    model = make(callback=interrupt, tol=0.0)
    with pytest.warns(RuntimeWarning, match="Interrupted after 3 iterations"):
        model.fit(A)
    assert model.stop_reason_ == "interrupted from the keyboard"
    assert not model.converged_
    assert np.isfinite(model.complete()).all()


# Parameters


def test_parameters_are_kept_as_given_and_cloned():
    given = {"gammas": [0.5, 0.5, 0], "link": Probit(0.3), "rank": 3, "radius": 2, "rho": 0.5}
    model = make(**given)
    for name, value in given.items():
        assert getattr(model, name) is value
    model.fit(A)
    for name, value in given.items():
        assert getattr(model, name) is value
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "row_factors_")
    copy.set_params(rank=1, link="logistic")
    assert copy.fit(A).row_factors_.shape == (14, 1)
    assert model.rank == 3
    with pytest.raises(ValueError, match="Invalid parameter 'ranks'"):
        copy.set_params(ranks=1)


def test_repr_shows_what_differs_from_the_defaults():
    assert repr(BinaryMatrixCompletion()) == "BinaryMatrixCompletion()"
    text = repr(BinaryMatrixCompletion((0, 1, 0), rank=3, link=Logistic(7.0)))
    assert text == "BinaryMatrixCompletion(gammas=(0, 1, 0), link=Logistic(scale=7.0), rank=3)"


def test_a_pickled_model_predicts_the_same():
    i, j = np.nonzero(A)
    seen = Observations.from_pairs(i, j, A[i, j], row_ids=ROW_IDS)
    model = make(link=Probit(0.3), gammas=MIXTURE).fit(seen)
    copy = pickle.loads(pickle.dumps(model))
    assert_same_fit(copy, model)
    np.testing.assert_array_equal(
        copy.predict_proba([1.5, "3"], [0, 1]), model.predict_proba([1.5, "3"], [0, 1])
    )
    assert copy.history_ == model.history_


WRONG = [
    ({"gammas": (0.5, 0.5, 0.5)}, InvalidInputError, r"gammas .* sum to 1; got .*sums to 1\.5"),
    ({"gammas": (1.5, -0.5, 0)}, InvalidInputError, "gammas .* must be at least 0 and sum to 1"),
    ({"gammas": (NAN, 0.5, 0.5)}, InvalidInputError, "gammas .* must be at least 0 and sum to 1"),
    ({"gammas": (INF, 0, 0)}, InvalidInputError, "gammas .* must be at least 0 and sum to 1"),
    ({"gammas": (1, 0)}, InvalidInputError, r"gammas must be three numbers .*; got 2\."),
    ({"gammas": (1, 0, 0, 0)}, InvalidInputError, r"gammas must be three numbers .*; got 4\."),
    ({"gammas": (10**400, 0, 0)}, InvalidTypeError, "gammas must be three numbers .*; got .10000"),
    ({"gammas": None}, InvalidTypeError, "gammas must be three numbers .*; got None"),
    ({"gammas": 1.0}, InvalidTypeError, "gammas must be three numbers .*; got 1.0"),
    ({"gammas": "abc"}, InvalidTypeError, "gammas must be three numbers .*; got 'abc'"),
    ({"gammas": "100"}, InvalidTypeError, "gammas must be three numbers .*; got '100'"),
    ({"rho": 1.0}, InvalidInputError, r"rho, the probability .* must be in \[0, 1\); got 1\.0"),
    ({"rho": -0.1}, InvalidInputError, r"rho, the probability .* must be in \[0, 1\)"),
    ({"rho": NAN}, InvalidInputError, r"rho, the probability .* must be in \[0, 1\)"),
    ({"rho": "0.5"}, InvalidTypeError, r"rho must be a number in \[0, 1\) or a model"),
    ({"rho": True}, InvalidTypeError, r"rho must be a number in \[0, 1\) .*; got bool"),
    (
        {"rank": 0, "intercept": False},
        InvalidInputError,
        "rank must be from 1 to 14, the larger side of the 14 x 11",
    ),
    ({"rank": 15}, InvalidInputError, "rank must be from 0 to 14.*; got 15"),
    ({"rank": -1}, InvalidInputError, "rank must be from 0 to 14.*; got -1"),
    ({"rank": 1.5}, InvalidTypeError, "rank must be a whole number; got 1.5"),
    ({"rank": True}, InvalidTypeError, "rank must be a whole number; got True"),
    ({"rank": None}, InvalidTypeError, "rank must be a whole number; got None"),
    ({"radius": 0}, InvalidInputError, "radius must be a positive finite number; got 0"),
    ({"radius": -1.0}, InvalidInputError, "radius must be a positive finite number"),
    ({"radius": NAN}, InvalidInputError, "radius must be a positive finite number; got nan"),
    ({"radius": INF}, InvalidInputError, "radius must be a positive finite number; got inf"),
    ({"radius": "1"}, InvalidInputError, "radius must be a positive finite number; got '1'"),
    ({"radius": 0, "gammas": MIXTURE}, InvalidInputError, "radius must be a positive finite"),
    ({"alpha": 0}, InvalidInputError, "alpha must be a positive finite number; got 0"),
    ({"alpha": NAN}, InvalidInputError, "alpha must be a positive finite number; got nan"),
    ({"alpha": -1.0, "gammas": MIXTURE}, InvalidInputError, "alpha must be a positive finite"),
    ({"alpha": True}, InvalidInputError, "alpha must be a positive finite number; got True"),
    ({"l2": -1e-9}, InvalidInputError, "l2 must be a finite number, at least 0; got -1e-09"),
    ({"l2": NAN}, InvalidInputError, "l2 must be a finite number, at least 0; got nan"),
    ({"l2": INF}, InvalidInputError, "l2 must be a finite number, at least 0; got inf"),
    ({"l2": None}, InvalidInputError, "l2 must be a finite number, at least 0; got None"),
    ({"l2_intercept": -1.0}, InvalidInputError, "l2_intercept must be a finite number, at least 0"),
    ({"l2_intercept": NAN}, InvalidInputError, "l2_intercept must be a finite number, at least 0"),
    ({"l2_intercept": "x"}, InvalidInputError, "l2_intercept must be a finite .*; got 'x'"),
    (
        {"l2_implicit": -1.0},
        InvalidInputError,
        "l2_implicit must be a finite number, at least 0; got -1",
    ),
    (
        {"l2_implicit": INF},
        InvalidInputError,
        "l2_implicit must be a finite number, at least 0; got inf",
    ),
    (
        {"implicit_features": "yes"},
        InvalidTypeError,
        "implicit_features must be True or False; got 'yes'",
    ),
    (
        {"implicit_features": None},
        InvalidTypeError,
        "implicit_features must be True or False; got None",
    ),
    ({"implicit_features": 1}, InvalidTypeError, "implicit_features must be True or False; got 1"),
    (
        {"side_features": True},
        InvalidInputError,
        "side_features=True needs features: give fit row_features or column_features",
    ),
    (
        {"implicit_features": True, "norm": "trace", "radius": 1.0},
        InvalidInputError,
        "not go with norm='trace', which the balls of single rows do not imply",
    ),
    (
        {"implicit_features": True, "alpha": 1.0, "radius": 3.0},
        InvalidInputError,
        "not go with alpha, .* pass a max-norm radius of at most alpha",
    ),
    (
        {"implicit_features": True, "solver": "newton"},
        InvalidInputError,
        "newton solver cannot move",
    ),
    (
        {"implicit_features": True, "solver": ProjectedGradient(grow=True)},
        InvalidInputError,
        "the projected_gradient solver cannot move these: use solver='lbfgs'",
    ),
    ({"solver": "lbfgs", "radius": 1.0}, InvalidInputError, "lbfgs solver keeps no constraint"),
    ({"solver": "lbfgs", "gammas": PU}, InvalidInputError, "lbfgs solver keeps no constraint"),
    ({"target": "some"}, InvalidInputError, "target must be one of observed, all; got 'some'"),
    ({"target": None}, InvalidInputError, "target must be one of observed, all; got None"),
    ({"scoring": "r2"}, InvalidInputError, "scoring must be one of log_loss, error, auc; got 'r2'"),
    ({"scoring": len}, InvalidInputError, "scoring must be one of log_loss, error, auc; got "),
    (
        {"n_candidates": 0},
        InvalidInputError,
        "n_candidates must be a whole number, at least 1; got 0",
    ),
    ({"n_candidates": 2.0}, InvalidInputError, "n_candidates must be a whole number, .*; got 2.0"),
    ({"n_candidates": True}, InvalidInputError, "n_candidates must be a whole .*; got True"),
    ({"calibration": "magic"}, InvalidInputError, "calibration must be one of .*auto; got 'magic'"),
    ({"calibration": True}, InvalidInputError, "calibration must be one of .*; got True"),
    ({"link": "cauchy"}, InvalidInputError, "link must be one of logistic, probit; got 'cauchy'"),
    ({"link": 3}, InvalidTypeError, "link must be one of logistic, probit or a Link.*; got int"),
    ({"link": Logistic}, InvalidTypeError, "link must be one of logistic, probit or a Link object"),
    (
        {"solver": "adam"},
        InvalidInputError,
        "solver must be one of newton, lbfgs, augmented_lagrangian, projected_gradient; got 'adam'",
    ),
    ({"solver": 3}, InvalidTypeError, "solver must be one of newton, .* or a solver .*; got int"),
    ({"solver": None}, InvalidTypeError, "solver must be one of newton, .*; got NoneType"),
    ({"solver": Newton}, InvalidTypeError, "solver must be one of newton, .* or a solver object"),
    (
        {"dtype": "float16"},
        InvalidInputError,
        "dtype must be one of float32, float64; got 'float16",
    ),
    ({"dtype": int}, InvalidInputError, "dtype must be one of float32, float64"),
    ({"device": "gpu"}, InvalidInputError, "device must be one of cpu, cuda, auto; got 'gpu'"),
    ({"norm": "nuclear"}, InvalidInputError, "norm must be one of max, trace; got 'nuclear'"),
    ({"norm": None}, InvalidInputError, "norm must be one of max, trace; got None"),
    ({"norm": ["max"]}, TribitError, r"norm must be one of max, trace; got \['max'\]"),
    ({"n_jobs": 0}, InvalidInputError, "n_jobs must be a whole number, at least 1, or -1.*; got 0"),
    ({"n_jobs": 1.5}, InvalidInputError, "n_jobs must be a whole number.*; got 1.5"),
    ({"n_jobs": "2"}, InvalidInputError, "n_jobs must be a whole number.*; got '2'"),
    ({"max_iter": 0}, InvalidInputError, "max_iter must be a whole number, at least 1; got 0"),
    ({"max_iter": 2.0}, InvalidInputError, "max_iter must be a whole number, at least 1; got 2.0"),
    ({"max_iter": True}, InvalidInputError, "max_iter must be a whole number, .*; got True"),
    ({"max_time": 0}, InvalidInputError, "max_time must be a positive finite number; got 0"),
    ({"max_time": NAN}, InvalidInputError, "max_time must be a positive finite number; got nan"),
    ({"tol": -1e-9}, InvalidInputError, "tol must be a finite number, at least 0; got -1e-09"),
    ({"tol": NAN}, InvalidInputError, "tol must be a finite number, at least 0; got nan"),
    ({"like_at": "4"}, InvalidInputError, "like_at is '4'; pass the smallest rating that is a"),
    ({"random_state": "x"}, InvalidTypeError, "random_state is of type str; pass None, an integer"),
    ({"random_state": -1}, InvalidInputError, "random_state is -1, but a seed cannot be negative"),
    ({"intercept": "yes"}, InvalidTypeError, "intercept must be True or False; got 'yes'"),
    ({"intercept": 1}, InvalidTypeError, "intercept must be True or False; got 1"),
    ({"callback": 3}, TribitError, "callback must be"),
]


@pytest.mark.parametrize(("parameters", "kind", "match"), WRONG, ids=lambda value: str(value)[:40])
def test_a_wrong_parameter_is_one_sentence(parameters, kind, match):
    with pytest.raises(kind, match=match) as caught:
        make(**parameters).fit(A)
    assert isinstance(caught.value, ValueError | TypeError)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(("parameters", "kind", "match"), WRONG, ids=lambda value: str(value)[:40])
def test_a_wrong_parameter_is_one_sentence_where_others_are_chosen(parameters, kind, match):
    enough = labels_of(observed=1.0)  # to hold some out: a search is what meets the parameter first
    with pytest.raises(kind, match=match) as caught:
        BinaryMatrixCompletion(**{"n_jobs": 1, "random_state": 0, **parameters}).fit(enough)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_the_two_kinds_of_error_are_python_s_own_too():
    assert issubclass(InvalidInputError, ValueError)
    assert issubclass(InvalidTypeError, TypeError)


def test_a_failed_fit_leaves_no_fitted_model():
    model = make(rank=99)
    with pytest.raises(InvalidInputError, match="rank"):
        model.fit(A)
    with pytest.raises(NotFittedError):
        model.predict([0], [0])


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: model.predict([0], [0]),
        lambda model: model.predict_proba([0], [0]),
        lambda model: model.decision_function([0], [0]),
        lambda model: model.complete(),
        lambda model: model.score(A),
        lambda model: model.save("model.tribit"),
    ],
)
def test_an_unfitted_model_says_so(ask):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        ask(make())


# Nothing that goes in brings a NaN out


@st.composite
def parameters(draw):
    first, second = sorted(draw(st.tuples(st.floats(0, 1), st.floats(0, 1))))
    corner = st.sampled_from([(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)])
    gammas = draw(st.one_of(corner, st.just((first, second - first, 1.0 - second))))
    scale = st.floats(0.1, 10)
    solver = draw(
        st.sampled_from(
            [
                "newton",
                "projected_gradient",
                ProjectedGradient(step=1.0),
                ProjectedGradient(grow=True),
            ]
        )
    )
    # A fixed step on a problem without a ball may be too long for it: see the test below.
    fixed = isinstance(solver, ProjectedGradient) and solver.step is not None
    radius = draw(st.floats(0.01, 50) if fixed else st.none() | st.floats(0.01, 50))
    alpha = None if solver == "newton" else draw(st.none() | st.floats(0.01, 50))
    return {
        "gammas": gammas,
        "rho": draw(st.none() | st.floats(0, 0.999)),
        "link": draw(st.one_of(st.builds(Logistic, scale), st.builds(Probit, scale))),
        "solver": solver,
        "dtype": draw(st.sampled_from(["float32", "float64"])),
        "l2": draw(st.sampled_from([0.0, 1e-3, 5.0])),
        "radius": radius,
        "alpha": alpha,
        "intercept": draw(st.booleans()),
        "rank": draw(st.integers(1, 3)),
        "max_iter": draw(st.integers(1, 12)),
        "tol": draw(st.sampled_from([0.0, 1e-5])),
        "random_state": draw(st.integers(0, 9)),
    }


@given(
    arrays(np.int8, array_shapes(min_dims=2, max_dims=2, max_side=7), elements=st.integers(-1, 1)),
    parameters(),
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_never_a_nan(labels, chosen):
    assume(labels.any() and chosen["rank"] <= max(labels.shape))
    assume(chosen["gammas"][1] < 1 or (labels > 0).any())  # refused: PU without likes
    assume(chosen["gammas"][2] < 1 or (labels < 0).any())
    model = make(**chosen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", TribitWarning)
        model.fit(labels, zeros="unobserved")
    for name in FITTED:
        assert np.isfinite(getattr(model, name)).all()
    assert np.isfinite(model.intercept_)
    assert np.isfinite(model.objective_)
    likely = model.complete()
    assert ((likely >= 0) & (likely <= 1)).all()
    U, V = (F.astype(float) for F in factors_of(model))
    slack = 1 + 1e-5
    if model.radius_ is not None:
        assert max(np.sum(F**2, axis=1).max() for F in (U, V)) <= model.radius_ * slack
    if model.alpha is not None:
        assert np.abs(U @ V.T).max() <= model.alpha * slack
    rho = chosen["rho"] if chosen["rho"] is not None else np.mean(labels == 0)
    liked, disliked = losses(model.link, entries(model))
    # Relative to the sum of sizes: weights of both signs may cancel.
    size = (liked.sum() + disliked.sum()) / (1 - rho)
    expected = objective(labels, model, chosen["gammas"], rho, model.link, chosen["l2"])
    assert model.objective_ == pytest.approx(expected, rel=1e-6, abs=1e-9 * size)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_fixed_step_that_is_too_long_ends_in_a_finite_model_and_says_why(dtype):
    options = {"link": Probit(0.125), "l2": 0.0, "intercept": False, "rank": 1, "random_state": 3}
    model = make(solver=ProjectedGradient(step=1.0), dtype=dtype, max_iter=40, tol=0.0, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("error", RuntimeWarning)  # no overflow is the user's business
        model.fit([[1, -1], [1, 1]])
    assert np.isfinite(model.objective_)
    assert all(np.isfinite(entry.objective) for entry in model.history_)
    assert "step" in model.stop_reason_


def test_a_sampled_backend_is_said_and_is_near_the_exact_one(monkeypatch):
    monkeypatch.setattr("tribit.backends.tile_sample.BLOCK", 16)
    monkeypatch.setattr("tribit.backends.tile_sample.MAX_MEAN_TILES", 8)
    draws = np.random.default_rng(0)
    U, V = draws.normal(size=(220, 2)), draws.normal(size=(200, 2))
    seen = draws.random((220, 200)) < draws.random(200) ** 2
    A = np.where(seen, np.where(draws.random(seen.shape) < 1 / (1 + np.exp(-U @ V.T)), 1, -1), 0)
    chosen = {"rho": 0.8, "l2_intercept": None, "implicit_features": False, "side_features": False}
    settings = {"rank": 2, "l2": 3.0, "radius": 1.1, "tol": 1e-3, "random_state": 0, **chosen}
    models = {
        backend: BinaryMatrixCompletion((0.4, 0.3, 0.3), backend=backend, **settings).fit(A)
        for backend in ("auto", "sampled")
    }
    assert [model.backend_ for model in models.values()] == ["exact", "sampled"]
    exact, sampled = models.values()
    assert sampled.objective_ == pytest.approx(exact.objective_, rel=1e-2)
    again = BinaryMatrixCompletion((0.4, 0.3, 0.3), backend="sampled", n_jobs=2, **settings).fit(A)
    np.testing.assert_array_equal(again.row_factors_, sampled.row_factors_)
    monkeypatch.setattr("tribit.backends.MAX_EXACT_CELLS", 1000)
    assert BinaryMatrixCompletion((0.4, 0.3, 0.3), **settings).fit(A).backend_ == "sampled"
    assert BinaryMatrixCompletion((1, 0, 0), **settings).fit(A).backend_ == "exact"
    with pytest.raises(InvalidInputError, match="backend must be"):
        BinaryMatrixCompletion(backend="some").fit(A)
