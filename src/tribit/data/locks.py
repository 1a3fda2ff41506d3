"""A lock on an open file: held by one process alone, and let go by the system when that dies."""

from __future__ import annotations

import errno
import sys
from typing import IO, Any

if sys.platform != "win32":
    import fcntl


def take_lock(file: int | IO[Any]) -> bool:
    """Return whether the lock was free, and hold it from now on until the file is closed.

    Raises
    ------
    OSError
        Where the system or the disk has no locks.
    """
    if sys.platform == "win32":
        raise OSError(errno.ENOTSUP, "there are no such locks on Windows")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
