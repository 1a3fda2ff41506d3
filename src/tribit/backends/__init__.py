"""Kernels: exact sums over all d1 x d2 entries of ``X = P Q'``, which are never stored.

A kernel knows one risk on one set of observations. ``P`` and ``Q`` are factors with any intercepts already
appended as columns. :func:`make_kernel` picks tiles when unobserved entries count and a sparse pass when
they do not; both give the same numbers as the plain dense formula.
"""

from __future__ import annotations

from tribit.backends.base import Kernel, Panel
from tribit.backends.forms import make_form
from tribit.backends.sparse import SparseKernel
from tribit.backends.tiles import TileKernel
from tribit.data.observations import Observations
from tribit.model.links import Link
from tribit.model.risks import Risk

KERNELS: dict[str, type[Kernel]] = {"tiles": TileKernel, "sparse": SparseKernel}

__all__ = ["KERNELS", "Kernel", "Panel", "SparseKernel", "TileKernel", "make_kernel"]


def make_kernel(
    observations: Observations, link: Link, risk: Risk, *, dtype: str, n_jobs: int
) -> Kernel:
    """Return the kernel for a risk: tiles over every entry, or the observed entries alone."""
    form = make_form(link, risk)
    if risk.imputed is not None:
        risk.imputed.check_shape(observations.shape)
    plus, minus = risk.observed_weights(
        observations.labels, observations.rows, observations.columns
    )
    if not risk.unobserved:
        return SparseKernel.build(observations, form, plus, minus, dtype=dtype, n_jobs=n_jobs)
    kernel = TileKernel.build(observations, form, plus, minus, dtype=dtype, n_jobs=n_jobs)
    return kernel if risk.imputed is None else kernel.impute(risk.imputed)
