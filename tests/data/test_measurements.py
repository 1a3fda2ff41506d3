import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from tribit import InvalidInputError, Observations
from tribit.data.measurements import Measurements, as_measurements

NAN = float("nan")


def test_a_dense_matrix_has_values_where_it_is_not_nan():
    seen = Measurements.from_matrix([[0.0, NAN, 2.5], [NAN, -1.0, NAN]])
    assert seen.shape == (2, 3)
    np.testing.assert_array_equal(seen.rows, [0, 0, 1])
    np.testing.assert_array_equal(seen.columns, [0, 2, 1])
    np.testing.assert_array_equal(seen.values, [0.0, 2.5, -1.0])
    assert seen.n_measured == 3
    assert seen.density == 0.5
    assert repr(seen) == "Measurements(2 x 3, 3 measured (50.0%), from -1 to 2.5)"


def test_a_sparse_matrix_has_values_where_it_stores_them():
    stored = sp.coo_array(([3.0, 0.0], ([1, 0], [0, 1])), shape=(2, 2))
    seen = Measurements.from_matrix(stored)
    np.testing.assert_array_equal(seen.values, [0.0, 3.0])
    np.testing.assert_array_equal(seen.to_sparse().toarray(), stored.toarray())
    assert seen.to_sparse().nnz == 2


def test_entries_are_put_in_order_with_their_values():
    seen = Measurements([2, 0, 1, 0], [0, 1, 1, 0], [20.0, 1.0, 11.0, 0.5], (3, 2))
    np.testing.assert_array_equal(seen.rows, [0, 0, 1, 2])
    np.testing.assert_array_equal(seen.values, [0.5, 1.0, 11.0, 20.0])
    with pytest.raises(ValueError, match="read-only"):
        seen.values[0] = 1


def test_frames_bring_ids():
    seen = Measurements.from_matrix(pd.DataFrame([[1.5, NAN]], index=["a"], columns=["x", "y"]))
    assert list(seen.row_ids) == ["a"]
    assert list(seen.column_ids) == ["x", "y"]


def test_signs_are_observations():
    signs = [[1, 0, -1], [0, 1, 1]]
    for given in (signs, sp.csr_array(signs), Observations.from_matrix(signs)):
        seen = as_measurements(given)
        np.testing.assert_array_equal(seen.values, [1, -1, 1, 1])
    assert as_measurements([[1.0, 0.0, 2.0]]).n_measured == 3  # not signs: 0 is a value
    assert as_measurements(seen) is seen


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (([0], [0], [NAN], (1, 1)), "position 0: the value nan is not finite"),
        (([0, 0], [0, 0], [1.0, 2.0], (1, 1)), r"row 0, column 0"),
        (([0], [5], [1.0], (1, 2)), "5"),
        (([0, 1], [0, 1], [1.0], (2, 2)), r"2|1"),
        (([0], [0], [[1.0]], (1, 1)), "one-dimensional"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(arguments, match):
    with pytest.raises(InvalidInputError, match=match) as caught:
        Measurements(*arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("matrix", [[1.0, 2.0], np.full((2, 2), NAN), np.zeros((0, 3))])
def test_no_matrix(matrix):
    with pytest.raises(InvalidInputError, match=r"^[^\n]+\.$"):
        Measurements.from_matrix(matrix)
