"""Checkpoints of a training: which one to go on from, and when they are no longer needed.

``transformers.Trainer`` writes a checkpoint file by file, so a killed process may leave half of one. A checkpoint
counts only once ``whole`` stands in it; others are removed before training goes on. Checkpoints of another identity
(base, instances, settings, seed) are removed too: nothing in them can be used.
"""

import shutil
from pathlib import Path

from agentic_r.artifacts.jsonl import write_text_atomic
from agentic_r.encoder.bi_encoder import BiEncoder

__all__ = ["Checkpoints"]

_IDENTITY = "identity"
_WHOLE = "whole"


class Checkpoints:
    """The folder of checkpoints of one training."""

    def __init__(self, folder: Path, *, identity: str, is_owner: bool = True) -> None:
        """Open the folder and remove what cannot be used.

        Args:
            folder: Of the checkpoints.
            identity: What they must have been made with.
            is_owner: Whether this process writes there. Of several one does; the others open it after that one.
        """
        self.folder = folder
        self._is_owner = is_owner
        if is_owner:
            _clear(folder, identity)
        whole = {int(path.name.partition("-")[2]): path for path in folder.glob("checkpoint-*")}
        self.num_steps_done = max(whole, default=0)
        self._newest = whole.get(self.num_steps_done)

    @property
    def newest(self) -> str | None:
        """The checkpoint to go on from, as the Trainer takes it; None to begin."""
        return None if self._newest is None else str(self._newest)

    def mark_whole(self, step: int) -> None:
        """Say that the checkpoint of a step is complete."""
        if self._is_owner:
            write_text_atomic(self.folder / f"checkpoint-{step}" / _WHOLE, "")

    def finish(self, encoder: BiEncoder, path: Path) -> None:
        """Write the trained encoder, whole or not at all, then remove the checkpoints."""
        if not self._is_owner:
            return
        part = path.with_name(path.name + ".part")
        for old in (part, path):
            if old.exists():
                shutil.rmtree(old)
        encoder.model.eval()
        encoder.save(part)
        part.replace(path)
        shutil.rmtree(self.folder)


def _clear(folder: Path, identity: str) -> None:
    mark = folder / _IDENTITY
    if folder.exists() and not (mark.exists() and mark.read_text(encoding="utf-8") == identity):
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_text_atomic(mark, identity)
    for path in folder.glob("checkpoint-*"):
        if not (path / _WHOLE).exists():
            shutil.rmtree(path)
