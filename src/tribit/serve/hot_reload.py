"""Hot reload: the model of a file is loaded again when the file is replaced."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from pathlib import Path
from typing import TypeAlias

from tribit.errors import TribitError, printable, quoted
from tribit.fitted_recommender import FittedRecommender
from tribit.serve.counters import Counters
from tribit.serve.served_model import ServedModel

#: Seconds between two checks of the file; a check is one system call.
POLL_SECONDS = 1.0
#: Number of digits of the file's SHA-256 in a version.
VERSION_DIGITS = 12

logger = logging.getLogger(__name__)

#: Time of change, size and inode of a file; a replaced file has another stamp.
Stamp: TypeAlias = tuple[int, int, int]


class HotReload:
    """The loaded model of a file. A reload is one assignment, so that each request uses one model throughout.

    Parameters
    ----------
    path : path-like
        A saved recommender, which is loaded here.
    counters : Counters
        Counters of reloads and of files that could not be loaded.

    Attributes
    ----------
    served : ServedModel
        The loaded model.
    loaded : float
        Time of loading, in seconds since the epoch.
    problem : str or None
        Reason why the file could not be loaded; None if the model is that of the file.
    """

    def __init__(self, path: str | os.PathLike[str], counters: Counters) -> None:
        self.path, self.counters = Path(path), counters
        # Before loading: a file that is replaced meanwhile has another stamp at the first check.
        self._stamp: Stamp | None = _stamp(self.path) if self.path.exists() else None
        self.served = load_model(self.path)
        self.loaded = time.time()
        self.problem: str | None = None
        counters.describe(self)

    @property
    def version(self) -> str:
        """Version of the model."""
        return self.served.version

    def check(self) -> bool:
        """Load the model again if the file has changed, and return whether it was.

        If the file cannot be loaded, the old model stays and ``problem`` has the reason until the file changes again.
        """
        try:
            stamp = _stamp(self.path)
        except OSError as error:
            # Between two renames the file may be missing for a moment; the model stays in memory.
            self.problem = f"{quoted(str(self.path))} does not exist any more ({error.strerror})."
            self._stamp = None  # any new file is loaded
            return False
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            served = load_model(self.path)
        except Exception as error:  # whatever the file contains, the old model stays
            known = isinstance(error, TribitError | OSError)
            reason = str(error) if known else f"{type(error).__name__}: {error}"
            self.problem = f"The new file could not be loaded: {printable(reason)}"
            self.counters.failures.inc()
            logger.error("%s The old model stays loaded.", self.problem)
            return False
        self.served, self.loaded, self.problem = served, time.time(), None
        self.counters.swaps.inc()
        logger.info("The model is now version %s.", served.version)
        return True

    async def poll(self) -> None:
        """Poll the file and reload the model, in a thread, since loading takes seconds."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            await asyncio.to_thread(self.check)


def load_model(path: Path) -> ServedModel:
    """Return the recommender of a file, prepared for requests."""
    recommender = FittedRecommender.load(path)  # first: its errors name a missing or damaged file
    with path.open("rb") as file:
        version = hashlib.file_digest(file, "sha256").hexdigest()[:VERSION_DIGITS]
    return ServedModel(recommender, version)


def _stamp(path: Path) -> Stamp:
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino
