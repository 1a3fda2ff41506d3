"""Observations with their entries on other machines."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from tribit.data.axis import Axes
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError

Array = NDArray[np.floating[Any]]


class RemoteObservations(Observations):
    """The shape, the ids and the numbers of entries of a matrix, with the entries on other machines.

    A subclass implements the sums over entries and the copies of :class:`Observations`, and the methods below. The
    entries themselves (``rows``, ``columns``, ``labels``) raise an error.
    """

    __slots__ = ("_observed",)
    is_remote = True
    _observed: int

    def __init__(
        self, axes: Axes, counts: tuple[NDArray[np.int64], NDArray[np.int64]], n_likes: int
    ) -> None:
        for name, value in {
            "axes": axes,
            "rules": None,
            "weights": None,
            "times": None,
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
    def make_backend(
        self, link: Any, risk: Any, *, dtype: str, n_jobs: int, device: str = "cpu"
    ) -> Any:
        """Return the :class:`~tribit.backends.Backend` of a risk; ``device`` is that of the other machines."""

    def here_if_few(self, most: int) -> Observations | None:
        """Return the observations with their entries on this machine; None where more than ``most`` would come."""
        return self.here() if len(self) <= most else None

    def draw_folds(self, n: int, draws: np.random.Generator) -> int:  # noqa: ARG002
        """Return the seed of a hash of row and column, by which an entry has one of ``n`` folds."""
        return int(draws.integers(2**32))

    @abstractmethod
    def hashed_folds(self, n: int, used: int, seed: int) -> list[tuple[Self, Observations]]:
        """Return the first ``used`` of ``n`` training and test sets; the test sets come to this machine.

        The fold of an entry is a hash of its row, its column and the seed.
        """

    def _absent(self) -> InvalidInputError:
        return InvalidInputError(
            "The entries are on the workers of a cluster, and this call needs them on this machine: fetch them with "
            "here(), if they fit into its memory."
        )
