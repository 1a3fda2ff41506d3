"""Positions against an independent decomposition of the dense scores; ellipses against simulated truths."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import chi2
from sklearn.exceptions import ConvergenceWarning

from other_parts import stacked, with_factors
from tribit import (
    BinaryMatrixCompletion,
    InvalidInputError,
    Observations,
    Recommender,
    UnboundedRiskWarning,
    positions,
)
from tribit.errors import TribitWarning
from tribit.uncertainty import laplace
from tribit.uncertainty.positions import NO_STANDARD_ERRORS

OPTIONS = {
    "rank": 3,
    "l2": 0.5,
    "l2_intercept": 1.0,
    "search": False,
    "dtype": "float64",
    "n_jobs": 1,
    "random_state": 0,
}
RNG = np.random.default_rng(5)
A = np.where(RNG.random((40, 12)) < 0.7, RNG.choice([-1, 1], (40, 12)), 0)


def fitted(X=A, ranks=(), **changes):
    """Return a fit, or the stack of one fit of each rank."""
    options = {**OPTIONS, **changes}
    if ranks:
        return stacked([fitted(X, **{**changes, "rank": rank}) for rank in ranks], (0.7, 0.3))
    return BinaryMatrixCompletion(**options).fit(X)


def dense_scores(model):
    """Return the scores of all cells."""
    i, j = np.indices(model.shape_).reshape(2, -1)
    return model.decision_function(i, j).reshape(model.shape_).astype(float)


def without_means(X):
    """Return the scores less the means of rows and columns."""
    return X - X.mean(axis=0) - X.mean(axis=1, keepdims=True) + X.mean()


def both(found):
    sides = found.rows, found.columns
    return np.concatenate([np.column_stack([each.biases, each.coordinates]) for each in sides])


@pytest.mark.parametrize(
    "options",
    [{}, {"ranks": (3, 5)}, {"implicit_features": True, "l2_implicit": 3.0}, {"dtype": "float32"}],
    ids=["one fit", "stack", "implicit features", "single precision"],
)
def test_positions_are_a_biplot_of_the_scores_without_biases(options):
    model = fitted(**options)
    X = dense_scores(model)
    Z = without_means(X)
    left, values, right = np.linalg.svd(Z)
    found = positions(model, n=2)
    P, Q = found.rows.coordinates, found.columns.coordinates
    np.testing.assert_allclose(P @ Q.T, left[:, :2] * values[:2] @ right[:2], atol=1e-5 * values[0])
    np.testing.assert_allclose(found.shares, values[:2] ** 2 / np.sum(Z**2), rtol=1e-4)
    assert found.level == pytest.approx(X.mean(), abs=1e-6)
    np.testing.assert_allclose(found.rows.biases, X.mean(axis=1) - X.mean(), atol=1e-5)
    np.testing.assert_allclose(found.columns.biases, X.mean(axis=0) - X.mean(), atol=1e-5)
    # Principal axes, with the root mean square of their part of the scores as the variance on both sides.
    size = np.diag(values[:2]) / np.sqrt(Z.size)
    for side in (P, Q):
        np.testing.assert_allclose(side.T @ side / len(side), size, atol=1e-5)
        np.testing.assert_allclose(side.mean(axis=0), 0, atol=1e-6)


def test_they_do_not_depend_on_the_basis_of_the_factors_or_on_their_means():
    model = fitted()
    first = positions(model, A, n=3)
    basis = np.array([[3.0, 1.0, 0.0], [0.0, 0.5, 2.0], [1.0, 0.0, 1.0]])
    U, V, shift = model.row_factors_, model.column_factors_, np.array([1.0, -2.0, 0.5])
    changes = {
        "basis": {"row_factors": U @ basis, "column_factors": V @ np.linalg.inv(basis).T},
        "means": {
            "row_factors": U + shift,
            "column_intercepts": model.column_intercepts_ - V @ shift,
        },
    }
    for parts in changes.values():
        np.testing.assert_allclose(
            both(positions(with_factors(model, **parts), n=3)), both(first), atol=1e-9
        )
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    turned = positions(with_factors(model, row_factors=U @ turn, column_factors=V @ turn), A, n=3)
    np.testing.assert_allclose(both(turned), both(first), atol=1e-9)
    for side in ("rows", "columns"):
        ours, theirs = getattr(first, side), getattr(turned, side)
        np.testing.assert_allclose(theirs.covariances, ours.covariances, atol=1e-9)


def simulated(seed, shape=(150, 120), share=0.7):
    """Return positions on both sides with axes of different lengths, and votes."""
    rng = np.random.default_rng(seed)
    P, Q = (rng.standard_normal((size, 2)) * [1.3, 0.9] for size in shape)
    x = P @ Q.T + rng.normal(0, 0.7, shape[1])
    yes = np.where(rng.random(shape) < expit(x), 1, -1)
    return P, Q, np.where(rng.random(shape) < share, yes, 0)


def test_fits_of_other_seeds_have_the_same_positions():
    _, _, votes = simulated(0, (60, 50))
    options = {"rank": 2, "l2": 1.0, "tol": 1e-10}
    first, second = (positions(fitted(votes, random_state=seed, **options)) for seed in (0, 7))
    raw = [fitted(votes, random_state=seed, **options).row_factors_ for seed in (0, 7)]
    assert np.abs(raw[0] - raw[1]).max() > 0.02
    np.testing.assert_allclose(both(first), both(second), atol=1e-4)


def test_ellipses_hold_the_true_positions_as_often_as_they_say():
    inside = {"rows": [], "columns": []}
    for seed in range(3):
        truths = dict(zip(inside, simulated(seed), strict=False))
        votes = simulated(seed)[2]
        found = positions(fitted(votes, rank=2, l2=1.0), votes)
        for name, truth in truths.items():
            side = getattr(found, name)
            centred = truth - truth.mean(axis=0)
            # The truth has its own axes and units: the best linear map of it onto the positions.
            linear = np.linalg.lstsq(centred, side.coordinates, rcond=None)[0]
            error = side.coordinates - centred @ linear
            distances = np.einsum(
                "na,nab,nb->n", error, np.linalg.inv(side.covariances[:, 1:, 1:]), error
            )
            inside[name].append([np.mean(distances <= chi2.ppf(q, 2)) for q in (0.5, 0.9)])
    for shares in inside.values():
        np.testing.assert_allclose(np.mean(shares, axis=0), [0.5, 0.9], atol=0.06)


@pytest.mark.parametrize("options", [{}, {"ranks": (3, 5)}], ids=["one fit", "stack"])
def test_covariances_are_those_of_the_factors_on_the_axes(options):
    model = fitted(**options)
    found, posterior = positions(model, A), laplace(model, A)
    member = posterior.fitted.factors
    for side, theirs, factors, across in (
        (found.rows, posterior.rows, member.column_factors, found.columns.coordinates),
        (found.columns, posterior.columns, member.row_factors, found.rows.coordinates),
    ):
        # The regression of a row of the scores on 1 and on the positions of the columns.
        weights = np.linalg.pinv(np.column_stack([np.ones(len(across)), across]))
        terms = np.column_stack([factors, np.ones(len(factors))])
        covariances = theirs.covariances(np.arange(len(side)))
        for each, covariance in zip(side.covariances, covariances, strict=True):
            expected = weights @ (terms @ covariance @ terms.T) @ weights.T
            np.testing.assert_allclose(each, expected, rtol=1e-7, atol=1e-12)
        np.testing.assert_allclose(
            side.standard_errors**2, np.diagonal(side.covariances, axis1=1, axis2=2)
        )


def test_biases_of_a_model_without_factors_have_the_standard_errors_of_a_rasch_model():
    model = fitted(rank=0)
    found = positions(model, A, n=0)
    P = expit(dense_scores(model))
    information = np.where(A == 0, 0, P * (1 - P))
    for axis, side, biases in (
        (1, found.rows, model.row_intercepts_),
        (0, found.columns, model.column_intercepts_),
    ):
        np.testing.assert_allclose(side.biases, biases - biases.mean(), atol=1e-12)
        expected = 1 / np.sqrt(1.0 + information.sum(axis=axis))
        np.testing.assert_allclose(side.standard_errors[:, 0], expected)
    assert list(found.rows.table()) == ["row", "bias", "se_bias", "entries"]
    assert found.facts().keys() == {"level"}


def test_an_ellipse_is_where_the_density_is_that_of_its_level():
    side = positions(fitted(), A, n=2).rows
    for level in (0.5, 0.95):
        for (width, height, angle), covariance in zip(
            side.ellipses(level), side.covariances[:, 1:, 1:], strict=True
        ):
            assert width >= height
            a, t = np.radians(angle), np.linspace(0, 6, 7)
            flat = np.array([width * np.cos(t), height * np.sin(t)]) / 2
            edge = np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]) @ flat
            distances = np.einsum("an,ab,bn->n", edge, np.linalg.inv(covariance), edge)
            np.testing.assert_allclose(distances, chi2.ppf(level, 2))


def test_the_sign_of_an_axis_is_that_of_its_largest_row_or_of_a_given_one():
    model = fitted()
    P = positions(model, n=3).rows.coordinates
    assert (P[np.argmax(np.abs(P), axis=0), np.arange(3)] > 0).all()
    one = positions(model, n=3, polarity=4).rows.coordinates
    assert (one[4] > 0).all()
    np.testing.assert_array_equal(np.abs(one), np.abs(P))
    each = positions(model, n=3, polarity=[4, 5, 6]).rows.coordinates
    assert (each[[4, 5, 6], [0, 1, 2]] > 0).all()


def test_tables_have_ids_standard_errors_and_numbers_of_entries():
    i, j = np.nonzero(A)
    seen = Observations(i, j, A[i, j], A.shape, [f"member {n}" for n in range(40)], list(range(12)))
    found = positions(fitted(seen), seen)
    frame = found.rows.to_frame().set_index("row")
    names = ["bias", "axis_1", "axis_2"]
    assert list(frame) == [*(each for name in names for each in (name, f"se_{name}")), "entries"]
    assert frame.loc["member 7", "entries"] == np.count_nonzero(A[7])
    whole = found.to_frame()
    assert whole["side"].tolist() == ["row"] * 40 + ["column"] * 12
    assert whole["id"].tolist() == [*seen.row_ids, *range(12)]
    np.testing.assert_array_equal(whole[names], both(found))
    assert found.to_dict()["columns"][3]["column"] == 3
    assert list(positions(fitted()).rows.table()) == ["row", *names]


def test_a_model_without_a_penalty_has_positions_without_standard_errors():
    model = fitted(l2=0.0, norm="max", radius=2.0, intercept=False)
    assert positions(model, A).rows.standard_errors is not None  # a ball is a prior
    with pytest.warns((UnboundedRiskWarning, ConvergenceWarning)):
        free = fitted(l2=0.0, l2_intercept=0.0, rank=1, max_iter=5)
    found = positions(free, A, n=1)
    assert found.rows.standard_errors is None
    assert found.rows.entries is not None


def test_a_recommender_asks_by_its_own_names_and_with_new_rows():
    found = Recommender(BinaryMatrixCompletion(rank=2, l2=1.0, search=False, n_jobs=1)).fit(A)
    asked = found.positions(n=1)
    np.testing.assert_array_equal(both(asked), both(positions(found.model_, A, n=1)))
    more = found.fold_in(A[:2]).positions(n=1, polarity=3)
    assert len(more.rows) == 42
    assert more.rows.standard_errors.min() > 0


@pytest.mark.parametrize(
    ("options", "asked", "message"),
    [
        ({"rank": 0}, {"n": 2}, "have 0 axes beside biases; pass n=0, or fit a model with rank=2"),
        ({"rank": 1}, {"n": 2}, "have 1 axis beside biases; pass n=1, or fit a model with rank=2"),
        ({}, {"n": 5}, "have 3 axes beside biases; pass n=3, or fit a model with rank=5"),
        ({}, {"n": -1}, "n must be a whole number, at least 0"),
        ({}, {"polarity": [1, 2, 3]}, "polarity has 3 ids; pass one for all axes or 2"),
        ({}, {"polarity": 40}, "the row 40 is not between 0 and 39"),
    ],
)
def test_what_has_no_answer_is_refused(options, asked, message):
    with pytest.raises(InvalidInputError, match=message):
        positions(fitted(**options), **asked)


@pytest.mark.parametrize("rank", [0, 1])
def test_by_default_there_are_as_many_axes_as_the_scores_have_up_to_two(rank):
    known = f"The scores have {rank} (axis|axes) beside biases"
    with pytest.warns(TribitWarning, match=known):
        found = positions(fitted(rank=rank), A)
    np.testing.assert_array_equal(both(found), both(positions(fitted(rank=rank), A, n=rank)))
    recommender = Recommender(BinaryMatrixCompletion(**{**OPTIONS, "rank": rank})).fit(A)
    with pytest.warns(TribitWarning, match=known):
        assert recommender.positions().shares.size == rank
    assert positions(fitted()).shares.size == 2


def test_a_printed_map_says_why_it_has_no_standard_errors():
    for seen, expected in ((None, True), (A, False)):
        found = positions(fitted(), seen, n=0)
        for answer in (found, found.rows):
            assert (NO_STANDARD_ERRORS in str(answer)) == expected


def test_ellipses_need_two_axes_and_entries():
    model = fitted()
    for side in (positions(model).rows, positions(model, A, n=1).columns):
        with pytest.raises(InvalidInputError, match="Ellipses need two axes and standard errors"):
            side.ellipses()
