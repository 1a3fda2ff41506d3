"""Lists that were asked for before, as the bytes that were sent."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable


class KeptLists:
    """The answers that were asked for last, at most so many bytes of them; safe in threads.

    Parameters
    ----------
    limit : int
        Most bytes of all answers together.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> bytes | None:
        """Return an answer, or None."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def put(self, key: Hashable, answer: bytes) -> None:
        """Keep an answer, and drop those that nobody asked for longest."""
        with self._lock:
            self.size += len(answer) - len(self._kept.pop(key, b""))
            self._kept[key] = answer
            while self.size > self.limit:
                _, dropped = self._kept.popitem(last=False)
                self.size -= len(dropped)
