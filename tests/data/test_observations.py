import copy
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tribit.data.observations import Observations, as_observations
from tribit.data.rules import TableRules
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.randomness import generator

LABELS = np.array([[1, 0, -1, 0], [0, 0, 0, 1], [-1, 1, 0, 0]])
NAN = float("nan")
INF = float("inf")

SPARSE = [
    getattr(sp, f"{kind}_{family}")
    for kind in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
    for family in ("matrix", "array")
]
FRAMES = [pd.DataFrame, pl.DataFrame, pa.table]


def example(**options):
    rows, columns = np.nonzero(LABELS)
    return Observations.from_pairs(rows, columns, LABELS[rows, columns], **options)


def random_observations(n_rows=30, n_columns=20, n_observed=200):
    rng = np.random.default_rng(0)
    keys = rng.choice(n_rows * n_columns, size=n_observed, replace=False)
    labels = rng.choice([-1, 1], size=n_observed)
    shape = (n_rows, n_columns)
    return Observations.from_pairs(keys // n_columns, keys % n_columns, labels, shape=shape)


def assert_same(observations, expected):
    for name in ("rows", "columns", "labels"):
        np.testing.assert_array_equal(getattr(observations, name), getattr(expected, name))
    assert observations.shape == expected.shape


def pair_set(observations):
    return set(zip(observations.rows.tolist(), observations.columns.tolist(), strict=True))


# Matrices


@pytest.mark.parametrize("make", [*SPARSE, np.array, np.ndarray.tolist, pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32, np.float64])
def test_every_kind_of_matrix_gives_the_same_observations(make, dtype):
    observations = Observations.from_matrix(make(LABELS.astype(dtype)))
    assert observations.rows.tolist() == [0, 0, 1, 2, 2]
    assert observations.columns.tolist() == [0, 2, 3, 0, 1]
    assert observations.labels.tolist() == [1, -1, 1, -1, 1]
    assert observations.labels.dtype == np.int8
    assert observations.rows.dtype == observations.columns.dtype == np.int64
    assert observations.shape == (3, 4)
    assert all(type(size) is int for size in observations.shape)


@given(arrays(np.int8, array_shapes(min_dims=2, max_dims=2), elements=st.integers(-1, 1)))
def test_round_trip_through_a_sparse_matrix(labels):
    if not labels.any():
        with pytest.raises(InvalidInputError, match="no observed entry"):
            Observations.from_matrix(labels)
        return
    observations = Observations.from_matrix(labels, zeros="unobserved")
    sparse = observations.to_sparse()
    assert sparse.dtype == np.int8
    np.testing.assert_array_equal(sparse.toarray(), labels)
    assert_same(Observations.from_matrix(sparse), observations)
    np.testing.assert_array_equal(observations.transpose().to_sparse().toarray(), labels.T)


def test_nan_none_and_masked_are_unobserved_in_a_dense_matrix():
    expected = Observations.from_matrix([[1, 0], [0, -1]])
    assert_same(Observations.from_matrix([[1.0, NAN], [NAN, -1.0]]), expected)
    assert_same(Observations.from_matrix([[1, None], [None, -1]]), expected)
    masked = np.ma.array([[1, 7], [1, -1]], mask=[[0, 1], [1, 0]])
    assert_same(Observations.from_matrix(masked), expected)


def test_stored_zeros_beside_minus_one_are_unobserved():
    stored = sp.coo_array(([1, 0, -1, 0], ([0, 0, 1, 0], [0, 1, 1, 1])), shape=(2, 2))
    assert pair_set(Observations.from_matrix(stored)) == {(0, 0), (1, 1)}


@pytest.mark.parametrize("make", [np.array, sp.csr_array, sp.lil_array])
def test_ratings_matrix(make):
    ratings = make([[5.0, 0.0, 3.5], [4.0, 1.0, 0.0]])
    observations = Observations.from_matrix(ratings, like_at=4)
    np.testing.assert_array_equal(observations.to_sparse().toarray(), [[1, 0, -1], [1, -1, 0]])


def test_a_huge_sparse_matrix_is_not_made_dense():
    stored = sp.coo_array(([1, -1], ([199_999, 0], [299_999, 5])), shape=(200_000, 300_000))
    observations = Observations.from_matrix(stored)
    assert observations.rows.tolist() == [0, 199_999]
    assert observations.columns.tolist() == [5, 299_999]
    assert observations.density == 2 / 6e10


def test_the_caller_s_arrays_are_neither_frozen_nor_shared():
    rows, columns, labels = np.array([0, 1]), np.array([1, 0]), np.array([1, -1], dtype=np.int8)
    ids = np.array([10, 20])
    observations = Observations.from_pairs(rows, columns, labels, row_ids=ids)
    csr = sp.csr_array(np.array([[1, -1]], dtype=np.int8))
    coo = sp.coo_array(csr)
    from_csr, from_coo = Observations.from_matrix(csr), Observations.from_matrix(coo)
    for array in (rows, columns, labels, ids, csr.data, csr.indices, coo.data, coo.row):
        array[:] = 0
    assert observations.rows.tolist() == [0, 1]
    assert observations.columns.tolist() == [1, 0]
    assert observations.labels.tolist() == [1, -1]
    assert observations.row_ids.tolist() == [10, 20]
    assert from_csr.labels.tolist() == from_coo.labels.tolist() == [1, -1]
    assert from_csr.columns.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("X", "kind", "match"),
    [
        ([1, -1], InvalidInputError, "Expected 2D array, got 1D array instead.*Reshape your data"),
        (1, InvalidInputError, "Expected 2D array, got scalar array instead"),
        (np.ones((2, 2, 2)), InvalidInputError, "Expected 2D array, got 3D array instead"),
        (sp.coo_array(np.array([1, -1])), InvalidInputError, "got 1D array instead"),
        (np.empty((0, 3)), InvalidInputError, r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required\."),
        (np.empty((3, 0)), InvalidInputError, r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required\."),
        (sp.csr_array((0, 3)), InvalidInputError, r"0 sample\(s\) \(shape=\(0, 3\)\)"),
        (np.zeros((2, 2)), InvalidInputError, "X has no observed entry; give"),
        (np.full((2, 2), NAN), InvalidInputError, "X has no observed entry; give"),
        (sp.csr_array((2, 2)), InvalidInputError, "X has no observed entry; give"),
        ([[1, 0], [INF, -1]], InvalidInputError, "row 1, column 0 of X: the value inf is not fin"),
        ([[1, 0], [-INF, -1]], InvalidInputError, "the value -inf is not finite"),
        (sp.csr_array([[1, NAN]]), InvalidInputError, "row 0, column 1 of X: the value nan is not"),
        (sp.csr_array([[1, INF]]), InvalidInputError, "row 0, column 1 of X: the value inf is not"),
        ([[1, 0], [-1, 3]], InvalidInputError, r"row 1, column 1 of X: the value 3 is neither \+1 .* nor -1 .*like_at"),
        (sp.csc_array([[0.5, 1]]), InvalidInputError, "row 0, column 0 of X: the value 0.5 is nei"),
        (np.array([[1, 255]], np.uint8), InvalidInputError, "the value 255 is neither"),
        ([[1, -1], [1]], InvalidInputError, "rows of X differ in length; pass"),
        ([[1 + 0j]], InvalidInputError, "Complex data not supported: X is complex128"),
        (sp.csr_array([[1j]]), InvalidInputError, "Complex data not supported"),
        ([["1", "-1"]], InvalidTypeError, "X has the dtype <U2; pass numbers"),
        (np.array([["1"]], object), InvalidTypeError, "X has the dtype object; pass numbers"),
        (np.array([["2020-01-01"]], "M8[D]"), InvalidTypeError, "X has the dtype datetime64"),
        ([[{"foo": "bar"}]], InvalidTypeError, "argument must be .* string.* number.*; pass"),
        (None, InvalidInputError, "Expected 2D array, got scalar"),
        (
            sp.coo_array(([1, 1, 1, -1], ([1, 0, 1, 0], [1, 0, 1, 0])), shape=(2, 2)),
            InvalidInputError,
            "stored entry 0 and stored entry 2 both give row 1, column 1; .*from_pairs",
        ),
        (
            sp.coo_array(([1], ([0], [0])), shape=(2**40, 2**40)),
            InvalidInputError,
            "1099511627776 x 1099511627776 has more entries than a 64-bit integer",
        ),
    ],
)  # fmt: skip
def test_a_wrong_matrix_is_one_sentence(X, kind, match):
    with pytest.raises(kind, match=match):
        Observations.from_matrix(X)


def test_a_pair_that_is_given_again_with_its_label_is_no_error():
    seen = Observations.from_pairs([0, 1, 0, 0], [3, 1, 3, 3], [-1, 1, -1, -1])
    assert (seen.rows.tolist(), seen.columns.tolist()) == ([0, 1], [3, 1])
    assert seen.labels.tolist() == [-1, 1]


def test_duplicates_in_a_compressed_matrix_are_not_summed():
    repeated = sp.csr_array(([1, -1], [0, 0], [0, 2]), shape=(1, 1))
    with pytest.raises(InvalidInputError, match="both give row 0, column 0"):
        Observations.from_matrix(repeated)


@pytest.mark.parametrize("like_at", [NAN, INF, "4", True, 10**400])
def test_like_at_must_be_a_finite_number(like_at):
    with pytest.raises(InvalidInputError, match=r"like_at is .*; pass the smallest rating"):
        Observations.from_matrix([[1, 5]], like_at=like_at)


def test_as_observations():
    observations = example()
    assert as_observations(observations) is observations
    ratings = TableRules(like_at=4)
    assert as_observations(observations, ratings) is observations
    assert as_observations([[5, 3]], ratings).labels.tolist() == [1, -1]


# Pairs


def test_pairs_are_sorted_by_row_then_column():
    observations = Observations.from_pairs([2, 0, 2, 0], [1, 3, 0, 0], [1, -1, -1, 1])
    assert observations.rows.tolist() == [0, 0, 2, 2]
    assert observations.columns.tolist() == [0, 3, 0, 1]
    assert observations.labels.tolist() == [1, -1, -1, 1]
    assert observations.shape == (3, 4)


def test_the_constructor_itself_checks_and_sorts():
    observations = Observations([1, 0], [0, 1], [1.0, -1.0], (2, 2))
    assert observations.labels.tolist() == [-1, 1]
    with pytest.raises(InvalidInputError, match="neither"):
        Observations([0], [0], [2], (1, 1))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.uint64])
