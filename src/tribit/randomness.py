"""Random generators from ``random_state``, and random splits and folds of entries."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tribit.checks import is_number, is_whole
from tribit.errors import InvalidInputError, InvalidTypeError, parameter

RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None


def generator(random_state: RandomState = None) -> np.random.Generator:
    """Return the generator for a ``random_state``.

    Parameters
    ----------
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        An integer gives the same numbers on every machine. A ``Generator`` is returned itself, so that successive
        calls continue its stream. A ``RandomState``, or NumPy's global one for None, gives the seed of a new generator.

    Returns
    -------
    numpy.random.Generator
        A generator of PCG64, or the given one.

    Examples
    --------
    >>> int(generator(0).integers(100)) == int(generator(0).integers(100))
    True
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        if random_state < 0:
            raise InvalidInputError(
                f"{parameter('random_state')} is {random_state}, but a seed cannot be negative; "
                "pass 0 or a larger integer."
            )
        # PCG64 by name: default_rng may return another bit generator in future.
        return np.random.Generator(np.random.PCG64(int(random_state)))
    if random_state is not None and not isinstance(random_state, np.random.RandomState):
        raise InvalidTypeError(
            f"{parameter('random_state')} is of type {type(random_state).__name__}; pass None, an integer, "
            "a numpy.random.Generator or a numpy.random.RandomState."
        )
    # Here, not above: any import from scikit-learn also imports scipy.stats and, where it is
    # installed, pandas (in sklearn.utils.fixes), which takes longer than the rest of tribit.
    from sklearn.utils import check_random_state  # noqa: PLC0415

    legacy = check_random_state(random_state)
    # A fixed width: the default integer of RandomState differs between platforms.
    seed = legacy.randint(0, 2**32, size=4, dtype=np.uint32)
    return np.random.Generator(np.random.PCG64(seed))


def held_out_mask(
    n_entries: int, test: object, random_state: RandomState, name: str = "test"
) -> npt.NDArray[np.bool_]:
    """Return a random mask of test entries: a share (a float in (0, 1)) or a number (an int) of them."""
    n_test = count_held_out(n_entries, test, name)
    return generator(random_state).permutation(n_entries) < n_test


def count_held_out(n_entries: int, test: object, name: str = "test") -> int:
    """Return the number of test entries for a share (a float in (0, 1)) or a number (an int) of all entries."""
    given = parameter(name, test)
    if not is_number(test):
        raise InvalidTypeError(f"{given} is no number; pass a share between 0 and 1, or a count.")
    if not is_whole(test) and not 0 < float(test) < 1:
        raise InvalidInputError(
            f"{given} is neither a share nor a count; pass a share between 0 and 1, or a count."
        )
    n_test = int(test) if is_whole(test) else round(float(test) * n_entries)
    if not 0 < n_test < n_entries:
        raise InvalidInputError(
            f"{given} puts {n_test} of {n_entries} entries into the test set; "
            "choose it so that training and test set have entries."
        )
    return n_test


def fold_numbers(n_entries: int, n: object, random_state: RandomState) -> npt.NDArray[np.int64]:
    """Return a random fold number for each entry; fold sizes differ by one at most."""
    if not is_whole(n) or not 2 <= int(n) <= n_entries:
        raise InvalidInputError(
            f"n is {n!r}; pass a number of folds, an integer from 2 to the {n_entries} entries."
        )
    return generator(random_state).permutation(np.arange(n_entries, dtype=np.int64) % int(n))


def balanced_fold_numbers(
    marked: npt.NDArray[np.bool_], n: int, draws: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Return a random fold number for each entry; folds differ by one at most, also in marked entries."""
    numbers = np.empty(marked.size, dtype=np.int64)
    for part in (marked, ~marked):
        count = np.arange(int(np.count_nonzero(part)))
        # Unmarked entries fill folds from the last one, so that sizes differ by one in total.
        numbers[part] = draws.permutation((count if part is marked else n - 1 - count) % n)
    return numbers


def hashed_fold_numbers(
    rows: npt.NDArray[np.integer[Any]], columns: npt.NDArray[np.integer[Any]], n: int, seed: int
) -> npt.NDArray[np.int64]:
    """Return a fold number for each entry: SplitMix64 of the seed, its row and its column."""
    state = _splitmix64(np.full(1, seed, dtype=np.uint64))
    state = _splitmix64(state ^ rows.astype(np.uint64))
    state = _splitmix64(state ^ columns.astype(np.uint64))
    return (state % np.uint64(n)).astype(np.int64)


def _splitmix64(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the output function of SplitMix64 (Steele, Lea and Flood 2014), one step on."""
    with np.errstate(over="ignore"):
        z = state + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
