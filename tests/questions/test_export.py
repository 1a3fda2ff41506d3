"""Vectors whose inner product is the score of the model."""

import numpy as np
import pyarrow.parquet as parquet
import pytest

from tribit import BinaryMatrixCompletion, InvalidInputError, Observations, Recommender

FIXED = {"rank": 3, "l2": 1.0, "l2_intercept": 1.0, "search": False}
SHAPE = (30, 20)


@pytest.fixture(scope="module")
def recommender():
    rng = np.random.default_rng(0)
    rows, columns = np.nonzero(rng.random(SHAPE) < 0.5)
    labels = rng.choice([-1, 1], rows.size, p=[0.4, 0.6])
    ids = [f"r{n}" for n in range(SHAPE[0])], [f"c{n}" for n in range(SHAPE[1])]
    seen = Observations(rows, columns, labels, SHAPE, *ids)
    return Recommender(BinaryMatrixCompletion(**FIXED), random_state=0).fit(seen)


def of_model(X):
    """A recommender of a model of fixed rank."""
    model = BinaryMatrixCompletion(**{**FIXED, "rank": 1}, random_state=0)
    return Recommender(model, ranker=False, random_state=0).fit(X)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_nearest_columns_are_the_list_of_the_model(recommender, tmp_path, dtype):
    path = tmp_path / "factors.npz"
    vectors = recommender.vectors(dtype=dtype)
    vectors.write(path)
    sizes = {"rows": SHAPE[0], "columns": SHAPE[1], "length": FIXED["rank"] + 2}
    assert vectors.facts() == {name: str(size) for name, size in sizes.items()}
    stored = np.load(path, allow_pickle=False)
    assert stored["row_vectors"].dtype == dtype
    products = stored["row_vectors"] @ stored["column_vectors"].T
    order = np.argsort(-products, axis=1, kind="stable")
    expected = recommender.model_.recommend(stored["row_ids"], SHAPE[1])
    np.testing.assert_array_equal(stored["column_ids"][order], expected.columns)
    x = recommender.model_.complete("score")
    np.testing.assert_allclose(products, x, rtol=0, atol=1e-5 if dtype == "float32" else 1e-6)


def test_intercepts_are_in_the_vectors(recommender, tmp_path):
    # Factors alone rank otherwise, so that the test above cannot pass without intercepts.
    model = recommender.model_
    alone = np.argsort(-(model.row_factors_ @ model.column_factors_.T), axis=1, kind="stable")
    whole = np.argsort(-model.complete("score"), axis=1, kind="stable")
    assert (alone != whole).any()


def test_parquet_has_a_record_for_each_vector(recommender, tmp_path):
    path = tmp_path / "factors.parquet"
    recommender.vectors(dtype="float64").write(path)
    table = parquet.read_table(path).to_pydict()
    assert table["side"] == ["row"] * SHAPE[0] + ["column"] * SHAPE[1]
    assert table["id"][:2] == ["r0", "r1"]
    assert table["id"][SHAPE[0]] == "c0"
    vectors = np.array(table["vector"])
    products = vectors[: SHAPE[0]] @ vectors[SHAPE[0] :].T
    np.testing.assert_allclose(products, recommender.model_.complete("score"), atol=1e-6)


def test_one_side_alone(recommender, tmp_path):
    path = tmp_path / "columns.npz"
    vectors = recommender.vectors(rows=False)
    vectors.write(path)
    assert (vectors.facts()["rows"], vectors.facts()["columns"]) == ("0", str(SHAPE[1]))
    assert set(np.load(path)) == {"column_ids", "column_vectors"}


def test_a_model_without_ids_has_positions(tmp_path):
    A = np.array([[1, -1, 0], [0, 1, -1], [1, 0, 1]])
    of_model(A).vectors().write(tmp_path / "f.npz")
    np.testing.assert_array_equal(np.load(tmp_path / "f.npz")["column_ids"], [0, 1, 2])


def test_ids_of_several_kinds_need_no_pickle(tmp_path):
    rows, columns = np.array([0, 0, 1]), np.array([0, 1, 1])
    seen = Observations(rows, columns, [1, -1, 1], (2, 2), ["a", 7], [2.5, "y"])
    of_model(seen).vectors().write(tmp_path / "f.npz")
    stored = np.load(tmp_path / "f.npz", allow_pickle=False)
    assert stored["row_ids"].tolist() == ["a", "7"]
    assert stored["column_ids"].tolist() == ["2.5", "y"]


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("f.csv", {}, "end it in .npz or .parquet"),
        ("f.npz", {"rows": False, "columns": False}, "nothing to export"),
        ("f.npz", {"dtype": "int8"}, "dtype must be one of"),
        ("none/f.npz", {}, "directory does not exist"),
    ],
)
def test_bad_input_is_one_sentence(recommender, tmp_path, name, options, words):
    with pytest.raises(InvalidInputError, match=words):
        recommender.vectors(**options).write(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_the_command(recommender, tmp_path, run):
    recommender.save(tmp_path / "model.tribit")
    code, out, err = run("export", tmp_path / "model.tribit", "-o", tmp_path / "f.npz", "--no-rows")
    assert (code, err) == (0, "")
    assert "columns  20" in out
    assert set(np.load(tmp_path / "f.npz")) == {"column_ids", "column_vectors"}
    code, _, err = run("export", tmp_path / "model.tribit", "-o", tmp_path / "model.tribit")
    assert code == 2
    assert "is the file that is read" in err
