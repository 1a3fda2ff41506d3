"""Arrays of NumPy or of a device, as used by solvers and objectives.

Unknowns of a fit are NumPy arrays or, where a backend has them on a device, arrays of PyTorch. Code for both calls the
functions of :func:`namespace`, which follow the array API standard (https://data-apis.org/array-api). For arrays of
NumPy that is NumPy itself, and nothing else is imported.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "add_in_place",
    "dot",
    "dots",
    "full_beside",
    "is_numpy",
    "match_device",
    "namespace",
    "to_numpy",
]


#: Arrays of NumPy, or of a device with the same operators.
Array: TypeAlias = NDArray[np.floating[Any]]

#: Number of products that are summed in single precision; these sums are added in float64.
SINGLE_PRECISION_RUN = 2**14

#: Cache of the modules for types of arrays.
_namespaces: dict[type, Any] = {}


def is_numpy(array: object) -> bool:
    """Return whether an array is one of NumPy."""
    return isinstance(array, np.ndarray)


def namespace(array: object) -> Any:
    """Return the module with the functions for an array, by the names of the array API standard."""
    if is_numpy(array):
        return np
    kind = type(array)
    if kind not in _namespaces:  # the lookup is slower than the start of a pass over the array
        from array_api_compat import array_namespace  # noqa: PLC0415 - only for a device

        _namespaces[kind] = array_namespace(array)
    return _namespaces[kind]


def dot(left: Array, right: Array) -> float:
    """Return the sum of the products of two arrays of one shape, summed in float64 where these are in float32."""
    return dots((left, right))[0]


def dots(*pairs: tuple[Array, Array]) -> list[float]:
    """Return :func:`dot` of each pair; with one transfer from a device."""
    if is_numpy(pairs[0][0]):
        return [_dot(left, right) for left, right in pairs]
    xp = namespace(pairs[0][0])
    sums = [xp.sum(left * right, dtype=xp.float64) for left, right in pairs]
    found: list[float] = to_numpy(xp.stack(sums)).tolist()
    return found


def _dot(left: Array, right: Array) -> float:
    if left.dtype == np.float64:
        return float(np.vdot(left, right))
    left, right, n = left.ravel(), right.ravel(), SINGLE_PRECISION_RUN
    starts = range(0, left.size, n)
    return sum((float(np.vdot(left[i : i + n], right[i : i + n])) for i in starts), 0.0)


def add_in_place(total: Array, more: Array) -> Array:
    """Return the sum of two arrays, computed in place where the first has its dtype."""
    if namespace(total).result_type(total, more) != total.dtype:
        return total + more
    total += more
    return total


def full_beside(shape: tuple[int, ...], value: float, beside: Array) -> Array:
    """Return a constant array: in float64 beside an array of NumPy, else with the dtype and device of ``beside``."""
    if is_numpy(beside):
        return np.full(shape, value)
    found: Array = namespace(beside).full(shape, value, dtype=beside.dtype, device=beside.device)
    return found


def match_device(array: Array, beside: Array) -> Array:
    """Return an array of NumPy with the device and dtype of another one; unchanged beside an array of NumPy."""
    if is_numpy(beside) or not is_numpy(array):
        return array
    xp = namespace(beside)
    found: Array = xp.asarray(np.ascontiguousarray(array), dtype=beside.dtype, device=beside.device)
    return found


def to_numpy(array: Any) -> Any:
    """Return an array as one of NumPy."""
    return array if is_numpy(array) else array.cpu().numpy()
