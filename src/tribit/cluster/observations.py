"""Observations in partitions of rows on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tribit.backends.losses import make_loss
from tribit.checks import check_count
from tribit.cluster import parts
from tribit.cluster.backend import ClusterBackend
from tribit.cluster.calls import Cluster, Future
from tribit.cluster.matrices import PartMatrix
from tribit.data.axis import Axes, Positions
from tribit.data.ingest import Checked
from tribit.data.observations import Observations, ValuesOf
from tribit.data.remote import RemoteObservations
from tribit.data.weights import refuse_weights_on_cluster
from tribit.errors import InvalidInputError
from tribit.model.factors import Factors
from tribit.model.links import Link
from tribit.model.risks import Risk

Array = NDArray[np.floating[Any]]

#: Entries of a partition, about, and smallest number of partitions. Neither depends on the workers, so that the bits of
#: a fit do not. A pass over such a partition takes 0.1 to 1 s, the scheduler some milliseconds; its backend is 160 MB.
PARTITION_ENTRIES, MIN_PARTITIONS = 4_000_000, 8


class PartitionedObservations(RemoteObservations):
    """Observations in partitions of rows on workers; this machine has shape, ids and numbers of entries.

    Made by :func:`tribit.cluster.from_observations`, :func:`~tribit.cluster.from_frame` or
    :func:`~tribit.cluster.from_parquet`.

    Attributes
    ----------
    cluster : Cluster
        The workers.
    parts : list of futures
        Each of a :class:`~tribit.cluster.parts.Partition`, which dask makes again from its source where it is lost.
    part_rows : list of array
        The rows of each partition.

    Examples
    --------
    >>> from distributed import Client
    >>> from tribit import Observations
    >>> from tribit.cluster import from_observations
    >>> seen = Observations.from_matrix([[1, 0, -1], [0, -1, 1]])
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     from_observations(seen, client, n_partitions=2).here().n_observed
    4
    """

    __slots__ = ("cluster", "part_rows", "parts")
    cluster: Cluster
    parts: list[Future]
    part_rows: list[Positions]

    def __init__(
        self, cluster: Cluster, held: Sequence[Future], part_rows: Sequence[Positions], axes: Axes
    ) -> None:
        found = cluster.map(parts.facts, held)
        own, (columns, likes) = cluster.own_and_total(found, 8 * axes.columns.size)
        rows = np.zeros(axes.shape[0], dtype=np.int64)
        for numbers, counts in zip(part_rows, own, strict=True):
            rows[numbers] = counts
        super().__init__(axes, (rows, np.asarray(columns)), int(likes))
        for name, value in {
            "cluster": cluster,
            "parts": list(held),
            "part_rows": list(part_rows),
        }.items():
            object.__setattr__(self, name, value)

    @classmethod
    def cut(
        cls, observations: Observations, cluster: Cluster, n_partitions: int | None = None
    ) -> Self:
        """Return observations that are here, cut into runs of rows with about as many entries each."""
        refuse_weights_on_cluster(observations.weights)
        n, n_rows = len(observations), observations.shape[0]
        wanted = (
            max(MIN_PARTITIONS, -(-n // PARTITION_ENTRIES))
            if n_partitions is None
            else n_partitions
        )
        wanted = min(check_count("n_partitions", wanted), n_rows)
        ends = np.cumsum(observations.counts[0])
        places = np.searchsorted(ends, n * np.arange(1, wanted) / wanted) + 1
        bounds = np.unique([0, *places, n_rows])
        at = np.searchsorted(observations.rows, bounds)
        runs = list(zip(bounds[:-1], bounds[1:], at[:-1], at[1:], strict=True))
        numbers = [np.arange(first, last) for first, last, _, _ in runs]
        rows, columns, labels = (
            [given[start:stop].astype(kind) for _, _, start, stop in runs]
            for given, kind in (
                (observations.rows, np.int64),
                (observations.columns, np.int32 if observations.shape[1] < 2**31 else np.int64),
                (observations.labels, np.int8),
            )
        )
        local = [(each - run[0]).astype(np.int32) for each, run in zip(rows, runs, strict=True)]
        held = cluster.map(
            parts.Partition.of, local, columns, labels, numbers, shape=observations.shape
        )
        found = cls(cluster, held, numbers, observations.axes)
        object.__setattr__(found, "rules", observations.rules)
        return found

    def sums(self, values: ValuesOf) -> tuple[Array, Array]:
        """Return the sums over each row and over each column of a value at each entry."""
        found = self.cluster.map(parts.sums, self.parts, values=values)
        by_rows, columns = self.cluster.own_and_total(found, 8 * self.shape[1])
        rows = np.zeros(self.shape[0])
        for numbers, found in zip(self.part_rows, by_rows, strict=True):
            rows[numbers] = found
        return rows, columns

    def matrix(self, values: ValuesOf, factors: Factors | None = None) -> PartMatrix:
        """Return a matrix with a value at each entry; ``values`` is given ``x`` where there are factors."""
        P, Q = (None, None) if factors is None else factors.product_factors()
        cut = [None if P is None else P[rows] for rows in self.part_rows]
        held = self.cluster.map(parts.matrix, self.parts, cut, Q=Q, values=values)
        return PartMatrix(self.cluster, held, self.part_rows, self.shape)

    def make_backend(
        self, link: Link, risk: Risk, *, dtype: str, n_jobs: int, device: str = "cpu"
    ) -> ClusterBackend:
        """Return the backend of a risk, made for each partition on its worker, on a GPU with ``device="cuda"``."""
        risk = self.knowing(risk)
        held = self.cluster.map(
            parts.PartBackend, self.parts, link=link, risk=risk, dtype=dtype, device=device
        )
        return ClusterBackend(
            self.cluster,
            held,
            self.part_rows,
            self.shape,
            np.dtype(dtype),
            n_jobs,
            # Without a dense term partitions have exact curvatures, which cost as little.
            bounded=bool(risk.unobserved_weight) and make_loss(link, risk).has_bounds,
        )

    def knowing(self, risk: Risk) -> Risk:
        """Return a risk that has the mean of its weights, where they differ."""
        return parts.with_mean_weight(risk, self)

    def here(self) -> Observations:
        """Return the same observations with their entries on this machine."""
        return self._gather(self.cluster.map(parts.entries, self.parts))

    def _gather(self, pieces: Sequence[Future]) -> Observations:
        """Return the entries of all partitions from futures of their rows, columns and labels."""
        found = self.cluster.results(pieces)
        rows, columns, labels = (np.concatenate(each) for each in zip(*found, strict=True))
        order = np.argsort(rows, kind="stable")  # each partition has its entries in row-major order
        return Observations.from_checked(
            Checked(rows[order], columns[order], labels[order], self.axes)
        )

    def as_likes(self) -> Self:
        """Return the same entries, each a like."""
        return self._of(self.cluster.map(parts.as_likes, self.parts))

    def without_fold(self, n: int, number: int, folds: object) -> Self:
        """Return the observations without one of ``n`` folds by a hash of row, column and the seed ``folds``."""
        return self._of(self.cluster.map(parts.split, self.parts, n=n, number=number, seed=folds))

    def hashed_folds(self, n: int, used: int, seed: int) -> list[tuple[Self, Observations]]:
        """Return the first ``used`` of ``n`` folds, by a hash of row, column and seed."""
        found = []
        for number in range(used):
            options = {"n": n, "number": number, "seed": seed}
            held_out = self._gather(self.cluster.map(parts.in_fold, self.parts, **options))
            if not len(held_out):
                raise InvalidInputError(
                    f"A fold of {len(self)} entries holds out none: set all parameters that a search would choose, "
                    "or pass more entries."
                )
            found.append((self.without_fold(n, number, seed), held_out))
        return found

    def by_rows(
        self, function: Callable[..., Any], arrays: Sequence[Any], n_bytes: int, **same: Any
    ) -> tuple[list[Any], Any]:
        """Return a function's results for the rows of each partition, and the sum of its shared results."""
        cut = ([array[rows] for rows in self.part_rows] for array in arrays)
        found = self.cluster.map(parts.apply, self.parts, *cut, to=function, **same)
        return self.cluster.own_and_total(found, n_bytes)

    def _of(self, held: Sequence[Future]) -> Self:
        """Return observations of the same rows with other entries."""
        return type(self)(self.cluster, held, self.part_rows, self.axes)
