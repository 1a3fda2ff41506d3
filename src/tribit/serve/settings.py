"""Settings of a service: its model, and how much one request may ask for."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Any, Self

from tribit.checks import check_count, check_field, check_positive

#: Variable with the settings of a worker process.
VARIABLE = "TRIBIT_SERVE_SETTINGS"


@dataclass(frozen=True)
class ServiceSettings:
    """A service: its model and its limits.

    Parameters
    ----------
    model : str
        Path of a saved recommender.
    max_body : int
        Most bytes of a request's body, and of its query.
    max_pairs : int
        Most pairs, and most columns in all lists of one request.
    max_rows, max_entries, max_n : int
        Most rows of a request, known or new; most entries and most columns that it names; and most columns of a list.
    body_seconds : float
        Seconds in which a body must have come.
    """

    model: str
    max_body: int = 2**20
    max_pairs: int = 10_000
    max_rows: int = 1000
    max_entries: int = 10_000
    max_n: int = 1000
    body_seconds: float = 10.0

    def __post_init__(self) -> None:
        for name in ("max_body", "max_pairs", "max_rows", "max_entries", "max_n"):
            check_field(self, name, check_count)
        check_field(self, "body_seconds", check_positive)

    def to_environment(self) -> None:
        """Leave the settings for the worker processes that this one starts."""
        os.environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> Self:
        """Return the settings that the parent process left."""
        told: dict[str, Any] = json.loads(os.environ[VARIABLE])
        return cls(**told)
