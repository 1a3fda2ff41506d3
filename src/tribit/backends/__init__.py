"""Backends: exact sums over all d1 x d2 entries of ``X = P Q'``, which are never stored.

A backend knows one risk on one set of observations. ``P`` and ``Q`` are factors with any intercepts already
appended as columns. :func:`make_backend` picks the first of ``BACKENDS`` on the device asked for that takes the risk:
tiles where unobserved entries count and the observed entries alone where they do not. All give the same numbers as the
plain dense formula, up to rounding. Those of a GPU are in :mod:`tribit.backends.cuda`.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tribit.backends.base import Backend, Panel
from tribit.backends.cuda import CudaSparse, CudaTiles
from tribit.backends.forms import make_form
from tribit.backends.layout import shared
from tribit.backends.sparse import SparseBackend
from tribit.backends.tiles import TileBackend
from tribit.checks import check_choice
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.model.links import Link
from tribit.model.risks import Risk

#: Every backend, by name; the first one of a device that takes a risk is used.
BACKENDS: dict[str, type[Backend]] = {
    "tiles": TileBackend,
    "sparse": SparseBackend,
    # What these build is another class: they are here to be named.
    "cuda-tiles": CudaTiles,  # type: ignore[type-abstract]
    "cuda-sparse": CudaSparse,  # type: ignore[type-abstract]
}

__all__ = ["BACKENDS", "Backend", "Panel", "SparseBackend", "TileBackend", "make_backend"]


def make_backend(
    observations: Observations,
    link: Link,
    risk: Risk,
    *,
    dtype: str,
    n_jobs: int,
    device: str = "cpu",
) -> Backend:
    """Return the backend for a risk on a device."""
    check_choice("device", device, dict.fromkeys(kind.device for kind in BACKENDS.values()))
    here = (kind for kind in BACKENDS.values() if kind.device == device and kind.takes(risk))
    kind = next(here, None)
    if kind is None:
        raise InvalidInputError(
            f"No backend on device {device!r} takes this risk; use device='cpu'."
        )
    if risk.imputed is not None:
        risk.imputed.check_shape(observations.shape)
    plus, minus = _observed_weights(observations, risk)
    form = make_form(link, risk)
    backend = kind.build(observations, form, plus, minus, dtype=dtype, n_jobs=n_jobs)
    return backend if risk.imputed is None else backend.impute(risk.imputed)


def _observed_weights(observations: Observations, risk: Risk) -> tuple[Any, Any]:
    """Return the weights of the observed entries; those of the last risk are kept where observations are shared.

    Along a path of penalties every candidate has the same.
    """
    last: dict[str, Any] = shared(observations, "weights", dict)
    parts = tuple(getattr(risk, each.name) for each in fields(risk))
    known = last.get("parts")
    # A model of the mask is the same if it is the same object: others may be large to compare.
    if known is None or not all(
        old is new or (isinstance(old, float) and old == new)
        for old, new in zip(known, parts, strict=True)
    ):
        last["parts"] = parts
        last["weights"] = risk.observed_weights(
            observations.labels, observations.rows, observations.columns
        )
    return last["weights"]  # type: ignore[no-any-return]
