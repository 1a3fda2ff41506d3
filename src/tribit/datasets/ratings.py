"""Ratings with the ids of those who gave them, and the split of them that is the same everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tribit.checks import is_whole
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.randomness import generator


class Split(NamedTuple):
    """Disjoint parts of the same ratings, all of the same shape and ids."""

    train: Observations
    validation: Observations
    test: Observations


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ratings:
    """A table of ratings: users, items, values and times, one element of each array for each rating.

    Parameters
    ----------
    users, items : array of int
        The data's own ids.
    ratings : array of float
        Stars.
    timestamps : array of int or None
        Seconds since 1970, where the data have them.
    name : str
        Which data these are.
    licence : str
        The terms of use, and what to cite.
    like_at : float, default=4.0
        The smallest rating that is a like, unless a method is told otherwise.
    user_ids, item_ids : array of int, optional
        Every user and every item, in increasing order; by default those with a rating.
    """

    users: npt.NDArray[np.int64]
    items: npt.NDArray[np.int64]
    ratings: npt.NDArray[np.float64]
    timestamps: npt.NDArray[np.int64] | None
    name: str
    licence: str
    like_at: float = 4.0
    user_ids: npt.NDArray[np.int64] | None = None
    item_ids: npt.NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        for ids, every in (("user_ids", self.users), ("item_ids", self.items)):
            if getattr(self, ids) is None:
                object.__setattr__(self, ids, np.unique(every))
        for name in ("users", "items", "ratings", "timestamps", "user_ids", "item_ids"):
            values = getattr(self, name)
            if values is not None:
                values.flags.writeable = False

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of users and items."""
        return np.asarray(self.user_ids).size, np.asarray(self.item_ids).size

    def observations(self, like_at: float | None = None) -> Observations:
        """Return a like for every rating from ``like_at`` up, a dislike for every other.

        Parameters
        ----------
        like_at : float, optional
            By default the ``like_at`` of these ratings.

        Returns
        -------
        Observations
            Users as rows and items as columns, in the order of their ids, which are kept.
        """
        return Observations.from_ratings(
            np.searchsorted(np.asarray(self.user_ids), self.users),
            np.searchsorted(np.asarray(self.item_ids), self.items),
            self.ratings,
            like_at=self.like_at if like_at is None else like_at,
            row_ids=self.user_ids,
            column_ids=self.item_ids,
        )

    def split(
        self,
        seed: int,
        test: int = 5000,
        validation: int = 5000,
        *,
        like_at: float | None = None,
    ) -> Split:
        """Hold out a test and a validation part, the same on every machine.

        The ratings are sorted by (user, item) and permuted by ``numpy.random.default_rng(seed)``; the first
        ``test`` of them are the test part, the next ``validation`` the validation part.

        Parameters
        ----------
        seed : int
            Which split.
        test, validation : int, default=5000
            How many ratings to hold out for each.
        like_at : float, optional
            As in :meth:`observations`.

        Returns
        -------
        Split
            ``train``, ``validation`` and ``test``, each with the shape and ids of the whole.
        """
        counts: dict[str, Any] = {"test": test, "validation": validation}
        for name, count in counts.items():
            if not is_whole(count) or count < 1:
                raise InvalidInputError(
                    f"{name} must be a number of ratings, at least 1; got {count!r}."
                )
        n = self.ratings.size
        if test + validation >= n:
            raise InvalidInputError(
                f"test={test} and validation={validation} leave none of the {n} ratings for training; "
                "lower them."
            )
        # Row-major order of sorted ids is the order by (user, item).
        whole = self.observations(like_at)
        order = generator(seed).permutation(n)
        held_out = test + validation
        return Split(
            whole.take(order[held_out:]), whole.take(order[test:held_out]), whole.take(order[:test])
        )

    def __len__(self) -> int:
        return int(self.ratings.size)

    def __repr__(self) -> str:
        return f"Ratings({self.name}, {self.shape[0]} users x {self.shape[1]} items, {len(self)} ratings)"
