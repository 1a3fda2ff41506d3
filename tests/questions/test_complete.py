"""The completed table: equal to predictions pair by pair, with the observed labels in their places."""

import gzip
import json
import re
import tracemalloc
import warnings
from copy import copy

import numpy as np
import pandas as pd
import pyarrow.parquet as parquet
import pytest

from tribit import (
    BinaryMatrixCompletion,
    InvalidInputError,
    Observations,
    Recommender,
    TribitWarning,
    UnknownIdWarning,
)
from tribit.data.reading import Reading
from tribit.model import completed
from tribit.questions import complete

ROWS, COLUMNS = [f"u{n}" for n in range(14)], [f"i{n}" for n in range(9)]
NAMES = {"row": "user", "column": "film", "value": "stars"}


def drawn(shape=(14, 9)):
    rng = np.random.default_rng(0)
    return np.where(rng.random(shape) < 0.5, rng.choice([-1, 1], shape), 0)


def fit(labels, rows=ROWS, columns=COLUMNS, **features):
    i, j = np.nonzero(labels)
    model = BinaryMatrixCompletion(rank=1, l2=1.0, search=False, n_jobs=1)
    entries = Observations(i, j, labels[i, j], labels.shape, rows, columns)
    found = Recommender(model, random_state=0).fit(entries, **features)
    found.reading_ = Reading(**NAMES)
    return found


@pytest.fixture(scope="module")
def labels():
    return drawn()


@pytest.fixture(scope="module")
def recommender(labels):
    return fit(labels)


@pytest.fixture(scope="module")
def bare():
    """A recommender with a row and a column without entries."""
    labels = drawn()
    labels[3] = labels[:, 5] = 0
    return fit(labels), labels


def cell_by_cell(recommender, labels, what, *, keep, threshold=0.5):
    """The table by one prediction at a time."""
    model, found = recommender.model_, np.empty(labels.shape)
    of = model.decision_function if what == "score" else model.predict_proba
    for (i, j), label in np.ndenumerate(labels):
        found[i, j] = of(ROWS[i], COLUMNS[j])[0]
        if what == "sign":
            found[i, j] = 1 if found[i, j] >= threshold else -1
        if keep and label:
            found[i, j] = max(label, 0) if what == "probability" else label
    return found


CASES = [
    ({}, "probability", True, 0.5),
    ({"observed": "predict"}, "probability", False, 0.5),
    ({"what": "sign"}, "sign", True, 0.5),
    ({"what": "sign", "threshold": 0.6, "observed": "predict"}, "sign", False, 0.6),
    ({"what": "score", "observed": "predict"}, "score", False, 0.5),
]


@pytest.mark.parametrize(("options", "what", "keep", "threshold"), CASES)
def test_cells_are_predictions_and_observed_labels(
    recommender, labels, options, what, keep, threshold
):
    expected = cell_by_cell(recommender, labels, what, keep=keep, threshold=threshold)
    found = recommender.complete(**options)
    np.testing.assert_allclose(found.to_array(), expected, rtol=1e-12)
    frame = found.to_frame()
    assert (frame.index.tolist(), frame.columns.tolist()) == (ROWS, COLUMNS)
    assert (frame.index.name, frame.columns.name) == ("user", "film")
    np.testing.assert_allclose(frame.to_numpy(), expected, rtol=1e-12)
    long = recommender.complete(**options, long=True).to_frame()
    assert list(long) == ["user", "film", what, "basis"]
    turned = long.pivot(index="user", columns="film", values=what).loc[ROWS, COLUMNS]
    np.testing.assert_allclose(turned, expected, rtol=1e-12)
    kept = long.set_index(["user", "film"]).basis.unstack().loc[ROWS, COLUMNS] == "observed"
    np.testing.assert_array_equal(kept, keep & (labels != 0))
    model = recommender.model_
    if threshold == 0.5:
        dense = model.complete(what, seen=recommender.seen_ if keep else None)
        np.testing.assert_allclose(dense, expected, rtol=1e-12)


