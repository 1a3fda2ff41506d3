"""Frames with an entry in each row: what they may hold, and a long frame where a matrix is expected."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tribit import (
    BinaryMatrixCompletion,
    InvalidInputError,
    InvalidTypeError,
    Observations,
    Recommender,
    TribitWarning,
)
from tribit.data.reading import Reading
from tribit.data.rules import TableRules
from tribit.nouns import Nouns

NAMES = {"row": "user", "column": "title", "value": "v"}
FIT = {"rank": 1, "search": False, "random_state": 0}
LIKED = [True, False, True, False, True]


def table(values, **more):
    return pd.DataFrame({"user": list("aabbc"), "title": list("xyxzy"), "v": values, **more})


STARS = table([5, 1, 4, 2, 5])
BINARY = [1, 0, 1, 0, 1]


def of_type(kind):
    return pd.Series(BINARY).astype(kind)


@pytest.mark.parametrize(
    ("values", "rules"),
    [
        ([1, -1, 1, -1, 1], {}),
        (BINARY, {}),
        (LIKED, {}),
        (pd.Series(LIKED, dtype=object), {}),
        *(
            (of_type(kind), {})
            for kind in ("Int8", "boolean", "bool[pyarrow]", "int64[pyarrow]", "float32")
        ),
        (["yes", "no", "Yes", "NO", "yes"], {}),
        (pd.Categorical(["like", "dislike", "like", "dislike", "like"]), {}),
        (pd.Series(["+", "-", "+", "-", "+"], dtype="string[pyarrow]"), {}),
        (["good", "bad", "fine", "bad", "good"], {"like": ["good", "Fine"], "dislike": "bad"}),
        ([5, 1, 4, 2, 5], {"like_at": 4}),
        ([5, 1, 4, 2, 5], {"like_at": 4, "dislike_at": 2}),
        ([5, 1, 4, 2, 5], {"like": [4, 5], "dislike": [1, 2]}),
        (["5", "1", "4", "2", "5"], {"like_at": 4}),
        (["4,5", "1,0", "4", "2,5", "5"], {"like_at": 4}),
    ],
)
def test_values_of_every_kind(values, rules):
    found = Observations.from_frame(table(values), **NAMES, **rules)
    assert found.labels.tolist() == [1, -1, 1, -1, 1]
    assert (found.rules.row, found.rules.column, found.rules.value) == ("user", "title", "v")


@pytest.mark.parametrize(
    ("values", "rules", "labels", "note"),
    [
        ([5, 3, 4, 3, 1], {"like_at": 4, "dislike_at": 2}, [1, 1, -1], "2 values were left out, between .*: 3 .2."),
        (["Yes", "so", "no", "?", "yes"], {"like": "yes", "dislike": "No"}, [1, -1, 1], "2 values .*: so .1., . .1."),
        (["yes", "no", "yes", None, "no"], {"missing": "skip"}, [1, -1, 1, -1], "1 row was left out, without"),
    ],
)  # fmt: skip
def test_values_that_are_left_out_are_counted(values, rules, labels, note):
    found = Observations.from_frame(table(values), **NAMES, **rules)
    assert found.labels.tolist() == labels
    assert any(re.search(note, each) for each in found.rules.notes)


def tuples():
    return list(STARS.itertuples(index=False, name=None))


@pytest.mark.parametrize(
    "held",
    [
        STARS, pl.from_pandas(STARS), pl.from_pandas(STARS).lazy(), pa.table(STARS), STARS.to_dict("list"),
        STARS.to_dict("records"),
    ],
    ids=["pandas", "polars", "lazy", "arrow", "columns", "dicts"],
)  # fmt: skip
def test_whatever_holds_a_long_table(held):
    found = Observations.from_frame(held, **NAMES, like_at=4)
    assert found.labels.tolist() == [1, -1, 1, -1, 1]
    model = BinaryMatrixCompletion(**FIT).fit(held, **NAMES, like_at=4)
    assert model.row_ids_.tolist() == ["a", "b", "c"]
    assert model.counts_ == {"likes": 3, "dislikes": 2}


def relation_of(frame):
    """Return a frame as a relation of a database."""
    duckdb = pytest.importorskip("duckdb")
    # Of the module's own connection: early versions close another one that nothing but its relations refer to.
    return duckdb.from_df(frame)


def test_a_relation_of_a_database_is_a_long_table():
    found = Observations.from_frame(relation_of(STARS), **NAMES, like_at=4)
    assert found.labels.tolist() == [1, -1, 1, -1, 1]
    counted = Observations.from_frame(relation_of(STARS), row="user", column="title", weight="v")
    assert counted.weights.tolist() == [5, 1, 4, 2, 5]


WIDE = pd.DataFrame({"tax": [1.0, np.nan, 0.0], "road": [0.0, 1.0, 1.0]})


@pytest.mark.parametrize(
    "held",
    [
        pl.from_pandas(WIDE), pl.from_pandas(WIDE).lazy(), pa.table(WIDE), lambda: relation_of(WIDE),
    ],
    ids=["polars", "lazy", "arrow", "relation"],
)  # fmt: skip
def test_whatever_holds_a_wide_table(held):
    held = held() if callable(held) else held
    found = Observations.from_matrix(held)
    assert found.to_sparse().toarray().tolist() == [[1, -1], [0, 1], [-1, 1]]
    assert (found.row_ids, found.column_ids.tolist()) == (None, ["tax", "road"])
    fitted = Recommender(BinaryMatrixCompletion(**FIT), random_state=0).fit(held)
    assert list(fitted.complete().to_frame().columns) == ["tax", "road"]


@pytest.mark.parametrize("names", [["column_0", "column_1"], ["0", "1"]])
def test_names_that_only_count_are_no_ids(names):
    assert (
        Observations.from_matrix(pl.DataFrame([[1, -1], [-1, 1]], schema=names)).column_ids is None
    )


@pytest.mark.parametrize(
    "held", [pl.from_pandas(STARS).lazy(), lambda: relation_of(STARS)], ids=["lazy", "relation"]
)
def test_a_lazy_long_table_is_no_matrix(held):
    held = held() if callable(held) else held
    with pytest.raises(
        InvalidInputError, match=r"look like ids: .*fit\(X, row='user', column='title'"
    ):
        Recommender().fit(held)


def test_tuples_have_columns_by_number():
    found = Observations.from_frame(tuples(), row=0, column=1, value=2, like_at=4)
    assert found.column_ids.tolist() == ["x", "y", "z"]
    with pytest.raises(InvalidInputError, match="tuples differ in length"):
        Observations.from_frame([*tuples(), ("a",)], row=0, column=1)


@pytest.mark.parametrize("user", [["a", 1], [1, "a"], [10**30, 1], [object(), object()]])
def test_a_column_of_a_dict_with_values_of_two_types_or_none_is_refused(user):
    with pytest.raises(InvalidInputError, match=r"table is no frame .*values of one type"):
        Observations.from_frame({"user": user, "item": ["x", "y"]}, row="user", column="item")


def test_a_fit_keeps_names_and_rules():
    model = BinaryMatrixCompletion(**FIT).fit(STARS, **NAMES, like_at=4)
    kept = model.reading_
    assert (kept.row, kept.column, kept.value, kept.like_at) == ("user", "title", "v", 4)
    # Later frames are read by them.
    assert model.score(STARS) == model.score(Observations.from_frame(STARS, **NAMES, like_at=4))
    recommender = Recommender(BinaryMatrixCompletion(**FIT)).fit(STARS, **NAMES, like_at=4)
    assert recommender.headings == ("user", "title")
    assert (Nouns.of(recommender.reading_).row, Nouns.of(kept).column) == ("user", "title")
    assert list(recommender.recommend(["a"], 1).table())[:2] == ["user", "title"]
    assert recommender.update(STARS).seen_.n_observed == 5


def ratings(**changed):
    rng = np.random.default_rng(0)
    columns = {
        "user": rng.integers(1, 900, 400), "movieId": rng.integers(1, 1600, 400), "rating": rng.integers(1, 6, 400),
        "timestamp": rng.integers(8 * 10**8, 9 * 10**8, 400),
    }  # fmt: skip
    return pd.DataFrame(columns | changed)


@pytest.mark.parametrize(
    ("frame", "ids"),
    [
        (ratings(), "row='user', column='movieId', value='rating'"),
        (pl.from_pandas(ratings()), "row='user', column='movieId', value='rating'"),
        (
            ratings().rename(columns={"user": "a", "movieId": "b"}),
            "row='a', column='b', value='rating'",
        ),
        (STARS, "row='user', column='title', value='v'"),
        (STARS.astype({"user": "category"})[["user", "title"]], "row='user', column='title'"),
        (ratings()[["user", "movieId"]].head(9), "row='user', column='movieId'"),
    ],
)
def test_a_long_frame_is_no_matrix(frame, ids):
    model = BinaryMatrixCompletion(**FIT, like_at=4)
    for read in (model.fit, Recommender(model).fit, Observations.from_matrix):
        with pytest.raises(
            InvalidInputError, match=rf"look like ids: .* by fit\(X, {ids}\), or by Observ"
        ):
            read(frame)


def test_a_matrix_in_a_frame_is_read():
    signs = np.random.default_rng(0).choice([-1, 0, 1], (50, 4))
    votes = pd.DataFrame(signs, columns=["user", "film", "book", "song"])
    assert Observations.from_matrix(votes).shape == (50, 4)
    points = pd.DataFrame(np.random.default_rng(0).integers(0, 101, (50, 3)))
    assert Observations.from_matrix(points, like_at=60).shape == (50, 3)


@pytest.mark.parametrize(
    ("arguments", "rules", "match"),
    [
        ((STARS,), {"row": "usr", "column": "title"}, "no column 'usr', given as row="),
        ((STARS,), {"row": "user"}, "needs row and column"),
        ((np.ones((2, 2)),), {"row": "user", "column": "title"}, "frame is of type ndarray"),
        (([[1, 0], [np.nan, 1]],), {"like_at": 4}, "No rating reaches like_at=4.*no like"),
        ((STARS.assign(user=pd.to_datetime(["2020-01-01"] * 5)),), NAMES | {"like_at": 4}, "'user' holds dates"),
        ((STARS.assign(user=["\u00e9", "e\u0301", "b", "b", "c"]),), NAMES | {"like_at": 4}, "Unicode form alone"),
        ((STARS,), NAMES | {"like_at": 4, "dislike_at": 4}, "dislike_at is the largest rating that is a dislike"),
        ((STARS,), NAMES | {"dislike_at": 2}, "needs a larger like_at"),
        (([[1, -1], [0, 1]],), {"like_at": 4}, "row 0, column 1 .* labels .* no ratings for like_at=4"),
        ((STARS,), NAMES, "if they count plays or purchases, leave the values out"),
        ((table(["1_0", "1", "1", "1", "1"]),), NAMES, "the value '1_0' in column 'v' is not a number"),
        ((table(["a", "b", "a", "c", "d"]),), NAMES | {"like": "x"}, "No value in column 'v' of the frame is 'x'; the"),
    ],
)  # fmt: skip
def test_what_is_refused_at_the_fit(arguments, rules, match):
    with pytest.raises((InvalidInputError, InvalidTypeError), match=match):
        BinaryMatrixCompletion(**FIT).fit(*arguments, **rules)


def test_labels_beside_a_matrix_are_not_used():
    A = np.array([[1, -1, 1], [1, 0, -1], [-1, 1, 0]])
    with pytest.warns(
        TribitWarning, match=r"y is not used: .* Observations.from_pairs\(rows, columns, y\)"
    ):
        BinaryMatrixCompletion(**FIT).fit(A, [1, 0, 1])


def test_rules_without_a_meaning():
    with pytest.raises(InvalidInputError, match="zeros must be one of dislike, unobserved"):
        TableRules(zeros="seen")


WORDS = pd.DataFrame(
    {"q1": ["right", "wrong", None, "Right"], "q2": ["wrong", "", "right", "skipped"]},
    index=list("abcd"),
)


@pytest.mark.parametrize("n_copies", [1, 6])
def test_a_wide_frame_of_words_is_read_as_a_wide_file(tmp_path, n_copies):
    T = pd.concat([WORDS.add_suffix(f" {n}") for n in range(n_copies)], axis=1)
    rules = {"like": "right", "dislike": "wrong"}
    found = Observations.from_matrix(T, **rules)
    T.rename_axis("person").to_csv(tmp_path / "t.csv")
    theirs = Reading(layout="wide", **rules).read(tmp_path / "t.csv")
    assert sorted(zip(found.rows, found.columns, found.labels, strict=True)) == sorted(
        zip(theirs.rows, theirs.columns, theirs.labels, strict=True)
    )
    assert found.row_ids.tolist() == list("abcd")
    assert found.column_ids.tolist() == list(T.columns)
    assert f"neither a like nor a dislike: skipped ({n_copies})." in found.rules.notes[0]
    model = BinaryMatrixCompletion(rank=1, search=False).fit(T, **rules)
    assert model.reading_.like == ("right",)
    known = T.replace({"right": "yes", "Right": "yes", "wrong": "no", "skipped": None})
    np.testing.assert_array_equal(Observations.from_matrix(known).labels, found.labels)


@pytest.mark.parametrize(
    ("frame", "rules", "match"),
    [
        (WORDS, {"like": "true"}, "look like ids"),
        (WORDS.to_numpy(), {}, r"The values of X are words: right \(2\), .*like and dislike"),
        (WORDS.to_numpy(), {"like": "YES"}, "No value of X is 'YES'"),
        (
            WORDS.reset_index().to_numpy(),
            {"like": "right", "dislike": "wrong"},
            "column 0 of X has no like or dislike, but 'a'; ids of rows belong into the index",
        ),
    ],
)
def test_frames_of_words_that_are_refused(frame, rules, match):
    with pytest.raises(InvalidInputError, match=match):
        Observations.from_matrix(frame, **rules)
