"""What is said of a GPU where there is none, and which device "auto" takes."""

import sys

import numpy as np
import pytest

from tribit import BinaryMatrixCompletion, Logistic, Observations
from tribit.backends import MAX_EXACT_CELLS, make_backend, uses_estimates
from tribit.backends.cuda import device
from tribit.errors import InvalidInputError, OutOfMemoryError
from tribit.model.risks import pn, pu

A = np.array([[1, 1, 0, -1], [1, 0, -1, -1], [0, -1, 1, 1], [-1, -1, 1, 0]])
FIXED = {"rank": 1, "l2": 0.5, "l2_intercept": 1.0, "implicit_features": False, "random_state": 0}


@pytest.fixture
def no_torch(monkeypatch):
    found = device.find_spec
    monkeypatch.setattr(device, "find_spec", lambda name: None if name == "torch" else found(name))


@pytest.fixture
def a_gpu(monkeypatch):
    monkeypatch.setattr(device, "missing", lambda: None)


@pytest.mark.usefixtures("no_torch")
@pytest.mark.parametrize("risk", [pn(), pu(0.5)])
def test_without_pytorch_a_gpu_is_refused_in_one_sentence(risk):
    told = (
        r"^device='cuda' needs a GPU: torch.* cannot be imported \(pip install \"tribit\[gpu\]\"\); "
        r"use device='cpu'\.$"
    )
    with pytest.raises(InvalidInputError, match=told):
        BinaryMatrixCompletion((1, 0, 0), device="cuda", **FIXED).fit(A)
    seen = Observations.from_matrix(A)
    with pytest.raises(InvalidInputError, match=told):
        make_backend(seen, Logistic(), risk, dtype="float32", n_jobs=1, device="cuda")


@pytest.mark.usefixtures("no_torch")
def test_a_model_that_asks_for_a_gpu_makes_no_lists_without_one():
    model = BinaryMatrixCompletion((1, 0, 0), **FIXED).fit(A)
    model.device = "cuda"
    with pytest.raises(InvalidInputError, match="needs a GPU"):
        model.recommend([0], 2)
    model.device = "auto"
    assert model.recommend([0], 2).lengths.tolist() == [2]


def test_without_a_gpu_pytorch_says_so(monkeypatch):
    class Torch:
        class cuda:  # noqa: N801
            is_available = staticmethod(lambda: False)

    monkeypatch.setattr(device, "find_spec", lambda _: object())
    monkeypatch.setitem(sys.modules, "torch", Torch)
    assert device.missing() == "PyTorch sees none"
    assert device.usable_device("auto", 10**9, Logistic()) == "cpu"


@pytest.mark.usefixtures("a_gpu")
def test_auto_takes_a_gpu_for_large_tables_and_links_that_it_computes():
    assert device.usable_device("auto", device.MIN_ENTRIES, Logistic()) == "cuda"
    assert device.usable_device("auto", device.MIN_ENTRIES - 1, Logistic()) == "cpu"
    assert device.usable_device("auto", device.MIN_ENTRIES, object()) == "cpu"
    assert device.usable_device("cpu", device.MIN_ENTRIES, Logistic()) == "cpu"
    assert device.usable_device("cuda", 1, Logistic()) == "cuda"


@pytest.mark.parametrize("n", [10, 10**5])
def test_a_gpu_visits_every_entry(n):
    seen = Observations.from_pairs([0], [0], [1], shape=(n, n))
    assert not uses_estimates("auto", pu(0.5), seen, "cuda")
    assert uses_estimates("auto", pu(0.5), seen) == (n * n > MAX_EXACT_CELLS)
    with pytest.raises(
        InvalidInputError, match=r"leave out backend='sampled', or use device='cpu'"
    ):
        uses_estimates("sampled", pu(0.5), seen, "cuda")


def test_auto_asks_for_no_gpu_for_a_small_table(monkeypatch):
    def asked():
        raise AssertionError("PyTorch takes half a second to import")

    monkeypatch.setattr(device, "missing", asked)
    model = BinaryMatrixCompletion((1, 0, 0), device="auto", **FIXED).fit(A)
    np.testing.assert_array_equal(
        model.row_factors_, BinaryMatrixCompletion((1, 0, 0), **FIXED).fit(A).row_factors_
    )


def test_a_memory_that_is_used_up_is_one_sentence(monkeypatch):
    used_up = type("OutOfMemoryError", (RuntimeError,), {})  # as PyTorch names its own

    class Torch:
        class cuda:  # noqa: N801
            empty_cache = staticmethod(lambda: None)
            mem_get_info = staticmethod(lambda: (2**30, 80 * 2**30))

    monkeypatch.setitem(sys.modules, "torch", Torch)
    told = (
        r"The memory of the GPU is used up \(80 GiB, of which 1 are free now\): .*device='cpu'\.$"
    )
    with pytest.raises(OutOfMemoryError, match=told) as caught, device.memory_named():
        raise used_up
    assert isinstance(caught.value, MemoryError)
    with pytest.raises(RuntimeError, match="something else"), device.memory_named():
        raise RuntimeError("something else")


def test_the_device_is_no_part_of_a_file(tmp_path):
    from tribit import load

    model = BinaryMatrixCompletion((1, 0, 0), **FIXED).fit(A)
    model.device = "cuda"
    model.save(tmp_path / "model.tribit")
    assert load(tmp_path / "model.tribit").device == "cpu"
