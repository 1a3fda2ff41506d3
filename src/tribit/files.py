"""What file formats share: opening text, finding a column, writing all of a file or nothing."""

from __future__ import annotations

import gzip
import io
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from tribit.errors import InvalidInputError
from tribit.quoting import listed, quoted


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    r"""Yield a temporary path beside ``path`` that takes its place when the block succeeds.

    When the block raises, ``path`` is left as it was and the temporary file is removed.

    Parameters
    ----------
    path : str or path-like
        The file to write; a symbolic link is followed.

    Yields
    ------
    pathlib.Path
        An empty file in the same directory, for the block to write.

    Raises
    ------
    InvalidInputError
        If the directory is missing or cannot be written, if ``path`` names something other than
        a regular file, or if writing fails (a full disk).

    Examples
    --------
    >>> with atomic_path("scores.csv") as temporary:  # doctest: +SKIP
    ...     temporary.write_text("row,column,score\n")
    """
    target = writable(path)
    # A name of fixed length: the target's own name may leave no room for a suffix.
    temporary = target.parent / f".tribit-{secrets.token_hex(8)}.tmp"
    try:
        # Not tempfile: it creates files that only their owner may read, and the rename keeps that.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield temporary
        with temporary.open("rb+") as written:
            # On disk before the rename, or a power cut could leave the new name on an empty file.
            os.fsync(written.fileno())
        temporary.replace(target)
    except OSError as error:
        raise InvalidInputError(
            f"{str(path)!r} could not be written ({error.strerror or error}); "
            "check the directory's permissions and free space, or choose another."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def writable(path: str | os.PathLike[str]) -> Path:
    """Return the file to write, its links followed, or say why it cannot be: before long work, say."""
    # Resolved, so that writing through a link replaces the file it points to, not the link.
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        raise InvalidInputError(
            f"{str(path)!r} is not a regular file, so it cannot be written; choose a file name."
        )
    if not target.parent.is_dir():
        raise InvalidInputError(
            f"{str(path)!r} cannot be written because its directory does not exist; "
            "create the directory or choose another."
        )
    if not os.access(target.parent, os.W_OK):
        raise InvalidInputError(
            f"{str(path)!r} cannot be written because its directory is read-only; choose another."
        )
    return target


def check_different(source: str | os.PathLike[str], out: str | os.PathLike[str]) -> None:
    """Refuse to write over the file that is read."""
    try:
        same = Path(source).samefile(out)  # also by another name: a link, hard or symbolic
    except (OSError, ValueError):
        same = False  # one of them is missing or no path at all, which whoever reads or writes it tells
    if same:
        raise InvalidInputError(
            f"{quoted(os.fspath(out))} is the file that is read, and would be lost; choose another file to write."
        )


def text_reader(path: Path) -> TextIO:
    """Open UTF-8 text, gzipped if the name ends in ``.gz``, with its line ends as they are."""
    # "-sig" drops the mark that some spreadsheets put before the first header.
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


@contextmanager
def text_writer(path: Path, *, gzipped: bool) -> Iterator[TextIO]:
    """Open UTF-8 text to write, gzipped or plain whatever the (temporary) name says."""
    if not gzipped:
        with path.open("w", encoding="utf-8", newline="") as text:
            yield text
        return
    # Without a name and a time inside, equal texts give equal bytes.
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="") as text,
    ):
        yield text


def column_place(header: list[str], column: str, name: str) -> int:
    """Return where the file called ``name`` has a column, which must be there once."""
    if header.count(column) != 1:
        problem = "has two columns" if column in header else "has no column"
        raise InvalidInputError(
            f"{name} {problem} {quoted(column)}; choose one of its columns: {listed(header)}."
        )
    return header.index(column)


def column_places(header: list[str], wanted: list[str] | None, name: str) -> dict[str, int]:
    """Return where the file called ``name`` has the wanted columns, or all; each must be there once."""
    if wanted:
        return {column: column_place(header, column, name) for column in wanted}
    places = {column: place for place, column in enumerate(header)}
    # With a name twice, the place of its first is not the one that was kept.
    for place, column in enumerate(header):
        if places[column] != place:
            column_place(header, column, name)
    return places
