"""Room for intermediate results that each thread uses again.

Arrays of megabytes come from the operating system page by page: writing to a new one takes several times as long as
writing to one that was used before.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


class Scratch:
    """Named arrays of a thread, each valid until the same thread asks for one of that name again."""

    def __init__(self) -> None:
        self._own = threading.local()

    def array(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return an array of this shape, its numbers left over from earlier use."""
        kind = np.dtype(dtype)
        stores: dict[str, NDArray[np.uint8]] = self._own.__dict__
        needed = math.prod(shape) * kind.itemsize
        store = stores.get(name)
        if store is None or store.size < needed:
            store = stores[name] = np.empty(needed, dtype=np.uint8)
        return store[:needed].view(kind).reshape(shape)
