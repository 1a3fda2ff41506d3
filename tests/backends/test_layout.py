"""Layouts: where entries stand, sorted once for observations that are fitted many times."""

import gc
import weakref

import numpy as np
import pytest

from tribit import Logistic, Objective, Observations, pn, tri
from tribit.backends import layout as module
from tribit.backends.layout import layouts, share_layouts
from tribit.backends.sparse import RowLayout
from tribit.backends.tiles import TileLayout
from tribit.model.factors import Factors

draws = np.random.default_rng(0)
A = draws.choice([-1, 0, 1], (300, 270), p=[0.1, 0.8, 0.1])
KINDS = [RowLayout, TileLayout]


@pytest.mark.parametrize("kind", KINDS)
def test_layouts_are_shared_only_where_that_was_asked_for(kind):
    seen = Observations.from_matrix(A)
    assert layouts(kind, seen)[0] is not layouts(kind, seen)[0]
    share_layouts(seen)
    first = layouts(kind, seen)
    assert layouts(kind, seen) is first
    share_layouts(seen)
    assert layouts(kind, seen) is first
    assert layouts(KINDS[1 - KINDS.index(kind)], seen)[0] is not first[0]


def test_layouts_go_with_their_observations():
    seen = Observations.from_matrix(A)
    share_layouts(seen)
    layout = weakref.ref(layouts(RowLayout, seen)[0])
    before = len(module._shared)
    del seen
    gc.collect()
    assert layout() is None
    assert len(module._shared) == before - 1


def test_every_entry_has_one_place_in_each_orientation():
    seen = Observations.from_matrix(A)
    for side, (rows, columns) in zip(
        layouts(RowLayout, seen),
        ((seen.rows, seen.columns), (seen.columns, seen.rows)),
        strict=True,
    ):
        np.testing.assert_array_equal(side.rows, rows[side.order])
        np.testing.assert_array_equal(side.columns, columns[side.order])
        assert (np.diff(side.rows) >= 0).all()
        assert sum(panel.stop - panel.start for panel in side.panels) == side.shape[0]


@pytest.mark.parametrize("risk", [pn(), tri(0.6, 0.2, 0.2, 0.8)], ids=["pn", "tri"])
def test_weights_of_one_risk_do_not_stay_for_the_next(risk):
    seen = Observations.from_matrix(A)
    share_layouts(seen)
    factors = Factors.of(draws.normal(size=(300, 3)), draws.normal(size=(270, 3)))
    first, second = (Objective(seen, Logistic(s), risk).value(factors) for s in (1.0, 2.0))
    alone = [
        Objective(Observations.from_matrix(A), Logistic(s), risk).value(factors) for s in (1.0, 2.0)
    ]
    assert [first, second] == alone
