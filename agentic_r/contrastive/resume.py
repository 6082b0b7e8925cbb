"""Checkpoints of a training: which one to go on from, and when they are no longer needed.

``transformers.Trainer`` writes a checkpoint file by file, so a killed process may leave half of one. A checkpoint
counts only once ``whole`` stands in it; others are removed before training goes on. ``whole`` says who cut it into
parts (FSDP, DeepSpeed), since only the same kind of launch can read it. Checkpoints of another identity
(base, instances, settings, seed) are removed too: nothing in them can be used. ``trained.json`` beside the trained
encoder says of which identity it is, so that a training killed after its end is not done again.
"""

import json
import shutil
from pathlib import Path

from agentic_r.artifacts.jsonl import write_json, write_text_atomic
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.settings import SETTINGS_FILE
from agentic_r.errors import ConfigError

__all__ = ["Checkpoints"]

_IDENTITY = "identity"
_WHOLE = "whole"
_TRAINED = "trained.json"


class Checkpoints:
    """The folder of checkpoints of one training."""

    def __init__(self, folder: Path, *, encoder: Path, identity: str, cut_by: str = "", is_owner: bool = True) -> None:
        """Open the folder and remove what cannot be used.

        Args:
            folder: Of the checkpoints.
            encoder: Where the trained encoder goes.
            identity: What they must have been made with.
            cut_by: What cuts the training into parts; nothing where every process has all of it.
            is_owner: Whether this process writes there. Of several one does; the others open it after that one.

        Raises:
            ConfigError: the newest checkpoint was cut by something else.
        """
        self.folder = folder
        self._cut_by = cut_by
        self._encoder, self._identity, self._is_owner = encoder, identity, is_owner
        self._mark = encoder.with_name(_TRAINED)
        self._newest: Path | None = None
        num_steps = self._num_steps_trained()
        self.is_finished = num_steps is not None
        if num_steps is not None:
            self.num_steps_done = num_steps
            if is_owner:
                self._remove()
            return
        if is_owner:
            _remove_if_there(self._done)
            _clear(folder, identity)
        whole = {int(path.name.partition("-")[2]): path for path in folder.glob("checkpoint-*")}
        self.num_steps_done = max(whole, default=0)
        self._newest = whole.get(self.num_steps_done)
        if self._newest is not None:
            _refuse_other_cut(self._newest, cut_by)

    @property
    def newest(self) -> str | None:
        """The checkpoint to go on from, as the Trainer takes it; None to begin."""
        return None if self._newest is None else str(self._newest)

    def mark_whole(self, step: int) -> None:
        """Say that the checkpoint of a step is complete."""
        if self._is_owner:
            write_text_atomic(self.folder / f"checkpoint-{step}" / _WHOLE, self._cut_by)

    def finish(self, encoder: BiEncoder, *, num_steps: int) -> None:
        """Write the trained encoder, whole or not at all, then remove the checkpoints.

        Killed in between, either the checkpoints are whole, or ``trained.json`` says that they are not needed.
        """
        if not self._is_owner:
            return
        part, old = (self._encoder.with_name(self._encoder.name + end) for end in (".part", ".old"))
        _remove_if_there(part)
        encoder.model.eval()
        encoder.save(part)
        self._mark.unlink(missing_ok=True)
        _remove_if_there(old)
        if self._encoder.exists():
            self._encoder.replace(old)
        part.replace(self._encoder)
        write_json(self._mark, {"identity": self._identity, "steps": num_steps})
        _remove_if_there(old)
        self._remove()

    @property
    def _done(self) -> Path:
        return self.folder.with_name(self.folder.name + ".done")

    def _num_steps_trained(self) -> int | None:
        """Steps of the trained encoder that is there; None where there is none of this identity."""
        if not (self._encoder / SETTINGS_FILE).exists() or not self._mark.exists():
            return None
        said = json.loads(self._mark.read_text(encoding="utf-8"))
        return int(said["steps"]) if said["identity"] == self._identity else None

    def _remove(self) -> None:
        """Remove the checkpoints; half of them are never found under their name."""
        _remove_if_there(self._done)
        if self.folder.exists():
            self.folder.replace(self._done)
            shutil.rmtree(self._done)


def _remove_if_there(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def _refuse_other_cut(checkpoint: Path, cut_by: str) -> None:
    before = (checkpoint / _WHOLE).read_text(encoding="utf-8")
    if before != cut_by:
        raise ConfigError(
            f"{checkpoint} was written {_with(before)}, this training was started {_with(cut_by)}; "
            f"start it as before, or delete {checkpoint.parent} to begin anew"
        )


def _with(cut_by: str) -> str:
    return f"under {cut_by}" if cut_by else "under neither FSDP nor DeepSpeed"


def _clear(folder: Path, identity: str) -> None:
    mark = folder / _IDENTITY
    if folder.exists() and not (mark.exists() and mark.read_text(encoding="utf-8") == identity):
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_text_atomic(mark, identity)
    for path in folder.glob("checkpoint-*"):
        if not (path / _WHOLE).exists():
            shutil.rmtree(path)
