"""Counters, latencies and versions of a service for Prometheus, summed over all workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

#: Environment variable with the folder in which the workers store their counts, so that each can report the sums.
METRICS_FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
#: Upper limits of the latency bins in seconds: finest around 1 ms (a cached list) and below 50 ms (a noticeable delay).
LATENCY_BINS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

disable_created_metrics()  # type: ignore[no-untyped-call]


class LoadedModel(Protocol):
    """A loaded model: version, time of loading, and the problem with a newer file."""

    loaded: float
    problem: str | None

    @property
    def version(self) -> str:
        """Version of the model."""
        ...


class Counters:
    """Counters of one worker: requests, latencies and reloads of the model."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._requests = Counter(
            "tribit_requests",
            "Requests by endpoint and status.",
            ("endpoint", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            "tribit_request_seconds",
            "Seconds from the headers of a request to its response.",
            ("endpoint",),
            buckets=LATENCY_BINS,
            registry=registry,
        )
        self.swaps = Counter("tribit_model_swaps", "Reloads of the model.", registry=registry)
        self.failures = Counter(
            "tribit_model_load_failures", "Files that could not be loaded.", registry=registry
        )
        self._closed = Counter(
            "tribit_connections_closed",
            "Connections that were closed or refused because of a limit, by reason.",
            ("reason",),
            registry=registry,
        )
        if METRICS_FOLDER_VARIABLE in os.environ:
            self.registry = CollectorRegistry()
            MultiProcessCollector(self.registry)  # type: ignore[no-untyped-call]

    def count(self, endpoint: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(endpoint, status).inc()
        self._seconds.labels(endpoint).observe(seconds)

    def count_closed(self, reason: str) -> None:
        """Count a connection that a limit closed."""
        self._closed.labels(reason).inc()

    def describe(self, model: LoadedModel) -> None:
        """Add gauges of the model of this worker."""
        self.registry.register(_ModelGauges(model))

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self.registry)


class _ModelGauges(Collector):
    def __init__(self, model: LoadedModel) -> None:
        self.model = model

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges."""
        model = self.model
        info = GaugeMetricFamily(
            "tribit_model_info", "Version of the loaded model.", labels=["version"]
        )
        info.add_metric([model.version], 1)
        yield info
        yield GaugeMetricFamily(
            "tribit_model_loaded_timestamp_seconds", "Time of loading the model.", model.loaded
        )
        yield GaugeMetricFamily(
            "tribit_model_stale",
            "Whether the file differs from the loaded model.",
            int(model.problem is not None),
        )
