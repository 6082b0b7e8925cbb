"""The server process: a bound socket, uvicorn, and an orderly end.

Owns address, signals and how long requests in progress may take to end. The application is ``app.py``'s.
"""

import errno
import signal
import socket
from collections.abc import Callable
from types import FrameType

import torch
import uvicorn
from fastapi import FastAPI

from agentic_r.config import ServeConfig
from agentic_r.errors import ConfigError

__all__ = ["bind", "is_loopback", "run_server"]


def bind(host: str, port: int) -> socket.socket:
    """Bind an address; port 0 takes a free one.

    Raises:
        ConfigError: it is in use, not this machine's, or not allowed.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=2048)
    except OSError as error:
        busy = error.errno == errno.EADDRINUSE
        advice = "stop what listens there, or give another --port" if busy else "give another --host or --port"
        reason = (error.strerror or str(error)).partition(" (while")[0]  # the address is said already
        raise ConfigError(f"{host}:{port}: cannot listen there ({reason}); {advice}") from None


def is_loopback(listening: socket.socket) -> bool:
    """Whether only this machine can connect."""
    address = listening.getsockname()[0]
    return bool(address == "::1" or address.startswith("127."))


class _Server(uvicorn.Server):
    """Says when it answers."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._ready()


def run_server(app: FastAPI, listening: socket.socket, config: ServeConfig, *, ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; requests in progress are answered first.

    Args:
        app: Of ``build_app``.
        listening: Of ``bind``; closed at the end.
        config: Threads, connections, and how long the end may take.
        ready: Called with the address once requests are answered.
    """
    torch.set_num_threads(config.threads)
    host, port = listening.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    server = _Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            lifespan="on",
            server_header=False,
            limit_concurrency=2 * config.max_connections + 1,  # uvicorn refuses from this many on, in words of its own
            timeout_graceful_shutdown=max(1, round(config.stop_timeout_s)),
        ),
        lambda: ready(address),
    )
    # uvicorn handles both signals and raises them again when all is done: that end was asked for
    before = {number: signal.signal(number, _done) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        listening.close()


def _done(number: int, frame: FrameType | None) -> None:
    """Let a signal end here: the server has stopped on its first coming."""
