"""The backend that the registry names: compiled where kernels serve, NumPy's elsewhere. Nothing of Numba is imported."""

from __future__ import annotations

from typing import Any

from tribit.backends.base import Backend
from tribit.backends.compiled import kernels_for
from tribit.backends.forms import Form, LogisticForm
from tribit.backends.sparse import SparseBackend
from tribit.data.observations import Observations
from tribit.model.risks import Risk


class CompiledSparse(Backend):
    """Sums over the observed entries alone, by compiled kernels where these serve.

    See :class:`~tribit.backends.compiled.sums.CompiledBackend`; the same sums by NumPy are
    :class:`~tribit.backends.SparseBackend`, which also has the links without a kernel.
    """

    @classmethod
    def takes(cls, risk: Risk) -> bool:
        """Return whether unobserved entries have no weight."""
        return not risk.unobserved

    @classmethod
    def build(
        cls, observations: Observations, form: Form, *weights: Any, **options: Any
    ) -> Backend:
        """Return the backend: compiled for the logistic link and many entries."""
        if type(form) is LogisticForm and kernels_for(observations.n_observed):
            from tribit.backends.compiled.sums import CompiledBackend  # noqa: PLC0415

            return CompiledBackend.build(observations, form, *weights, **options)
        return SparseBackend.build(observations, form, *weights, **options)
