"""Observations whose entries are on other machines: what a fit asks of them, with the entries never here."""

from __future__ import annotations

from abc import abstractmethod
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

    __slots__ = ("_likes", "_observed")
    _likes: int
    _observed: int

    def __init__(
        self, axes: Axes, counts: tuple[NDArray[np.int64], NDArray[np.int64]], n_likes: int
    ) -> None:
        for name, value in {
            "axes": axes,
            "_counts": counts,
            "_likes": n_likes,
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

    @property
    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers of entries of each row and of each column."""
        return self._counts

    @property
    def n_likes(self) -> int:
        """Number of entries labelled +1."""
        return self._likes

    def __len__(self) -> int:
        return self._observed

    def __reduce__(self) -> NoReturn:
        raise self._absent()

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
    def designs(self, floor: Any) -> Any:
        """Return the implicit features of rows and of columns, without ridges; ``floor`` is the least activity."""

    @abstractmethod
    def features(self, rows: Any, columns: Any) -> Any:
        """Return both sides of such features as :class:`~tribit.model.features.Features`."""

    @abstractmethod
    def hashed_folds(self, n: int, used: int, seed: int) -> list[tuple[Self, Observations]]:
        """Return the first ``used`` of ``n`` folds: what remains, and what is held out, which comes here.

        The fold of an entry is a hash of its row, its column and the seed.
        """

    @abstractmethod
    def check_possible(self, estimator: Any, side: Any) -> None:
        """Refuse a fit that needs the entries on this machine; ``side`` is what is known of rows and columns."""

    def _absent(self) -> InvalidInputError:
        return InvalidInputError(
            "The entries are on the workers of a cluster, and what was asked for needs them on this machine: pass "
            "Observations, and no client."
        )
