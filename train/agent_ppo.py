"""PPO of one iteration's agent (the first, or the one named).

    python train/agent_ppo.py configs/quickstart.yaml 1

What comes before it is made first, or found finished.
"""

import sys
from pathlib import Path

from agentic_r.artifacts.progress import terminal_progress
from agentic_r.cli.endings import end_script
from agentic_r.config import load_config
from agentic_r.loop.run import run


def work(arguments: list[str]) -> int:
    """PPO of one iteration's agent; returns how many records failed."""
    config, iteration = load_config(Path(arguments[0])), arguments[1] if len(arguments) > 1 else "1"
    return run(config, progress=terminal_progress(sys.stderr), until=f"iter-{iteration}/agent").num_failed


if __name__ == "__main__":
    end_script("python train/agent_ppo.py CONFIG [ITERATION]", work, max_arguments=2)
