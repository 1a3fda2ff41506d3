"""The mask as sparse matrices that share their places, against plain dense arrays."""

import numpy as np
import pytest

from reference import observations_of, random_matrix
from tribit.backends.layout import share_layouts
from tribit.backends.objective import features_of
from tribit.model import design as module
from tribit.model.design import scaled_masks
from tribit.model.spec import ModelSpec

A = random_matrix((9, 7), observed=0.6)
A[4] = 0
A[:, 2] = 0


def dense(labels):
    mask = (labels != 0).astype(float)
    return mask / np.sqrt(np.maximum(mask.sum(axis=1, keepdims=True), 1))


@pytest.mark.parametrize("many", [0, 10**6], ids=["many entries", "few entries"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_both_orientations_are_those_of_the_dense_mask(kind, many, monkeypatch):
    monkeypatch.setattr(module, "MAX_ENTRIES_IN_EVERY_DTYPE", many)
    for found, labels in zip(scaled_masks(observations_of(A)), (A, A.T), strict=True):
        assert found.shape == labels.shape
        for _ in range(2):  # made, and kept
            for other in (np.float64, kind):
                assert found.matrix(other).dtype == found.transposed(other).dtype == other
            np.testing.assert_array_equal(found.matrix(kind).toarray(), dense(labels).astype(kind))
            np.testing.assert_array_equal(
                found.transposed(kind).toarray(), dense(labels).astype(kind).T
            )


def test_places_are_held_once_in_32_bits():
    rows, columns = scaled_masks(observations_of(A))
    assert rows.by_rows is columns.by_columns
    assert rows.by_columns is columns.by_rows
    assert {each.dtype for each in (*rows.by_rows, *rows.by_columns)} == {np.dtype(np.int32)}
    for kind in (np.float32, np.float64):
        assert np.shares_memory(rows.matrix(kind).indices, rows.by_rows.columns)
        assert np.shares_memory(rows.transposed(kind).indices, rows.by_columns.columns)


@pytest.mark.parametrize(("many", "types"), [(0, {"float64"}), (10**6, {"float32", "float64"})])
def test_of_many_entries_the_numbers_of_one_type_are_kept(many, types, monkeypatch):
    monkeypatch.setattr(module, "MAX_ENTRIES_IN_EVERY_DTYPE", many)
    rows, _ = scaled_masks(observations_of(A))
    for kind in (np.float32, np.float64):
        rows.matrix(kind), rows.transposed(kind)
    assert {name for name, _ in rows._kept} == types


def test_every_activity_floor_and_ridge_shares_one_mask():
    seen = observations_of(A)
    share_layouts(seen)
    found = [
        features_of(spec, seen, None)
        for spec in (
            ModelSpec(implicit_features=True, l2_implicit=l2, activity_floor=floor)
            for l2, floor in ((1.0, (1.0, 1.0)), (2.0, (1.0, 1.0)), (2.0, (0.0, 1.0)))
        )
    ]
    masks = {
        id(side.blocks[0].matrix.by_rows) for each in found for side in (each.rows, each.columns)
    }
    assert len(masks) == 2
