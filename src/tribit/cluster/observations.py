"""Observations in partitions of rows on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tribit.backends.forms import make_form
from tribit.checks import check_count
from tribit.cluster import parts
from tribit.cluster.backend import ClusterBackend
from tribit.cluster.calls import Cluster
from tribit.cluster.features import MaskFeatures, designs_of_mask
from tribit.cluster.folds import in_fold, split
from tribit.cluster.matrix import PartMatrix
from tribit.cluster.refusals import check_fit, check_risk, check_search
from tribit.data.axis import Axes, Positions
from tribit.data.ingest import Checked
from tribit.data.observations import Observations, ValuesOf
from tribit.data.remote import RemoteObservations
from tribit.errors import InvalidInputError
from tribit.model.design import Design
from tribit.model.features import Features
from tribit.model.links import Link
from tribit.model.risks import Risk

Array = NDArray[np.floating[Any]]

#: Entries of a partition, about, and the least number of partitions of a table that this machine cuts. Neither depends
#: on the workers, so that the bits of a fit do not. A pass over a partition of this size takes a tenth of a second to
#: a second, against some milliseconds that the scheduler takes for a task; its backend is 160 MB.
ENTRIES, LEAST = 4_000_000, 8


class PartitionedObservations(RemoteObservations):
    """What was seen, in partitions of rows on workers; this machine has shape, ids and numbers of entries.

    Made by :func:`tribit.cluster.from_observations`, :func:`~tribit.cluster.from_frame` or
    :func:`~tribit.cluster.from_parquet`.

    Attributes
    ----------
    cluster : Cluster
        The workers.
    parts : list of futures
        Each of a :class:`~tribit.cluster.parts.Part`, which dask makes again from its source where it is lost.
    part_rows : list of array
        The rows of each partition.
    """

    __slots__ = ("cluster", "part_rows", "parts")
    cluster: Cluster
    parts: list[Any]
    part_rows: list[Positions]

    def __init__(
        self, cluster: Cluster, held: Sequence[Any], part_rows: Sequence[Positions], axes: Axes
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
        n, n_rows = len(observations), observations.shape[0]
        wanted = max(LEAST, -(-n // ENTRIES)) if n_partitions is None else n_partitions
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
        held = cluster.map(parts.Part.of, local, columns, labels, numbers, shape=observations.shape)
        return cls(cluster, held, numbers, observations.axes)

    def sums(self, values: ValuesOf) -> tuple[Array, Array]:
        """Return the sums over each row and over each column of a value at each entry."""
        found = self.cluster.map(parts.sums, self.parts, values=values)
        by_rows, columns = self.cluster.own_and_total(found, 8 * self.shape[1])
        rows = np.zeros(self.shape[0])
        for numbers, found in zip(self.part_rows, by_rows, strict=True):
            rows[numbers] = found
        return rows, columns

    def matrix(self, values: ValuesOf, factors: Any = None) -> PartMatrix:
        """Return a matrix with a value at each entry; ``values`` is given ``x`` where there are factors."""
        P, Q = (None, None) if factors is None else factors.augmented()
        cut = [None if P is None else P[rows] for rows in self.part_rows]
        held = self.cluster.map(parts.matrix, self.parts, cut, Q=Q, values=values)
        return PartMatrix(self.cluster, held, self.part_rows, self.shape)

    def make_backend(
        self, link: Link, risk: Risk, *, dtype: str, n_jobs: int, device: str = "cpu"
    ) -> ClusterBackend:
        """Return the backend of a risk, made for each partition where it is, on a GPU of its worker if asked for."""
        check_risk(risk)
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
            bounded=bool(risk.unobserved) and make_form(link, risk).bounded,
        )

    def designs(self, floor: tuple[float, float]) -> tuple[Design, Design]:
        """Return the implicit features of rows and of columns, without ridges."""
        return designs_of_mask(self, floor)

    def features(self, rows: Design, columns: Design) -> Features:
        """Return both sides of such features, whose products share a pass."""
        return MaskFeatures(rows, columns)

    def hashed_folds(self, n: int, used: int, seed: int) -> list[tuple[Self, Observations]]:
        """Return the first ``used`` of ``n`` folds, by a hash of row, column and seed."""
        check_search(self)
        found = []
        for number in range(used):
            options = {"n": n, "number": number, "seed": seed}
            train = self.cluster.map(split, self.parts, **options)
            pieces = self.cluster.results(self.cluster.map(in_fold, self.parts, **options))
            rows, columns, labels = (np.concatenate(each) for each in zip(*pieces, strict=True))
            order = np.argsort(rows, kind="stable")
            if not rows.size:
                raise InvalidInputError(
                    f"A fold of {len(self)} entries holds out none of them: pass a parameter for everything that a "
                    "search would choose, or more entries."
                )
            held_out = Observations._trusted(
                Checked(rows[order], columns[order], labels[order], Axes.of(self.shape))
            )
            remaining = type(self)(self.cluster, train, self.part_rows, self.axes)
            found.append((remaining, held_out))
        return found

    def check_possible(self, estimator: Any, side: Any) -> None:
        """Refuse a fit that needs the entries on this machine."""
        check_fit(estimator, side)