def test_the_width_of_the_given_positions_does_not_matter(dtype):
    # 200 * 201 overflows the narrow types unless they are widened before the keys are made.
    positions = np.array([200 if np.iinfo(dtype).max > 127 else 100, 0], dtype=dtype)
    observations = Observations.from_pairs(positions, positions, [1, -1])
    assert observations.rows.tolist() == [0, positions[0]]


def test_shape_comes_from_ids_and_the_matrix_may_be_wider_than_the_pairs():
    observations = Observations.from_pairs([0], [1], [1], row_ids=["a", "b", "c"])
    assert observations.shape == (3, 2)
    assert Observations.from_pairs([0], [1], [1], shape=(np.int64(5), 7)).shape == (5, 7)


@pytest.mark.parametrize("size", [200_000, 2**31])
def test_products_beyond_32_bits(size):
    rows, columns = np.array([size - 1, 0, size - 1]), np.array([size - 1, 1, 0])
    observations = Observations.from_pairs(rows, columns, [1, -1, -1], shape=(size, size))
    assert observations.rows.tolist() == [0, size - 1, size - 1]
    assert observations.columns.tolist() == [1, 0, size - 1]
    assert observations.transpose().rows.tolist() == [0, 1, size - 1]
    with pytest.raises(InvalidInputError, match=f"both give row {size - 1}, column 0"):
        Observations.from_pairs([0, size - 1, size - 1], [0, 0, 0], [1, 1, -1])


