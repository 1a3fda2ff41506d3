"""The meaning of 0 and False in a table of likes and dislikes: one rule for files, frames and matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from tribit.errors import InvalidInputError, either, parameter

if TYPE_CHECKING:
    from tribit.data.axis import AnyArray
    from tribit.data.rules import TableRules

Zeros: TypeAlias = Literal["dislike", "unobserved"]
#: Tables by what they say about unobserved entries: a dense one has a cell for each, in which a value may be missing;
#: the entries of a sparse or a long one are listed, and the others unobserved.
Holder: TypeAlias = Literal["dense", "sparse", "long"]


class ZeroMeaning(NamedTuple):
    """The meaning of a 0; None where there is none and a later table decides. The note has the reason of a guess."""

    zeros: Zeros | None
    note: str | None = None


def meaning_of_zero(
    values: AnyArray,
    rules: TableRules,
    *,
    holder: Holder,
    has_missing: bool,
    name: str,
    ambiguous: Zeros | None = None,
) -> ZeroMeaning:
    """Return the meaning of 0 and False.

    ========================================================  ==============================
    the table                                                 0 and False
    ========================================================  ==============================
    any, with ``zeros``                                       as given
    ratings (``like_at``), sparse, long or a missing value    a rating
    ratings, dense without a missing value                    unobserved
    has -1                                                    unobserved
    values 0 and 1: sparse, long or a missing value           a dislike
    values 0 and 1: dense without a missing value             an error, as it is ambiguous
    ========================================================  ==============================

    Parameters
    ----------
    values : array of numbers or booleans
        The values that are stored and not missing, or the distinct ones.
    rules : TableRules
        Their ``zeros``, if given, decides.
    holder, has_missing
        Kind of the table, and whether a cell of a dense one is missing.
    name : str
        Name of the table in messages.
    ambiguous : {"dislike", "unobserved"}, optional
        The meaning where it is ambiguous, instead of an error: unobserved in a mask of entries.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Observations
    >>> Observations.from_matrix(np.array([[1, 0, np.nan]]))  # beside a missing value
    Observations(1 x 3, 2 observed (66.7%), 1 like, 1 dislike; 0 is a dislike)
    >>> Observations.from_matrix(np.array([[1, 0, -1]]))  # beside -1
    Observations(1 x 3, 2 observed (66.7%), 1 like, 1 dislike; 0 is unobserved)
    """
    is_zero = values == 0
    has_zeros = bool(is_zero.any())
    listed = holder != "dense" or has_missing
    if rules.zeros is not None:
        return ZeroMeaning(rules.zeros)
    if holder == "sparse" and not has_zeros:  # then those that are not stored are the zeros
        return ZeroMeaning("unobserved")
    places = {
        "dense": "as other cells are empty",
        "sparse": "where it is stored",
        "long": "where it is listed",
    }
    found: Zeros = "dislike" if listed else "unobserved"
    if rules.like_at is not None:
        why = f"a rating, {places[holder]}" if listed else "unobserved, as no cell is empty"
    elif (values == -1).any():
        found, why = "unobserved", "unobserved, as -1 is the dislike"
    elif not (is_zero | (values == 1)).all():
        # Neither labels nor ratings, which is an error for the reader of the values.
        return ZeroMeaning("unobserved")
    elif has_zeros and not listed:
        if ambiguous is not None:
            return ZeroMeaning(ambiguous)
        if is_zero.all():
            raise InvalidInputError(f"{name} has no observed entry; give it a +1 or a -1.")
        raise InvalidInputError(
            f"{name} has only 0 and 1 and no missing value, so that a 0 may be a dislike or unobserved: pass "
            f"{parameter('zeros', 'dislike')} if every cell was observed, or {parameter('zeros', 'unobserved')} for "
            f"likes alone{either(' (a keyword of fit and of Observations.from_matrix)')}."
        )
    else:
        why = f"a dislike, {places[holder]}"
    if not has_zeros:  # of labels +1 and -1 in a dense matrix: those to come have zeros
        decided = holder == "dense" and found == "unobserved" and rules.like_at is None
        return ZeroMeaning(found if decided else None)
    return ZeroMeaning(found, f"{name}: 0 is {why} (guessed).")
