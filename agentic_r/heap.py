"""The C heap of a training process: glibc started so that it can use freed memory again.

PyTorch asks for aligned blocks. What glibc cuts off beside them goes to caches of small blocks (per thread, and its
"fast bins"), where it counts as in use: the large blocks next to it cannot be joined when they are freed, and no longer
fit. A training on CPU then holds twice the memory that lives in it (docs/log.md). Without those caches it does not, and
is as fast. glibc reads the setting when a process starts, so the process starts itself once more.
"""

import ctypes
import os
import sys
from collections.abc import Mapping
from contextlib import suppress

__all__ = ["compact_heap", "give_back_free_heap", "name_of_libc", "restart_with_compact_heap"]

_VARIABLE = "GLIBC_TUNABLES"
_STARTED_AGAIN = "AGENTIC_R_STARTED_AGAIN"
_SETTINGS = "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0"
# oneDNN keeps a program for every shape, up to 1,024, and the number of a chunk's tokens is part of a shape.
_KEPT_PROGRAMS = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64"}


def compact_heap(environment: Mapping[str, str], *, libc: str) -> dict[str, str]:
    """Return what to add to an environment; nothing on another libc, or where the user has set the heap already.

    Args:
        environment: The process's own.
        libc: Name and version, such as ``glibc 2.36``; empty where it has none.
    """
    given = environment.get(_VARIABLE, "")
    is_chosen = "glibc.malloc" in given or "LD_PRELOAD" in environment
    if not libc.startswith("glibc") or is_chosen:
        return {}
    kept = {name: value for name, value in _KEPT_PROGRAMS.items() if name not in environment}
    return {_VARIABLE: f"{given}:{_SETTINGS}" if given else _SETTINGS, **kept}


def restart_with_compact_heap() -> None:
    """Start this process once more, as it was started, if its heap is not yet so; else return.

    Once only, whatever comes of it; where it cannot be, work goes on with the usual heap.
    """
    added = compact_heap(os.environ, libc=name_of_libc())
    if added and _STARTED_AGAIN not in os.environ:
        with suppress(OSError):
            os.execve(sys.executable, sys.orig_argv, {**os.environ, **added, _STARTED_AGAIN: "1"})


def give_back_free_heap() -> None:
    """Return what is free between the blocks in use to the system; does nothing on another libc.

    For the end of a phase whose small leftovers keep large freed blocks apart. Memory used again is fetched again.
    """
    if name_of_libc().startswith("glibc"):
        ctypes.CDLL(None).malloc_trim(0)


def name_of_libc() -> str:
    """Return name and version of the C library, empty where it does not tell."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError, AttributeError):  # musl, macOS, Windows
        return ""
