"""The model of a file, reloaded when the file is replaced."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from pathlib import Path

from tribit.errors import TribitError, printable, quoted
from tribit.recommender import Recommender
from tribit.serve.counters import Counters
from tribit.serve.served import ServedModel

#: Seconds between two looks at the file: a deployment sees its new model soon, and a look is one system call.
INTERVAL = 1.0
#: Digits of the file's SHA-256 that name a version: enough to distinguish any two models.
DIGITS = 12

logger = logging.getLogger(__name__)

#: Time of change, size and inode of a file, which differ from those of the file before it.
Stamp = tuple[int, int, int]


class HotReload:
    """The model that answers now. A swap is one assignment, so that each request has one model from start to end.

    Parameters
    ----------
    path : path-like
        A saved recommender, which must load now.
    counters : Counters
        Count swaps and failures.

    Attributes
    ----------
    served : ServedModel
        The model.
    loaded : float
        When it was loaded.
    problem : str or None
        The reason why the file holds another model; None where it does not.
    """

    def __init__(self, path: str | os.PathLike[str], counters: Counters) -> None:
        self.path, self.counters = Path(path), counters
        # Before loading: a file that is replaced meanwhile has another stamp at the first look.
        self._stamp: Stamp | None = _stamp(self.path) if self.path.exists() else None
        self.served = load(self.path)
        self.loaded = time.time()
        self.problem: str | None = None
        counters.describe(self)

    @property
    def version(self) -> str:
        """Version of the model."""
        return self.served.version

    def check(self) -> bool:
        """Reload the model if the file has changed; return whether the model is a new one.

        A file that cannot be loaded leaves the model as it is, and ``problem`` says why until the file changes again.
        """
        try:
            stamp = _stamp(self.path)
        except OSError as error:
            # Between two renames there may be none for a moment; the model is in memory.
            self.problem = f"{quoted(str(self.path))} is not there any more ({error.strerror})."
            self._stamp = None  # any file that comes is loaded
            return False
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            served = load(self.path)
        except Exception as error:  # whatever a file holds, the old model goes on answering
            known = isinstance(error, TribitError | OSError)
            reason = str(error) if known else f"{type(error).__name__}: {error}"
            self.problem = f"The new file could not be loaded: {printable(reason)}"
            self.counters.failures.inc()
            logger.error("%s The old model goes on answering.", self.problem)
            return False
        self.served, self.loaded, self.problem = served, time.time(), None
        self.counters.swaps.inc()
        logger.info("The model is now version %s.", served.version)
        return True

    async def poll(self) -> None:
        """Check the file for ever, in a thread: loading takes seconds."""
        while True:
            await asyncio.sleep(INTERVAL)
            await asyncio.to_thread(self.check)


def load(path: Path) -> ServedModel:
    """Return the recommender in a file, prepared to answer."""
    recommender = Recommender.load(path)  # first: it has a sentence for a file that is none
    with path.open("rb") as file:
        version = hashlib.file_digest(file, "sha256").hexdigest()[:DIGITS]
    return ServedModel(recommender, version)


def _stamp(path: Path) -> Stamp:
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino
