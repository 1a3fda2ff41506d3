"""A real cluster: a scheduler and two worker processes with nannies, which start a worker again that was killed."""

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster

from tribit import Observations

#: What an idle cluster does many times a second, until the last test of the session: a tenth of a core.
SELDOM = {
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "2s",
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.tick.limit": "30s",
    "distributed.admin.system-monitor.interval": "5s",
}


@pytest.fixture(scope="session")
def client():
    with (
        dask.config.set(SELDOM),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=False,  # that would silence every handler, those of other tests too
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def seen():
    """Return a table of low rank with intercepts, in which one row and one column have no entry."""
    draws = np.random.default_rng(0)
    X = draws.normal(size=(160, 2)) @ draws.normal(size=(2, 60)) + draws.normal(size=60)
    likes = draws.random(X.shape) < 1 / (1 + np.exp(-1.5 * X))
    A = np.where(likes, 1, -1) * (draws.random(X.shape) < 0.3)
    A[7], A[:, 3] = 0, 0
    return Observations.from_matrix(A)
