"""Settings of a service: model file, limits, trusted hosts and the token, for this process and for its workers."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import re
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Self

from tribit.checks import check_count, check_field, check_positive
from tribit.errors import InvalidInputError, parameter, quoted

#: Environment variable with the settings of a worker process.
SETTINGS_VARIABLE = "TRIBIT_SERVE_SETTINGS"
#: Minimum length of a token, so that it cannot be guessed: 16 random characters are some 80 bits.
MIN_TOKEN_CHARACTERS = 16
#: Names of the loopback address.
LOOPBACK = ("127.0.0.1", "::1", "localhost")
#: Addresses that stand for all addresses of the machine.
WILDCARDS = ("0.0.0.0", "::")  # noqa: S104
_HOST = re.compile(r"(\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_.-]+))(:[0-9]{1,5})?")


@dataclass(frozen=True)
class ServiceSettings:
    """Model file, limits and access rules of a service.

    Parameters
    ----------
    model : str
        Path of a saved recommender.
    max_body : int
        Maximum number of bytes of a body, and of a query.
    max_pairs : int
        Maximum number of pairs of a request, and of columns in all its lists.
    max_rows, max_entries, max_n : int
        Maximum number of rows of a request, known or new; of entries and of columns in it; of columns in a list.
    body_seconds : float
        Time limit for the arrival of a body.
    max_header : int
        Maximum number of bytes of the request line and the headers.
    header_seconds : float
        Time limit for the arrival of the headers.
    answer_seconds : float
        Time limit for a client to read a part of an answer.
    max_connections, max_per_address : int
        Maximum number of open connections of a worker, in total and of one address.
    hosts : tuple of str
        Hosts that a request may name, beside those of the loopback address. ``"*"`` stands for any host, and
        ``"0.0.0.0"`` for any IP address.
    token_digest : str or None
        Digest of the token that a request must have (:func:`digest_of_token`); None without authentication.
    """

    model: str
    max_body: int = 2**20
    max_pairs: int = 10_000
    max_rows: int = 1000
    max_entries: int = 10_000
    max_n: int = 1000
    body_seconds: float = 10.0
    max_header: int = 2**16
    header_seconds: float = 10.0
    answer_seconds: float = 30.0
    max_connections: int = 1000
    max_per_address: int = 256
    hosts: tuple[str, ...] = ()
    token_digest: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("max_body", "max_pairs", "max_rows", "max_entries", "max_n"):
            check_field(self, name, check_count)
        for name in ("max_header", "max_connections", "max_per_address"):
            check_field(self, name, check_count)
        for name in ("body_seconds", "header_seconds", "answer_seconds"):
            check_field(self, name, check_positive)
        object.__setattr__(self, "hosts", tuple(map(_check_host, self.hosts)))

    @property
    def max_items(self) -> int:
        """Maximum number of items of any list of a request."""
        return max(self.max_pairs, self.max_rows, self.max_entries)

    def to_environment(self) -> None:
        """Set the environment variable that worker processes inherit."""
        os.environ[SETTINGS_VARIABLE] = json.dumps(asdict(self))

    def trusts(self, header: str) -> bool:
        """Return whether a ``Host`` header names this service."""
        return _trusts(self.hosts, header)

    @classmethod
    def from_environment(cls) -> Self:
        """Return the settings of the parent process."""
        return cls(**json.loads(os.environ[SETTINGS_VARIABLE]))


def digest_of_token(token: bytes) -> str:
    """Return the SHA-256 of a token, which the service keeps in its place."""
    return hashlib.sha256(token).hexdigest()


def read_token(path: str | os.PathLike[str]) -> str:
    """Return the digest of the token in a file, which holds one line of at least 16 visible ASCII characters."""
    name = f"{parameter('token_file')}: {quoted(os.fspath(path))}"
    try:
        token = Path(path).read_bytes().strip()
    except OSError as error:
        raise InvalidInputError(
            f"{name} cannot be read ({error.strerror or error}); write a token to it, such as that of "
            "'openssl rand -hex 32'."
        ) from None
    if len(token) < MIN_TOKEN_CHARACTERS or not all(33 <= character <= 126 for character in token):
        raise InvalidInputError(
            f"{name} must have one line of at least {MIN_TOKEN_CHARACTERS} visible ASCII characters without spaces, "
            "such as that of 'openssl rand -hex 32'."
        )
    return digest_of_token(token)


def host_of(header: str) -> str | None:
    """Return the host of a ``Host`` header in lower case, without port and brackets; None if it is no host.

    Examples
    --------
    >>> host_of("[::1]:8000"), host_of("Models.example.org"), host_of("a b")
    ('::1', 'models.example.org', None)
    """
    found = _HOST.fullmatch(header.strip().lower())
    return found and (found["address"] or found["name"])


@lru_cache
def _trusts(hosts: tuple[str, ...], header: str) -> bool:
    host, known = host_of(header), {*LOOPBACK, *hosts}
    if host is None:
        return False
    return host in known or "*" in known or (_is_address(host) and not known.isdisjoint(WILDCARDS))


def _check_host(name: str) -> str:
    """Return the host name of a setting: ``*``, an address or a name, without scheme and port."""
    known = name.strip().lower()
    if known == "*" or _is_address(known) or (":" not in known and _HOST.fullmatch(known)):
        return known
    raise InvalidInputError(
        f"{parameter('allow_host')} must be a name without scheme and port, such as models.example.org, or * for any; "
        f"got {quoted(name)}."
    )


def _is_address(name: str) -> bool:
    """Return whether a host is an IP address."""
    try:
        return bool(ipaddress.ip_address(name))
    except ValueError:
        return False