def test_some_rows_and_columns_in_the_order_given(recommender):
    whole = recommender.complete().to_frame()
    some = recommender.complete(rows=["u5", "u0", "u5"], columns=["i7", "i1"])
    pd.testing.assert_frame_equal(some.to_frame(), whole.loc[["u5", "u0", "u5"], ["i7", "i1"]])
    assert some.facts()["cells"] == "3 x 2"
    one = recommender.complete(rows="u5", columns="i7", long=True).to_dict()
    assert [list(each)[:2] for each in one] == [["user", "film"]]
    assert one[0]["probability"] == whole.loc["u5", "i7"]


def test_a_frame_in_a_frame_out():
    values = drawn()
    frame = pd.DataFrame(np.where(values, values > 0, np.nan), ROWS, COLUMNS)
    model = BinaryMatrixCompletion(rank=1, search=False, n_jobs=1)
    found = Recommender(model, random_state=0).fit(frame).complete().to_frame()
    pd.testing.assert_frame_equal(found.where(values != 0), frame, check_names=False)
    assert found.notna().all(axis=None)


def test_without_ids_positions_are_the_headings():
    found = fit(drawn(), None, None).complete(rows=[3, 1])
    assert list(found.table()) == ["user", *map(str, range(9))]
    assert found.table()["user"].tolist() == [3, 1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rows": ["u1", "zed"], "unknown": "error"}, "row id 'zed'"),
        ({"columns": "zed"}, "film 'zed'"),
        ({"what": "score"}, "observed label has no score: .*what='probability'"),
        ({"threshold": 0.4}, "threshold is for signs: pass what='sign'"),
    ],
)
def test_a_wrong_question_is_refused_in_one_sentence(recommender, options, words):
    with pytest.raises(InvalidInputError, match=words):
        recommender.complete(**options)


def test_unknown_ids_are_left_out_with_a_warning(recommender):
    with pytest.warns(UnknownIdWarning, match="the user 'zed': it is left out"):
        found = recommender.complete(rows=["u1", "zed"], columns=["i2"])
    assert found.to_frame().index.tolist() == ["u1"]


def test_columns_of_one_heading_are_refused(recommender):
    with pytest.raises(InvalidInputError, match=r"Two columns .* 'i1'.*long=True"):
        recommender.complete(columns=["i1", "i1"]).table()
    clash = fit(drawn(), columns=["user", *COLUMNS[1:]])
    with pytest.raises(InvalidInputError, match=r"Two columns .* 'user'"):
        clash.complete().table()
    assert len(clash.complete(long=True).table()["basis"]) == 14 * 9


def test_too_many_cells_are_refused_in_memory(recommender, monkeypatch, tmp_path):
    found = recommender.complete()
    monkeypatch.setattr(completed, "MAX_DENSE_CELLS", 14 * 9 - 1)
    for answer in (found.to_array, found.to_frame, found.table, found.to_dict):
        with pytest.raises(InvalidInputError, match=r"14 x 9 entries, 0\.0 GB: write it to a file"):
            answer()
    found.write(tmp_path / "full.csv")
    assert str(found).startswith("user ")
    assert "<td>u3</td>" in found._repr_html_()


# Rows and columns without entries


def test_what_rests_on_no_entries_is_marked(bare):
    recommender, labels = bare
    with pytest.warns(
        TribitWarning, match=r"1 row and 1 column, such as the user 'u3': their cells"
    ):
        found = recommender.complete()
    empty = np.zeros(labels.shape, dtype=bool)
    empty[3] = empty[:, 5] = True
    np.testing.assert_array_equal(np.isnan(found.to_array()), empty)
    assert found.facts()["without entries"] == "1 of the rows, 1 of the columns (empty)"
    with pytest.warns(TribitWarning, match=r"of 1 column, such as the film 'i5'"):
        long = recommender.complete(rows=["u0"], long=True).to_frame()
    np.testing.assert_array_equal(long.basis == "none", long.probability.isna())
    assert long.film[long.basis == "none"].tolist() == ["i5"]
    with pytest.warns(TribitWarning):
        signs = recommender.complete(what="sign").to_frame()
    assert signs.isna().to_numpy().sum() == empty.sum()
    with pytest.raises(InvalidInputError, match=r"1 row and 1 column.*without_entries='mark'"):
        recommender.complete(without_entries="error")