@pytest.mark.parametrize(
    ("rows", "columns", "labels", "options", "kind", "match"),
    [
        ([0, 1], [0], [1, 1], {}, InvalidInputError, r"shapes \(2,\), \(1,\) and \(2,\); pass"),
        ([[0]], [[0]], [[1]], {}, InvalidInputError, "pass one-dimensional arrays"),
        ([], [], [], {}, InvalidInputError, "No entry is observed"),
        ([0.0], [0], [1], {}, InvalidTypeError, "Each row must be an integer .* not float64"),
        ([0], [True], [1], {}, InvalidTypeError, "Each column must be an integer .* not bool"),
        (["a"], [0], [1], {}, InvalidTypeError, "for other ids use Observations.from_frame"),
        ([0, -1], [0, 0], [1, 1], {}, InvalidInputError, "position 1: the row -1 is not between"),
        ([-1], [0], [1], {}, InvalidInputError, "position 0: the row -1 is not between 0 and"),
        (
            [0, 1],
            [0, 5],
            [1, 1],
            {"shape": (2, 5)},
            InvalidInputError,
            "position 1: the column 5 is not between 0 and 4; count from 0",
        ),
        ([0], [0], [3.5], {}, InvalidInputError, "value 3.5 is neither .*Observations.from_rating"),
        ([0], [0], [NAN], {}, InvalidInputError, "position 0: the value nan is not finite"),
        ([0], [0], [-INF], {}, InvalidInputError, "position 0: the value -inf is not finite"),
        ([0], [0], ["x"], {}, InvalidTypeError, "has the dtype <U1; pass numbers"),
        ([0], [0], [1j], {}, InvalidInputError, "Complex data not supported"),
        (
            [0, 1, 0],
            [3, 1, 3],
            [1, 1, -1],
            {},
            InvalidInputError,
            "position 0 and position 2 both give row 0, column 3; remove one, or say which to keep with duplicates",
        ),
        (
            [0],
            [0],
            [1],
            {"duplicates": "sum"},
            InvalidInputError,
            "duplicates must be one of error, first, last, majority; got 'sum'",
        ),
        ([0], [0], [1], {"shape": (2**32, 2**31)}, InvalidInputError, "more entries than a 64-bit"),
        ([2**62], [4], [1], {}, InvalidInputError, "more entries than a 64-bit"),
        (np.array([2**63], np.uint64), [0], [1], {}, InvalidInputError, "the row 9223372036854775808 is not between"),
        ([0], [0], [1], {"shape": (1, 0)}, InvalidInputError, r"0 feature\(s\)"),
        ([0], [0], [1], {"shape": (1.5, 2)}, InvalidTypeError, "pass two integers"),
        ([0], [0], [1], {"shape": 3}, InvalidTypeError, "shape is 3; pass two integers"),
        ([0], [0], [1], {"row_ids": ["a", "b", "a"]}, InvalidInputError, "'a' at positions 0 and 2"),
        ([0], [0], [1], {"column_ids": [7, 7]}, InvalidInputError, "column_ids holds 7 at position"),
        ([0], [0], [1], {"row_ids": [[1], [2]]}, InvalidTypeError, "position 0: an object of type l"),
        ([0], [0], [1], {"row_ids": ["a", None]}, InvalidInputError, "row_ids, position 1: the id"),
        ([0], [0], [1], {"row_ids": [1.0, NAN]}, InvalidInputError, "row_ids, position 1: the id"),
        ([0], [0], [1], {"row_ids": "ab"}, InvalidTypeError, "row_ids is of type str; pass a list"),
        ([0], [0], [1], {"row_ids": np.ones((1, 1))}, InvalidInputError, r"has shape \(1, 1\)"),
        (
            [0],
            [0],
            [1],
            {"row_ids": ["a"], "shape": (2, 1)},
            InvalidInputError,
            "row_ids has 1 ids for 2 rows; pass one id per row",
        ),
    ],
)  # fmt: skip
def test_wrong_pairs_are_one_sentence(rows, columns, labels, options, kind, match):
    with pytest.raises(kind, match=match):
        Observations.from_pairs(rows, columns, labels, **options)


