"""Traces: what was done for one question, from which everything can be read back or done again.

A JSON file a question: ``<folder>/<system>/<retriever>/<question>.json``. A trace holds no gold: what was worth
finding is compared with it elsewhere (``coverage.py``).
"""

import json
from dataclasses import dataclass
from pathlib import Path

from agentic_r.artifacts.jsonl import write_jsonl
from agentic_r.artifacts.records import from_json, to_json
from agentic_r.errors import DataError
from agentic_r.types import QueryText, Scope
from agentic_r.workspace.calls import ToolCall
from agentic_r.workspace.names import file_name

__all__ = ["RankedScope", "Trace", "read_trace", "trace_path", "write_trace"]


@dataclass(frozen=True, slots=True)
class RankedScope:
    """The documents of one ranking, best first; scores are not kept, since order is what tools go by."""

    number: int
    query: QueryText
    document_ids: tuple[str, ...]

    @classmethod
    def of(cls, scope: Scope) -> "RankedScope":
        """Return a scope without its scores."""
        return cls(scope.number, scope.query, tuple(document.document_id for document in scope.documents))


@dataclass(frozen=True, slots=True)
class Trace:
    """One question in one system with one retriever.

    ``identity`` is the hash of all that decides the calls; ``ranker`` and ``similarity`` (empty for none) are the
    fingerprints of what ranked documents and excerpts, ``ripgrep`` the version that ran.
    """

    system: str
    retriever: str
    question_id: str
    identity: str
    ranker: str
    similarity: str
    ripgrep: str
    max_output_characters: int
    scopes: tuple[RankedScope, ...]
    calls: tuple[ToolCall, ...]

    @property
    def failure(self) -> str:
        """The cause of the first call that gave no answer, or an empty string."""
        return next((f"{call.input.tool}: {call.cause}" for call in self.calls if call.has_failed), "")


def trace_path(folder: Path, *, system: str, retriever: str, question_id: str) -> Path:
    """Return where a trace is. Question ids may be any strings; names of systems and retrievers are ours."""
    for part in (system, retriever):
        if not part or part in (".", "..") or any(character in part for character in "/\\\0"):
            raise ValueError(f"{part!r} cannot be the name of a folder")
    return folder / system / retriever / file_name(question_id, key=question_id, extension=".json")


def write_trace(folder: Path, trace: Trace) -> Path:
    """Write a trace whole or not at all."""
    path = trace_path(folder, system=trace.system, retriever=trace.retriever, question_id=trace.question_id)
    write_jsonl(path, [to_json(trace)])  # one line: a scope of a thousand documents would fill as many
    return path


def read_trace(path: Path) -> Trace:
    """Read a trace.

    Raises:
        DataError: the file is not a trace of this version.
        FileNotFoundError: there is none.
    """
    try:
        value = json.loads(path.read_bytes())
    except ValueError as error:
        raise DataError(f"{path}: not JSON ({error})") from None
    if not isinstance(value, dict):
        raise DataError(f"{path}: not a trace")
    return from_json(Trace, value, where=str(path))
