"""Lists of different lengths: access, sums, and no matrix where they differ."""

import numpy as np
import pytest

from tribit.errors import InvalidInputError
from tribit.ragged import Ragged

LISTS = Ragged.of(np.arange(12).reshape(3, 4), np.array([[1, 1, 0, 1], [0] * 4, [0, 0, 1, 0]]) > 0)


def test_lists_places_and_parts():
    assert LISTS.tolist() == [[0, 1, 3], [], [10]]
    assert (len(LISTS), LISTS.lengths.tolist()) == (3, [3, 0, 1])
    assert LISTS[-1].tolist() == [10]
    assert (LISTS[0, 2], LISTS[0, -1]) == (3, 3)
    assert LISTS[[2, 0]].tolist() == [[10], [0, 1, 3]]
    assert LISTS[1:].tolist() == LISTS[np.array([False, True, True])].tolist() == [[], [10]]
    assert LISTS[:0].tolist() == []
    for outside in (3, -4):
        with pytest.raises(IndexError):
            LISTS[outside]
    with pytest.raises(IndexError):
        LISTS[1, 0]


def test_values_know_their_list_and_place():
    assert LISTS.index.tolist() == [0, 0, 0, 2]
    assert LISTS.places.tolist() == [0, 1, 2, 0]
    assert LISTS.sums().tolist() == [4, 0, 10]
    assert LISTS.with_values(-LISTS.values).tolist() == [[0, -1, -3], [], [-10]]


def test_only_equal_lengths_are_a_matrix():
    with pytest.raises(InvalidInputError, match="0 to 3 places"):
        np.asarray(LISTS)
    assert np.asarray(LISTS[[0, 0]], dtype=float).tolist() == [[0, 1, 3]] * 2
    assert np.asarray(LISTS[[1, 1]]).shape == (2, 0)
    assert np.asarray(LISTS[:0]).shape == (0, 0)
