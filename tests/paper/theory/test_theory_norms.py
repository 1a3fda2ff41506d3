import builtins

import numpy as np
import pytest
from scipy.linalg import hadamard

from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.model.factors import Factors
from tribit.paper.theory import (
    max_norm,
    max_norm_bound,
    max_norm_interval,
    norms,
    nuclear_norm,
    relative_error,
    weighted_frobenius,
)
from tribit.simulate import LowRankTarget, low_rank_factors


def random_pair(shape=(9, 7), rank=3, seed=0):
    draws = np.random.default_rng(seed)
    return draws.standard_normal((shape[0], rank)), draws.standard_normal((shape[1], rank))


KNOWN = {
    "one entry": (np.array([[-2.5]]), 2.5),
    "signs of rank one": (np.outer([1, -1, 1, 1], [-1, 1, 1]), 1.0),
    "identity": (np.eye(6), 1.0),
    "signed permutation": (np.eye(5)[[3, 1, 4, 0, 2]] * [1, -1, 1, -1, -1], 1.0),
    "ones": (3.0 * np.ones((4, 5)), 3.0),
    "Hadamard 4": (hadamard(4), 2.0),
    "Hadamard 8": (hadamard(8), np.sqrt(8)),
    "rank one": (np.outer([1.0, -3.0, 0.5], [2.0, 0.1]), 6.0),
    "rows of zeros": (np.pad(np.eye(3), 2), 1.0),
    "zero": (np.zeros((3, 2)), 0.0),
}
each_known = pytest.mark.parametrize(("X", "norm"), KNOWN.values(), ids=KNOWN)


# The max-norm


@each_known
def test_known_max_norms_by_the_semidefinite_program(X, norm):
    assert max_norm(X) == pytest.approx(norm, abs=1e-6)


@each_known
def test_known_max_norms_are_in_the_interval(X, norm):
    found = max_norm_interval(X, tol=1e-8)
    assert found.lower <= found.upper
    assert found.lower == pytest.approx(norm, rel=1e-6)
    assert found.upper == pytest.approx(norm, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["full", "low rank", "heavy", "triangle"])
def test_the_interval_holds_the_solution_of_the_program(kind, seed):
    draws = np.random.default_rng(seed)
    X = {
        "full": lambda: draws.standard_normal((6, 8)),
        "low rank": lambda: draws.standard_normal((9, 2)) @ draws.standard_normal((2, 6)),
        "heavy": lambda: draws.standard_cauchy((7, 7)),
        "triangle": lambda: np.tril(np.ones((5 + seed, 5 + seed))),
    }[kind]()
    exact, found = max_norm(X), max_norm_interval(X, tol=1e-4)
    slack = 3e-6 * exact  # the accuracy of the semidefinite program
    assert found.lower <= exact + slack
    assert found.upper >= exact - slack
    assert found.upper - found.lower <= 1e-4 * found.upper


@pytest.mark.parametrize("max_iter", [1, 2, 5])
def test_the_interval_is_honest_wherever_it_stops(max_iter):
    X = np.tril(np.ones((8, 8)))
    exact = max_norm(X)
    found = max_norm_interval(X, tol=0.0, max_iter=max_iter)
    assert found.lower < exact < found.upper


def test_the_first_interval_has_the_bounds_that_need_no_search():
    spike = max_norm_interval(np.diag([100.0, 1.0, 1.0, 1.0]), tol=0.0, max_iter=1)
    assert spike.lower == 100.0
    U, V = (F / np.linalg.norm(F, axis=1, keepdims=True) for F in random_pair())
    assert max_norm_interval((U, V), tol=0.0, max_iter=1).upper <= 1.0 + 1e-12


def test_more_iterations_never_widen_the_interval():
    X = np.random.default_rng(3).standard_normal((12, 9))
    found = [max_norm_interval(X, tol=0.0, max_iter=k) for k in (1, 3, 10, 30, 100)]
    assert np.all(np.diff([f.lower for f in found]) >= 0)
    assert np.all(np.diff([f.upper for f in found]) <= 0)
    assert found[-1].upper - found[-1].lower < 1e-3 * found[-1].upper


