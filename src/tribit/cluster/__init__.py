"""Fits of tables on the workers of a cluster, through dask.distributed (extra ``dask``).

Rows are partitioned. Factors are on this machine and the solvers run here unchanged; a sum over entries is a map over
partitions, followed by a tree of sums (:mod:`tribit.cluster.backend`).
"""

from __future__ import annotations

from dataclasses import fields

from tribit.cluster.calls import Cluster, connect
from tribit.cluster.frames import LabelRules, from_frame, from_parquet, is_dask_frame
from tribit.cluster.observations import PartitionedObservations
from tribit.data.observations import Observations, as_observations
from tribit.data.rules import TableRules
from tribit.errors import InvalidInputError, parameter

__all__ = [
    "PartitionedObservations",
    "as_partitioned",
    "connect",
    "from_frame",
    "from_observations",
    "from_parquet",
]


#: Rules of reading that apply to tables on the workers.
RULES = ("row", "column", "value", "duplicates", *LabelRules.__annotations__)


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

    Examples
    --------
    >>> from distributed import Client
    >>> from tribit import Observations
    >>> from tribit.cluster import from_observations
    >>> seen = Observations.from_matrix([[1, 0, -1], [0, -1, 1]])
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     from_observations(seen, client, n_partitions=2).shape
    (2, 3)
    """
    return PartitionedObservations.cut(observations, Cluster(client), n_partitions)


def check_rules(rules: TableRules, table: str) -> None:
    """Refuse rules that the workers do not know."""
    for each in fields(rules):
        if each.name not in (*RULES, "notes") and getattr(rules, each.name) != each.default:
            raise InvalidInputError(
                f"{parameter(each.name)} does not apply to {table}, whose values are +1 and -1, ratings "
                "or words that are named; leave it out."
            )


def as_partitioned(X: object, client: object, rules: TableRules) -> PartitionedObservations:
    """Return a dask data frame, observations or a matrix as partitions on a cluster.

    Examples
    --------
    >>> from distributed import Client
    >>> from tribit.cluster import as_partitioned
    >>> from tribit.data.rules import TableRules
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     as_partitioned([[1, 0, -1], [0, -1, 1]], client, TableRules()).shape
    (2, 3)
    """
    if isinstance(X, PartitionedObservations):
        return X
    if is_dask_frame(X):
        check_rules(rules, "a dask data frame")
        return from_frame(X, client, **{name: getattr(rules, name) for name in RULES})
    return from_observations(as_observations(X, rules), client)
