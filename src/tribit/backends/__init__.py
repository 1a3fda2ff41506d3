"""Backends: sums over all d1 x d2 entries of ``X = P Q'``, which is never stored.

A backend sums one risk over one set of observations. ``P`` and ``Q`` are the factors, with any intercepts appended as
columns. :func:`make_backend` returns the first of ``BACKENDS`` on the device that supports the risk: tiles where
unobserved entries count, the observed entries alone where they do not. Both equal the plain dense formula up to
rounding. Where every entry counts and there are too many to visit, the sampled backend estimates the sums. The
backends of a GPU are in :mod:`tribit.backends.cuda`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from tribit.backends.base import Backend, Panel
from tribit.backends.layout import make_if_changed
from tribit.backends.losses import make_loss
from tribit.checks import check_choice
from tribit.data.observations import Observations
from tribit.data.remote import RemoteObservations
from tribit.errors import InvalidInputError, parameter
from tribit.model.links import Link
from tribit.model.risks import Risk
from tribit.registries import Entry, LazyRegistry


def check_dtype(dtype: object) -> str:
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
        Seed of the sample of an estimate.
    device : str, default="cpu"
        Device of the arithmetic, one of those in ``BACKENDS``.

    Examples
    --------
    >>> from tribit import Arithmetic
    >>> Arithmetic(dtype="float32", n_jobs=2)
    Arithmetic(dtype='float32', n_jobs=2, backend='exact', seed=0, device='cpu')
    """

    dtype: str = "float64"
    n_jobs: int | None = 1
    backend: str = "exact"
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_dtype(self.dtype)


#: Every backend, by name; the first one of a device that supports a risk is used.
BACKENDS = LazyRegistry(
    {
        name: Entry.of(place, device=device, estimates=estimates, takes_all=takes_all)
        for name, place, device, takes_all, estimates in (
            ("tiles", "tribit.backends.tiles:TileBackend", "cpu", True, False),
            # The build methods of this one and of those of a GPU return another class.
            ("compiled", "tribit.backends.sparse:CompiledSparse", "cpu", False, False),
            ("sparse", "tribit.backends.sparse:SparseBackend", "cpu", False, False),
            ("sampled", "tribit.backends.sampled:SampledBackend", "cpu", True, True),
            ("cuda-tiles", "tribit.backends.cuda:CudaTiles", "cuda", True, False),
            ("cuda-sparse", "tribit.backends.cuda:CudaSparse", "cuda", False, False),
        )
    }
)
#: Methods of sums over all entries.
SUMS = ("auto", "exact", "sampled")
#: Number of cells above which "auto" estimates sums over all cells: a round number, not a measured crossing. A sampled
#: sweep cost as much as an exact one at 3.6 x 10^7 cells and less at 4 x 10^8 (synthetic tables). Exact sums are used
#: well beyond that, as they need no stages and no second sample.
MAX_EXACT_CELLS = 2 * 10**9

#: Most entries whose weights are kept for the next fit: making them takes a fraction of an iteration, and those of 20
#: million entries would take 320 MB beside the backend's own copies.
MAX_KEPT_WEIGHTS = 2**22

__all__ = [
    "BACKENDS",
    "SUMS",
    "Arithmetic",
    "Backend",
    "Panel",
    "check_dtype",
    "make_backend",
    "uses_estimates",
]


def uses_estimates(
    backend: str, risk: Risk, observations: Observations, device: str = "cpu"
) -> bool:
    """Return whether the sums of a risk are estimates from a sample: "auto" decides by the number of cells.

    Where unobserved entries have no weight all sums are exact for any ``backend``, as on a cluster and on a GPU.
    """
    check_choice("backend", backend, SUMS)
    if not risk.unobserved_weight or backend == "exact":
        return False
    if backend == "sampled":
        observations.require_local(
            f"Workers of a cluster visit every entry: leave out {parameter('backend', 'sampled')}, or fit on one "
            "machine, without a client."
        )
    if observations.is_remote:
        return False
    if device != "cpu":
        if backend == "sampled":
            raise InvalidInputError(
                f"A GPU visits every entry: leave out {parameter('backend', 'sampled')}, or use "
                f"{parameter('device', 'cpu')}."
            )
        return False
    if backend == "sampled" and risk.imputed is not None:
        raise InvalidInputError(
            f"A sample cannot stand for all entries where a model imputes each of them: leave out imputed or pass "
            f"{parameter('backend', 'exact')}."
        )
    cells = observations.shape[0] * observations.shape[1]
    return backend == "sampled" or (risk.imputed is None and cells > MAX_EXACT_CELLS)


def make_backend(
    observations: Observations,
    link: Link,
    risk: Risk,
    *,
    dtype: str,
    n_jobs: int,
    device: str = "cpu",
    backend: str = "exact",
    seed: int = 0,
) -> Backend:
    """Return the backend for a risk on a device; entries on other machines have backends of their own.

    Parameters
    ----------
    backend : {"exact", "sampled", "auto"}, default="exact"
        Whether sums over all entries visit each or are estimated from a sample (:func:`estimated`).
    seed : int, default=0
        Seed of the sample.

    Examples
    --------
    >>> from tribit import Logistic, Observations, pn
    >>> from tribit.backends import make_backend
    >>> seen = Observations.from_matrix([[1, 0, -1], [0, -1, 1]])
    >>> type(make_backend(seen, Logistic(), pn(), dtype="float64", n_jobs=1)).__name__
    'SparseBackend'
    """
    sampled = uses_estimates(backend, risk, observations, device)
    if isinstance(observations, RemoteObservations):
        remote: Backend = observations.make_backend(
            link, risk, dtype=dtype, n_jobs=n_jobs, device=device
        )
        return remote
    check_choice(
        "device", device, dict.fromkeys(BACKENDS.attribute(name, "device") for name in BACKENDS)
    )
    here = (
        BACKENDS[name]
        for name in BACKENDS
        if BACKENDS.attribute(name, "device") == device
        and BACKENDS.attribute(name, "estimates") == sampled
        and BACKENDS.may_be(name, "takes_all", bool(risk.unobserved_weight))
    )
    kind = next((kind for kind in here if kind.takes(risk)), None)
    if kind is None:
        raise InvalidInputError(
            f"No backend on device {device!r} takes this risk; use device='cpu'."
        )
    if risk.imputed is not None:
        risk.imputed.check_shape(observations.shape)
    plus, minus = _observed_weights(observations, risk, by_label=kind.weighs_labels)
    loss = make_loss(link, risk)
    made: Backend = kind.build(
        observations, loss, plus, minus, dtype=dtype, n_jobs=n_jobs
    ).with_seed(seed)
    return made if risk.imputed is None else made.impute(risk.imputed)


def _observed_weights(observations: Observations, risk: Risk, *, by_label: bool) -> tuple[Any, Any]:
    """Return the weights of the observed entries: along a path of penalties every candidate has the same.

    For a backend that takes them ``by_label`` those of a dislike and of a like, where nothing else decides.
    """
    made_of = tuple(getattr(risk, each.name) for each in fields(risk))
    # Two entries have as many weights of their own.
    if by_label and risk.by_label and observations.weights is None and observations.n_observed > 2:
        return make_if_changed(observations, "label weights", made_of, risk.label_weights)

    def weights() -> tuple[Any, Any]:
        return observations.risk_weights(risk)

    if observations.n_observed > MAX_KEPT_WEIGHTS:
        return weights()
    return make_if_changed(observations, "weights", made_of, weights)
