"""The whole alternation: agent, labels, retriever, iteration after iteration.

python train/alternate.py configs/quickstart.yaml
"""

import sys
from pathlib import Path

from agentic_r.artifacts.progress import terminal_progress
from agentic_r.config import load_config
from agentic_r.loop.run import run

if __name__ == "__main__":
    run(load_config(Path(sys.argv[1])), progress=terminal_progress(sys.stderr))
