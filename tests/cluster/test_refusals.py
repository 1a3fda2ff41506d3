"""What is wrong, where, and what to do, each in a sentence."""

import importlib.util
import re
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from tribit import BinaryMatrixCompletion, Observations, Recommender
from tribit.cluster import connect, from_frame, from_observations, from_parquet
from tribit.cluster.calls import Cluster
from tribit.errors import InvalidInputError, InvalidTypeError, TribitError

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
FRAME = pd.DataFrame({"user": list("aabbc"), "item": [1, 2, 1, 3, 3], "label": [1, -1, 1, 1, -1]})


def test_without_dask_the_extra_is_named(monkeypatch, seen):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(InvalidInputError, match=re.escape('pip install "tribit[dask]".')):
        BinaryMatrixCompletion().fit(seen, client="tcp://10.0.0.1:8786")


def test_a_client_is_a_client(seen):
    with pytest.raises(
        InvalidTypeError, match=r"client is of type str; pass a distributed\.Client"
    ):
        BinaryMatrixCompletion().fit(seen, client="tcp://10.0.0.1:8786")


def test_a_cluster_without_workers_is_waited_for_and_refused(monkeypatch, seen):
    monkeypatch.setattr("tribit.cluster.calls.FIRST_WORKER_SECONDS", 0.2)
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as empty,
        distributed.Client(empty) as client,
        pytest.raises(InvalidInputError, match="has no worker; start one with dask worker"),
    ):
        BinaryMatrixCompletion().fit(seen, client=client)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"backend": "sampled"}, "leave out backend='sampled', or fit on one machine"),
        ({"radius": None, "alpha": 1.0}, "alpha without a ball that implies it"),
    ],
)
def test_parameters_that_need_all_entries_at_once(client, seen, given, match):
    fixed = {"gammas": (0.5, 0.5, 0.0), "rank": 1, "l2": 1.0, "radius": 1.0, "l2_intercept": 1.0}
    fixed |= {"search": False}
    with pytest.raises(InvalidInputError, match=match):
        BinaryMatrixCompletion(**fixed | given).fit(seen, client=client)


def test_a_ranker_needs_one_machine(client, seen):
    with pytest.raises(InvalidInputError, match="A ranker needs all entries on one machine"):
        Recommender(ranker=True).fit(seen, client=client)


@pytest.mark.parametrize(
    ("change", "options", "match"),
    [
        ({}, {"row": "who", "column": "item"}, "no column 'who', given as row"),
        ({"more": 1}, {}, "name those of row ids and column ids with row and column"),
        ({"user": [None, "a", "b", "b", "c"]}, {}, "the row in column 'user' is missing"),
        ({"label": [1, -1, 5, 1, 1]}, {}, "the value 5 is neither .1 .like. nor -1"),
        ({"item": [1, 1, 1, 3, 3]}, {}, "both give row 'a', column 1; remove one"),
        ({}, {"row": "user", "column": "item", "like_at": 3}, "like_at needs value"),
        ({"label": list("12345")}, {}, "'label', given as value, has the type object"),
        ({}, {"row": "user", "column": "item", "dislike": [2]}, "dislike needs value"),
        (
            {"label": list("yynnm")},
            {"like": "y", "dislike": "o"},
            "of the frame is 'o'; the values are",
        ),
        (
            {"label": [3, 3, 3, 3, 3]},
            {"like_at": 4, "dislike_at": 2},
            "No value in column 'label' of the frame is",
        ),
    ],
)
def test_tables_that_cannot_be_read(client, change, options, match):
    frame = dd.from_pandas(FRAME.assign(**change), npartitions=2, sort=False)
    with pytest.raises((InvalidInputError, InvalidTypeError), match=match):
        from_frame(frame, client, **options)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"label": FRAME.label > 0}, "holds booleans in one partition of the frame and numbers"),
        ({"item": FRAME.item.astype(float)}, "The column ids are float64 in one .* and int64 in"),
        ({"item": FRAME.user}, "The column ids are int64 in one partition .* and text in another"),
        ({"item": FRAME.item.astype("uint8")}, None),
        ({"label": FRAME.label.astype(float)}, None),
    ],
)
def test_partitions_of_unlike_types(client, change, match):
    parts = FRAME[:2], FRAME.assign(**change)[2:]
    frame = dd.from_delayed(
        [dask.delayed(pd.DataFrame.copy)(part) for part in parts], meta=FRAME[:0], verify_meta=False
    )
    if match is None:
        there = from_frame(frame, client)
        expected = Observations.from_frame(FRAME, row="user", column="item", value="label")
        assert repr(there.here()) == repr(expected)
        assert there.column_ids.tolist() == [1, 2, 3]
        return
    with pytest.raises(InvalidTypeError, match=match):
        from_frame(frame, client)


