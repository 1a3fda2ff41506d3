"""Access: the hosts that requests may name, and the token that they must have."""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from tribit.errors import quoted
from tribit.serve.counters import Counters
from tribit.serve.requests import error_response
from tribit.serve.settings import ServiceSettings, digest_of_token

#: Paths that need no token: pages, which then show nothing of the model, and whether the service runs.
OPEN_PATHS = frozenset({"/", "/docs", "/health"})


class Access:
    """Refuse requests for other hosts, and requests without the token.

    A browser that was led to this machine by another site's name (DNS rebinding) sends that name as the host.

    Parameters
    ----------
    app : ASGI application
        The application behind.
    settings : ServiceSettings
        Trusted hosts and the digest of the token.
    counters : Counters
        Counters of refused requests.
    """

    def __init__(self, app: ASGIApp, settings: ServiceSettings, counters: Counters) -> None:
        self.app, self.settings, self.counters = app, settings, counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        answer = self.app
        if scope["type"] == "http":
            hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
            if len(hosts) != 1 or not self.settings.trusts(hosts[0]):
                self.counters.count("other", 421, 0.0)
                answer = error_response(
                    421,
                    f"The service is not known by the host {quoted(', '.join(hosts))}; "
                    "start it with --allow-host and this name.",
                )
            elif scope["path"] not in OPEN_PATHS and not has_token(
                Headers(scope=scope), self.settings
            ):
                self.counters.count("other", 401, 0.0)
                answer = error_response(
                    401, "The request needs the token of the service; send Authorization: Bearer."
                )
        await answer(scope, receive, send)


def has_token(headers: Headers, settings: ServiceSettings) -> bool:
    """Return whether a request has the token, or none is needed; takes the same time for any wrong token."""
    if settings.token_digest is None:
        return True
    kind, _, token = headers.get("authorization", "").partition(" ")
    # Digests have one length, so that not even that of the token can be measured.
    given = digest_of_token(token.strip().encode("latin-1"))
    return hmac.compare_digest(given, settings.token_digest) and kind.lower() == "bearer"
