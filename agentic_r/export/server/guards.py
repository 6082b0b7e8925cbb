"""What stands before every route: the token, the limits on requests and bodies, the counts.

An ASGI layer: nothing behind it sees a request without the right token, or a body that is too long or too slow.
"""

import asyncio
import hmac
import time
from collections.abc import Collection

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentic_r.config import ServeConfig
from agentic_r.export.server.counters import Counters

__all__ = ["Guard", "error_body"]

_MAX_SHOWN = 400  # characters of a message
_LEFT = 499  # a client that left gets no status; proxies log it so
_OPEN = ("/health",)  # so that whoever watches the process needs no token


class _Refused(Exception):
    """Carries what is answered."""

    def __init__(self, status: int, reason: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason


class _Gone(Exception):
    """The client left before its body was whole."""


def error_body(text: str, *, kind: str, param: str | None = None) -> bytes:
    """Return an error in OpenAI's shape, which every route uses; what a client wrote may stand in it, cut."""
    shown = None if param is None else _short(param)
    return orjson.dumps({"error": {"message": _short(text), "type": kind, "param": shown, "code": None}})


def _short(text: str) -> str:
    whole = text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."
    return whole.encode("utf-8", "replace").decode()  # half a surrogate pair cannot be sent


class Guard:
    """The layer. Routes are named in the counts only where they are ours."""

    def __init__(
        self, app: ASGIApp, *, config: ServeConfig, counters: Counters, routes: Collection[str], token: str | None
    ) -> None:
        self._app = app
        self._config = config
        self._counters = counters
        self._routes = frozenset(routes)
        self._token = None if token is None else token.encode()
        self._num_inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, count, and pass on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        route = scope["path"] if scope["path"] in self._routes else "other"
        begun, status = time.perf_counter(), _LEFT

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self._num_inside += 1
        try:
            await self._guarded(scope, receive, counted)
        except _Refused as refused:
            self._counters.refused.labels(refused.reason).inc()
            await _answer(counted, refused)
        except _Gone:
            self._counters.refused.labels("client left").inc()
        except Exception:
            if status == _LEFT:
                status = 500  # which the layer outside of this one answers
            raise
        finally:
            self._num_inside -= 1
            self._counters.requests.labels(route, str(status)).inc()
            self._counters.seconds.labels(route).observe(time.perf_counter() - begun)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] not in _OPEN:
            self._check_token(scope)
            if self._num_inside > self._config.max_connections:
                raise _Refused(503, "too many requests", "too many requests are in progress; come again in a second")
        try:
            async with asyncio.timeout(self._config.body_timeout_s):
                body = await self._read_body(scope, receive)
        except TimeoutError:
            raise _Refused(
                408, "slow body", f"the body did not arrive within {self._config.body_timeout_s:g} s; send it at once"
            ) from None
        given = False

        async def replay() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, send)

    def _check_token(self, scope: Scope) -> None:
        if self._token is None:
            return
        kind, _, given = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
        if kind.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self._token):
            raise _Refused(401, "token", "a bearer token is needed: send the header Authorization: Bearer TOKEN")

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes:
        limit = self._config.max_body_bytes
        stated = dict(scope["headers"]).get(b"content-length", b"")
        parts, size = [], int(stated) if stated.isdigit() else 0
        while size <= limit:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Gone
            parts.append(message.get("body", b""))
            size = max(size, sum(map(len, parts)))
            if not message.get("more_body", False) and size <= limit:
                return b"".join(parts)
        raise _Refused(413, "body too long", f"the body is longer than {limit} bytes; send fewer texts at once")


async def _answer(send: Send, refused: _Refused) -> None:
    body = error_body(str(refused), kind="server_error" if refused.status >= 500 else "invalid_request_error")
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),  # the rest of the request's body is not read
    ]
    if refused.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refused.status == 503:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