@pytest.mark.parametrize(
    ("policy", "expected"), [("first", [1, -1]), ("last", [-1, 1]), ("majority", [1, 1])]
)
def test_duplicates_policies(policy, expected):
    # Row 0: + + -, row 1: - + (a tie, which the last given wins), interleaved.
    rows, labels = [1, 0, 0, 1, 0], [-1, 1, 1, 1, -1]
    observations = Observations.from_pairs(rows, [0] * 5, labels, duplicates=policy)
    assert observations.labels.tolist() == expected
    assert observations.labels.dtype == np.int8


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from([-1, 1]))))
def test_duplicates_policies_against_a_plain_loop(triples):
    if not triples:
        return
    given_labels = {}
    for row, column, label in triples:
        given_labels.setdefault((row, column), []).append(label)
    rules = {
        "first": lambda labels: labels[0],
        "last": lambda labels: labels[-1],
        "majority": lambda labels: np.sign(sum(labels)) or labels[-1],
    }
    for policy, rule in rules.items():
        observations = Observations.from_pairs(
            *zip(*triples, strict=True), shape=(3, 3), duplicates=policy
        )
        expected = [rule(labels) for _, labels in sorted(given_labels.items())]
        assert observations.labels.tolist() == expected


def test_ratings():
    rows, columns, ratings = [0, 0, 1], [0, 1, 1], [0, 4.0, 3.9]
    observations = Observations.from_ratings(rows, columns, ratings, like_at=4, shape=(2, 3))
    np.testing.assert_array_equal(observations.to_sparse().toarray(), [[-1, 1, 0], [0, -1, 0]])
    with pytest.raises(InvalidInputError, match="position 1: the value nan is not finite"):
        Observations.from_ratings([0, 1], [0, 1], [1, NAN], like_at=4)
    with pytest.raises(InvalidInputError, match="position 0: the value inf is not finite"):
        Observations.from_ratings([0], [0], [INF], like_at=4)
    kept = Observations.from_ratings([0, 0], [0, 0], [5, 1], like_at=3, duplicates="last")
    assert kept.labels.tolist() == [-1]


# Data frames


