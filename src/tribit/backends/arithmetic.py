"""How the sums of an objective are computed: type, threads, exact or estimated, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tribit.checks import check_choice

__all__ = ["Arithmetic", "check_dtype"]


def check_dtype(dtype: Any) -> str:
    """Return the name of a type of the arithmetic."""
    return check_choice("dtype", dtype, ("float32", "float64"))


@dataclass(frozen=True)
class Arithmetic:
    """How the sums of an objective are computed.

    Parameters
    ----------
    dtype : {"float32", "float64"}, default="float64"
        Type of the arithmetic within a tile; sums over tiles are always float64.
    n_jobs : int or None, default=1
        Threads; None or -1 for every core. The result has the same bits for any number.
    backend : {"exact", "sampled", "auto"}, default="exact"
        Whether sums over all entries visit each or are estimated (:mod:`tribit.backends.sampled`); "auto" estimates
        them where there are too many.
    seed : int, default=0
        Draws the sample of an estimate.
    device : str, default="cpu"
        Device of the arithmetic, one of those that ``BACKENDS`` has.
    """

    dtype: str = "float64"
    n_jobs: int | None = 1
    backend: str = "exact"
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_dtype(self.dtype)