@pytest.mark.parametrize("observed", ["keep", "predict"])
def test_or_predicted_from_the_other_side_with_its_basis(bare, observed):
    recommender, labels = bare
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = recommender.complete(observed=observed, without_entries="popularity", long=True)
    expected = cell_by_cell(recommender, labels, "probability", keep=observed == "keep")
    np.testing.assert_allclose(found.to_array(), expected, rtol=1e-12)
    frame = found.to_frame().set_index(["user", "film"]).basis
    assert frame["u3", "i0"] == "column alone"
    assert frame["u0", "i5"] == "row alone"
    assert frame["u3", "i5"] == "average"


def test_a_row_with_features_and_no_entries_is_predicted():
    labels = drawn((60, 9))
    labels[:, :4] = np.where(labels[:, :4], np.where(np.arange(60) < 30, 1, -1)[:, None], 0)
    labels[[3, 4]] = 0
    rows = [f"u{n}" for n in range(60)]
    features = pd.DataFrame({"old": [float(n < 30) for n in range(60)]}, index=rows)
    features.loc["u4"] = np.nan
    recommender = fit(labels, rows, row_features=features)
    with pytest.warns(TribitWarning, match="1 row, such as the user 'u4'"):
        found = recommender.complete().to_frame()
    assert found.loc["u4"].isna().all()
    expected = recommender.predict_proba(["u3"] * 9, COLUMNS)
    np.testing.assert_allclose(found.loc["u3"], expected, rtol=1e-12)


def test_new_rows_keep_their_entries(recommender):
    new = Observations([0, 0], [1, 4], [1, -1], (1, 9), ["zoe"], COLUMNS)
    found = recommender.fold_in(new).complete(rows=["zoe"]).to_frame().loc["zoe"]
    assert (found["i1"], found["i4"]) == (1, 0)
    assert found.between(0, 1, inclusive="neither").sum() == 7


# Likes alone


def test_signs_of_likes_alone_need_a_threshold():
    model = BinaryMatrixCompletion(n_jobs=1, n_candidates=3)
    likes = Observations.from_matrix(np.abs(drawn()), zeros="unobserved")
    recommender = Recommender(model, random_state=0).fit(likes)
    with pytest.raises(InvalidInputError, match=r"probability of .*: pass threshold, or what="):
        recommender.complete(what="sign")
    found = recommender.complete(what="sign", threshold=0.3, observed="predict").to_array()
    likely = recommender.complete(observed="predict").to_array()
    np.testing.assert_array_equal(found == 1, likely >= 0.3)


def test_other_answers_name_the_same_basis(bare):
    recommender, _ = bare
    pairs = ["u0", "u3", "u0", "u3"], ["i0", "i0", "i5", "i5"]
    found = recommender.predictions(pairs)
    assert found.basis.tolist() == ["model", "column alone", "row alone", "average"]
    np.testing.assert_array_equal(found.probabilities, recommender.predict_proba(*pairs))
    explained = [recommender.explain(*pair).basis for pair in zip(*pairs, strict=True)]
    assert explained == found.basis.tolist()
    for options in ({}, {"level": None}, {"ranker": False}):
        lists = recommender.recommend(["u0", "u3"], 2, **options)
        assert lists.basis.tolist() == ["model", "popularity"]


# Files


