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
    is_remote = True
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
    def here(self) -> Observations:
        """Return the same observations with their entries on this machine: for whoever knows that these are few."""

    def here_if_few(self, most: int) -> Observations | None:
        """Return the observations with their entries on this machine; None where more than ``most`` would come."""
        return self.here() if len(self) <= most else None

    def draw_folds(self, n: int, draws: np.random.Generator) -> int:  # noqa: ARG002
        """Return the seed of a hash of row and column, by which an entry has one of ``n`` folds."""
        return int(draws.integers(2**32))

    @abstractmethod
    def hashed_folds(self, n: int, used: int, seed: int) -> list[tuple[Self, Observations]]:
        """Return the first ``used`` of ``n`` folds: what remains, and what is held out, which comes here.

        The fold of an entry is a hash of its row, its column and the seed.
        """

    @abstractmethod
    def without_fold(self, n: int, number: int, folds: Any) -> Self:
        """Return the observations without one of ``n`` folds by a hash of row, column and the seed ``folds``."""

    @abstractmethod
    def by_rows(
        self, function: Any, arrays: Sequence[Any], n_bytes: int, **same: Any
    ) -> tuple[list[Any], Any]:
        """Return what a function makes of the entries of each part of the rows, as of observations that are here."""

    def _absent(self) -> InvalidInputError:
        return InvalidInputError(
            "The entries are on the workers of a cluster, and what was asked for needs them on this machine: fetch "
            "them with here(), if they fit into its memory."
        )
