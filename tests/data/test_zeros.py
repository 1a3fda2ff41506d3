"""What 0, False and missing values mean: one rule, whatever holds the table."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from tribit import BinaryMatrixCompletion, InvalidInputError, Observations, Recommender, load
from tribit.data.reading import Reading

NAN = float("nan")
#: A table, and the labels by the rule: 0 is unobserved.
GAPS = [[1, 0, NAN], [NAN, 1, 0], [1, NAN, 1]]
GAPS_READ = [[1, -1, 0], [0, 1, -1], [1, 0, 1]]
FULL = [[1, 0, 0], [0, 1, 0], [1, 0, 1]]
FULL_READ = [[1, -1, -1], [-1, 1, -1], [1, -1, 1]]
LIKES = [[1, 0, 0], [0, 1, 0], [1, 0, 1]]
SIGNED = [[1, 0, -1], [NAN, 1, 0], [1, NAN, -1]]
SIGNED_READ = [[1, 0, -1], [0, 1, 0], [1, 0, -1]]
RATED = [[5, 0, NAN], [NAN, 4, 2], [1, NAN, 5]]
RATED_READ = [[1, -1, 0], [0, 1, -1], [-1, 0, 1]]
RATED_FULL = [[5, 0, 0], [0, 4, 2], [1, 0, 5]]
RATED_FULL_READ = [[1, 0, 0], [0, 1, -1], [-1, 0, 1]]


def dense(table, tmp_path, rules):
    return Observations.from_matrix(np.array(table, float), **rules)


def pandas_frame(table, tmp_path, rules):
    return Observations.from_matrix(pd.DataFrame(table), **rules)


def nullable_frame(table, tmp_path, rules):
    return Observations.from_matrix(pd.DataFrame(table).astype("Int8"), **rules)


def polars_frame(table, tmp_path, rules):
    rows = [[None if cell != cell else int(cell) for cell in row] for row in table]
    return Observations.from_matrix(pl.DataFrame(rows, orient="row"), **rules)


def masked(table, tmp_path, rules):
    return Observations.from_matrix(np.ma.masked_invalid(np.array(table, float)), **rules)


def wide_file(table, tmp_path, rules):
    path = tmp_path / "wide.csv"
    path.write_text(pd.DataFrame(table).rename_axis("id").to_csv())
    return Reading(layout="wide", **rules).read(path)


DENSE = [dense, pandas_frame, nullable_frame, polars_frame, masked, wide_file]


def cells_of(table):
    values = np.array(table, float)
    i, j = np.nonzero(~np.isnan(values))
    return i, j, values[i, j]


def sparse(table, tmp_path, rules):
    i, j, values = cells_of(table)
    return Observations.from_matrix(sp.coo_array((values, (i, j)), shape=(3, 3)), **rules)


def npz_file(table, tmp_path, rules):
    i, j, values = cells_of(table)
    sp.save_npz(tmp_path / "m.npz", sp.csr_array((values, (i, j)), shape=(3, 3)))
    return Reading(**rules).read(tmp_path / "m.npz")


def long_frame(table, tmp_path, rules):
    i, j, values = cells_of(table)
    frame = pd.DataFrame({"u": i, "i": j, "v": values})
    return Observations.from_frame(frame, row="u", column="i", value="v", **rules)


def write_long(table, tmp_path):
    i, j, values = cells_of(table)
    pd.DataFrame({"u": i, "i": j, "v": values}).to_csv(tmp_path / "long.csv", index=False)
    return tmp_path / "long.csv"


def long_file(table, tmp_path, rules):
    return Reading(**rules).read(write_long(table, tmp_path))


def pairs(table, tmp_path, rules):
    i, j, values = cells_of(table)
    if "like_at" in rules:
        return Observations.from_ratings(i, j, values, **rules)
    return Observations.from_pairs(i, j, values, **rules)


LISTED = [sparse, npz_file, long_frame, long_file, pairs]


def labels(found):
    """Return the labels as a dense matrix, by ids where there are ids."""
    matrix = np.zeros((3, 3), int)
    axes = [
        np.arange(3) if axis.ids is None else axis.ids.astype(float).astype(int)
        for axis in found.axes
    ]
    matrix[axes[0][found.rows], axes[1][found.columns]] = found.labels
    return matrix.tolist()


@pytest.mark.parametrize("read", [*DENSE, *LISTED])
@pytest.mark.parametrize(
    ("table", "rules", "expected", "meaning"),
    [
        (GAPS, {}, GAPS_READ, "0 is a dislike"),
        (GAPS, {"zeros": "unobserved"}, np.maximum(GAPS_READ, 0).tolist(), "0 is unobserved"),
        (SIGNED, {}, SIGNED_READ, "0 is unobserved"),
        (RATED, {"like_at": 4}, RATED_READ, "0 is a rating"),
    ],
)
def test_a_table_is_read_alike_whatever_holds_it(tmp_path, read, table, rules, expected, meaning):
    found = read(table, tmp_path, rules)
    assert labels(found) == expected
    assert repr(found).endswith(f"; {meaning})")


@pytest.mark.parametrize("read", DENSE)
@pytest.mark.parametrize(
    ("table", "rules", "expected"),
    [
        (FULL, {"zeros": "dislike"}, FULL_READ),
        (LIKES, {"zeros": "unobserved"}, LIKES),
        (RATED_FULL, {"like_at": 4}, RATED_FULL_READ),
    ],
)
def test_a_table_without_a_missing_value(tmp_path, read, table, rules, expected):
    assert labels(read(table, tmp_path, rules)) == expected


@pytest.mark.parametrize("read", DENSE)
def test_zeros_and_ones_without_a_missing_value_are_ambiguous(tmp_path, read):
    with pytest.raises(InvalidInputError, match="zeros='dislike' if every cell was observed, or z"):
        read(FULL, tmp_path, {})


def test_booleans_are_zeros_and_ones(tmp_path):
    full = np.array(FULL, bool)
    with pytest.raises(InvalidInputError, match="has only 0 and 1 and no missing value"):
        Observations.from_matrix(full)
    assert labels(Observations.from_matrix(full, zeros="dislike")) == FULL_READ
    gaps = pd.DataFrame([[None if v != v else bool(v) for v in row] for row in GAPS])
    for frame in (gaps, gaps.astype("boolean")):
        assert labels(Observations.from_matrix(frame)) == GAPS_READ
    assert labels(wide_file(gaps, tmp_path, {})) == GAPS_READ
    assert labels(Observations.from_matrix(sp.csr_array(full))) == LIKES
    with pytest.raises(InvalidInputError, match="zeros='dislike'"):
        wide_file(pd.DataFrame(full), tmp_path, {})


def test_zeros_that_are_left_out_are_counted(tmp_path):
    found = Reading(zeros="unobserved").records(write_long(GAPS, tmp_path))
    assert found.reading.notes[-1] == "long.csv: 0 is unobserved, and stands 2 times."


def test_a_sparse_matrix_of_ones_has_likes_alone():
    found = Observations.from_matrix(sp.csr_array(np.array(LIKES)))
    assert labels(found) == LIKES
    assert found.rules.zeros == "unobserved"


def test_copies_and_parts_keep_what_zero_meant():
    import copy
    import pickle

    found = Observations.from_matrix(GAPS)
    for other in (
        copy.copy(found),
        pickle.loads(pickle.dumps(found)),
        *found.split(2, 0),
        found.transpose(),
    ):
        assert other.rules.zeros == "dislike"


# After the fit

FIT = {"rank": 1, "search": False, "random_state": 0}
TABLE = [[1, 0, NAN, 1], [0, 1, 1, NAN], [1, 1, 0, 0], [NAN, 0, 1, 1]]


@pytest.mark.parametrize("zeros", ["dislike", "unobserved"])
def test_the_decision_of_the_fit_reads_later_tables(tmp_path, zeros):
    full = np.array(TABLE) == 1
    model = BinaryMatrixCompletion(**FIT).fit(full, zeros=zeros)
    again = [[1, 0, 0, 1]]
    signed = [[1, -1, -1, 1]] if zeros == "dislike" else sp.csr_array(np.array(again))
    model.save(tmp_path / "model.tribit")
    for each in (model, load(tmp_path / "model.tribit")):
        new, expected = (each.fold_in(X).scores_.factors.at([4], [0]) for X in (again, signed))
        np.testing.assert_array_equal(new, expected)
    seen = Observations.from_matrix(full, zeros=zeros)
    assert model.score(full) == model.score(seen)
    recommender = Recommender(BinaryMatrixCompletion(**FIT), ranker=False).fit(full, zeros=zeros)
    recommender.save(tmp_path / "r.tribit")
    for each in (recommender, Recommender.load(tmp_path / "r.tribit")):
        assert each.fold_in(again).seen_.n_observed == seen.n_observed + (
            4 if zeros == "dislike" else 2
        )
        assert each.reading_.zeros == zeros


def test_a_fitted_model_says_what_was_read():
    model = BinaryMatrixCompletion(**FIT).fit(TABLE)
    assert repr(model).endswith("fitted on 8 likes, 5 dislikes; 0 is a dislike")
    recommender = Recommender(BinaryMatrixCompletion(**FIT), ranker=False).fit(TABLE)
    assert repr(recommender).endswith("fitted on 8 likes, 5 dislikes; 0 is a dislike")
    assert "fitted on" not in repr(BinaryMatrixCompletion(**FIT))
