"""Side features: tables of what is known of rows and columns, as numbers."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from tribit import InvalidInputError, InvalidTypeError
from tribit.data.axis import Axis
from tribit.data.features import MAX_KNOTS, FeatureEncoder, feature_columns, fit_side_features

AGES = np.array([20.0, 30.0, np.nan, 50.0, 40.0, 30.0])
FRAME = pd.DataFrame(
    {
        "age": AGES,
        "job": ["nurse", "cook", "nurse", None, "cook", "pilot"],
        "likes": [["a", "b"], ["a"], [], ["b", "c"], ["c", "a"], ["b"]],
    }
)
PLAIN = Axis("row", 6)


def encoded(table, axis=PLAIN):
    encoder, groups = FeatureEncoder.fit(table, axis)
    return {each.name: (each, group) for each, group in zip(encoder.groups, groups, strict=True)}


def centred(group):
    return (group.matrix.toarray() - group.means) * group.known[:, None]


def test_each_column_is_a_group_that_is_centred_and_of_unit_size():
    found = encoded(FRAME)
    assert [each.kind for each, _ in found.values()] == ["quantity", "tags", "tags"]
    for _, group in found.values():
        numbers = centred(group)
        np.testing.assert_allclose(numbers.sum(axis=0), 0.0, atol=1e-12)
        assert (numbers**2).sum() / group.known.sum() == pytest.approx(1.0)


def test_a_quantity_becomes_hats_that_any_line_is_made_of():
    encoder, group = encoded(FRAME)["age"]
    assert list(group.known) == [True, True, False, True, True, True]
    knots = np.array(encoder.levels)
    assert knots[0] == 20.0
    assert knots[-1] == 50.0
    values = np.linspace(20, 50, 61)
    hats = encoder.encode(values).matrix.toarray() / encoder.scale
    np.testing.assert_allclose(hats.sum(axis=1), 1.0)
    np.testing.assert_allclose(hats @ knots, values)
    for value, knot in ((-5.0, 20.0), (99.0, 50.0)):
        beyond, end = (encoder.encode(np.array([each])).matrix.toarray() for each in (value, knot))
        np.testing.assert_array_equal(beyond, end)


def test_a_quantity_has_few_knots():
    values = np.random.default_rng(0).normal(size=(6, 1)) + np.arange(6)[:, None]
    many = np.vstack([values + shift for shift in range(40)])
    (encoder, _), *_ = encoded(many, Axis("row", 240)).values()
    assert len(encoder.levels) == MAX_KNOTS


def test_tags_are_indicators_of_length_1_and_rare_ones_are_left_out():
    encoder, group = encoded(FRAME)["likes"]
    assert set(encoder.levels) == {"a", "b", "c"}
    lengths = np.linalg.norm(group.matrix.toarray() / encoder.scale, axis=1)
    np.testing.assert_allclose(lengths, [1, 1, 0, 1, 1, 1])
    encoder, group = encoded(FRAME)["job"]
    assert set(encoder.levels) == {"nurse", "cook"}
    assert list(group.known) == [True, True, True, False, True, False]


def test_text_is_read_as_numbers_or_as_tags_between_bars():
    frame = pd.DataFrame(
        {"n": ["1", "2", "", "4", "5", "2"], "t": ["x|y", "x", "y|z", "z", "", "x"]}
    )
    found = encoded(frame)
    assert found["n"][0].kind == "quantity"
    assert list(found["n"][1].known) == [True, True, False, True, True, True]
    assert set(found["t"][0].levels) == {"x", "y", "z"}


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_are_matched_by_id(kind):
    ids = np.array(list("fedcba"), dtype=object)
    axis = Axis("row", 6, ids)
    table = FRAME.assign(id=list("abcdef"))[["id", "age", "job"]]
    given = table.set_index("id") if kind == "pandas" else pl.from_pandas(table)
    _, group = encoded(given, axis)["age"]
    _, straight = encoded(FRAME[["age", "job"]])["age"]
    np.testing.assert_allclose(centred(group), centred(straight)[::-1], atol=1e-12)


def test_ids_without_features_know_nothing_and_other_ids_do_not_matter():
    axis = Axis("row", 3, np.array(["a", "zz", "b"], dtype=object))
    table = FRAME.assign(id=list("abcdef")).set_index("id")[["age"]]
    _, group = encoded(table, axis)["age"]
    assert list(group.known) == [True, False, True]


def test_a_matrix_has_one_group_of_0_1_columns_and_one_of_each_quantity():
    rng = np.random.default_rng(0)
    array = np.column_stack([rng.normal(size=6), rng.integers(2, size=(6, 3))])
    found = encoded(array)
    assert [each.kind for each, _ in found.values()] == ["quantity", "matrix"]
    (each, group), *_ = encoded(sp.csr_array(array)).values()
    assert each.kind == "matrix"
    np.testing.assert_allclose(group.matrix.toarray() / each.scale, array)


def test_what_is_the_same_everywhere_is_left_out():
    frame = pd.DataFrame({"one": [1.0] * 6, "same": ["x"] * 6, "age": AGES})
    assert list(encoded(frame)) == ["age"]


def test_new_rows_are_encoded_as_those_of_the_fit_were():
    encoder, groups = FeatureEncoder.fit(FRAME, PLAIN)
    again = encoder.encode(FRAME.iloc[[1, 0]].reset_index(drop=True), Axis("row", 2))
    for old, new in zip(groups, again, strict=True):
        np.testing.assert_allclose(new.matrix.toarray(), old.matrix.toarray()[[1, 0]])
    for group in encoder.encode(None, Axis("row", 4)):
        assert not group.known.any()
        assert group.matrix.shape[0] == 4
    with pytest.raises(InvalidInputError, match="no column 'job', with which the model was fitted"):
        encoder.encode(FRAME[["age"]].iloc[:2], Axis("row", 2))


def test_wrong_tables_are_refused():
    with pytest.raises(InvalidInputError, match="row_features has 5 rows for 6 rows"):
        encoded(FRAME.iloc[:5])
    with pytest.raises(InvalidTypeError, match="matrix of numbers or a data frame"):
        encoded(np.array([["a"]] * 6))
    with pytest.raises(InvalidInputError, match="row 2: the 'column 0' is infinite"):
        encoded(np.array([[1.0], [2.0], [np.inf], [3.0], [4.0], [5.0]]))
    with pytest.raises(InvalidInputError, match="row 0: the 'age' is infinite"):
        encoded(FRAME.assign(age=[np.inf, 1, 2, 3, 4, 5]))
    with pytest.raises(InvalidInputError, match="NaN or infinity"):
        encoded(sp.csr_array(np.array([[np.nan]] * 6)))
    with pytest.raises(InvalidTypeError):
        encoded("ages.csv")


def test_nothing_given_is_nothing_learned():
    assert fit_side_features((PLAIN, PLAIN), None, None) == ((None, None), None)


def test_a_table_of_which_no_id_is_known_is_refused():
    axis = Axis("row", 2, np.array(["y", "z"], dtype=object))
    with pytest.raises(
        InvalidInputError, match="None of the 2 rows, such as 'y', is among the ids"
    ):
        encoded(FRAME.assign(id=list("abcdef")).set_index("id"), axis)
    with pytest.raises(InvalidInputError, match="None of the 2 rows"):
        encoded({"id": np.array(["a", "b"]), "size": np.array(["1", "2"])}, axis)


@pytest.mark.parametrize("marker", ["", "NA", "N/A", "null", "NaN", "?"])
def test_a_missing_marker_leaves_a_column_of_numbers_one(marker):
    axis = Axis("row", 3, np.array(["a", "b", "c"]))
    table = {"id": ["a", "b", "c"], "age": ["31", marker, "4.5"]}
    ((name, kind, values),) = feature_columns(table, axis)
    assert (name, kind) == ("age", "quantity")
    np.testing.assert_array_equal(values, [31.0, np.nan, 4.5])