@pytest.mark.parametrize("shape", [(9, 7), (7, 9), (12, 3)])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_norms_of_the_paper_are_in_the_paper_s_order(shape, rank):
    U, V = random_pair(shape, rank)
    X = U @ V.T
    largest, found = np.abs(X).max(), max_norm_interval((U, V), tol=1e-6)
    assert largest <= found.upper * (1 + 1e-9)
    assert found.lower <= np.sqrt(rank) * largest * (1 + 1e-9)
    assert nuclear_norm(X) <= np.sqrt(shape[0] * shape[1]) * found.upper * (1 + 1e-9)
    assert found.upper <= max_norm_bound(U, V)


def test_factors_that_are_badly_chosen_give_the_norm_of_their_product():
    U, V = random_pair()
    mixed = np.random.default_rng(1).standard_normal((3, 3)) * [1e3, 1.0, 1e-3]
    U2, V2 = U @ mixed, V @ np.linalg.inv(mixed).T
    good, bad = max_norm_interval((U, V), tol=1e-6), max_norm_interval((U2, V2), tol=1e-6)
    assert good.upper == pytest.approx(bad.upper, rel=2e-6)
    assert good.upper == pytest.approx(max_norm(U @ V.T), rel=3e-6)
    assert max_norm_bound(U2, V2) > 10 * bad.upper


def test_more_columns_than_rank_are_no_trouble():
    U, V = random_pair()
    wide = np.hstack([U, U, np.zeros((9, 2))]), np.hstack([V, V, np.ones((7, 2))])
    expected = 2 * max_norm_interval((U, V), tol=1e-6).upper
    assert max_norm_interval(wide, tol=1e-6).upper == pytest.approx(expected, rel=2e-6)


def test_factors_whose_product_is_zero():
    found = max_norm_interval(([[1.0, 0.0]], [[0.0, 1.0]]))
    assert (found.lower, found.upper) == (0.0, 0.0)


def test_the_bound_of_factors_does_not_see_a_common_number():
    U, V = random_pair()
    lengths = np.linalg.norm(U, axis=1).max() * np.linalg.norm(V, axis=1).max()
    assert max_norm_bound(U, V) == pytest.approx(lengths)
    assert max_norm_bound(1e3 * U, 1e-3 * V) == pytest.approx(lengths)


@pytest.mark.parametrize("size", [1e-150, 1e150])
def test_the_max_norm_is_homogeneous(size):
    X = np.random.default_rng(0).standard_normal((5, 4))
    small, large = max_norm_interval(X, tol=1e-5), max_norm_interval(size * X, tol=1e-5)
    assert large.upper == pytest.approx(size * small.upper, rel=1e-9)
    assert max_norm(size * X) == pytest.approx(size * max_norm(X), rel=1e-5)


def test_the_program_is_for_small_matrices():
    with pytest.raises(InvalidInputError, match="61 > 60 rows and columns; use max_norm_interval"):
        max_norm(np.ones((60, 1)))


def test_without_cvxpy_the_interval_is_named(monkeypatch):
    real = builtins.__import__

    def missing(name, *arguments):
        if name == "cvxpy":
            raise ModuleNotFoundError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(InvalidInputError, match=r"max_norm needs cvxpy.*or use max_norm_interval"):
        max_norm(np.eye(2))
    assert max_norm_interval(np.eye(2)).upper == pytest.approx(1.0)


@pytest.mark.parametrize("max_iter", [0, -1, 2.0, True, None])
def test_iterations_are_a_whole_number(max_iter):
    with pytest.raises(InvalidInputError, match="max_iter must be a whole number, at least 1"):
        max_norm_interval(np.eye(2), max_iter=max_iter)


def test_the_tolerance_is_not_negative():
    with pytest.raises(InvalidInputError, match="tol must be a finite number, at least 0"):
        max_norm_interval(np.eye(2), tol=-1e-3)


# The other norms


@pytest.mark.parametrize("shape", [(9, 7), (4, 7), (2, 2)])
def test_the_nuclear_norm_from_factors_is_that_of_the_product(shape):
    U, V = random_pair(shape)
    expected = np.linalg.norm(U @ V.T, "nuc")
    assert nuclear_norm(U @ V.T) == pytest.approx(expected, rel=1e-12)
    assert nuclear_norm((U, V)) == pytest.approx(expected, rel=1e-12)
    assert nuclear_norm(LowRankTarget(U, V)) == pytest.approx(expected, rel=1e-12)


