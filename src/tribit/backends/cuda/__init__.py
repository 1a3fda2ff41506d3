"""Backends of a GPU, through PyTorch and Triton (``pip install "tribit[gpu]"``).

The registry names the classes here: nothing of PyTorch is imported before one of them is built. The arithmetic
is in :mod:`tribit.backends.cuda.sums`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

from tribit.backends.base import Backend
from tribit.backends.cuda.device import require

__all__ = ["CudaSparse", "CudaTiles"]


class _OnRequest(Backend):
    """A backend of a GPU by the name of its class, which is imported to be built."""

    device = "cuda"
    weighs_labels = True
    #: Name of the class in :mod:`tribit.backends.cuda.sums`.
    built: ClassVar[str]

    @classmethod
    def build(cls, *arguments: Any, **options: Any) -> Any:
        """Return the backend on the GPU, or say why there is none."""
        require()
        sums = import_module("tribit.backends.cuda.sums")
        return getattr(sums, cls.built).build(*arguments, **options)


class CudaSparse(_OnRequest):
    """Sums over the observed entries alone, on a GPU; see :class:`~tribit.backends.cuda.sums.CudaSparseBackend`."""

    takes_all, built = False, "CudaSparseBackend"


class CudaTiles(_OnRequest):
    """Sums over all entries, on a GPU; see :class:`~tribit.backends.cuda.sums.CudaTileBackend`."""

    takes_all, built = True, "CudaTileBackend"
