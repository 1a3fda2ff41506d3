"""Observations whose entries are on other machines: what a fit asks of them, with the entries never here."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from tribit.data.axis import Axes
from tribit.data.observations import Observations, ValuesOf
from tribit.errors import InvalidInputError

Array = NDArray[np.floating[Any]]


class RemoteObservations(Observations):
    """The shape, the ids and the numbers of entries of a matrix, with the entries on other machines.

    Whoever sums over entries asks for the sums: the methods below. Whoever asks for the entries themselves
    (``rows``, ``columns``, ``labels``) gets an error that says so.
    """

    __slots__ = ("_observed",)
    _observed: int

    def __init__(
        self, axes: Axes, counts: tuple[NDArray[np.int64], NDArray[np.int64]], n_likes: int
    ) -> None:
        for name, value in {
            "axes": axes,
            "_counts": counts,
            "_n_likes": n_likes,
            "_observed": int(np.sum(counts[0])),
        }.items():
            object.__setattr__(self, name, value)

    @property
    def rows(self) -> NoReturn:  # type: ignore[override]
        """The entries are not here."""
        raise self._absent()

    @property
    def columns(self) -> NoReturn:  # type: ignore[override]
        """The entries are not here."""
        raise self._absent()

    @property
    def labels(self) -> NoReturn:
        """The entries are not here."""
        raise self._absent()

    def __len__(self) -> int:
        return self._observed

    def __reduce__(self) -> NoReturn:
        raise self._absent()

    @abstractmethod
    def as_likes(self) -> Self:
        """Return the same entries, each a like."""

    @abstractmethod
    def sums(self, values: ValuesOf) -> tuple[Array, Array]:
        """Return the sums over each row and over each column of a value at each entry."""

    @abstractmethod
    def matrix(self, values: ValuesOf, factors: Any = None) -> Any:
        """Return a matrix with a value at each entry, which multiplies arrays as a sparse array does."""

    @abstractmethod
    def make_backend(
        self, link: Any, risk: Any, *, dtype: str, n_jobs: int, device: str = "cpu"
    ) -> Any:
        """Return the :class:`~tribit.backends.Backend` of a risk; ``device`` is that of the other machines."""

    @abstractmethod
    def knowing(self, risk: Any) -> Any:
        """Return a risk with what it has to know of all entries at once, as no other machine has them all."""

    @abstractmethod
    def implicit_blocks(self, activities: Any) -> Any:
        """Return the blocks of implicit features of rows and of columns, without ridges, given their activities."""

    @abstractmethod
    def features(self, rows: Any, columns: Any) -> Any:
        """Return designs whose first blocks are such features as :class:`~tribit.model.features.Features`."""

    @abstractmethod
    def here(self) -> Observations:
        """Return the same observations with their entries on this machine: for whoever knows that these are few."""

    @abstractmethod
    def hashed_folds(self, n: int, used: int, seed: int) -> list[tuple[Self, Observations]]:
        """Return the first ``used`` of ``n`` folds: what remains, and what is held out, which comes here.

        The fold of an entry is a hash of its row, its column and the seed.
        """

    @abstractmethod
    def without_fold(self, n: int, number: int, seed: int) -> Self:
        """Return the observations without one of ``n`` folds by a hash of row, column and seed."""

    @abstractmethod
    def by_rows(
        self, function: Any, arrays: Sequence[Any], n_bytes: int, **same: Any
    ) -> tuple[list[Any], Any]:
        """Return what a function of the entries of some rows makes of each part of them, and the sum of the rest.

        It is given :class:`Observations` with rows numbered from 0, the rows of the whole that these are, each array
        at these rows, and what is the same for all parts. It returns a pair: what is listed, and numpy arrays of so
        many bytes that are added.
        """

    def _absent(self) -> InvalidInputError:
        return InvalidInputError(
            "The entries are on the workers of a cluster, and what was asked for needs them on this machine: fetch "
            "them with here(), if they fit into its memory."
        )
