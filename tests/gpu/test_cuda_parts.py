"""What a worker of a cluster does with its rows, on a GPU beside a CPU."""

import pickle

import numpy as np
import pytest

from tribit import BinaryMatrixCompletion, Logistic, Observations
from tribit.backends import make_backend
from tribit.backends.balls import RowProblem
from tribit.backends.cuda import device
from tribit.backends.rows import RowState
from tribit.cluster import parts
from tribit.model.risks import pn, tri

RNG = np.random.default_rng(0)
SEEN = Observations.from_matrix(RNG.choice([-1, 0, 0, 1], (40, 30)))
PART = parts.Partition(SEEN, np.arange(40), 40)
P, Q = (0.5 * RNG.standard_normal((n, 5)) for n in SEEN.shape)
PROBLEM = RowProblem(3, True, 0.5, 1.5, norm=1.2, bound=0.8)
RISKS = {"PN": pn(), "TRI": tri(0.5, 0.3, 0.2, 0.7)}


def close(found, expected):
    for a, b in zip(found, expected, strict=True):
        assert isinstance(a, np.ndarray | float)
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", RISKS)
def test_a_part_on_a_gpu_does_as_on_a_cpu(name):
    there, here = (
        parts.PartBackend(PART, Logistic(), RISKS[name], "float64", where)
        for where in ("cuda", "cpu")
    )
    there = pickle.loads(pickle.dumps(there))  # as it goes to another worker
    assert there.backend.device == "cuda"
    assert parts.value(there, P, Q) == pytest.approx(parts.value(here, P, Q))
    assert parts.largest(there, P, Q) == pytest.approx(parts.largest(here, P, Q))
    (value, in_P), in_Q = parts.gradient(there, P, Q, value=True)
    (expected, by_P), by_Q = parts.gradient(here, P, Q, value=True)
    close((value, in_P, in_Q), (expected, by_P, by_Q))
    options = {"tightness": 0.0, "value": True}
    moved, after = parts.half_sweep(there, P, RowState(40).multipliers, PROBLEM, Q, **options)
    expected, left = parts.half_sweep(here, P, RowState(40).multipliers, PROBLEM, Q, **options)
    close((moved.P, moved.gain, after.multipliers), (expected.P, expected.gain, left.multipliers))
    for columns in ((0, 30), (8, 24)):
        block = Q[slice(*columns)]
        options = {"columns": columns, "free": 4, "exact": True, "value": True}
        close(
            parts.column_models(there, P, block, **options),
            parts.column_models(here, P, block, **options),
        )
        close(
            [parts.column_values(there, P, block, columns=columns)],
            [parts.column_values(here, P, block, columns=columns)],
        )


def put(place):
    device.PLACE = place


MODELS = {
    "PN": {"gammas": (1, 0, 0)},
    "implicit features": {"gammas": (1, 0, 0), "implicit_features": True, "l2_implicit": 4.0},
    "mixture": {"gammas": (0.5, 0.3, 0.2), "rho": 0.8, "radius": 2.0},
    "likes alone": {"gammas": (0, 1, 0), "rho": 0.0},
    "a model of the mask": {"gammas": (0.5, 0.3, 0.2), "rho": "row-column", "radius": 2.0},
    "weights": {"gammas": (1, 0, 0), "inverse_power": 0.5, "rho": "row-column"},
    "side features": {"gammas": (1, 0, 0), "side_features": True, "l2_side": 2.0},
}


@pytest.fixture(scope="module")
def workers():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        client.run(put, device.PLACE)
        yield client


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_on_workers_with_a_gpu_is_that_of_one_machine(workers, name):
    fixed = {"rank": 2, "l2": 2.0, "l2_intercept": 1.0, "tol": 1e-6, "search": False}
    fixed |= {"activity_floor": (1.0, 1.0), "random_state": 0}
    fixed |= {"dtype": "float64", "max_iter": 2000} | MODELS[name]
    side = {}
    if name == "side features":
        side["row_features"] = np.random.default_rng(1).normal(size=(SEEN.shape[0], 3))
    here = BinaryMatrixCompletion(**fixed, n_jobs=1).fit(SEEN, **side)
    there = BinaryMatrixCompletion(**fixed, device="cuda").fit(SEEN, **side, client=workers)
    assert there.objective_ == pytest.approx(here.objective_, rel=1e-5)


def test_a_table_of_as_many_entries_as_labels():
    """Two weights are those of two entries there, and not those of a dislike and of a like."""
    seen = Observations.from_pairs([0, 1], [0, 1], [1, -1], shape=(2, 2))
    p, q = RNG.standard_normal((2, 2, 3))
    there, here = (
        make_backend(seen, Logistic(), pn(), dtype="float64", n_jobs=1, device=where)
        for where in ("cuda", "cpu")
    )
    close(there.gradient(p, q), here.gradient(p, q))