READERS = {
    "full.csv": pd.read_csv,
    "full.tsv": lambda path: pd.read_csv(path, sep="\t"),
    "full.csv.gz": pd.read_csv,
    "full.jsonl": lambda path: pd.read_json(path, lines=True),
    "full.parquet": pd.read_parquet,
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("long", [False, True])
def test_a_file_in_blocks_has_the_whole_table(bare, tmp_path, monkeypatch, name, long):
    recommender, _ = bare
    with pytest.warns(TribitWarning):
        found = recommender.complete(long=long)
    monkeypatch.setattr(complete, "WIDE_BLOCK_CELLS", 3 * 9)
    monkeypatch.setattr(complete, "LONG_BLOCK_CELLS", 4 * 9 + 1)
    assert len(list(found.blocks())) == (4 if long else 5)
    found.write(tmp_path / name)
    read = READERS[name](tmp_path / name)
    expected = pd.DataFrame(found.table())
    pd.testing.assert_frame_equal(read, expected, check_dtype=False, rtol=1e-9)
    if not name.endswith("jsonl"):
        number = expected.columns[-1] if not long else "probability"
        np.testing.assert_array_equal(read[number], expected[number])  # to the bit


def test_a_completed_file_is_read_back_as_a_table(recommender, labels, tmp_path):
    recommender.complete(what="sign").write(tmp_path / "full.csv")
    read = Reading(layout="wide").records(tmp_path / "full.csv").observations()
    found = read.to_sparse().toarray()
    expected = cell_by_cell(recommender, labels, "sign", keep=True)
    np.testing.assert_array_equal(found, expected)
    assert (read.row_ids.tolist(), read.column_ids.tolist()) == (ROWS, COLUMNS)


@pytest.mark.parametrize("name", ["full.csv", "full.parquet"])
@pytest.mark.parametrize("long", [False, True])
def test_memory_does_not_grow_with_the_table(tmp_path, monkeypatch, name, long):
    labels = np.zeros((1000, 300), dtype=int)
    labels[np.arange(1000), np.arange(1000) % 300] = np.where(np.arange(1000) % 3, 1, -1)
    recommender = fit(labels, None, None)
    monkeypatch.setattr(complete, "WIDE_BLOCK_CELLS", 3000)
    monkeypatch.setattr(complete, "LONG_BLOCK_CELLS", 3000)
    monkeypatch.setattr("tribit.data.parquet.ROW_GROUP_BYTES", 30 * 300 * 8)
    found = recommender.complete(long=long)
    found.write(tmp_path / name)  # imports
    tracemalloc.start()
    found.write(tmp_path / name)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1000 * 300 * 8  # the numbers alone
    if name.endswith("parquet"):
        n_groups = parquet.ParquetFile(tmp_path / name).metadata.num_row_groups
        assert 20 <= n_groups <= 100
        read = parquet.read_table(tmp_path / name).column("7" if not long else "probability")
        expected = found.to_array()
        np.testing.assert_array_equal(read, expected[:, 7] if not long else expected.ravel())


def test_a_failure_leaves_the_file_as_it_was(recommender, tmp_path, monkeypatch):
    path = tmp_path / "full.csv"
    path.write_text("before")
    monkeypatch.setattr(complete, "WIDE_BLOCK_CELLS", 9)
    found = recommender.complete()
    block = type(found.cells).block

    def fail(self, rows, columns):
        if 7 in rows:
            raise KeyboardInterrupt
        return block(self, rows, columns)

    monkeypatch.setattr(type(found.cells), "block", fail)
    with pytest.raises(KeyboardInterrupt):
        found.write(path)
    assert [each.read_text() for each in tmp_path.iterdir()] == ["before"]


def test_a_parquet_file_of_too_many_column_chunks_is_refused(recommender, tmp_path, monkeypatch):
    monkeypatch.setattr(complete, "MAX_COLUMN_CHUNKS", 8)
    with pytest.raises(InvalidInputError, match=r"9 columns in 1 row groups.*long=True"):
        recommender.complete().write(tmp_path / "full.parquet")
    recommender.complete(long=True).write(tmp_path / "full.parquet")
    recommender.complete().write(tmp_path / "full.csv")


def test_mixed_ids_are_columns_of_a_file(tmp_path):
    recommender = fit(drawn(), columns=["a 1", 2, *COLUMNS[2:]])
    recommender.complete().write(tmp_path / "full.parquet")
    assert parquet.read_schema(tmp_path / "full.parquet").names[:3] == ["user", "a 1", "2"]


# The command


@pytest.fixture
def folder(tmp_path, recommender, bare, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recommender.save("model")
    bare[0].save("bare")
    without = copy(recommender)
    without.keep_seen = False
    without.save("unseen")
    return tmp_path


def test_the_command_writes_the_table(run, folder, recommender):
    code, out, err = run("complete", "model", "-o", "full.csv")
    assert (code, err) == (0, "")
    assert re.search(r"^cells +14 x 9$", out, re.MULTILINE)
    assert re.search(rf"^observed +{recommender.seen_.n_observed}$", out, re.MULTILINE)
    expected = recommender.complete().to_frame()
    read = pd.read_csv("full.csv", index_col="user")
    pd.testing.assert_frame_equal(read, expected, check_names=False)
    command = ["complete", "model", "--what", "sign", "--threshold", "0.6", "--long", "-o"]
    code, *_ = run(*command, "full.csv.gz", "--rows", "u3", "--columns", "i2", "--columns", "i0")
    assert code == 0
    lines = gzip.decompress((folder / "full.csv.gz").read_bytes()).decode().splitlines()
    chosen = {"rows": ["u3"], "columns": ["i2", "i0"], "what": "sign", "threshold": 0.6}
    assert lines[0] == "user,film,sign,basis"
    assert [line.split(",")[1:3] for line in lines[1:]] == [
        [record["film"], str(record["sign"])]
        for record in recommender.complete(**chosen, long=True).to_dict()
    ]


def test_the_command_prints_and_streams(run, folder):
    code, out, err = run("complete", "model", "--rows", "u3", "--json")
    assert (code, err) == (0, "")
    assert list(json.loads(out)[0]) == ["user", *COLUMNS]
    code, out, _ = run("complete", "model", "--long")
    assert code == 0
    assert out.splitlines()[-1] == "... 14 x 9 cells"
    assert len(out.splitlines()) == 62


def test_a_note_names_what_is_left_empty(run, folder):
    code, out, err = run("complete", "bare", "-o", "full.csv")
    assert code == 0
    assert re.search(r"^without entries +1 of the rows, 1 of the columns", out, re.MULTILINE)
    assert re.fullmatch(r"Warning: [^\n]*'u3'[^\n]*--without-entries popularity[^\n]*\n", err)
    read = pd.read_csv("full.csv", index_col="user")
    assert read.loc["u3"].isna().all()
    assert read["i5"].isna().all()
    assert ",,,,,,,,,\n" in (folder / "full.csv").read_text()


def test_a_file_without_entries_needs_them_or_predicts(run, folder, recommender):
    code, out, err = run("complete", "unseen", "-o", "full.csv")
    assert (code, out) == (2, "")
    assert re.fullmatch(r"Error: [^\n]*--data[^\n]*--observed predict[^\n]*--no-seen[^\n]*\n", err)
    code, _, err = run("complete", "unseen", "--observed", "predict", "-o", "full.csv")
    assert code == 0
    assert "predicted too: pass --data" in err
    seen = recommender.seen_
    ids = zip(seen.row_ids[seen.rows], seen.column_ids[seen.columns], seen.labels, strict=True)
    table = pd.DataFrame([*ids, ("zed", "i1", 1)], columns=["user", "film", "stars"])
    table.to_csv("data.csv", index=False)
    code, out, err = run("complete", "unseen", "--data", "data.csv", "-o", "full.csv")
    assert (code, err) == (0, "")
    assert "(1 with unknown ids left out)" in out
    read = pd.read_csv("full.csv", index_col="user")
    expected = recommender.complete().to_frame()
    pd.testing.assert_frame_equal(read, expected, check_names=False)


def test_the_rows_of_a_new_table_are_completed(run, folder):
    (folder / "new.csv").write_text("user,film,stars\nzoe,i1,1\nzoe,i2,-1\n")
    code, _, err = run("complete", "model", "--new", "new.csv", "-o", "full.csv")
    assert (code, err) == (0, "")
    read = pd.read_csv("full.csv", index_col="user")
    assert read.index.tolist() == ["zoe"]
    assert read.loc["zoe", ["i1", "i2"]].tolist() == [1, 0]
