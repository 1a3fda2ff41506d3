"""The backend that the registry names: compiled where kernels serve, NumPy's elsewhere; it imports no Numba."""

from __future__ import annotations

from typing import Any

from tribit.backends.base import Backend
from tribit.backends.compiled import kernels_for
from tribit.backends.losses import LogisticForm
from tribit.backends.sparse import SparseBackend


class CompiledSparse(Backend):
    """Sums over the observed entries alone, by compiled kernels where these serve.

    See :class:`~tribit.backends.compiled.sums.CompiledBackend`; the same sums by NumPy are
    :class:`~tribit.backends.SparseBackend`, which also has the links without a kernel.
    """

    takes_all = False

    @classmethod
    def build(cls, *arguments: Any, **options: Any) -> Any:
        """Return the backend: compiled for the logistic link and many entries."""
        observations, loss, *_ = arguments
        fits = max(observations.shape) < 2**31  # places have 32 bits
        if fits and type(loss) is LogisticForm and kernels_for(observations.n_observed):
            from tribit.backends.compiled.sums import CompiledBackend  # noqa: PLC0415

            return CompiledBackend.build(*arguments, **options)
        return SparseBackend.build(*arguments, **options)
