"""The supervised start of the agent on demonstrations.

    python train/warm_start.py configs/quickstart.yaml

What comes before it is made first, or found finished.
"""

import sys
from pathlib import Path

from agentic_r.artifacts.progress import terminal_progress
from agentic_r.cli.endings import end_script
from agentic_r.config import load_config
from agentic_r.loop.run import run


def work(arguments: list[str]) -> int:
    """The supervised start; returns how many records failed."""
    config = load_config(Path(arguments[0]))
    return run(config, progress=terminal_progress(sys.stderr), until="warm/agent").num_failed


if __name__ == "__main__":
    end_script("python train/warm_start.py CONFIG", work, max_arguments=1)
