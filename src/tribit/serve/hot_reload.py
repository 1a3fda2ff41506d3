"""Hot reload: the model of a file is loaded again when the file is replaced."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from pathlib import Path
from typing import TypeAlias

from tribit import storage
from tribit.errors import TribitError, printable, quoted
from tribit.fitted_recommender import recommender_of
from tribit.serve.counters import Counters
from tribit.serve.schemas import MAX_ITEMS
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
    max_items : int
        Maximum number of items of any list of a request.
    may_wait : bool
        Whether a file that cannot be loaded is no error: :meth:`wait` then waits for the next one.

    Attributes
    ----------
    served : ServedModel
        The loaded model.
    loaded : float
        Time of loading, in seconds since the epoch.
    problem : str or None
        Reason why the file could not be loaded; None if the model is that of the file.
    """

    served: ServedModel
    loaded = 0.0

    def __init__(
        self,
        path: str | os.PathLike[str],
        counters: Counters,
        *,
        max_items: int = MAX_ITEMS,
        may_wait: bool = False,
    ) -> None:
        self.path, self.counters, self.max_items = Path(path), counters, max_items
        self._stamp: Stamp | None = None
        self.problem: str | None = None
        if may_wait:
            self.check()
        else:
            # Before loading: a file that is replaced meanwhile has another stamp at the first check.
            stamp = _stamp(self.path) if self.path.exists() else None
            self._set(load_model(self.path, max_items), stamp)
        counters.describe(self)

    def _set(self, served: ServedModel, stamp: Stamp | None) -> None:
        self.served, self._stamp = served, stamp
        self.loaded, self.problem = time.time(), None

    @property
    def is_loaded(self) -> bool:
        """Whether there is a model."""
        return self.loaded > 0

    @property
    def status(self) -> str:
        """``"ok"`` if the model is that of the file, else ``"stale"``."""
        return "ok" if self.problem is None else "stale"

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
            missing = f"{quoted(str(self.path))} does not exist any more ({error.strerror})."
            if not self.is_loaded and missing != self.problem:
                self._log(missing)
            self.problem = missing
            self._stamp = None  # any new file is loaded
            return False
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            served = load_model(self.path, self.max_items)
        except Exception as error:  # whatever the file contains, the old model stays
            known = isinstance(error, TribitError | OSError)
            reason = str(error) if known else f"{type(error).__name__}: {error}"
            self.problem = f"The file could not be loaded: {printable(reason)}"
            self.counters.failures.inc()
            self._log(self.problem)
            return False
        if self.is_loaded:
            self.counters.swaps.inc()
        self._set(served, stamp)
        logger.info("The model is now version %s.", served.version)
        return True

    def _log(self, problem: str) -> None:
        rest = "The old model stays loaded." if self.is_loaded else "A worker waits for a new file."
        logger.error("%s %s", problem, rest)

    async def wait(self) -> None:
        """Return when a model is loaded."""
        while not self.is_loaded:
            await asyncio.sleep(POLL_SECONDS)
            await asyncio.to_thread(self.check)

    async def poll(self) -> None:
        """Poll the file and reload the model, in a thread, since loading takes seconds."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            await asyncio.to_thread(self.check)


def load_model(path: Path, max_items: int = MAX_ITEMS) -> ServedModel:
    """Return the recommender of a file, prepared for requests."""
    digest = hashlib.sha256()  # of the bytes that are loaded: the file may be replaced meanwhile
    recommender = storage.read(path, recommender_of, digest=digest)
    return ServedModel(recommender, digest.hexdigest()[:VERSION_DIGITS], max_items=max_items)


def _stamp(path: Path) -> Stamp:
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino
