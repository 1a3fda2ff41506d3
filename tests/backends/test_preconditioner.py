"""First guesses of the inverse curvature, against dense matrices."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from reference import observations_of, random_matrix
from tribit.backends.objective import Arithmetic, Objective, features_of
from tribit.backends.preconditioner import MIN_ROTATED_SQUARE, VECTORS, Diagonal, leading_directions
from tribit.model.factors import Factors
from tribit.model.links import Logistic
from tribit.model.risks import pn
from tribit.model.spec import ModelSpec

A = random_matrix((30, 21), gaps=True)


def featured(rank=2, l2_implicit=1.0, dtype="float64", kind="featured"):
    spec = ModelSpec(implicit_features=True, l2_implicit=l2_implicit, l2=1.0)
    seen = observations_of(A)
    objective = Objective(
        seen, Logistic(), pn(), l2=1.0, intercept=True, arithmetic=Arithmetic(dtype=dtype)
    )
    if kind == "featured":
        objective = objective.with_features(features_of(spec, seen, None))
    rng = np.random.default_rng(0)
    start = Factors.of(rng.standard_normal((30, rank)), rng.standard_normal((21, rank)), 0.2)
    return objective, objective.unknowns(start)


def matrix_of(function, size):
    return np.column_stack([function(each) for each in np.eye(size)])


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("kind", ["plain", "featured"])
def test_transposed_times_is_the_transpose(kind, rank):
    objective, unknowns = featured(rank, kind=kind)
    made = objective.preconditioner(unknowns)
    size = unknowns.flat().size
    W, transposed = matrix_of(made.times, size), matrix_of(made.transposed_times, size)
    np.testing.assert_allclose(transposed, W.T, atol=1e-12)
    assert np.linalg.eigvalsh(W.T @ W).min() > 0


@pytest.mark.parametrize("kind", ["plain", "featured"])
def test_vectors_of_single_precision_have_the_products_of_double_precision(kind):
    found = {}
    for dtype in ("float32", "float64"):
        objective, unknowns = featured(dtype=dtype, kind=kind)
        made = objective.preconditioner(unknowns)
        x = np.random.default_rng(1).standard_normal(unknowns.flat().size).astype(dtype)
        found[dtype] = made.times(x), made.transposed_times(x)
        assert {each.dtype for each in found[dtype]} == {np.dtype(dtype)}
    for narrow, wide in zip(found["float32"], found["float64"], strict=True):
        np.testing.assert_allclose(narrow, wide, rtol=1e-4, atol=1e-5)


def test_arguments_are_left_as_they_are():
    objective, unknowns = featured()
    made = objective.preconditioner(unknowns)
    x = np.random.default_rng(1).standard_normal(unknowns.flat().size)
    kept = x.copy()
    made.times(x)
    made.transposed_times(x)
    np.testing.assert_array_equal(x, kept)


def test_leading_directions_are_those_of_the_dense_matrix():
    objective, _ = featured()
    design = objective.features.rows
    counts = np.bincount(observations_of(A).rows, minlength=30)
    S = design.shared_terms(np.eye(design.n_coefficients - design.size))
    expected = np.linalg.eigvalsh(S.T @ (counts[:, None] * S))[::-1]
    vectors, values = leading_directions(design, counts)
    assert values.size == min(VECTORS, 21)
    # All 21 directions are in the subspace that is drawn: nothing is rough here.
    np.testing.assert_allclose(np.sort(values)[::-1], expected[: values.size], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(values.size), atol=1e-8)


def test_it_lowers_the_condition_number_of_the_curvature():
    objective, unknowns = featured(rank=1, l2_implicit=0.2)
    # At the start the parts of features are 0 and hardly any direction is known to be bent: a point nearer the end.
    rng = np.random.default_rng(3)
    unknowns = unknowns.from_flat(unknowns.flat() + 0.1 * rng.standard_normal(unknowns.flat().size))

    def gradient(x):
        return objective.gradient(unknowns.from_flat(x))[1].flat()

    H = approx_fprime(unknowns.flat(), gradient, 1e-6)
    H = (H + H.T) / 2

    def spread(made):
        W = matrix_of(made.times, unknowns.flat().size)
        values = np.linalg.eigvalsh(W @ H @ W.T)
        return values[-1] / np.median(values)

    assert spread(objective.preconditioner(unknowns)) < 0.6 * spread(
        Diagonal(objective.scales(unknowns))
    )


def test_it_knows_the_spread_of_the_factors():
    """Where some columns of the factors are ten times the others, the curvature of a row is far from round."""
    objective, unknowns = featured(rank=3)
    sizes = np.array([3.0, 0.3, 0.03])
    turned = np.linalg.qr(np.random.default_rng(5).standard_normal((3, 3)))[0]
    skewed = Factors(
        unknowns.row_factors * sizes @ turned,
        unknowns.column_factors * sizes @ turned,
        0.2,
        unknowns.row_intercepts,
        unknowns.column_intercepts,
    )
    factors, made = objective.factors(skewed), objective.preconditioner(skewed)
    V, counts = factors.column_factors, np.bincount(observations_of(A).rows, minlength=30)
    popularity = np.bincount(observations_of(A).columns, minlength=21)
    C = V.T @ (popularity[:, None] * V) / popularity.sum()
    # The first row's own part: W W' is the inverse of w C + l2, w a quarter of its entries, at the floor of C.
    W = matrix_of(made.times, skewed.flat().size)[:, :3]
    values, vectors = np.linalg.eigh(C)
    expected = (
        vectors * (0.25 * counts[0] * np.maximum(values, MIN_ROTATED_SQUARE) + 1.0) @ vectors.T
    )
    np.testing.assert_allclose(np.linalg.inv(W.T @ W), expected, rtol=1e-6)


def test_designs_of_other_ridges_share_what_was_derived():
    objective, _ = featured()
    design = objective.features.rows
    other = design.with_ridges([7.0])
    assert other.kept is design.kept
    assert other.blocks[0].kept is design.blocks[0].kept
    assert [block.l2 for block in other.blocks] == [7.0]
    assert dataclasses.replace(other, blocks=design.blocks).ridge(1.0)[-1] == 1.0
