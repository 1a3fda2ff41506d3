"""One way to turn a ``random_state`` into draws, and the draws that divide entries at random."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tribit.errors import InvalidInputError, InvalidTypeError, parameter

RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None


def generator(random_state: RandomState = None) -> np.random.Generator:
    """Return the generator that ``random_state`` stands for.

    Parameters
    ----------
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        An integer gives the same draws on every machine. A ``Generator`` is used as it is, so
        successive calls go on drawing from it. A ``RandomState``, or NumPy's global one for None,
        supplies the seed of a new generator, as scikit-learn's users expect.

    Returns
    -------
    numpy.random.Generator
        Ready to draw from.

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
        # PCG64 by name: default_rng may come to stand for another bit generator.
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


def held_out(n_entries: int, test: Any, random_state: RandomState) -> npt.NDArray[np.bool_]:
    """Mark a share (a float in (0, 1)) or a number (an int) of the entries, drawn at random."""
    if isinstance(test, bool) or not isinstance(test, Real):
        raise InvalidTypeError(f"test is {test!r}; pass a share between 0 and 1, or a count.")
    if not isinstance(test, Integral) and not 0 < float(test) < 1:
        raise InvalidInputError(f"test is {test}; pass a share between 0 and 1, or a count.")
    n_test = int(test) if isinstance(test, Integral) else round(float(test) * n_entries)
    if not 0 < n_test < n_entries:
        raise InvalidInputError(
            f"test={test} puts {n_test} of {n_entries} entries into the test part; "
            "choose it so that both parts have an entry."
        )
    return generator(random_state).permutation(n_entries) < n_test


def fold_numbers(n_entries: int, n: Any, random_state: RandomState) -> npt.NDArray[np.int64]:
    """Give each entry one of ``n`` fold numbers at random; fold sizes differ by one at most."""
    if isinstance(n, bool) or not isinstance(n, Integral) or not 2 <= int(n) <= n_entries:
        raise InvalidInputError(
            f"n is {n!r}; pass a number of folds, an integer from 2 to the {n_entries} entries."
        )
    return generator(random_state).permutation(np.arange(n_entries, dtype=np.int64) % int(n))


def balanced_fold_numbers(
    marked: npt.NDArray[np.bool_], n: int, draws: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Give each entry one of ``n`` fold numbers at random; folds differ by one at most, also in marked entries."""
    numbers = np.empty(marked.size, dtype=np.int64)
    for part in (marked, ~marked):
        count = np.arange(int(np.count_nonzero(part)))
        # The others from the last fold down, so that sizes differ by one in all, not by one a kind.
        numbers[part] = draws.permutation((count if part is marked else n - 1 - count) % n)
    return numbers


def hashed_fold_numbers(
    rows: npt.NDArray[np.integer[Any]], columns: npt.NDArray[np.integer[Any]], n: int, seed: int
) -> npt.NDArray[np.int64]:
    """Return one of ``n`` fold numbers for each entry: SplitMix64 of its row, of that and its column, of the seed."""
    state = _mixed(np.full(1, seed, dtype=np.uint64))
    state = _mixed(state ^ rows.astype(np.uint64))
    state = _mixed(state ^ columns.astype(np.uint64))
    return (state % np.uint64(n)).astype(np.int64)


def _mixed(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the output function of SplitMix64 (Steele, Lea and Flood 2014), one step on."""
    with np.errstate(over="ignore"):
        z = state + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
