"""``metrics.jsonl``: one line a step, the same whether the run was broken or not.

Owns the record of a step and the cutting of lines that a resumed run will write again.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentic_r.artifacts.jsonl import write_jsonl
from agentic_r.artifacts.records import from_json, to_json
from agentic_r.errors import DataError

__all__ = ["StepLog", "StepRecord"]


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One optimizer step.

    Attributes:
        step: From 1.
        instances: Fingerprint of the instances' ids, in order.
        num_rows: Queries.
        num_columns: Distinct passages.
        num_rows_without_negatives: Rows left out of the mean.
        num_likely_positives: Negatives left out by ``contrastive.false_negative_margin``, over all rows.
        loss: None where it was not finite.
        grad_norm: Before clipping; None where it was not finite.
        positive_similarity: Mean cosine of queries and their own positives.
        negative_similarity: Mean cosine over unmasked negatives.
        learning_rate: The one this step was taken with.
        state: ``skipped`` where loss or gradient was not finite and weights were left as they were.
    """

    step: int
    instances: str
    num_rows: int
    num_columns: int
    num_rows_without_negatives: int
    num_likely_positives: int
    loss: float | None
    grad_norm: float | None
    positive_similarity: float | None
    negative_similarity: float | None
    learning_rate: float
    state: Literal["ok", "skipped"]


class StepLog:
    """The records so far, in memory and on disk."""

    def __init__(self, path: Path, *, keep_steps: int, is_owner: bool = True) -> None:
        """Open the log, keeping the lines of steps 1 to ``keep_steps`` and cutting the rest.

        Args:
            path: The file.
            keep_steps: Steps of the checkpoint that training goes on from.
            is_owner: Whether this process writes the file; of several, one does.

        Raises:
            DataError: the file has fewer whole lines than the checkpoint has steps.
        """
        self.path = path
        self._is_owner = is_owner
        self.records: list[StepRecord] = []
        whole = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        if len(whole) < keep_steps:
            raise DataError(
                f"{path}: {len(whole)} lines, but the checkpoint beside it is of step {keep_steps}; "
                f"delete {path.parent} and run again"
            )
        for number, raw in enumerate(whole[:keep_steps], start=1):
            self.records.append(from_json(StepRecord, json.loads(raw), where=f"{path}:{number}"))
        if is_owner:
            write_jsonl(path, (to_json(record) for record in self.records))

    def append(self, record: StepRecord) -> None:
        """Write one line."""
        if self._is_owner:
            with self.path.open("a", encoding="utf-8", newline="\n") as file:
                file.write(json.dumps(to_json(record)) + "\n")
        self.records.append(record)

    @property
    def num_skipped_last(self) -> int:
        """Length of the unbroken row of skipped steps at the end."""
        return _num_trailing_skips(self.records)


def _num_trailing_skips(records: Sequence[StepRecord]) -> int:
    count = 0
    for record in reversed(records):
        if record.state == "ok":
            break
        count += 1
    return count
