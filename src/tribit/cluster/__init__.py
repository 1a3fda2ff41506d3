"""Fits of tables on the workers of a cluster, through dask.distributed (extra ``dask``).

Rows are partitioned. Factors are on this machine and the solvers run here unchanged; a sum over entries is a map over
partitions, given the factors, and a tree of sums (:mod:`tribit.cluster.backend`).
"""

from __future__ import annotations

import os
from typing import Any

from tribit.cluster.calls import Cluster, connected
from tribit.cluster.frames import is_dask_frame, partitioned_frame, partitioned_parquet
from tribit.cluster.observations import PartitionedObservations
from tribit.data.ingest import Duplicates
from tribit.data.observations import Observations, as_observations

__all__ = [
    "PartitionedObservations",
    "as_partitioned",
    "connected",
    "from_frame",
    "from_observations",
    "from_parquet",
]


def from_observations(
    observations: Observations, client: Any, *, n_partitions: int | None = None
) -> PartitionedObservations:
    """Return observations that are on this machine, cut into partitions of rows on the workers of a cluster.

    The scheduler keeps the entries too, as what partitions are made of: read larger tables with :func:`from_parquet`.

    Parameters
    ----------
    observations : Observations
        What was seen.
    client : distributed.Client
        The cluster.
    n_partitions : int, optional
        Number of partitions, each with about as many entries; by default one for each 4 million, and at least 8.
    """
    return PartitionedObservations.cut(observations, Cluster(client), n_partitions)


def from_frame(
    frame: Any,
    client: Any,
    *,
    row: str | None = None,
    column: str | None = None,
    value: str | None = None,
    like_at: float | None = None,
    duplicates: Duplicates = "error",
) -> PartitionedObservations:
    """Return the entries of a dask data frame with one observed entry in each row; they never come here.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
        The table. Where each row id is within one partition, nothing is shuffled.
    client : distributed.Client
        The cluster.
    row, column : str, optional
        Names of the columns of ids, numbered as they first appear; by default the first two of two or three columns.
    value : str, optional
        Name of the column of +1 and -1, or of ratings; without it every pair is a like.
    like_at : float, optional
        The smallest rating that is a like.
    duplicates : {"error", "first", "last", "majority"}, default="error"
        As in :meth:`tribit.Observations.from_pairs`.
    """
    options: dict[str, Any] = {"like_at": like_at, "duplicates": duplicates}
    return partitioned_frame(frame, Cluster(client), row=row, column=column, value=value, **options)


def from_parquet(
    path: str | os.PathLike[str], client: Any, **options: Any
) -> PartitionedObservations:
    """Return the entries of a folder of parquet files (or of one), which every worker must be able to read.

    Parameters
    ----------
    path : str or path-like
        The folder; also an address that dask knows, such as ``s3://bucket/folder``.
    client : distributed.Client
        The cluster.
    **options
        Of :func:`from_frame`.
    """
    return partitioned_parquet(os.fspath(path), Cluster(client), **options)


def as_partitioned(X: Any, client: Any, *, like_at: float | None = None) -> PartitionedObservations:
    """Return what an estimator is given as partitions on a cluster: a dask data frame, observations or a matrix."""
    if isinstance(X, PartitionedObservations):
        return X
    if is_dask_frame(X):
        return from_frame(X, client, like_at=like_at)
    return from_observations(as_observations(X, like_at=like_at), client)
