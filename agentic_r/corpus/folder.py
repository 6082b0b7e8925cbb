"""A folder of data for a run: ``documents.jsonl``, ``questions.jsonl``, ``demonstrations.jsonl``, ``report.json``.

Owns the names of its files and how they are written: each whole or not at all, one record at a time, so that memory
does not grow with the documents. What the rows mean to a reader belongs to ``readers.py`` and ``questions.py``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentic_r.artifacts.jsonl import JsonObject, write_json, write_jsonl
from agentic_r.artifacts.records import write_records
from agentic_r.types import Demonstration, Document, Evidence, Question, Skipped

__all__ = ["DEMONSTRATIONS", "DOCUMENTS", "QUESTIONS", "FolderCounts", "write_folder"]

DOCUMENTS, QUESTIONS, DEMONSTRATIONS = "documents.jsonl", "questions.jsonl", "demonstrations.jsonl"
_REPORT = "report.json"


@dataclass(frozen=True, slots=True)
class FolderCounts:
    """What was written, and how many were left out by reason."""

    documents: int
    train_questions: int
    heldout_questions: int
    demonstrations: int
    skipped: dict[str, int]

    def line(self) -> str:
        """All of it in one line."""
        reasons = "; ".join(f"{count} skipped: {reason}" for reason, count in self.skipped.items())
        return (
            f"{self.documents} documents, {self.train_questions} training and {self.heldout_questions} held-out "
            f"questions, {self.demonstrations} demonstrations" + (f"; {reasons}" if reasons else "")
        )


def write_folder(
    folder: Path,
    *,
    documents: Iterable[Document],
    questions: Sequence[Question],
    demonstrations: Sequence[Demonstration] = (),
    skipped: Sequence[Skipped] = (),
) -> FolderCounts:
    """Write a folder that ``data: {kind: files}`` reads; its report, which lists every id left out, comes last.

    Args:
        folder: Made where it is missing; files of the same names are replaced.
        documents: One at a time.
        questions: Both splits; each row says which.
        demonstrations: Of training questions; the file is written even without any.
        skipped: What was left out on the way here, and why.
    """
    by_reason: dict[str, list[str]] = {}
    for item in skipped:
        by_reason.setdefault(item.reason, []).append(item.id)
    num_heldout = sum(question.split == "heldout" for question in questions)
    counts = FolderCounts(
        documents=write_records(folder / DOCUMENTS, documents),
        train_questions=write_jsonl(folder / QUESTIONS, map(_question_row, questions)) - num_heldout,
        heldout_questions=num_heldout,
        demonstrations=write_records(folder / DEMONSTRATIONS, demonstrations),
        skipped={reason: len(ids) for reason, ids in by_reason.items()},
    )
    write_json(folder / _REPORT, {"summary": counts.line(), "skipped": by_reason})
    return counts


def _question_row(question: Question) -> JsonObject:
    return {
        "id": question.id,
        "question": question.text,
        "answers": list(question.answers),
        "type": question.kind,
        "split": question.split,
        "evidence": [_evidence_row(item) for item in question.evidence],
    }


def _evidence_row(evidence: Evidence) -> JsonObject:
    """Name what says something: a row without text and line means the whole document."""
    row: JsonObject = {"document_id": evidence.document_id}
    if evidence.text:
        row["text"] = evidence.text
    elif evidence.line:
        row["line"] = evidence.line
    return row
