"""The folder that a run writes to: its journal, tables and texts."""

from __future__ import annotations

import csv
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from tribit import __version__
from tribit.data.files import atomic_path
from tribit.errors import InvalidInputError
from tribit.paper.experiments.journal import Row
from tribit.paper.experiments.runner import Study

#: Versions of the software that computes the results; a journal of others is refused.
VERSIONS = {
    "tribit": __version__,
    "numpy": np.__version__,
    "scipy": scipy.__version__,
    "python": platform.python_version(),
}


def results_folder(out: str | os.PathLike[str]) -> Path:
    """Return the folder, made where it is not there, or say why it cannot be written."""
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


def journal_path(folder: Path, study: Study) -> Path:
    """Return where the results of a study are kept as they come."""
    return folder / "journal" / f"{study.name}.jsonl"


def journal_header(study: Study) -> dict[str, Any]:
    """Return what a journal must say to be one of this study."""
    return {"study": study.name} | VERSIONS | study.parameters


def write_csv(path: Path, rows: Sequence[Row], constants: Row) -> None:
    """Write rows, each with the constants before it; a column for every name that some row has."""
    rows = [constants | row for row in rows]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_text(path: Path, text: str) -> None:
    """Write a text, all of it or nothing."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
