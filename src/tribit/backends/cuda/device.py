"""The GPU: whether one can be used, when it pays, and errors where there is none.

Nothing here imports PyTorch before a GPU is requested.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from tribit.checks import check_choice
from tribit.errors import InvalidInputError, OutOfMemoryError, parameter
from tribit.model.links import Logistic, Probit

#: What the extra ``gpu`` installs.
NEEDED = ("torch", "triton", "array_api_compat")
#: Words for the parameter ``device``.
DEVICES = ("cpu", "cuda", "auto")
#: Observed entries from which "auto" takes a GPU. One fit with implicit features, k = 16, took 0.3 s on an H200 and
#: 0.9 s on 16 cores with 100,000 drawn entries, 0.4 and 2.4 s with 300,000; PyTorch and kernels take seconds to load.
MIN_ENTRIES = 300_000
#: Cells of lists from which "auto" takes a GPU: fewer are done before the factors are there.
MIN_CELLS = 10**8
#: Where tensors are made. Tests put "cpu" here, to try the same arithmetic where there is no GPU.
PLACE = "cuda"
#: What was loaded, and who may load.
_loaded: set[str] = set()
_loading = threading.Lock()


def missing() -> str | None:
    """Return why no GPU can be used here; None where one can."""
    absent = [name for name in NEEDED if find_spec(name) is None]
    if absent:
        return f'{" and ".join(absent)} cannot be imported (pip install "tribit[gpu]")'
    import torch  # noqa: PLC0415 - half a second, and a gigabyte of libraries

    if PLACE == "cuda" and not torch.cuda.is_available():
        return "PyTorch sees none"
    return None


def require() -> None:
    """Refuse a GPU that is not there."""
    if (reason := missing()) is not None:
        raise InvalidInputError(
            f"{parameter('device', 'cuda')} needs a GPU: {reason}; use {parameter('device', 'cpu')}."
        )


def check_device(device: Any) -> str:
    """Return a word for a device."""
    return check_choice("device", device, DEVICES)


def usable_device(device: Any, n_entries: int, link: Any) -> str:
    """Return "cpu" or "cuda" for a word of the user's, or refuse a GPU that is not there.

    "auto" is a GPU where there is one, the table has ``MIN_ENTRIES`` entries and the link is one that a GPU computes.
    """
    asked = check_device(device)
    if asked == "cuda":
        require()
    if asked != "auto":
        return asked
    worth = n_entries >= MIN_ENTRIES and type(link) in (Logistic, Probit)
    return "cuda" if worth and missing() is None else "cpu"


def algebra_on(device: Any, n_entries: int) -> Any:
    """Return the linear algebra of a ranker on a GPU; None for NumPy's."""
    if usable_device(device, n_entries, Logistic()) == "cpu":
        return None
    from tribit.backends.cuda.regression import DeviceAlgebra  # noqa: PLC0415 - PyTorch

    return DeviceAlgebra()


def lists_on_device(model: Any, n_cells: int) -> bool:
    """Return whether the lists of a model, which weigh so many cells, are made on a GPU, by its ``device``."""
    asked = check_device(getattr(model, "device", "cpu"))
    if asked == "cuda":
        require()
    return asked == "cuda" or (asked == "auto" and n_cells >= MIN_CELLS and missing() is None)


def place() -> Any:
    """Return the device of PyTorch on which tensors are made."""
    import torch  # noqa: PLC0415

    return torch.device(PLACE)


def load_algebra() -> None:
    """Load PyTorch's linear algebra of a GPU, in one thread: two that call it first, at the same time, fail."""
    import torch  # noqa: PLC0415

    with _loading:
        if "algebra" not in _loaded and PLACE == "cuda":
            torch.linalg.cholesky_ex(torch.eye(1, device=place()))
            _loaded.add("algebra")


@contextmanager
def memory_named() -> Iterator[None]:
    """Raise an error with a remedy where the memory of the GPU is exhausted."""
    try:
        yield
    except RuntimeError as error:
        if type(error).__name__ != "OutOfMemoryError":  # no import of PyTorch for a fit on the CPU
            raise
        raise OutOfMemoryError(_used_up()) from None


def _used_up() -> str:
    import torch  # noqa: PLC0415

    torch.cuda.empty_cache()
    free, whole = (each / 2**30 for each in torch.cuda.mem_get_info())
    return (
        f"The memory of the GPU is used up ({whole:.0f} GiB, of which {free:.0f} are free now): end other programs on "
        f"it, pass a smaller {parameter('rank')} or {parameter('dtype', 'float32')}, or use "
        f"{parameter('device', 'cpu')}."
    )
