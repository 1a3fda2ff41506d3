"""Whole fits on a cluster against those of one machine, and from tables that only workers read."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from tribit import BinaryMatrixCompletion, Observations, Recommender
from tribit.cli import main
from tribit.cluster import from_observations, from_parquet
from tribit.errors import TribitWarning
from tribit.randomness import hashed_fold_numbers
from tribit.selection import folds

dd = pytest.importorskip("dask.dataframe")

PLAIN = {"rank": 3, "l2": 1.0, "l2_intercept": 0.5, "search": False, "random_state": 0}
MODELS = {
    "PN": PLAIN | {"gammas": (1, 0, 0)},
    "mixture": PLAIN | {"gammas": (0.5, 0.3, 0.2), "radius": 2.0},
    "rho = 0": PLAIN | {"gammas": (0, 1, 0), "rho": 0.0, "l2": 3.0},
    "implicit features": PLAIN
    | {"gammas": (1, 0, 0), "implicit_features": True, "l2_implicit": 4.0}
    | {"activity_floor": (1.0, 1.0), "l2": 3.0, "max_iter": 100, "tol": 5e-3},
}


@pytest.mark.parametrize("name", MODELS)
def test_the_same_answer_as_one_machine(client, seen, name):
    ours = BinaryMatrixCompletion(**MODELS[name]).fit(seen)
    there = from_observations(seen, client, n_partitions=3)
    theirs = BinaryMatrixCompletion(**MODELS[name]).fit(there)
    assert theirs.objective_ == pytest.approx(ours.objective_, rel=1e-5)
    assert theirs.converged_
    assert theirs.converged_ == ours.converged_


@pytest.mark.parametrize("shared", [True, False], ids=["parts of the factors", "maps alone"])
def test_side_features_answer_as_on_one_machine(client, seen, shared):
    draws = np.random.default_rng(1)
    side = {"row_features": draws.normal(size=(160, 3))}
    if shared:
        side["column_features"] = draws.integers(0, 2, size=(60, 4))
    given = MODELS["PN"] | {"side_features": shared, "l2_side": 2.0, "tol": 1e-2, "rank": 2}
    given |= {"dtype": "float64"}
    ours = BinaryMatrixCompletion(**given).fit(seen, **side)
    theirs = BinaryMatrixCompletion(**given).fit(seen, **side, client=client)
    assert theirs.objective_ == pytest.approx(ours.objective_, rel=1e-5)
    # Row 7 and column 3 have no entries: maps from features to factors answer for them.
    assert theirs.fitted_.members[0].maps[0].cold_start is not None
    for row, column in ((7, 5), (9, 3), (7, 3), (4, 8)):
        found, expected = (each.predict_proba([row], [column]) for each in (theirs, ours))
        assert found == pytest.approx(expected, abs=1e-3)
    new = {"row_features": draws.normal(size=(1, 3))}
    found, expected = (each.fold_in(**new).predict_proba([160], [5]) for each in (theirs, ours))
    assert found == pytest.approx(expected, abs=1e-3)


def test_maps_of_many_entries_are_left_out_and_said_to_be(monkeypatch, client, seen):
    monkeypatch.setattr("tribit.folding.cold_start.MAX_FETCHED_ENTRIES", 100)
    given = MODELS["PN"] | {"side_features": False, "tol": 1e-1}
    with pytest.warns(TribitWarning, match="No map from features to factors was learned"):
        model = BinaryMatrixCompletion(**given).fit(
            seen, row_features=np.ones((160, 1)) * np.arange(160)[:, None], client=client
        )
    assert model.fitted_.members[0].maps[0].cold_start is None


@pytest.mark.slow
def test_the_search_chooses_as_one_machine_does_on_the_same_folds(monkeypatch, client, seen):
    def hashed(marked, n, draws):
        assert marked.size == len(seen)
        return hashed_fold_numbers(seen.rows, seen.columns, n, int(draws.integers(2**32)))

    monkeypatch.setattr(folds, "balanced_fold_numbers", hashed)
    monkeypatch.setattr(folds, "MAX_FOLDS", 1)
    given = {"random_state": 3, "rank": 2, "n_candidates": 9, "implicit_features": False}
    given |= {"gammas": (1, 0, 0), "members": 1, "tol": 1e-3}
    ours = BinaryMatrixCompletion(**given).fit(seen)
    theirs = BinaryMatrixCompletion(**given).fit(seen, client=client)
    assert len(theirs.search_.candidates) == len(ours.search_.candidates) == 9
    assert theirs.spec_.is_close(ours.spec_)
    for a, b in zip(ours.search_.candidates, theirs.search_.candidates, strict=True):
        assert b.score == pytest.approx(a.score, rel=1e-3)
    assert theirs.objective_ == pytest.approx(ours.objective_, rel=1e-5)
    assert theirs.search_.n_held_out == ours.search_.n_held_out


@pytest.fixture(scope="module")
def table(seen):
    """Return the entries as ratings of named rows, in no order."""
    names = np.array([f"user {number}" for number in range(seen.shape[0])], dtype=object)
    frame = pd.DataFrame(
        {"user": names[seen.rows], "item": 7 * seen.columns, "stars": 3 + seen.labels}
    )
    return frame.sample(frac=1.0, random_state=0, ignore_index=True)


def test_a_frame_in_no_order_is_numbered_as_one_machine_does(client, table):
    ours = Observations.from_frame(table, row="user", column="item", value="stars", like_at=3)
    frame = dd.from_pandas(table, npartitions=2, sort=False)
    given = MODELS["PN"] | {"tol": 1e-2}
    one = BinaryMatrixCompletion(**given).fit(ours)
    other = BinaryMatrixCompletion(**given, like_at=3).fit(frame, client=client)
    np.testing.assert_array_equal(other.row_ids_, one.row_ids_)
    np.testing.assert_array_equal(other.column_ids_, one.column_ids_)
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-5)
    found, expected = (each.predict_proba("user 5", 7) for each in (other, one))
    assert found == pytest.approx(expected, abs=1e-4)


def test_a_folder_of_parquet_files_becomes_a_bundle(tmp_path, client, table):
    folder = tmp_path / "stars"
    folder.mkdir()
    # Each row in one file: nothing is to be shuffled.
    for odd, part in table.groupby(table["user"].str[-1].isin(list("13579"))):
        part.to_parquet(folder / f"{odd}.parquet")
    out = tmp_path / "model.tribit"
    options = "--row user --column item --value stars --like-at 3 --gammas 1 0 0 --rank 3 --l2 1 --l2-intercept 0.5 "
    options += "--implicit-features no --members 1 --calibration none --tol 0.01 --quiet"
    address = client.scheduler.address
    with pytest.raises(SystemExit) as ended:
        main(["fit", str(folder), "-o", str(out), "--scheduler", address, *options.split()])
    assert not ended.value.code
    bundle = Recommender.load(out)
    there = from_parquet(folder, client, row="user", column="item", value="stars", like_at=3)
    again = BinaryMatrixCompletion(**MODELS["PN"], tol=0.01).fit(there)
    assert bundle.model_.objective_ == pytest.approx(again.objective_, rel=1e-5)
    assert bundle.seen_ is None
    assert bundle.summary_["likes"] == there.n_likes
    rules = bundle.reading_
    assert (rules.row, rules.column, rules.value) == ("user", "item", "stars")
    assert bundle.recommend("user 5", 3, exclude_seen=False).columns.lengths.tolist() == [3]


@pytest.mark.slow
def test_this_machine_never_holds_the_entries_of_a_folder(tmp_path, client):
    draws = np.random.default_rng(0)
    n_rows, n_columns, n_files, each = 2000, 500, 4, 100_000
    for number in range(n_files):
        cells = draws.choice(n_rows // n_files * n_columns, each, replace=False)
        rows, columns = np.divmod(cells, n_columns)
        rows += number * n_rows // n_files
        labels = np.where(draws.random(each) < 0.6, 1, -1)
        frame = pd.DataFrame({"row": rows, "column": columns, "label": labels})
        frame.to_parquet(tmp_path / f"{number}.parquet")
    names = {"row": "row", "column": "column", "value": "label"}
    given = MODELS["PN"] | {"max_iter": 3, "tol": 0.0}

    def fitted():
        with pytest.warns(ConvergenceWarning):
            return BinaryMatrixCompletion(**given).fit(from_parquet(tmp_path, client, **names))

    fitted()  # what is imported for it stays
    tracemalloc.start()
    try:
        model = fitted()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert model.shape_ == (n_rows, n_columns)
    # One machine would hold 17 bytes for each entry, and sorts them: 6.8 MB and more.
    assert peak < 5e6
