"""One process at a time in a folder; the system lets go of the lock when the process ends, however it ends."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentic_r.errors import ConfigError

__all__ = ["locked"]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder's lock, which lies beside it: what is in a folder may be set aside or removed.

    Raises:
        ConfigError: another process holds it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f".{folder.name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"{folder}: another process is working in this folder; wait for it, or use another name"
            ) from None
        yield
