"""What is wrong, where, and what to do, each in a sentence."""

import importlib.util
import re

import numpy as np
import pandas as pd
import pytest

from tribit import BinaryMatrixCompletion, Recommender
from tribit.cluster import from_frame, from_observations
from tribit.errors import InvalidInputError, InvalidTypeError

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
    monkeypatch.setattr("tribit.cluster.calls.PATIENCE", 0.2)
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
    fixed |= {"implicit_features": False, "calibration": None, "n_fits": 1}
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
    ],
)
def test_tables_that_cannot_be_read(client, change, options, match):
    frame = dd.from_pandas(FRAME.assign(**change), npartitions=2, sort=False)
    with pytest.raises(InvalidInputError, match=match):
        from_frame(frame, client, **options)


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