def test_factors_bring_their_intercepts():
    U, V = random_pair()
    factors = Factors(U, V, 0.5, np.arange(9.0), -np.arange(7.0))
    X = U @ V.T + 0.5 + np.arange(9.0)[:, None] - np.arange(7.0)
    assert nuclear_norm(factors) == pytest.approx(np.linalg.norm(X, "nuc"))
    assert weighted_frobenius(factors, X) == pytest.approx(0.0, abs=1e-12)


WEIGHTS = {
    "uniform": None,
    "matrix": np.random.default_rng(5).random((9, 7)),
    "rows and columns": (np.arange(9.0), np.arange(1.0, 8.0)),
    "factors": (np.ones((9, 2)), np.random.default_rng(6).random((7, 2))),
}


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("block", [1, 20, 1 << 18])
def test_the_weighted_norm_is_the_root_of_the_weighted_mean(weights, block, monkeypatch):
    monkeypatch.setattr(norms, "BLOCK_ENTRIES", block)
    U, V = random_pair()
    M = np.random.default_rng(1).standard_normal((9, 7))
    if weights is None:
        pi = np.ones((9, 7))
    elif isinstance(weights, tuple):
        left, right = (np.reshape(part, (len(part), -1)) for part in weights)
        pi = left @ right.T
    else:
        pi = weights
    expected = np.sqrt(np.average((U @ V.T - M) ** 2, weights=pi))
    size = np.sqrt(np.average(M**2, weights=pi))
    assert weighted_frobenius((U, V), M, weights=weights) == pytest.approx(expected)
    assert weighted_frobenius(U @ V.T - M, weights=weights) == pytest.approx(expected)
    assert relative_error((U, V), M, weights=weights) == pytest.approx(expected / size)


def test_relative_error_is_that_of_the_paper():
    U, V = random_pair()
    M = U @ V.T + 0.1
    expected = np.linalg.norm(U @ V.T - M) / np.linalg.norm(M)
    assert relative_error((U, V), M) == pytest.approx(expected)
    assert relative_error(np.zeros((9, 7)), M) == pytest.approx(1.0)
    assert relative_error(M, M) == 0.0


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_squares_neither_overflow_nor_vanish(size):
    assert weighted_frobenius(size * np.ones((2, 3))) == pytest.approx(size)
    assert relative_error(np.zeros((2, 2)), size * np.eye(2)) == pytest.approx(1.0)


def test_large_factors_need_no_dense_matrix():
    target = low_rank_factors((20_000, 30_000), 2, random_state=0)
    assert nuclear_norm(target) > 0
    found = max_norm_interval(target, tol=1e-2)
    assert 0.9 <= found.lower <= found.upper <= 2.0


def test_an_error_relative_to_nothing():
    weights = np.array([[1.0, 0.0]])
    with pytest.raises(InvalidInputError, match="M is 0 at every entry of positive weight"):
        relative_error([[1.0, 1.0]], [[0.0, 1.0]], weights=weights)


@pytest.mark.parametrize(
    ("X", "error", "sentence"),
    [
        ("word", InvalidTypeError, "X is of type str and no array of numbers"),
        ([1.0, 2.0], InvalidInputError, r"X has the shape \(2,\); pass a matrix"),
        (np.empty((0, 3)), InvalidInputError, r"X has the shape \(0, 3\)"),
        ([[1.0, np.nan]], InvalidInputError, "X is nan at row 0, column 1; pass finite"),
        (([[1.0]],), InvalidInputError, "X is a tuple of 1; pass a matrix, or its two factors"),
        (([[1.0]], [[1.0, 2.0]]), InvalidInputError, "U has 1 columns and V has 2"),
        (([[np.inf]], [[1.0]]), InvalidInputError, "U is inf at row 0, column 0"),
    ],
)
@pytest.mark.parametrize("norm", [nuclear_norm, weighted_frobenius, max_norm, max_norm_interval])
def test_matrices_are_read_with_care(norm, X, error, sentence):
    with pytest.raises(error, match=sentence):
        norm(X)


def test_shapes_must_agree():
    with pytest.raises(InvalidInputError, match=r"X has the shape \(2, 2\) and M has \(2, 3\)"):
        weighted_frobenius(np.eye(2), np.ones((2, 3)))
