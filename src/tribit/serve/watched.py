"""The model of a file, swapped for the next one when the file is replaced."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from pathlib import Path

from tribit.errors import TribitError
from tribit.quoting import printable, quoted
from tribit.recommender import Recommender
from tribit.serve.counters import Counters
from tribit.serve.served import ServedModel

#: Seconds between two looks at the file: often enough for a deployment to see its new model, a system call each.
INTERVAL = 1.0
#: Digits of the file's SHA-256 that name a version: enough to tell any two models apart.
DIGITS = 12

logger = logging.getLogger(__name__)

#: Mark that tells a file from the one before it: time of change, size and inode.
Stamp = tuple[int, int, int]


class WatchedModel:
    """The model that answers now. A swap is one assignment, so that each request has one model from start to end.

    Parameters
    ----------
    path : path-like
        A bundle, which must load now.
    counters : Counters
        Count swaps and failures.
    """

    def __init__(self, path: str | os.PathLike[str], counters: Counters) -> None:
        self.path, self.counters = Path(path), counters
        # Before loading: a file that is replaced meanwhile has another stamp at the first look.
        self._stamp: Stamp | None = _stamp(self.path) if self.path.exists() else None
        self.served = load(self.path)
        self.loaded = time.time()
        self.problem: str | None = None

    def check(self) -> bool:
        """Swap the model if the file has changed; return whether it did.

        A file that cannot be loaded leaves the model as it is. What is wrong with it stays in ``problem`` until the
        file changes again.
        """
        try:
            stamp = _stamp(self.path)
        except OSError as error:
            # Between two renames there may be none for a moment; the model is in memory.
            self.problem = f"{quoted(str(self.path))} is not there any more ({error.strerror})."
            self._stamp = None  # whichever file comes is loaded
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
            self.counters.failed()
            logger.error("%s The old model goes on answering.", self.problem)
            return False
        self.served, self.loaded, self.problem = served, time.time(), None
        self.counters.swapped()
        logger.info("The model is now version %s.", served.version)
        return True

    async def watch(self) -> None:
        """Look at the file for ever, in a thread: loading takes seconds."""
        while True:
            await asyncio.sleep(INTERVAL)
            await asyncio.to_thread(self.check)


def load(path: Path) -> ServedModel:
    """Return the bundle in a file, ready to answer."""
    bundle = Recommender.load(path)  # first: it has a sentence for a file that is none
    with path.open("rb") as file:
        version = hashlib.file_digest(file, "sha256").hexdigest()[:DIGITS]
    return ServedModel(bundle, version)


def _stamp(path: Path) -> Stamp:
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino
