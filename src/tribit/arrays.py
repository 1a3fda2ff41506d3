"""Arrays of NumPy or of a device: what solvers and objectives do to either.

Unknowns of a fit are NumPy arrays or, where a backend keeps them on a device, arrays of PyTorch. Code that handles both
calls the functions of :func:`namespace`, which have the names and the meaning of the array API standard
(https://data-apis.org/array-api). For NumPy's arrays that is NumPy itself, and nothing else is imported.
"""

from __future__ import annotations

from typing import Any

import numpy as np

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


#: Number of products of single precision that are summed in it; their sums are added in float64.
RUN = 2**14

#: Modules for types of arrays that were asked for.
_namespaces: dict[type, Any] = {}


def is_numpy(array: Any) -> bool:
    """Return whether an array is one of NumPy."""
    return isinstance(array, np.ndarray)


def namespace(array: Any) -> Any:
    """Return the module with the functions for an array, by the names of the array API standard."""
    if is_numpy(array):
        return np
    kind = type(array)
    if kind not in _namespaces:  # looking takes longer than to begin a pass over the array
        from array_api_compat import array_namespace  # noqa: PLC0415 - nobody without a device needs it

        _namespaces[kind] = array_namespace(array)
    return _namespaces[kind]


def dot(left: Any, right: Any) -> float:
    """Return the sum of the products of two arrays of one shape, summed in float64 where these are in float32."""
    return dots((left, right))[0]


def dots(*pairs: tuple[Any, Any]) -> list[float]:
    """Return :func:`dot` of each pair; from a device they come together, as it is waited for each time."""
    if is_numpy(pairs[0][0]):
        return [_dot(left, right) for left, right in pairs]
    xp = namespace(pairs[0][0])
    sums = [xp.sum(left * right, dtype=xp.float64) for left, right in pairs]
    found: list[float] = to_numpy(xp.stack(sums)).tolist()
    return found


def _dot(left: Any, right: Any) -> float:
    if left.dtype == np.float64:
        return float(np.vdot(left, right))
    left, right = left.ravel(), right.ravel()
    starts = range(0, left.size, RUN)
    return sum((float(np.vdot(left[i : i + RUN], right[i : i + RUN])) for i in starts), 0.0)


def add_in_place(total: Any, more: Any) -> Any:
    """Return the sum of two arrays, in the place of the first one where that has its type."""
    if namespace(total).result_type(total, more) != total.dtype:
        return total + more
    total += more
    return total


def full_beside(shape: tuple[int, ...], value: float, beside: Any) -> Any:
    """Return an array of one number: in float64 beside NumPy's arrays, in the type and on the device of others."""
    if is_numpy(beside):
        return np.full(shape, value)
    return namespace(beside).full(shape, value, dtype=beside.dtype, device=beside.device)


def match_device(array: Any, beside: Any) -> Any:
    """Return an array of NumPy on the device and in the type of another one; as it is beside NumPy's."""
    if is_numpy(beside) or not is_numpy(array):
        return array
    xp = namespace(beside)
    return xp.asarray(np.ascontiguousarray(array), dtype=beside.dtype, device=beside.device)


def to_numpy(array: Any) -> Any:
    """Return an array of NumPy with the same numbers."""
    return array if is_numpy(array) else array.cpu().numpy()
