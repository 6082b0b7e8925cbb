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
from agentic_r.cli.endings import end_script
from agentic_r.config import RunConfig, load_config, load_retriever_config
from agentic_r.contrastive.ranks import Ranks, start_ranks
from agentic_r.contrastive.standalone import train_alone
from agentic_r.evaluation.training_report import write_training_report
from agentic_r.loop.layout import plan_stages
from agentic_r.loop.learning import train_iteration
from agentic_r.loop.parts import Parts
from agentic_r.loop.run import has_work, run


def train_in_loop(config: RunConfig, iteration: str, ranks: Ranks) -> int:
    """Let the first process carry the run, and the others join its training, if there is one to do."""
    num_failed = 0
    if ranks.is_first:
        run(config, progress=terminal_progress(sys.stderr), until=f"iter-{iteration}/instances")
    ranks.wait()
    plan = next(stage for stage in plan_stages(config) if stage.name == f"iter-{iteration}/retriever")
    is_needed = ranks.agree(ranks.is_first and has_work(config, plan))
    if ranks.is_first:
        num_failed = run(config, progress=terminal_progress(sys.stderr), until=plan.name).num_failed
    elif is_needed:
        folder = plan.folder(config.folder)
        train_iteration(Parts(config), plan, folder=folder, report=lambda done, total: None)
    return num_failed


def names_instances(path: Path) -> bool:
    """Say which kind of configuration it is; what is no YAML is for ``load_config`` to refuse."""
    try:
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError):
        return False
    return isinstance(given, dict) and "instances" in given


def work(arguments: list[str]) -> int:
    """One retriever, in as many processes as were started; returns how many records failed."""
    path, iteration = Path(arguments[0]), arguments[1] if len(arguments) > 1 else "1"
    ranks, num_failed = start_ranks(), 0
    if names_instances(path):
        config = load_retriever_config(path)
        train_alone(config, progress=terminal_progress(sys.stderr) if ranks.is_first else Silent())
        if ranks.is_first:
            write_training_report(config.folder)
    else:
        num_failed = train_in_loop(load_config(path), iteration, ranks)
    if ranks.world > 1:
        ranks.wait()
        sys.stderr.flush()
        os._exit(int(num_failed > 0))  # the threads of some backends abort an ordinary exit
    return num_failed


if __name__ == "__main__":
    end_script("python train/retriever_contrastive.py CONFIG [ITERATION]", work, max_arguments=2)
