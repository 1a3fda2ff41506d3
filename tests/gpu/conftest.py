"""Tests of the GPU: skipped where there is none, with the reason.

With ``TRIBIT_DEVICE=cpu`` they try the same arithmetic with PyTorch on the CPU, and with ``TRITON_INTERPRET=1`` beside
it the kernels in Triton's interpreter.
"""

import os

import pytest

from tribit.backends.cuda import device


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/gpu/" in item.path.as_posix():
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    monkeypatch.setattr(device, "PLACE", os.environ.get("TRIBIT_DEVICE", "cuda"))
    if (reason := device.missing()) is not None:
        pytest.skip(f"no GPU: {reason}")
