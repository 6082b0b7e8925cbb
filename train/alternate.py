"""The whole alternation: agent, labels, retriever, iteration after iteration.

python train/alternate.py configs/quickstart.yaml
"""

import sys
from pathlib import Path

from agentic_r.artifacts.progress import terminal_progress
from agentic_r.cli.endings import end_script
from agentic_r.config import load_config
from agentic_r.loop.run import run


def work(arguments: list[str]) -> int:
    """The whole alternation; returns how many records failed."""
    return run(load_config(Path(arguments[0])), progress=terminal_progress(sys.stderr)).num_failed


if __name__ == "__main__":
    end_script("python train/alternate.py CONFIG", work, max_arguments=1)