@pytest.mark.parametrize("make", FRAMES)
@pytest.mark.parametrize("ids", [["b", "a", "b"], [7, 3, 7], [2.5, 1.5, 2.5]])
def test_ids_are_kept_in_order_of_first_appearance(make, ids):
    frame = make({"u": ids, "i": [30, 10, 20], "r": [5, 1, 3]})
    observations = Observations.from_frame(frame, row="u", column="i", value="r", like_at=3)
    assert observations.row_ids.tolist() == ids[:2]
    assert observations.column_ids.tolist() == [30, 10, 20]
    np.testing.assert_array_equal(observations.to_sparse().toarray(), [[1, 0, 1], [0, -1, 0]])


@pytest.mark.parametrize("make", FRAMES)
def test_without_a_value_every_pair_is_a_like(make):
    observations = Observations.from_frame(make({"u": [1, 2], "i": [1, 1]}), row="u", column="i")
    assert (observations.n_likes, observations.n_dislikes) == (2, 0)


@pytest.mark.parametrize("kind", [pd.Categorical, lambda ids: pd.array(ids, "string")])
def test_ids_of_pandas_own_types(kind):
    frame = pd.DataFrame({"u": kind(["x", "y"]), "i": [3, 4]}, index=[9, 9])
    observations = Observations.from_frame(frame, row="u", column="i")
    assert observations.row_ids.tolist() == ["x", "y"]
    assert observations.row_index(["y"]).tolist() == [1]


ODD_IDS = {
    "booleans": ([True, False, True], "booleans"),
    "booleans of NumPy": ([np.True_, "a", "b"], "booleans"),
    "a boolean after 1": ([1, True, 2], "booleans"),
    "a boolean beside 0.0": ([0.0, "a", np.False_], "booleans"),
    "tuples": ([(1, 2), (3, 4), (5, 6)], "a value of type tuple"),
    "one tuple": (["a", ("a", 1), "b"], "a value of type tuple"),
    "bytes": ([b"a", b"b", b"c"], "a value of type bytes"),
    "complex numbers": ([1j, 2j, 3j], "a value of type complex"),
}


def column_of(values):
    return np.fromiter(values, dtype=object)


@pytest.mark.parametrize("case", ODD_IDS)
def test_ids_that_are_neither_text_nor_numbers_are_refused_at_the_fit(case):
    ids, held = ODD_IDS[case]
    frame = pd.DataFrame({"u": pd.Series(ids, dtype=object), "i": [1, 2, 3]})
    with pytest.raises(InvalidTypeError, match=f"The column 'u' holds {held} as ids; pass text"):
        Observations.from_frame(frame, row="u", column="i")
    with pytest.raises(InvalidTypeError, match=f"row_ids holds {held} as ids; pass text or"):
        Observations.from_pairs([0, 1, 2], [0, 1, 2], [1, 1, -1], row_ids=column_of(ids))


def test_numbers_of_numpy_among_objects_are_numbers(tmp_path):
    ids = [np.int64(7), "7", np.float32(2.5)]
    frame = pd.DataFrame({"u": pd.Series(ids, dtype=object), "i": [1, 2, 3]})
    for found in (
        Observations.from_frame(frame, row="u", column="i"),
        Observations.from_pairs([0, 1, 2], [0, 1, 2], [1, 1, -1], row_ids=column_of(ids)),
    ):
        assert [type(each) for each in found.row_ids.tolist()] == [int, str, float]
        assert found.row_index([2.5, 7, "7"]).tolist() == [2, 0, 1]
        assert found.row_index([np.int64(7)]).tolist() == [0]


def test_equal_numbers_are_one_id_and_their_text_is_another():
    frame = pd.DataFrame({"u": pd.Series([1, 1.0, "1", "1.0"], dtype=object), "i": [1, 2, 1, 2]})
    found = Observations.from_frame(frame, row="u", column="i")
    assert found.row_ids.tolist() == [1, "1", "1.0"]
    assert found.rows.tolist() == [0, 0, 1, 2]
    assert found.row_index([1.0, "1"]).tolist() == [0, 1]


@pytest.mark.parametrize("make", FRAMES)
@pytest.mark.parametrize(
    ("changed", "options", "match"),
    [
        ({}, {"row": "user"}, "no column 'user', given as row=; choose .*: u, i, r"),
        ({"u": ["a", None, "b"]}, {}, "row 1 of the frame: the row in column 'u' is missing"),
        ({"i": [1.0, 2.0, NAN]}, {}, "row 2 of the frame: the .*(is missing|id is missing)"),
        ({"i": [1, None, 2]}, {}, "row 1 of the frame: the column in column 'i' is missing"),
        ({"r": [None, 1, 1]}, {}, "row 0 of the frame: the value in column 'r' is missing"),
        ({"r": [1.0, INF, 1.0]}, {}, "row 1 of the frame: the value inf is not finite"),
        ({"r": [1, -1, 2]}, {}, r"row 2 of the frame: the value 2.0 is neither .*like_at"),
        ({}, {"value": None, "like_at": 3}, "like_at needs value, the"),
        (
            {"u": ["a", "b", "a"], "i": [8, 8, 8], "r": [1, 1, -1]},
            {},
            "row 0 of the frame and row 2 of the frame both give row 'a', column 8; .*duplicates",
        ),
        ({"u": [], "i": [], "r": []}, {}, "No entry is observed"),
    ],
)
def test_a_wrong_frame_is_one_sentence(make, changed, options, match):
    frame = make({"u": ["a", "b", "c"], "i": [1, 2, 3], "r": [1, -1, 1]} | changed)
    with pytest.raises(InvalidInputError, match=match):
        Observations.from_frame(frame, **({"row": "u", "column": "i", "value": "r"} | options))


