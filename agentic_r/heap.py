"""The C heap of a training process: glibc started so that it can use freed memory again.

PyTorch asks for aligned blocks. What glibc cuts off beside them goes to caches of small blocks (per thread, and its
"fast bins"), where it counts as in use: the large blocks next to it cannot be joined when they are freed, and no longer
fit. A training on CPU then holds twice the memory that lives in it (docs/log.md). Without those caches it does not, and
is as fast. glibc reads the setting when a process starts, so the process starts itself once more.
"""

import os
import sys
from collections.abc import Mapping

__all__ = ["compact_heap", "name_of_libc", "restart_with_compact_heap"]

_VARIABLE = "GLIBC_TUNABLES"
_SETTINGS = "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0"


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
    return {_VARIABLE: f"{given}:{_SETTINGS}" if given else _SETTINGS}


def restart_with_compact_heap() -> None:
    """Start this process once more, as it was started, if its heap is not yet so; else return."""
    added = compact_heap(os.environ, libc=name_of_libc())
    if added:
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **added})


def name_of_libc() -> str:
    """Return name and version of the C library, empty where it does not tell."""
    if sys.platform != "linux" or "CS_GNU_LIBC_VERSION" not in os.confstr_names:
        return ""
    return os.confstr("CS_GNU_LIBC_VERSION") or ""
