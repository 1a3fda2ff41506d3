"""Features of new rows and columns on the command line: the answers are those of the library."""

import numpy as np
import pytest

from asked import predict_file, recommend_file
from tribit import InvalidInputError, Recommender
from tribit.cli.actions import fit_file

FIXED = {"rank": 2, "l2": 1.0, "l2_intercept": 1.0, "l2_side": 2.0}
FIXED |= {"search": False, "side_features": True}
FIXED |= {"n_jobs": 1, "random_state": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables of ratings and features, what came later, and a model of the first."""
    folder = tmp_path_factory.mktemp("features")
    rng = np.random.default_rng(0)
    seen = [(i, j) for i in range(20) for j in range(12) if rng.random() < 0.5]
    ratings = "".join(f"u{i},i{j},{1 + (i * j + i) % 5}\n" for i, j in seen)
    people = "".join(f"u{i},{20 + i},{'north' if i % 2 else 'south'}\n" for i in range(20))
    films = "".join(f"i{j},{'drama|crime' if j % 2 else 'comedy'}\n" for j in range(12))
    tables = {
        "ratings": f"user,item,stars\n{ratings}",
        "people": f"user,age,town\n{people}",
        "films": f"item,genres\n{films}",
        "new": "user,item,stars\nzoe,i1,5\nzoe,i2,1\n",
        "later": "user,item,stars\nzoe,i1,5\nu3,i50,1\n",
        "newcomers": "user,age,town\nu3,23,north\nzoe,31,north\nyan,25,south\n",
        "shelf": "item,genres\ni1,drama|crime\ni50,comedy\ni51,crime\n",
        "pairs": "user,item\nyan,i1\nu1,i51\nyan,i51\n",
    }
    for name, text in tables.items():
        (folder / f"{name}.csv").write_text(text)
    named = {"row": "user", "column": "item", "value": "stars", "like_at": 4}
    features = {"row_features": folder / "people.csv", "column_features": folder / "films.csv"}
    fit_file(folder / "ratings.csv", **named, **features, **FIXED).save(folder / "model.tribit")
    return folder


def columns(path):
    lines = [line.split(",") for line in path.read_text().splitlines()]
    return {name: np.array(values, dtype=object) for name, *values in zip(*lines, strict=True)}


def test_lists_of_new_rows_are_those_of_fold_in(folder):
    model = Recommender.load(folder / "model.tribit")
    alone = columns(folder / "newcomers.csv")
    alone = {name: values[1:] for name, values in alone.items()}  # without the one that is known
    found = recommend_file(
        folder / "model.tribit", row_features=folder / "newcomers.csv", n=4, level=None
    )
    expected = model.fold_in(row_features=alone).recommend(["zoe", "yan"], 4, level=None)
    table = found.table()
    assert table["user"].tolist() == ["zoe"] * 4 + ["yan"] * 4
    np.testing.assert_array_equal(table["item"], expected.columns.values)
    np.testing.assert_allclose(table["probability"], expected.probabilities.values)
    assert set(table["basis"]) == {"model"}


def test_entries_and_features_of_new_rows_are_told_together(folder):
    options = {"entries": folder / "new.csv", "n": 3, "level": None}
    bare = recommend_file(folder / "model.tribit", **options).table()
    found = recommend_file(
        folder / "model.tribit", row_features=folder / "newcomers.csv", **options
    ).table()
    assert bare["user"].tolist() == ["zoe"] * 3
    assert found["user"].tolist() == ["zoe"] * 3 + ["yan"] * 3
    assert not np.allclose(bare["probability"], found["probability"][:3], atol=1e-4)


def test_predictions_for_new_rows_and_columns(folder):
    features = {
        "row_features": folder / "newcomers.csv",
        "column_features": folder / "shelf.csv",
    }
    pairs = folder / "pairs.csv"
    bare = predict_file(folder / "model.tribit", pairs)
    assert bare.table()["basis"].tolist() == ["column alone", "row alone", "average"]
    found = predict_file(folder / "model.tribit", pairs, **features)
    assert found.table()["basis"].tolist() == ["model"] * 3


def test_an_update_takes_features_of_what_is_new(run, folder, tmp_path):
    features = [
        "--row-features",
        folder / "newcomers.csv",
        "--column-features",
        folder / "shelf.csv",
    ]
    out = tmp_path / "updated.tribit"
    code, _, err = run(
        "update", folder / "model.tribit", folder / "later.csv", "-o", out, *features
    )
    assert code == 0, err
    after = Recommender.load(out)
    assert after.row_ids_[20:].tolist() == ["zoe", "yan"]
    assert after.column_ids_[12:].tolist() == ["i50", "i51"]
    assert after.seen_.n_observed == Recommender.load(folder / "model.tribit").seen_.n_observed + 2


def test_features_are_of_no_use_to_a_model_without(folder, tmp_path):
    named = {"row": "user", "column": "item", "value": "stars", "like_at": 4}
    plain = FIXED | {"side_features": False}
    fit_file(folder / "ratings.csv", **named, **plain).save(tmp_path / "model")
    with pytest.raises(InvalidInputError, match="without row_features"):
        recommend_file(tmp_path / "model", row_features=folder / "newcomers.csv")
