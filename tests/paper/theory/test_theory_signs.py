import numpy as np
import pytest

from tribit import Probit
from tribit.errors import InvalidInputError
from tribit.paper.systems import MaxNormLikelihood
from tribit.paper.theory import max_norm_interval, nuclear_norm, relative_error, sign_twin
from tribit.simulate import low_rank_target, quantise


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize(
    "norm", [np.linalg.norm, nuclear_norm, lambda X: np.abs(X).max()], ids=["fro", "trace", "inf"]
)
def test_a_twin_has_the_signs_the_rank_and_the_norm(rank, norm):
    M = low_rank_target((30, 20), rank, random_state=0)
    twin = sign_twin(M, norm=norm, random_state=1)
    np.testing.assert_array_equal(np.sign(twin), np.sign(M))
    assert np.linalg.matrix_rank(twin) == rank
    assert norm(twin) == pytest.approx(norm(M), rel=1e-12)
    assert relative_error(twin, M) > 0.3


def test_every_positive_vector_has_the_same_signs():
    """The paper's example: u and v of one sign in each entry, and any other sizes."""
    M = np.outer([1.0, -2.0, 0.5], [1.0, 3.0])
    for seed in range(5):
        twin = sign_twin(M, spread=3.0, random_state=seed)
        np.testing.assert_array_equal(np.sign(twin), np.sign(M))
        assert np.linalg.matrix_rank(twin, tol=1e-9 * np.linalg.norm(twin)) == 1


def test_no_noise_leaves_the_error_and_noise_lets_it_fall():
    """All signs seen, of two matrices with the same signs. Without noise both have one answer: one is far from it."""

    def errors(side, sigma):
        draws = np.random.default_rng(side)
        signs = [draws.choice([-1, 1], side) for _ in range(2)]
        twins = [np.outer(*(sign * draws.choice([0.4, 1.0], side) for sign in signs)) for _ in "ab"]
        found = []
        for M in twins:
            Y = np.sign(M).astype(int) if sigma == 0 else quantise(M, Probit(sigma), random_state=0)
            model = MaxNormLikelihood(
                rank=1, n_columns=1, link=Probit(sigma or 0.5), random_state=0
            )
            found.append(np.linalg.norm(model.fit(Y).complete("score") - M) / side)
        return max(found), np.linalg.norm(twins[0] - twins[1]) / side

    small, apart = errors(40, 0.0)
    large, far_apart = errors(160, 0.0)
    assert small >= apart / 2 > 0.2
    assert large >= far_apart / 2 > 0.2
    small, large = errors(40, 0.5)[0], errors(160, 0.5)[0]
    assert large < 0.6 * small
    assert large < far_apart / 4


def test_signs_bound_no_norm_from_above():
    signs = np.sign(low_rank_target((20, 15), 2, random_state=0))
    twin = sign_twin(signs, spread=2.0, norm=lambda X: np.abs(X).min(), random_state=0)
    assert max_norm_interval(twin).lower > 10 * max_norm_interval(signs).upper


@pytest.mark.parametrize("M", [np.zeros((2, 2)), np.ones(3), np.array([[1.0, np.nan]])])
def test_what_has_no_twin_is_refused(M):
    with pytest.raises(
        InvalidInputError, match=r"M must be a matrix of finite numbers, not all 0\."
    ):
        sign_twin(M)
