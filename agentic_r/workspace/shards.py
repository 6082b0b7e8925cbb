"""How a list of files is handed to ripgrep: small shards first, then all the rest at once.

The first matches of a good ranking stand in its first documents, and a long command line costs its time before
anything is searched; so the list begins with small shards. Whoever has read that far without having enough will read it
all, and every further start of the program would only cost.
"""

import os
from collections.abc import Iterator, Sequence

__all__ = ["max_shard_bytes", "shard_names"]

_FIRST_SHARDS = (64, 512)  # files; measured (benchmarks/scan.py): one more step costs a full scan 2 to 4 %
_BYTES_AN_ARGUMENT = 9  # beside its text: a NUL and a pointer
_LEAST_BYTES = 1 << 17


def max_shard_bytes() -> int:
    """Return how many bytes of arguments one command may have: half the system's limit, the rest for environment."""
    return max(_LEAST_BYTES, os.sysconf("SC_ARG_MAX") // 2)


def shard_names(names: Sequence[str], *, max_bytes: int) -> Iterator[Sequence[str]]:
    """Cut a list into shards of 64 and 512 names and one of the rest.

    Args:
        names: File names.
        max_bytes: No shard's arguments take more, a single long name aside: what does not fit makes further shards.
    """
    start, steps = 0, iter(_FIRST_SHARDS)
    while start < len(names):
        end, num_bytes = start, 0
        last = min(start + next(steps, len(names)), len(names))
        while end < last:
            num_bytes += len(os.fsencode(names[end])) + _BYTES_AN_ARGUMENT
            if num_bytes > max_bytes and end > start:
                break
            end += 1
        yield names[start:end]
        start = end