@pytest.mark.parametrize("make", FRAMES)
@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"u": [[1], [2], [3]]}, "row 0 of the frame: an object of type .* cannot be an id"),
    ],
)
def test_a_frame_with_a_wrong_kind_of_column(make, changed, match):
    frame = make({"u": ["a", "b", "c"], "i": [1, 2, 3], "r": [1, -1, 1]} | changed)
    with pytest.raises(InvalidTypeError, match=match):
        Observations.from_frame(frame, row="u", column="i", value="r")


def test_frames_that_cannot_be_read():
    for frame in ([[1]], pd.Series([1]), None):
        with pytest.raises(InvalidTypeError, match=r"frame is of type \w+; pass a pandas"):
            Observations.from_frame(frame, row="u", column="i")
    with pytest.raises(InvalidInputError, match="share a name; rename one"):
        Observations.from_frame(pd.DataFrame([[1, 2]], columns=["u", "u"]), row="u", column="u")
    arrays_in_cells = pl.DataFrame(
        {"u": pl.Series([[1, 2]], dtype=pl.Array(pl.Int64, 2)), "i": [1]}
    )
    with pytest.raises(InvalidTypeError, match="Column 'u', given as row=, holds lists"):
        Observations.from_frame(arrays_in_cells, row="u", column="i")


# The object


def test_counts_and_repr():
    observations = example(shape=(3, 5))
    assert len(observations) == observations.n_observed == 5
    assert (observations.n_likes, observations.n_dislikes) == (3, 2)
    assert observations.density == 5 / 15
    assert repr(observations) == "Observations(3 x 5, 5 observed (33.3%), 3 likes, 2 dislikes)"
    sparse = Observations.from_pairs([0], [0], [1], shape=(1000, 1000))
    assert repr(sparse) == "Observations(1000 x 1000, 1 observed (0.0001%), 1 like, 0 dislikes)"


@pytest.mark.parametrize(
    "derive",
    [
        lambda o: o,
        lambda o: o.transpose(),
        lambda o: o.take([3, 1]),
        lambda o: o.split(0.4, random_state=0)[0],
        lambda o: o.split(0.4, random_state=0)[1],
        lambda o: next(o.folds(2, random_state=0))[1],
        lambda o: pickle.loads(pickle.dumps(o)),
        copy.deepcopy,
    ],
)
def test_nothing_can_be_changed(derive):
    observations = derive(example(row_ids=["a", "b", "c"], column_ids=[4, 3, 2, 1]))
    for name in ("rows", "columns", "labels", "row_ids", "column_ids"):
        array = getattr(observations, name)
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[0]
        with pytest.raises(AttributeError):
            setattr(observations, name, array)


def test_a_pickle_holds_the_same_observations():
    observations = example(row_ids=["a", "b", "c"])
    restored = pickle.loads(pickle.dumps(observations))
    assert_same(restored, observations)
    assert restored.row_ids.tolist() == ["a", "b", "c"]
    assert restored.column_ids is None


def test_transpose_exchanges_the_ids():
    transposed = example(row_ids=["a", "b", "c"], column_ids=[4, 3, 2, 1]).transpose()
    np.testing.assert_array_equal(transposed.to_sparse().toarray(), LABELS.T)
    assert transposed.rows.tolist() == sorted(transposed.rows.tolist())
    assert transposed.row_ids.tolist() == [4, 3, 2, 1]
    assert transposed.column_ids.tolist() == ["a", "b", "c"]


def test_take_keeps_the_shape_and_forgets_the_rest():
    whole = example(row_ids=["a", "b", "c"])
    part = whole.take([4, 0])
    assert pair_set(part) == {(0, 0), (2, 1)}
    assert part.rows.tolist() == [0, 2]
    assert part.shape == whole.shape
    assert part.row_ids.tolist() == ["a", "b", "c"]
    for array in (part.rows, part.columns, part.labels):
        assert array.base is None  # a view would carry the other entries along


