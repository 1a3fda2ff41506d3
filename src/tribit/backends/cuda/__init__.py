"""Backends of a GPU, through PyTorch and Triton (``pip install "tribit[gpu]"``).

The classes here are what the registry names: nothing of PyTorch is imported before one of them is built. The arithmetic
is in :mod:`tribit.backends.cuda.sums`.
"""

from __future__ import annotations

from typing import Any

from tribit.backends.base import Backend
from tribit.backends.cuda.device import require

__all__ = ["CudaSparse", "CudaTiles"]


class CudaSparse(Backend):
    """Sums over the observed entries alone, on a GPU; see :class:`~tribit.backends.cuda.sums.CudaSparseBackend`."""

    device, takes_all = "cuda", False
    weighs_labels = True

    @classmethod
    def build(cls, *arguments: Any, **options: Any) -> Any:
        """Return the backend on the GPU, or say why there is none."""
        require()
        from tribit.backends.cuda.sums import CudaSparseBackend  # noqa: PLC0415

        return CudaSparseBackend.build(*arguments, **options)


class CudaTiles(Backend):
    """Sums over all entries, on a GPU; see :class:`~tribit.backends.cuda.sums.CudaTileBackend`."""

    device, takes_all = "cuda", True
    weighs_labels = True

    @classmethod
    def build(cls, *arguments: Any, **options: Any) -> Any:
        """Return the backend on the GPU, or say why there is none."""
        require()
        from tribit.backends.cuda.sums import CudaTileBackend  # noqa: PLC0415

        return CudaTileBackend.build(*arguments, **options)
