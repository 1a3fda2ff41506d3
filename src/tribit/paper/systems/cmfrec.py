"""Least squares of the package cmfrec, with row and column biases: an external peer of the other systems."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.sparse import coo_array

from tribit.backends.threads import count_jobs
from tribit.checks import check_not_negative
from tribit.data.measurements import Measurements
from tribit.errors import InvalidInputError
from tribit.model.factors import Factors
from tribit.paper.systems.base import MeasuredSystem, check_rank


def has_cmfrec() -> bool:
    """Return whether the package is installed."""
    return find_spec("cmfrec") is not None


@dataclass(eq=False, repr=False)
class CollectiveFactorization(MeasuredSystem):
    """Minimise squared errors of ``m + b_i + c_j + u_i' v_j`` with the penalty ``l2 (|U|^2 + |V|^2 + |b|^2 + |c|^2)``.

    The model ``CMF`` of the package cmfrec, by alternating least squares (Cortes 2018, "Cold-start recommendations in
    collective matrix factorization"); without side information.

    Parameters
    ----------
    rank : int, default=10
        Number of latent factors.
    l2 : float, default=10.0
        Ridge penalty (``lambda_``).
    max_iter : int, default=10
        Sweeps over rows and columns (``niter``).
    n_jobs : int or None, default=None
        Threads.
    random_state : int, default=0
        Seed of the initial factors.

    Examples
    --------
    >>> from tribit.paper.systems.cmfrec import CollectiveFactorization
    >>> CollectiveFactorization(rank=3).get_params()["l2"]
    10.0
    """

    rank: int = 10
    _: KW_ONLY
    l2: float = 10.0
    max_iter: int = 10
    n_jobs: int | None = None
    random_state: int = 0

    def _fit(self, measured: Measurements) -> None:
        if not has_cmfrec():
            raise InvalidInputError(
                "The package cmfrec is not installed; pip install cmfrec, or leave the system out."
            )
        rank = check_rank("rank", self.rank, min(measured.shape))
        table = coo_array(measured.to_sparse())
        model: Any = import_module("cmfrec").CMF(
            k=rank,
            lambda_=check_not_negative("l2", self.l2),
            niter=self.max_iter,
            nthreads=count_jobs(self.n_jobs),
            random_state=self.random_state,
            verbose=False,
        )
        model.fit(table)
        U, V, b, c = (
            np.asarray(each, dtype=np.float64)
            for each in (model.A_, model.B_, model.user_bias_, model.item_bias_)
        )
        self._set_scores(Factors(U, V, float(model.glob_mean_), b, c), measured)
