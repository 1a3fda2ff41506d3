"""Paths and files: checks of a path, text to write, and writing a file whole or not at all."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import platform
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TextIO

from tribit.errors import InvalidInputError, InvalidTypeError, quoted

if sys.platform != "win32":
    import fcntl


def checked_path(path: str | os.PathLike[str]) -> Path:
    """Return the path; an error where no file can be there, but not where it is merely missing."""
    try:
        checked = Path(path)
        checked.stat()
        checked.resolve()
    except (FileNotFoundError, NotADirectoryError):
        return checked
    except TypeError:
        raise InvalidTypeError(
            f"A file is named by a str or a path; got {type(path).__name__}."
        ) from None
    # A NUL or a lone surrogate is a ValueError; links in circles are a RuntimeError to some versions of Python.
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInputError(
            f"{quoted(os.fspath(path))} cannot be the path of a file ({reason}); choose another."
        ) from None
    return checked


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield an empty file beside ``path`` that takes its place when the block succeeds; a symbolic link is followed.

    When the block raises, ``path`` is left as it was and the temporary file is removed. A file that is replaced hands
    on its permissions and, where this user may, its owner and group. What killed writers left in the directory is
    removed. A file that cannot be written is refused in one sentence.
    """
    target = writable(path)
    before = target.stat() if target.exists() else None
    try:
        remove_dead(target.parent)
        # What takes the place of a private file is private while it is written, too.
        with temporary_file(target.parent, 0o666 if before is None else 0o600) as temporary:
            yield temporary
            with temporary.open("rb+") as written:
                # On disk before the rename, or a power cut could leave the new name on an empty file.
                os.fsync(written.fileno())
            if before is not None:
                _keep_owner_and_mode(temporary, before)
            temporary.replace(target)
    except OSError as error:
        raise InvalidInputError(
            f"{quoted(os.fspath(path))} could not be written ({error.strerror or error}); "
            "check the directory's permissions and free space, or choose another."
        ) from error


def _keep_owner_and_mode(temporary: Path, before: os.stat_result) -> None:
    """Give a new file the owner, group and permissions of the one it replaces, as far as this user may."""
    mode, now = before.st_mode & 0o777, temporary.stat()
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        try:
            os.chown(temporary, before.st_uid, before.st_gid)
        except OSError:
            try:
                os.chown(temporary, -1, before.st_gid)
            except OSError:
                mode &= ~0o070  # what one group might do is not for another
    temporary.chmod(mode)


def writable(path: str | os.PathLike[str]) -> Path:
    """Return the file to write, its links followed; an error where it cannot be written, before long work."""
    # Resolved, so that writing through a link replaces the file it points to, not the link.
    target = checked_path(path).resolve()
    if target.exists() and not target.is_file():
        raise InvalidInputError(
            f"{quoted(os.fspath(path))} is not a regular file, so it cannot be written; choose a file name."
        )
    # The bits too: the superuser may write anything, but a read-only file is meant to stay.
    if target.exists() and not (target.stat().st_mode & 0o222 and os.access(target, os.W_OK)):
        raise InvalidInputError(
            f"{quoted(os.fspath(path))} is read-only, so it is not replaced; choose another file, or let it be written "
            "(chmod u+w)."
        )
    if not target.parent.is_dir():
        raise InvalidInputError(
            f"{quoted(os.fspath(path))} cannot be written because its directory does not exist; "
            "create the directory or choose another."
        )
    if not os.access(target.parent, os.W_OK):
        raise InvalidInputError(
            f"{quoted(os.fspath(path))} cannot be written because its directory is read-only; choose another."
        )
    return target


def check_different(source: str | os.PathLike[str], out: str | os.PathLike[str]) -> None:
    """Raise an error where the file to write is the file that is read."""
    source, out = checked_path(source), checked_path(out)
    try:
        same = source.samefile(out)  # also by another name: a link, hard or symbolic
    except OSError:
        same = False  # one of them is not there yet
    if same:
        raise InvalidInputError(
            f"{quoted(os.fspath(out))} is the file that is read, and would be lost; choose another file to write."
        )


@contextmanager
def text_writer(path: Path, *, gzipped: bool, encoding: str = "utf-8") -> Iterator[TextIO]:
    """Open text to write, gzipped or plain as asked, since a temporary name does not decide."""
    if not gzipped:
        with path.open("w", encoding=encoding, newline="") as text:
            yield text
        return
    # Without a name and a time inside, equal texts give equal bytes.
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding=encoding, newline="") as text,
    ):
        yield text


# Temporary files beside the files they will become: locked while they are written, removed when their writer is dead.
# A writer that is killed leaves its file, and the system lets go of the lock: whoever writes next in that directory
# removes what is not locked. A lock may not reach another machine on a shared disk, so files that another one left
# have to be old as well.

PREFIX, SUFFIX = ".tribit-", ".tmp"
#: Seconds without a change after which a file of another machine counts as abandoned.
ABANDONED_AFTER_SECONDS = 24 * 3600.0


@contextmanager
def temporary_file(directory: Path, mode: int) -> Iterator[Path]:
    """Yield a new empty file of that mode (less the umask), locked against removal; it is gone afterwards."""
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
    if not ours and time.time() - path.stat().st_mtime < ABANDONED_AFTER_SECONDS:
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
