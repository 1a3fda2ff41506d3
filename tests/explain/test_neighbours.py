"""Neighbours, against the correlation of the completed scores."""

import numpy as np
import pytest

from other_parts import stacked, with_factors
from tribit import BinaryMatrixCompletion, InvalidInputError, Observations, similar

RNG = np.random.default_rng(5)
A = np.where(RNG.random((40, 12)) < 0.6, RNG.choice([-1, 1], (40, 12)), 0)
A[:, 11] = 0
OPTIONS = {
    "rank": 3,
    "l2": 0.5,
    "l2_intercept": 1.0,
    "search": False,
    "n_jobs": 1,
    "random_state": 0,
}


def fitted(X=A, **changes):
    return BinaryMatrixCompletion(**{**OPTIONS, **changes}).fit(X)


def correlations(model, by):
    """Correlations of the scores without effects, from the dense matrix."""
    X = model.row_factors_.astype(float) @ model.column_factors_.T.astype(float)
    with np.errstate(invalid="ignore"):
        found = np.corrcoef(X if by == "rows" else X.T)
    return np.where(np.isnan(found), 0.0, found)


@pytest.mark.parametrize("by", ["rows", "columns"])
@pytest.mark.parametrize("weights", [(1.0,), (0.7, 0.3)], ids=["one fit", "stack"])
def test_neighbours_are_those_whose_scores_correlate(by, weights):
    model = stacked([fitted(rank=3 * (k + 1)) for k in range(len(weights))], weights)
    expected = correlations(model, by)
    found = similar(model, **{by: [3, 7]}, n=5)
    for place, nearest, values in zip([3, 7], found.nearest, found.similarities, strict=True):
        others = np.delete(np.arange(expected.shape[0]), place)
        order = others[np.argsort(-expected[place, others], kind="stable")][:5]
        np.testing.assert_array_equal(nearest, order)
        np.testing.assert_allclose(values, expected[place, order], atol=1e-5)
    assert len(found) == 2


@pytest.mark.parametrize("by", ["rows", "columns"])
def test_those_of_which_little_is_known_are_less_alike(by):
    rare = A.copy()
    rare[3:, 2] = 0  # a column with a few entries
    rare[5, 4:] = 0
    model = fitted(rare)
    counts = np.count_nonzero(rare, axis=1 if by == "rows" else 0)
    share = counts / (counts + 5.0)
    expected = correlations(model, by) * np.sqrt(np.outer(share, share))
    found = similar(model, **{by: [3]}, n=counts.size - 1, seen=rare)
    others = np.delete(np.arange(counts.size), 3)
    order = others[np.argsort(-expected[3, others], kind="stable")]
    np.testing.assert_allclose(found.similarities[0], expected[3, order], atol=1e-5)
    np.testing.assert_allclose(expected[3, found.nearest[0]], expected[3, order], atol=1e-5)
    assert not np.array_equal(found.nearest, similar(model, **{by: [3]}, n=counts.size - 1).nearest)


def test_another_basis_of_the_same_matrix_has_the_same_neighbours():
    model = fitted(dtype="float64")
    first = similar(model, columns=range(11), n=3)
    basis = np.array([[3.0, 1.0, 0.0], [0.0, 0.5, 2.0], [1.0, 0.0, 1.0]])
    turned = with_factors(
        model,
        row_factors=model.row_factors_ @ basis,
        column_factors=model.column_factors_ @ np.linalg.inv(basis).T,
    )
    second = similar(turned, columns=range(11), n=3)
    np.testing.assert_array_equal(first.nearest, second.nearest)
    np.testing.assert_allclose(first.similarities, second.similarities, atol=1e-9)


def test_equal_ones_come_in_order_and_what_says_nothing_is_0():
    model = fitted()
    V = np.repeat(model.column_factors_[:1], 12, axis=0)
    V[[4, 11]] = 0
    model = with_factors(model, column_factors=V)
    found = similar(model, columns=[2, 11], n=50)
    assert found.nearest.shape == (2, 11)
    assert found.nearest.tolist()[0] == [0, 1, 3, 5, 6, 7, 8, 9, 10, 4, 11]
    np.testing.assert_allclose(found.similarities[0], [1.0] * 9 + [0.0] * 2, atol=1e-12)
    assert found.nearest.tolist()[1] == list(range(11))
    assert not found.similarities[1].any()


def test_a_model_of_effects_alone_finds_nothing_alike():
    found = similar(fitted(rank=0), rows=0, n=2)
    assert found.nearest.tolist() == [[1, 2]]
    assert not found.similarities.any()


def test_ids():
    names = [f"film {j}" for j in range(12)]
    seen = Observations(*np.nonzero(A), A[np.nonzero(A)], A.shape, None, names)
    by_id, by_place = (
        similar(fitted(seen), columns="film 3", n=2),
        similar(fitted(), columns=3, n=2),
    )
    assert by_id.of.tolist() == ["film 3"]
    assert by_id.nearest.tolist() == [[f"film {j}" for j in by_place.nearest[0]]]
    np.testing.assert_array_equal(by_id.positions, by_place.positions)


def test_what_was_not_asked_for_is_refused():
    model = fitted()
    with pytest.raises(InvalidInputError, match="either columns or rows"):
        similar(model)
    with pytest.raises(InvalidInputError, match="either columns or rows"):
        similar(model, columns=[1], rows=[1])
    with pytest.raises(InvalidInputError, match="the column 12 is not between 0 and 11"):
        similar(model, columns=[12])
    with pytest.raises(InvalidInputError, match="n must be a whole number"):
        similar(model, columns=[1], n=0)
