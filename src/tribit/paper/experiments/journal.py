"""The folder of a run: tables, texts, and a journal of each study with a line for each finished task.

The first line of a journal holds the study, its parameters and the versions of the software. A line is on disk before
the next task counts as done; an incomplete last line is dropped and its task done again.
"""

from __future__ import annotations

import csv
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import numpy as np
import scipy
from threadpoolctl import threadpool_info

from tribit import __version__
from tribit.data.files import atomic_path, take_lock
from tribit.errors import InvalidInputError, parameter

#: One line of a tidy table.
Row: TypeAlias = dict[str, Any]
#: Versions of the software; a journal with other versions is refused.
VERSIONS = {
    "tribit": __version__,
    "numpy": np.__version__,
    "scipy": scipy.__version__,
    "python": platform.python_version(),
}


def processor() -> str:
    """Return the processor and the BLAS kernels: with others sums are rounded differently."""
    kernels = {each.get("architecture") for each in threadpool_info() if each["user_api"] == "blas"}
    names = " and ".join(sorted(filter(None, kernels)))
    return f"{_processor_name()}, BLAS kernels of {names}" if names else _processor_name()


def _processor_name() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        with facts.open() as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":")[1].strip()
    return platform.processor() or platform.machine()


class Journal:
    """Finished tasks and their rows, in a file that only grows.

    Parameters
    ----------
    path : Path
        The file; made, with its folder, if missing.
    header : dict
        The study, its parameters and versions, as JSON. A file with another header is refused.
    """

    def __init__(self, path: Path, header: dict[str, Any]) -> None:
        self.path, self.header = path, json.loads(json.dumps(header))
        self.rows: dict[str, list[Row]] = {}
        self._file: Any = None

    def __enter__(self) -> Self:
        check_header(self.path, self.header)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a+b")
        except OSError as error:
            raise InvalidInputError(
                f"{str(self.path)!r} cannot be written ({error.strerror}); choose another folder."
            ) from error
        try:
            self._lock()
            whole, self.rows = _read(self.path)
            self._file.truncate(whole)
            if not whole:
                self._write(self.header)
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, key: str, rows: list[Row]) -> None:
        """Put a finished task on disk."""
        self._write({"key": key, "rows": rows})
        self.rows[key] = json.loads(json.dumps(rows))  # the same values as a resumed run reads

    def _write(self, value: object) -> None:
        line = _line(value)
        try:
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise InvalidInputError(
                f"{str(self.path)!r} could not be written ({error.strerror}); free some space, then run the same "
                "command to continue."
            ) from error

    def _lock(self) -> None:
        try:
            taken = take_lock(self._file)
        except OSError:
            taken = sys.platform == "win32"  # no locks there
        if not taken:
            raise InvalidInputError(
                f"{str(self.path)!r} is in use by another run; wait for it, or choose another folder."
            )


def read_journal(path: Path, header: dict[str, Any]) -> dict[str, list[Row]] | None:
    """Return the finished tasks of a journal with this header, None where there is no such journal."""
    try:
        check_header(path, header)
        return _read(path)[1]
    except (InvalidInputError, OSError):
        return None


def check_header(path: Path, header: dict[str, Any]) -> None:
    """Refuse a journal with another header. A missing one, or one cut short in its first line, is accepted."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        first = file.readline()
    if not first.endswith(b"\n") and _line(header).startswith(first):
        return  # killed before the first line was whole
    try:
        found = json.loads(first)
    except ValueError:
        found = None
    if not isinstance(found, dict) or "study" not in found:
        raise InvalidInputError(
            f"{str(path)!r} is not a journal that tribit wrote; choose another folder."
        )
    wanted = json.loads(_line(header))
    for name in [*wanted, *found]:
        if found.get(name) != wanted.get(name):
            raise InvalidInputError(
                f"{str(path)!r} holds results with {parameter(name)} = {json.dumps(found.get(name))}, and this run has "
                f"{parameter(name)} = "
                f"{json.dumps(wanted.get(name))}; choose another folder, or the same options and versions."
            )


def _line(value: object) -> bytes:
    return json.dumps(value, allow_nan=False).encode() + b"\n"


def _read(path: Path) -> tuple[int, dict[str, list[Row]]]:
    """Return the number of bytes in complete lines, and their tasks."""
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    rows = {}
    for number, line in enumerate(content[:whole].splitlines()[1:], start=2):
        try:
            entry = json.loads(line)
            rows[entry["key"]] = entry["rows"]
        except (ValueError, KeyError, TypeError):
            raise InvalidInputError(
                f"Line {number} of the journal {str(path)!r} is damaged; choose another folder, or delete the file "
                "to begin again."
            ) from None
    return whole, rows


def results_folder(out: str | os.PathLike[str]) -> Path:
    """Return the folder, made if missing; refuse one that cannot be written."""
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError(
            f"{str(out)!r} is a file, not a folder for results; choose another."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(
            f"The folder {str(out)!r} cannot be made ({error.strerror}); choose another."
        ) from error
    if not os.access(folder, os.W_OK):
        raise InvalidInputError(f"The folder {str(out)!r} is read-only; choose another.")
    return folder


def write_csv(path: Path, rows: Sequence[Row], constants: Row) -> None:
    """Write rows with the constants in front; the columns are all names that occur."""
    rows = [constants | row for row in rows]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_text(path: Path, text: str) -> None:
    """Write a text atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
