"""The simulations behind the manual's page on theory, small; and the remark on bounds that they test."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from tribit import Logistic
from tribit.paper.theory import davenport_bound, hsieh_bound


@pytest.fixture
def remarks(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[3])
    return import_module("benchmarks.remarks")


def test_the_bounds_differ_by_the_root_of_the_share_seen():
    shape, rank = (10**7, 10**7), 5.0
    ratios = []
    for rho in (0.5, 0.9, 0.99):
        n = (1 - rho) * shape[0] * shape[1]
        both = davenport_bound(shape, n, rank=rank, alpha=1.0, link=Logistic())
        likes = hsieh_bound(shape, rho=rho, trace_norm=np.sqrt(rank) * shape[0])
        ratios.append(likes.value / both.value)
    np.testing.assert_allclose(
        np.array(ratios) / ratios[0], np.sqrt(0.5 / np.array([0.5, 0.1, 0.01])), rtol=0.02
    )


def test_the_measured_ratio_is_no_such_root(remarks):
    found = {
        rho: errors[1] / errors[0]
        for rho, errors, _ in remarks.likes_alone(side=200, draws=1, rhos=(0.0, 0.4, 0.9))
    }
    assert found[0.0] == pytest.approx(1.0, abs=0.01)  # every like seen is every label seen
    assert found[0.4] > 1.1 * (1 - 0.4) ** -0.5
    assert found[0.9] < 0.9 * (1 - 0.9) ** -0.5


@pytest.mark.slow
def test_unequal_sampling_favours_the_max_norm(remarks):
    errors = remarks.norms(side=60, n=1200, draws=3)["general"]
    for share in (0.5, 0.35):
        assert np.all(errors["max", share] < errors["trace", share])


def test_small_tables_have_every_row(remarks):
    rows = list(remarks.bias(side=120, likely=(0.7,)))
    assert [name for _, name, _, _ in rows] == ["unbiased", "biased", "without-dislikes"]
    for _, _, limit, measured in rows:
        assert measured == pytest.approx(limit, abs=0.02)
    ((side, least, (blind, seen)),) = remarks.without_noise((80,), (0.0, 0.5))
    assert side == 80
    assert blind > least > seen
