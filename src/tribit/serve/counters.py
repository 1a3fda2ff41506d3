"""Numbers about a service in the text format of Prometheus, summed over all workers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

#: The endpoints; what has another path is counted as the last one, so that clients cannot make up new names.
ENDPOINTS = ("/predict", "/recommend", "/explain", "/fold-in", "/health", "/metrics", "other")
#: The statuses that the service answers with; any other is counted as the last one.
STATUSES = (200, 400, 404, 405, 408, 413, 414, 422, 503, 500)
#: Upper ends of the bins of seconds: around 1 ms, what a kept list takes, and 50 ms, above which people notice.
BINS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

#: Places of one worker's numbers: requests by endpoint and status, those by endpoint and bin, seconds by endpoint, and
#: the numbers of swaps and of files that could not be loaded.
_REQUESTS = len(ENDPOINTS) * len(STATUSES)
_BINNED = len(ENDPOINTS) * (len(BINS) + 1)
_SIZE = _REQUESTS + _BINNED + len(ENDPOINTS) + 2


class Counters:
    """Counts of one worker: requests, which its event loop counts, and models, which the thread that loads them does.

    Parameters
    ----------
    folder : path-like, optional
        Folder in which every worker keeps its numbers in a file, so that any of them can tell the sum; one worker alone
        needs none.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._folder = None if folder is None else Path(folder)
        if self._folder is None:
            self._own: NDArray[np.float64] = np.zeros(_SIZE)
        else:
            file = self._folder / f"worker-{os.getpid()}.counts"
            self._own = np.memmap(file, np.float64, "w+", shape=(_SIZE,))

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        endpoint = _place(ENDPOINTS, path)
        self._own[endpoint * len(STATUSES) + _place(STATUSES, status)] += 1
        # The first bin whose end is not below; np.searchsorted takes longer for so few.
        place = next((at for at, end in enumerate(BINS) if seconds <= end), len(BINS))
        self._own[_REQUESTS + endpoint * (len(BINS) + 1) + place] += 1
        self._own[_REQUESTS + _BINNED + endpoint] += seconds

    def swapped(self) -> None:
        """Count a model that took the place of another."""
        self._own[-2] += 1

    def failed(self) -> None:
        """Count a file that could not be loaded."""
        self._own[-1] += 1

    def text(self, version: str, loaded: float, problem: str | None) -> str:
        """Return all numbers; those of the model are of the worker that answers."""
        return "\n".join(self._lines(version, loaded, problem)) + "\n"

    def _lines(self, version: str, loaded: float, problem: str | None) -> Iterator[str]:
        total = self._total()
        requests = total[:_REQUESTS].reshape(len(ENDPOINTS), len(STATUSES))
        binned = total[_REQUESTS : _REQUESTS + _BINNED].reshape(len(ENDPOINTS), len(BINS) + 1)
        yield from _head("tribit_requests_total", "counter", "Requests by endpoint and status.")
        for endpoint, counts in zip(ENDPOINTS, requests, strict=True):
            for status, count in zip(STATUSES, counts, strict=True):
                if count:
                    labels = f'endpoint="{endpoint}",status="{status}"'
                    yield f"tribit_requests_total{{{labels}}} {count:.0f}"
        name = "tribit_request_seconds"
        yield from _head(name, "histogram", "Seconds from a request's headers to its answer.")
        for place, endpoint in enumerate(ENDPOINTS):
            label = f'endpoint="{endpoint}"'
            ends = [f"{end:g}" for end in BINS] + ["+Inf"]
            cumulated = np.cumsum(binned[place])
            for end, count in zip(ends, cumulated, strict=True):
                yield f'{name}_bucket{{{label},le="{end}"}} {count:.0f}'
            yield f"{name}_sum{{{label}}} {total[_REQUESTS + _BINNED + place]:.6f}"
            yield f"{name}_count{{{label}}} {cumulated[-1]:.0f}"
        yield from _head("tribit_model_info", "gauge", "The model that answers.")
        yield f'tribit_model_info{{version="{version}"}} 1'
        name = "tribit_model_loaded_timestamp_seconds"
        yield from _head(name, "gauge", "When the model was loaded.")
        yield f"{name} {loaded:.3f}"
        name = "tribit_model_stale"
        yield from _head(name, "gauge", "Whether the file holds another model than the one loaded.")
        yield f"{name} {int(problem is not None)}"
        name = "tribit_model_swaps_total"
        yield from _head(name, "counter", "Models that took the place of another, in all workers.")
        yield f"{name} {total[-2]:.0f}"
        name = "tribit_model_load_failures_total"
        yield from _head(name, "counter", "Files that could not be loaded, in all workers.")
        yield f"{name} {total[-1]:.0f}"

    def _total(self) -> NDArray[np.float64]:
        """Return the sum over the workers, those that have ended among them."""
        if self._folder is None:
            return self._own
        files = self._folder.glob("worker-*.counts")
        # A file of another size belongs to a worker that is about to write it.
        parts = (np.fromfile(file) for file in files)
        return np.asarray(np.sum([part for part in parts if part.size == _SIZE], axis=0))


def _head(name: str, kind: str, meaning: str) -> tuple[str, str]:
    return f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"


def _place(known: Sequence[object], value: object) -> int:
    return known.index(value) if value in known else len(known) - 1
