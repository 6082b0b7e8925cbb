"""Contrastive training of a retriever, in one process or several.

    python train/retriever_contrastive.py configs/quickstart.yaml 1
    torchrun --nproc_per_node 8 train/retriever_contrastive.py configs/paper/loop.yaml 1
    torchrun --nproc_per_node 8 train/retriever_contrastive.py configs/paper/retriever.yaml

With a run's configuration: one iteration's retriever (the first, or the one named); what comes before it is made
first, or found finished. With a configuration that names ``instances``: those. On CPU, set ACCELERATE_USE_CPU=true.
"""

import os
import sys
from pathlib import Path

import yaml

from agentic_r.artifacts.progress import Silent, terminal_progress
from agentic_r.artifacts.stage import read_manifest
from agentic_r.config import RunConfig, load_config, load_retriever_config
from agentic_r.contrastive.ranks import Ranks, start_ranks
from agentic_r.contrastive.standalone import train_alone
from agentic_r.loop.layout import plan_stages
from agentic_r.loop.learning import train_iteration
from agentic_r.loop.parts import Parts
from agentic_r.loop.run import run


def train_in_loop(config: RunConfig, iteration: str, ranks: Ranks) -> None:
    """Let the first process carry the run, and the others join its training."""
    if ranks.is_first:
        run(config, progress=terminal_progress(sys.stderr), until=f"iter-{iteration}/instances")
    ranks.wait()
    plan = next(stage for stage in plan_stages(config) if stage.name == f"iter-{iteration}/retriever")
    folder = plan.folder(config.folder)
    is_finished = read_manifest(folder) is not None
    ranks.wait()
    if ranks.is_first:
        run(config, progress=terminal_progress(sys.stderr), until=plan.name)
    elif not is_finished:
        train_iteration(Parts(config), plan, folder=folder, report=lambda done, total: None)


if __name__ == "__main__":
    path, iteration = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "1"
    ranks = start_ranks()
    if "instances" in yaml.safe_load(path.read_text(encoding="utf-8")):
        train_alone(load_retriever_config(path), progress=terminal_progress(sys.stderr) if ranks.is_first else Silent())
    else:
        train_in_loop(load_config(path), iteration, ranks)
    if ranks.world > 1:
        ranks.wait()
        sys.stderr.flush()
        os._exit(0)  # the threads of some backends abort an ordinary exit