@pytest.mark.parametrize(
    ("positions", "kind", "match"),
    [
        ([], InvalidInputError, r"positions has shape \(0,\) or repeats"),
        ([1, 1], InvalidInputError, r"positions has shape \(2,\) or repeats"),
        ([[1]], InvalidInputError, r"positions has shape \(1, 1\) or repeats"),
        ([5], InvalidInputError, "position 0: the entry 5 is not between 0 and 4"),
        ([0, -1], InvalidInputError, "position 1: the entry -1 is not between 0 and 4"),
        ([0.0], InvalidTypeError, "Each entry must be an integer position, not float64"),
        ([True] * 5, InvalidTypeError, "for a mask numpy.flatnonzero"),
    ],
)
def test_take_refuses(positions, kind, match):
    with pytest.raises(kind, match=match):
        example().take(positions)


@pytest.mark.parametrize(("test", "n_test"), [(0.25, 50), (1, 1), (199, 199), (np.int64(7), 7)])
def test_split_leaks_no_entry(test, n_test):
    whole = random_observations()
    train, held_out = whole.split(test, random_state=0)
    assert (train.n_observed, held_out.n_observed) == (200 - n_test, n_test)
    assert pair_set(train).isdisjoint(pair_set(held_out))
    merged = train.to_sparse() + held_out.to_sparse()
    np.testing.assert_array_equal(merged.toarray(), whole.to_sparse().toarray())
    assert train.shape == held_out.shape == whole.shape


def test_folds_are_disjoint_and_cover_all():
    whole = random_observations()
    parts = list(whole.folds(7, random_state=0))
    assert len(parts) == 7
    assert {test.n_observed for _, test in parts} == {28, 29}
    for train, test in parts:
        assert pair_set(train) == pair_set(whole) - pair_set(test)
        assert train.shape == test.shape == whole.shape
    merged = sum(test.to_sparse().toarray() for _, test in parts)
    np.testing.assert_array_equal(merged, whole.to_sparse().toarray())


@pytest.mark.parametrize("test", [0.0, 1.0, 1.5, -0.1, NAN, 0, 5, -1, 0.01, 0.99])
def test_split_needs_an_entry_in_both_parts(test):
    with pytest.raises(
        InvalidInputError, match=r"test(=| is ).*(pass a share|training and test set)"
    ):
        example().split(test)


def test_wrong_arguments_of_split_and_folds():
    for test in (True, "half", None):
        with pytest.raises(
            InvalidTypeError, match=r"test=.* is no number; pass a share between 0 and 1"
        ):
            example().split(test)
    for n in (1, 6, 2.0, True, "3"):
        with pytest.raises(InvalidInputError, match=r"n is .*; pass a number of folds, an integer"):
            example().folds(n)  # at the call, not when the first fold is drawn


# Ids to positions


@pytest.mark.parametrize(
    "ids", [["a", "b", "c"], [30, 10, 20], ["x", 1, 2.5], np.array(["p", "q", "r"]), [0.5, 2, 1]]
)
def test_index_by_id(ids):
    observations = example(row_ids=ids)
    ids = list(ids)
    assert observations.row_index([ids[2], ids[0], ids[2]]).tolist() == [2, 0, 2]
    assert observations.row_index([]).tolist() == []


@pytest.mark.parametrize("make", [list, np.array, pd.Series, pl.Series, pa.array])
def test_index_takes_any_list(make):
    observations = example(row_ids=[30, 10, 20])
    assert observations.row_index(make([20, 30])).tolist() == [2, 0]
    assert observations.column_index(make([3, 0])).tolist() == [3, 0]


@pytest.mark.parametrize(
    ("wanted", "kind", "match"),
    [
        (["a", "z", "y"], InvalidInputError, "The row id 'z' at position 1 of the list is unknown"),
        ([1], InvalidInputError, "The row id 1 at position 0 .*such as 'a'"),
        (["a", None], InvalidInputError, "position 1: the id is missing"),
        ([["a"]], InvalidTypeError, "position 0: an object of type list cannot be an id"),
        ("a", InvalidTypeError, "of type str; pass a list of ids"),
        ([True, False, True], InvalidTypeError, "pass ids, not a mask"),
    ],
)
def test_unknown_ids(wanted, kind, match):
    with pytest.raises(kind, match=match):
        example(row_ids=["a", "b", "c"]).row_index(wanted)


