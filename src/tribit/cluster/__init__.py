"""Fits of tables on the workers of a cluster, through dask.distributed (extra ``dask``).

Rows are partitioned. Factors are on this machine and the solvers run here unchanged; a sum over entries is a map over
partitions, followed by a tree of sums (:mod:`tribit.cluster.backend`).
"""

from __future__ import annotations

from tribit.cluster.calls import Cluster, connect
from tribit.cluster.frames import from_frame, from_parquet, is_dask_frame
from tribit.cluster.observations import PartitionedObservations
from tribit.data.observations import Observations, as_observations
from tribit.data.rules import TableRules

__all__ = [
    "PartitionedObservations",
    "as_partitioned",
    "connect",
    "from_frame",
    "from_observations",
    "from_parquet",
]


def from_observations(
    observations: Observations, client: object, *, n_partitions: int | None = None
) -> PartitionedObservations:
    """Return observations that are on this machine, cut into partitions of rows on the workers of a cluster.

    The scheduler keeps a copy of the entries, so read larger tables with :func:`from_parquet`.

    Parameters
    ----------
    observations : Observations
        Observed entries.
    client : distributed.Client
        The cluster.
    n_partitions : int, optional
        Number of partitions, each with about as many entries; by default one for each 4 million, and at least 8.
    """
    return PartitionedObservations.cut(observations, Cluster(client), n_partitions)


def as_partitioned(X: object, client: object, rules: TableRules) -> PartitionedObservations:
    """Return a dask data frame, observations or a matrix as partitions on a cluster."""
    if isinstance(X, PartitionedObservations):
        return X
    if is_dask_frame(X):
        names = {"row": rules.row, "column": rules.column, "value": rules.value}
        return from_frame(X, client, **names, like_at=rules.like_at, duplicates=rules.duplicates)
    return from_observations(as_observations(X, rules), client)
