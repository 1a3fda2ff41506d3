"""Temporary files beside the files they will become: locked while they are written, removed when their writer is dead.

A writer that is killed leaves its file, and the system lets go of the lock: whoever writes next in that directory
removes what is not locked. A lock may not reach another machine on a shared disk, so files that another one left
have to be old as well.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

if sys.platform != "win32":
    import fcntl

PREFIX, SUFFIX = ".tribit-", ".tmp"
#: Seconds without a change after which a file of another machine has no writer any more.
FORGOTTEN = 24 * 3600.0


@contextmanager
def temporary_file(directory: Path, mode: int) -> Iterator[Path]:
    """Yield a new empty file of that mode (less the umask), which nobody removes meanwhile; it is gone afterwards."""
    while True:
        # A name of fixed length: the target's own name may leave no room for a suffix.
        path = directory / f"{_of_this_machine()}{secrets.token_hex(8)}{SUFFIX}"
        lock = None
        # From before there is a file: a signal may end this between any two steps.
        try:
            # Not tempfile: it creates files that only their owner may read, and the rename keeps that.
            lock = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
            if sys.platform == "win32":  # a file that is open cannot be renamed there
                os.close(lock)
                lock = None
            if lock is None or _is_kept(path, lock):
                yield path
                return
        finally:
            path.unlink(missing_ok=True)
            if lock is not None:
                os.close(lock)


def take_lock(file: int | IO[Any]) -> bool:
    """Return whether the lock was free, and hold it until the file is closed; OSError where there are no locks."""
    if sys.platform == "win32":
        raise OSError(errno.ENOTSUP, "there are no such locks on Windows")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def remove_dead(directory: Path) -> None:
    """Remove the temporary files in the directory whose writers are dead, as far as this user may."""
    with suppress(OSError):
        for name in os.listdir(directory):  # noqa: PTH208 - names are all that is wanted of a long list
            if name.startswith(PREFIX) and name.endswith(SUFFIX):
                with suppress(OSError):
                    _remove_if_dead(directory / name)


def _is_kept(path: Path, descriptor: int) -> bool:
    """Lock a new file; return False if another process took it for a dead one before it was locked."""
    try:
        return take_lock(descriptor) and os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
    except OSError:  # no locks on this disk: then nobody removes a file either
        return True


def _remove_if_dead(path: Path) -> None:
    ours = path.name.startswith(_of_this_machine())
    if not ours and time.time() - path.stat().st_mtime < FORGOTTEN:
        return
    # Not blocking: the name may be that of a pipe, which waits for a reader.
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NONBLOCK", 0))
    try:
        if take_lock(descriptor):
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _of_this_machine() -> str:
    """Return how the names of this machine's files begin."""
    return f"{PREFIX}{hashlib.sha256(platform.node().encode()).hexdigest()[:8]}-"