def test_numbers_are_not_their_decimal_strings():
    with pytest.raises(InvalidInputError, match="The row id '1' at position 0"):
        example(row_ids=[1, 2, 3]).row_index(["1"])
    with pytest.raises(InvalidInputError, match="The row id 1 at position 0"):
        example(row_ids=np.array(["1", "2", "3"])).row_index(np.array([1]))


@pytest.mark.parametrize(
    ("wanted", "kind", "match"),
    [
        ([0, 4], InvalidInputError, "position 1: the column 4 is not between 0 and 3"),
        ([-1], InvalidInputError, "position 0: the column -1 is not between 0 and 3"),
        ([1.0], InvalidTypeError, "Each column must be an integer position, not float64"),
        ([True], InvalidTypeError, "Each column must be an integer position, not bool"),
        (2, InvalidTypeError, "The list of columns is of type int; pass a list"),
    ],
)
def test_positions_where_there_are_no_ids(wanted, kind, match):
    with pytest.raises(kind, match=match):
        example().column_index(wanted)


# Randomness


def test_a_seed_gives_the_same_bits_everywhere():
    # Written out: a change here changes the split of everyone who passed a seed.
    assert generator(0).integers(1000, size=3).tolist() == [850, 636, 511]
    legacy = generator(np.random.RandomState(0)).integers(1000, size=3)
    assert legacy.tolist() == generator(np.random.RandomState(0)).integers(1000, size=3).tolist()
    train, _ = random_observations().split(0.5, random_state=np.int64(3))
    again, _ = random_observations().split(0.5, random_state=3)
    assert_same(train, again)


def test_generators_go_on_drawing():
    rng = np.random.default_rng(0)
    assert generator(rng) is rng
    for source in (rng, np.random.RandomState(0), None):
        whole = random_observations()
        first, second = (whole.split(0.5, random_state=source)[1] for _ in range(2))
        assert pair_set(first) != pair_set(second)


def test_none_follows_the_global_seed():
    draws = []
    for _ in range(2):
        np.random.seed(3)  # noqa: NPY002  (this is what scikit-learn's users do)
        draws.append(generator(None).integers(2**40))
    assert draws[0] == draws[1]


@pytest.mark.parametrize(
    ("random_state", "kind", "match"),
    [
        (-1, InvalidInputError, "random_state is -1, but a seed cannot be negative"),
        (True, InvalidTypeError, "random_state is of type bool; pass None, an integer"),
        (0.5, InvalidTypeError, "random_state is of type float"),
        ("0", InvalidTypeError, "random_state is of type str"),
    ],
)
def test_wrong_random_state(random_state, kind, match):
    with pytest.raises(kind, match=match):
        generator(random_state)


def test_no_data_frame_library_is_needed(tmp_path):
    # scikit-learn imports pandas where it is installed, so absence is what can be tested.
    path = tmp_path / "r.csv"
    path.write_text("u,i\na,b\n")
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('pandas', 'polars'))); "
        "from tribit.data.reading import observations_from_file; "
        "print(observations_from_file(sys.argv[1], row='u', column='i'))"
    )
    command = [sys.executable, "-c", code, str(path)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout == "Observations(1 x 1, 1 observed (100.0%), 1 like, 0 dislikes)\n"


def test_the_labels_of_a_pandas_frame_become_ids():
    frame = pd.DataFrame([[1, -1], [0, 1]], index=[7, 9], columns=["x", "y"])
    seen = Observations.from_matrix(frame)
    assert seen.row_ids.tolist() == [7, 9]
    assert seen.column_ids.tolist() == ["x", "y"]
    assert seen.row_index([9]).tolist() == [1]
    counted = Observations.from_matrix(pd.DataFrame([[1, -1], [0, 1]]))
    assert counted.row_ids is None
    assert counted.column_ids is None
    with pytest.raises(InvalidInputError, match="The index holds 7 at positions 0 and 1"):
        Observations.from_matrix(frame.set_axis([7, 7], axis=0))


def test_a_mask_divides_the_entries():
    seen = Observations.from_matrix([[1, 0, -1], [0, 1, 1]])
    rest, chosen = seen.hold_out(np.array([True, False, False, True]))
    np.testing.assert_array_equal(chosen.to_sparse().toarray(), [[1, 0, 0], [0, 0, 1]])
    np.testing.assert_array_equal(rest.to_sparse().toarray(), [[0, 0, -1], [0, 1, 0]])


@pytest.mark.parametrize("mask", [np.ones(4, bool), np.zeros(4, bool), np.eye(2) > 0, np.arange(4)])
def test_no_mask_of_the_entries(mask):
    seen = Observations.from_matrix([[1, 0, -1], [0, 1, 1]])
    with pytest.raises(InvalidInputError, match=r"chosen must be 4 booleans, one for each entry"):
        seen.hold_out(mask)
