"""A device on the CPU: arrays that are none of NumPy, with the functions of the array API that solvers call."""

from types import SimpleNamespace

import numpy as np


class DeviceArray:
    """An array of NumPy behind the operators that arrays of a device have."""

    device = "elsewhere"

    def __init__(self, values):
        self.values = np.asarray(values)

    def __getattr__(self, name):
        if name not in {"shape", "dtype", "ndim"}:
            raise AttributeError(name)
        return getattr(self.values, name)

    def __getitem__(self, place):
        return DeviceArray(self.values[place])

    def __setitem__(self, place, value):
        self.values[place] = value.values

    def __add__(self, other):
        return DeviceArray(self.values + plain(other))

    def __mul__(self, other):
        return DeviceArray(self.values * plain(other))

    def __matmul__(self, other):
        return DeviceArray(self.values @ other.values)

    def __neg__(self):
        return DeviceArray(-self.values)

    __rmul__ = __mul__

    def cpu(self):
        return SimpleNamespace(numpy=lambda: self.values)


def plain(value):
    """Return a number as it is; arrays must be of the device."""
    if isinstance(value, np.ndarray):
        raise TypeError("An array of NumPy is not on the device.")
    return value.values if isinstance(value, DeviceArray) else value


def on_device(function):
    """Return a function of NumPy for arrays of the device, or a list of these as the first argument."""

    def call(first, *rest, **options):
        options.pop("device", None)
        first = [plain(each) for each in first] if isinstance(first, list) else first
        given = first.values if isinstance(first, DeviceArray) else first
        return DeviceArray(function(given, *(plain(each) for each in rest), **options))

    return call


#: Functions of the standard, by their names in NumPy.
NAMES = {"permute_dims": "transpose", "asarray": "array"}
NAMES |= {name: name for name in ("full", "matmul", "reshape", "stack", "sum")}
NAMESPACE = SimpleNamespace(
    **{name: on_device(getattr(np, theirs)) for name, theirs in NAMES.items()},
    float64=np.float64,
)