@pytest.mark.parametrize(
    ("values", "rules"),
    [
        (["Yes", "no", "maybe", "yes", "NO"], {"like": "Yes", "dislike": "No"}),
        (["Yes", "no", "maybe", "maybe", "maybe"], {"like": "Yes", "dislike": "No"}),
        (["buy", "see", "see", "buy", "buy"], {"like": "buy"}),
        ([5, 1, 3, 4, 2], {"like": [4, 5], "dislike": [1, 2]}),
        ([5.0, 1.0, 3.0, 4.0, 2.0], {"like_at": 4, "dislike_at": 2}),
    ],
)
def test_rules_for_values_are_those_of_one_machine(client, values, rules):
    table = FRAME.assign(label=values)
    frame = dd.from_pandas(table, npartitions=2, sort=False)
    names = {"row": "user", "column": "item", "value": "label"}
    there, here = (
        from_frame(frame, client, **names, **rules),
        Observations.from_frame(table, **names, **rules),
    )
    assert repr(there.here()) == repr(here)
    assert there.row_ids.tolist() == here.row_ids.tolist()
    assert there.column_ids.tolist() == here.column_ids.tolist()
    assert (there.here().to_sparse() != here.to_sparse()).nnz == 0
    model = BinaryMatrixCompletion(rank=1, search=False, random_state=0)
    assert model.fit(frame, client=client, **names, **rules).counts_["likes"] == here.n_likes


def test_files_that_a_worker_cannot_read(tmp_path, client):
    FRAME.to_parquet(tmp_path / "a.parquet")
    FRAME[:0].to_parquet(tmp_path / "b.parquet")
    assert len(from_parquet(tmp_path, client)) == 5  # one of them has no rows
    (tmp_path / "c.parquet").touch()
    with pytest.raises(InvalidInputError, match=r"A worker could not read .* size is 0 bytes"):
        from_parquet(tmp_path, client)


@pytest.mark.parametrize(
    ("address", "match"),
    [
        ("nonsense", "is not the address of a scheduler; give a host and a port"),
        ("http://10.0.0.1:8786", "is not the address of a scheduler"),
        ("tls://10.0.0.1:8786", "needs certificates, and dask has none"),
    ],
)
def test_addresses_to_which_nobody_connects(address, match):
    with pytest.raises(InvalidInputError, match=match), connect(address):
        pass


def test_a_scheduler_that_is_lost_and_software_that_differs(client):
    def elsewhere():
        raise ModuleNotFoundError("No module named 'tribit_of_the_moon'")

    cluster = Cluster(client)
    with pytest.raises(TribitError, match=r"tribit_of_the_moon'\); install the same"):
        cluster.results(cluster.map(lambda _: elsewhere(), [1]))
    waiting = client.submit(time.sleep, 0.2)
    waiting.cancel()
    with pytest.raises(TribitError, match=r"The connection to the scheduler .* was lost"):
        cluster.results([waiting])


def test_a_task_that_kills_every_worker(monkeypatch, client):
    def killed(*_):
        worker = SimpleNamespace(address="tcp://10.0.0.7:4321")
        raise distributed.KilledWorker("passes-0123", worker, 3)

    cluster = Cluster(client)
    monkeypatch.setattr(cluster, "_wait", killed)
    with pytest.raises(TribitError, match="was killed, most likely for lack of memory") as caught:
        cluster.results([])
    assert str(caught.value).endswith("The last of 4 was tcp://10.0.0.7:4321.")
    assert "n_partitions" in str(caught.value)
    assert "distributed.dask.org" not in str(caught.value)


def test_a_fit_ends_where_no_worker_is_left(monkeypatch, seen):
    monkeypatch.setattr("tribit.cluster.calls.REPLACEMENT_SECONDS", 1.0)
    fixed = {"rank": 1, "l2": 1.0, "l2_intercept": 1.0, "search": False, "tol": 0.0}
    fixed |= {"random_state": 0}
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as one,
        distributed.Client(one, set_as_default=False) as client,
    ):
        there = from_observations(seen, client, n_partitions=1)
        model = BinaryMatrixCompletion(**fixed, callback=lambda _: one.scale(0))
        with pytest.raises(TribitError, match="no worker left and got no replacement within 1 s"):
            model.fit(there)


def test_entries_that_are_asked_for_are_elsewhere(client, seen):
    there = from_observations(seen, client, n_partitions=2)
    assert repr(there) == repr(seen)
    for name in ("rows", "columns", "labels"):
        with pytest.raises(InvalidInputError, match="on the workers of a cluster"):
            getattr(there, name)
    np.testing.assert_array_equal(there.here().rows, seen.rows)
    np.testing.assert_array_equal(there.here().labels, seen.labels)
    with pytest.raises(InvalidInputError, match="n_partitions must be"):
        from_observations(seen, client, n_partitions=0)
