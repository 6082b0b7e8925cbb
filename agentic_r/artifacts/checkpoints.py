"""Checkpoints of a training that a kill may interrupt: which one to go on from.

A trainer writes a checkpoint file by file, so a killed process may leave half of one. A checkpoint counts only once
``whole`` stands in it. What a checkpoint holds is the trainer's business.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from agentic_r.artifacts.jsonl import write_text_atomic

__all__ = ["Checkpoint", "mark_whole", "newest_checkpoint"]

_WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A whole checkpoint and the number of updates that led to it."""

    path: Path
    step: int


def newest_checkpoint(folder: Path) -> Checkpoint | None:
    """Return the newest whole ``checkpoint-<step>`` in ``folder``, if any; half ones are removed."""
    whole = []
    for path in folder.glob("checkpoint-*"):
        if (path / _WHOLE).exists():
            whole.append(Checkpoint(path, int(path.name.partition("-")[2])))
        else:
            shutil.rmtree(path)
    return max(whole, key=lambda item: item.step, default=None)


def mark_whole(folder: Path, step: int) -> None:
    """Say that the checkpoint of a step is complete."""
    write_text_atomic(folder / f"checkpoint-{step}" / _WHOLE, "")
