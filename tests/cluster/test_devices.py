"""The device of each worker: a GPU where it has one, and a sentence where one was asked for that is not there."""

import numpy as np
import pytest

from tribit import BinaryMatrixCompletion, Logistic, pn
from tribit.backends.cuda import device
from tribit.cluster import from_observations
from tribit.cluster.parts import PartBackend, Partition
from tribit.errors import InvalidInputError

FIXED = {"rank": 2, "l2": 2.0, "l2_intercept": 1.0, "search": False}
FIXED |= {"random_state": 0, "dtype": "float64"}


def need(*packages):
    device.NEEDED = packages


@pytest.fixture
def workers_without_gpu(client):
    client.run(need, "tribit_of_the_moon")
    yield client
    client.run(need, *device.NEEDED)


def test_a_gpu_that_a_worker_does_not_have_is_refused(workers_without_gpu, seen):
    with pytest.raises(
        InvalidInputError,
        match=r"device='cuda' needs a GPU on every worker, and one has none: tribit_of_the_moon .* use device='auto'",
    ):
        BinaryMatrixCompletion(**FIXED, device="cuda").fit(seen, client=workers_without_gpu)


def test_auto_is_the_processor_of_a_worker_without_a_gpu(workers_without_gpu, seen):
    there = from_observations(seen, workers_without_gpu, n_partitions=2)
    auto, here = (
        BinaryMatrixCompletion(**FIXED, device=name).fit(there) for name in ("auto", "cpu")
    )
    assert auto.objective_ == here.objective_


@pytest.mark.parametrize(("enough", "expected"), [(10, "cuda"), (10_000, "cpu")])
def test_auto_is_a_gpu_for_a_part_that_is_large_enough(monkeypatch, seen, enough, expected):
    asked = []

    def made(entries, link, risk, **options):
        asked.append(options["device"])

    monkeypatch.setattr(device, "missing", lambda: None)
    monkeypatch.setattr(device, "MIN_ENTRIES", enough)
    monkeypatch.setattr("tribit.cluster.parts.make_backend", made)
    part = Partition(seen, np.arange(seen.shape[0]), seen.shape[0])
    held = PartBackend(part, Logistic(), pn(), "float64", "auto")
    assert asked == [expected] == [held.device]
    # Where it is made again, on another worker, that one looks for its own.
    assert held.__reduce__()[1][-1] == "auto"
