"""The supervised start of the agent on demonstrations.

    python train/warm_start.py configs/quickstart.yaml

What comes before it is made first, or found finished.
"""

import sys
from pathlib import Path

from agentic_r.artifacts.progress import terminal_progress
from agentic_r.config import load_config
from agentic_r.loop.run import run

if __name__ == "__main__":
    config = load_config(Path(sys.argv[1]))
    run(config, progress=terminal_progress(sys.stderr), until="warm/agent")
