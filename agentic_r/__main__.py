"""``agentic-r`` and ``python -m agentic_r``: the command line, in a process fit for its work."""

import sys

from agentic_r.heap import restart_with_compact_heap

__all__ = ["start"]


def start() -> None:
    """Run the command line; trainings first get a heap that holds no more than they need."""
    if sys.argv[1:2] in (["run"], ["train"]):
        restart_with_compact_heap()
    from agentic_r.cli import main  # after the restart, so that it is loaded once

    main()


if __name__ == "__main__":
    start()
