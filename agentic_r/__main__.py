"""``agentic-r`` and ``python -m agentic_r``: the command line, in a process fit for its work."""

import sys
from pathlib import Path

from agentic_r.heap import restart_with_compact_heap

__all__ = ["start"]

_GPU = Path("/dev/nvidiactl")  # there where NVIDIA's driver is


def start() -> None:
    """Run the command line; trainings on CPU first get a heap that holds no more than they need."""
    is_training = sys.argv[1:2] in (["run"], ["train"]) and not {"--help", "--dry-run"} & set(sys.argv)
    if is_training and not _GPU.exists():
        restart_with_compact_heap()
    from agentic_r.cli import main  # after the restart, so that it is loaded once

    main()


if __name__ == "__main__":
    start()
