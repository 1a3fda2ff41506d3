"""Arrays of a fitted ranker in a saved recommender: checked against the entries beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.errors import InvalidInputError

__all__ = ["checked_arrays"]

Array = NDArray[np.float64]


def checked_arrays(arrays: Mapping[str, Any], shape: tuple[int, int]) -> dict[str, Array]:
    """Return the arrays of a ranker as float64, checked against the shape of what was seen, or say what is wrong.

    Parameters
    ----------
    arrays : mapping
        What :meth:`tribit.ranking.CandidateRanker.arrays` returned.
    shape : (int, int)
        Numbers of rows and columns of the observations that came with them.
    """
    n_rows, n_columns = shape
    shapes = {
        "coefficients": (2, 5),
        "l2": (2,),
        "likes_diagonal": (n_columns,),
        "mask_diagonal": (n_columns,),
        "fitted_rows": (),
    }
    unknown = next((name for name in arrays if name not in shapes), None)
    if unknown is not None:
        raise InvalidInputError(
            f"The arrays of the ranker have an unknown {unknown}; use those of a fitted ranker as they are."
        )
    found = {name: _as_floats(arrays, name, wanted) for name, wanted in shapes.items()}
    for name in ("l2", "likes_diagonal", "mask_diagonal"):
        if not ((found[name] > 0) & (found[name] < np.inf)).all():
            raise InvalidInputError(
                f"{name} of the ranker must be positive and finite; use the arrays of a fitted ranker as they are."
            )
    t = found["coefficients"].copy()
    t[1, 0] = 0.0 if t[1, 0] == -np.inf else t[1, 0]  # where no dislikes were observed
    if not np.isfinite(t).all():
        raise InvalidInputError(
            "coefficients of the ranker must be finite; use the arrays of a fitted ranker as they are."
        )
    count = float(found["fitted_rows"])
    if not (1 <= count <= n_rows and count == round(count)):
        raise InvalidInputError(
            f"fitted_rows of the ranker is {count:g} and the observations have {n_rows} rows: pass those it was "
            "fitted on, in their order."
        )
    return found


def _as_floats(arrays: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Array:
    if name not in arrays:
        raise InvalidInputError(
            f"The arrays of the ranker have no {name}; use those of a fitted ranker as they are."
        )
    array = np.asarray(arrays[name])
    if array.dtype.kind not in "iuf" or array.shape != shape:
        raise InvalidInputError(
            f"{name} of the ranker is of {array.dtype} with the shape {array.shape}; numbers of the shape {shape} go "
            "with these observations."
        )
    return array.astype(np.float64)
