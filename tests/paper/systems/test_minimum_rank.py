import itertools

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from tribit.errors import InvalidInputError
from tribit.paper.systems import AlternatingLeastSquares, MinimumRankCompletion


def low_rank(shape, rank, seed=0):
    draws = np.random.default_rng(seed)
    return draws.normal(size=(shape[0], rank)) @ draws.normal(size=(rank, shape[1]))


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5, 0.9, 1.0])
def test_with_every_entry_it_is_the_singular_values_cut(share):
    A = np.random.default_rng(0).normal(size=(9, 7))
    sizes = np.linalg.svd(A, compute_uv=False)
    left = np.sqrt(np.append(np.cumsum(sizes[::-1] ** 2)[::-1], 0.0))  # the error of each rank
    model = MinimumRankCompletion(budget_share=share, max_iter=20000, random_state=0).fit(A)
    assert model.rank_ == int(np.argmax(left <= share * np.linalg.norm(A) * (1 + 1e-12)))
    np.testing.assert_allclose(model.residuals_, left[: model.rank_ + 1], rtol=1e-3, atol=1e-9)
    assert model.residual_ <= model.budget_ == pytest.approx(share * np.linalg.norm(A))


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_exact_entries_of_low_rank_are_completed(rank):
    M = low_rank((30, 25), rank) if rank else np.zeros((30, 25))
    A = np.where(np.random.default_rng(1).random(M.shape) < 0.7, M, np.nan)
    model = MinimumRankCompletion(max_iter=3000, random_state=0).fit(A)
    assert model.rank_ == rank
    assert model.row_factors_.shape == (30, rank)
    np.testing.assert_allclose(model.complete("score"), M, atol=1e-3 * max(np.abs(M).max(), 1))


def test_signs_that_no_rank_1_has_are_found_out_by_hand():
    """A 2 x 2 block with three equal signs and one other has determinant -2: no rank 1 has all four entries."""
    A = np.array([[1.0, 1.0, np.nan], [1.0, -1.0, np.nan], [np.nan, np.nan, 1.0]])
    model = MinimumRankCompletion(max_iter=3000, random_state=0).fit(A)
    assert model.rank_ == 2
    # The least error of rank 1 on that block is its second singular value, sqrt(2).
    assert model.residuals_[1] == pytest.approx(np.sqrt(2), abs=1e-4)


def test_where_arrays_lie_in_memory_decides_nothing():
    """The leading vectors of this table are 0 in its third row, but for rounding, which differs with alignment."""
    A = np.array([[1.0, 1.0, np.nan], [1.0, -1.0, np.nan], [np.nan, np.nan, 1.0]])
    kept = []
    for size in range(60):
        kept.append(np.empty(7 * size + 1, np.uint8))
        model = MinimumRankCompletion(max_iter=3000, random_state=0).fit(A)
        assert model.residuals_[1] == pytest.approx(np.sqrt(2), abs=1e-4)


def test_the_two_forms_have_each_other_s_answers():
    """Fazel (2002): the least error at the rank found is within the budget, and at one rank less it is not."""
    A = low_rank((20, 15), 4) + 0.3 * np.random.default_rng(5).normal(size=(20, 15))
    A[np.random.default_rng(6).random(A.shape) < 0.2] = np.nan
    model = MinimumRankCompletion(budget_share=0.3, random_state=0).fit(A)
    for rank, within in ((model.rank_, True), (model.rank_ - 1, False)):
        errors = []
        for seed, l2 in itertools.product(range(2), (0.0, 1e-6)):
            other = AlternatingLeastSquares(rank, l2=l2, tol=1e-9, max_iter=2000, random_state=seed)
            seen = ~np.isnan(A)
            errors.append(np.linalg.norm((other.fit(A).complete("score") - A)[seen]))
        assert (min(errors) <= model.budget_) == within


def test_a_budget_that_no_rank_keeps_is_told():
    A = np.random.default_rng(0).normal(size=(9, 7))
    with pytest.warns(ConvergenceWarning, match="No rank up to 2 came within the budget"):
        model = MinimumRankCompletion(0.01, max_rank=2, random_state=0).fit(A)
    assert not model.converged_
    assert model.rank_ == 2


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"budget": -1.0}, "budget must be"),
        ({"budget": 1.0, "budget_share": 0.5}, "Give budget or budget_share, not both"),
        ({"budget_share": 1.5}, "budget_share must be from 0 to 1"),
        ({"max_rank": 8}, "max_rank must be a whole number from 0 to 7"),
    ],
)
def test_bad_parameters(options, match):
    with pytest.raises(InvalidInputError, match=match):
        MinimumRankCompletion(**options).fit(np.ones((9, 7)))
