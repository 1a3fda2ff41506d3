"""Layouts: where entries stand, sorted once for observations that are fitted many times."""

import gc
import weakref

import numpy as np
import pytest

from tribit import Arithmetic, Logistic, Objective, Observations, backends, pn, tri
from tribit.backends import layout as module
from tribit.backends import tiles
from tribit.backends.base import GramCache
from tribit.backends.layout import (
    RowLayout,
    forget_layouts,
    layouts,
    share_layouts,
    stable_order,
)
from tribit.backends.tiles import BoundedCurvature, TileLayout
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
    forget_layouts(seen)
    again = layouts(kind, seen)
    assert again is not first
    assert layouts(kind, seen) is again


def test_layouts_go_with_their_observations():
    seen = Observations.from_matrix(A)
    share_layouts(seen)
    layout = weakref.ref(layouts(RowLayout, seen)[0])
    before = len(module._shared)
    del seen
    gc.collect()
    assert layout() is None
    assert len(module._shared) == before - 1


@pytest.mark.parametrize("size", [8, 100, 10**6])
def test_every_row_and_entry_has_one_place_in_each_orientation(size, monkeypatch):
    monkeypatch.setattr(module, "BATCH_ENTRIES", size)
    monkeypatch.setattr(module, "FREE_PADDING", size // 8)
    seen = Observations.from_matrix(A)
    for side, (rows, columns) in zip(
        layouts(RowLayout, seen),
        ((seen.rows, seen.columns), (seen.columns, seen.rows)),
        strict=True,
    ):
        assert sorted(np.concatenate([batch.rows for batch in side.batches])) == list(
            range(side.shape[0])
        )
        found = []
        for batch in side.batches:
            inside = batch.entries < seen.n_observed
            own = np.broadcast_to(batch.rows[:, None], inside.shape)[inside]
            np.testing.assert_array_equal(rows[batch.entries[inside]], own)
            np.testing.assert_array_equal(columns[batch.entries[inside]], batch.columns[inside])
            assert not batch.columns[~inside].any()
            found.extend(batch.entries[inside])
            assert inside.shape[0] == 1 or inside.size <= size
            assert inside.size - inside.sum() <= max(0.08 * inside.sum(), size // 8)
        assert sorted(found) == list(range(seen.n_observed))


@pytest.mark.parametrize("most", [1, 300, 70_000, 2**31, 2**33])
@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_the_stable_order_is_that_of_a_comparison_sort(most, kind):
    values = np.random.default_rng(0).integers(0, most, 5000).astype(kind)
    np.testing.assert_array_equal(stable_order(values), np.argsort(values, kind="stable"))
    assert stable_order(values[:0]).size == 0


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


def test_places_take_32_bits():
    assert stable_order(np.arange(5, dtype=np.int64)).dtype == np.int32
    for side in layouts(TileLayout, Observations.from_matrix(A)):
        assert side.order.dtype == np.int32
        assert side.local_columns.dtype == side.local_rows.dtype == np.uint16


@pytest.mark.parametrize("columns", [1, 1023, 1024, 1025, 2100])
def test_every_entry_has_its_cell_in_a_tile(columns):
    labels = draws.choice([-1, 0, 1], (300, columns), p=[0.1, 0.8, 0.1])
    labels[299, columns - 1] = 1
    seen = Observations.from_matrix(labels)
    side = TileLayout(seen.rows, seen.columns, seen.shape)
    for number in range(2 * side.tiles):
        panel, tile = divmod(number, side.tiles)
        here = slice(side.offsets[number], side.offsets[number + 1])
        block = labels[panel * 256 : panel * 256 + 256, tile * 1024 : tile * 1024 + 1024]
        cells = side.local_rows[here], side.local_columns[here]
        assert np.unique(np.stack(cells), axis=1).shape[1] == np.count_nonzero(block)
        np.testing.assert_array_equal(block[cells], seen.labels[side.order[here]])
        np.testing.assert_array_equal(
            side.local_rows[here], seen.rows[side.order[here]] - panel * 256
        )


def test_a_value_makes_no_bounds_of_curvatures():
    objective = Objective(
        Observations.from_matrix(A),
        Logistic(),
        tri(0.6, 0.2, 0.2, 0.8),
        arithmetic=Arithmetic(n_jobs=2),
    )
    factors = Factors.of(draws.normal(size=(300, 3)), draws.normal(size=(270, 3)))
    side = objective.backend.side
    objective.value(factors)
    assert side.bounds._matrices is side.bounds._batches is None


@pytest.mark.parametrize("few", [0, 3])
def test_bounds_of_a_panel_are_those_of_the_plain_formula(few, monkeypatch):
    monkeypatch.setattr(tiles, "MAX_PRODUCT_UNKNOWNS", few)
    seen = Observations.from_matrix(A)
    bounds = draws.random(seen.n_observed) * (draws.random(seen.n_observed) > 0.2)
    Q = draws.normal(size=(270, 5))
    found = BoundedCurvature(seen.rows, seen.columns, bounds, seen.shape, 128)
    dense = np.zeros(seen.shape)
    dense[seen.rows, seen.columns] = bounds
    expected = np.einsum("ij,ja,jb->iab", dense, Q[:, :3], Q[:, :3])
    against = GramCache(Q, np.dtype("float64"))
    of_panels = [found.of_panel(number, against, 3) for number in range(3)]
    np.testing.assert_allclose(np.concatenate(of_panels), expected, rtol=1e-12, atol=1e-12)
    assert (found._batches is None) == (few == 3)


@pytest.mark.parametrize(("most", "kept"), [(10**6, True), (10, False)])
def test_weights_of_many_entries_are_not_kept(most, kept, monkeypatch):
    monkeypatch.setattr(backends, "MAX_KEPT_WEIGHTS", most)
    seen = Observations.from_matrix(A)
    seen = seen.with_weights(np.arange(1, seen.n_observed + 1))  # without, two numbers serve
    share_layouts(seen)
    factors = Factors.of(draws.normal(size=(300, 3)), draws.normal(size=(270, 3)))
    first, second = (Objective(seen, Logistic(), pn()).value(factors) for _ in range(2))
    assert first == second
    assert ("weights" in module._shared[seen]) is kept
