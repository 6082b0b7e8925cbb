"""Tool calls: what was asked of a tool, how it ended, what it found and showed.

States: ``ok`` found something; ``empty`` ran and found nothing; ``partial`` ran, but some documents could not be
searched; ``refused`` is not run as asked; ``bad_pattern``, ``timeout`` and ``failed`` did not run to an
answer; ``skipped`` was not tried, for the cause given. A failure is never an empty result.
"""

from dataclasses import dataclass
from typing import Literal

from agentic_r.workspace.shown import ShownSpan

__all__ = ["CallState", "ReadInput", "RecallInput", "ScanInput", "ToolCall"]

CallState = Literal["ok", "empty", "partial", "refused", "bad_pattern", "timeout", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class RecallInput:
    """Rank documents for a query: they become scope ``scope``."""

    scope: int
    query: str
    question: str
    k: int
    tool: Literal["recall"] = "recall"


@dataclass(frozen=True, slots=True)
class ScanInput:
    """Search the documents of scope ``scope``, in its order."""

    scope: int
    pattern: str
    flags: tuple[str, ...]
    max_matches: int
    max_matches_per_document: int
    max_characters: int
    tool: Literal["scan"] = "scan"


@dataclass(frozen=True, slots=True)
class ReadInput:
    """Read lines of a file."""

    path: str
    first_line: int
    num_lines: int
    max_characters: int
    tool: Literal["read"] = "read"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call. ``documents`` are those it found, in order (of a recall: see the trace's scopes).

    ``output`` is what the agent would see, ``shown`` the parts of documents in it.
    """

    input: RecallInput | ScanInput | ReadInput
    state: CallState
    output: str
    documents: tuple[str, ...]
    shown: tuple[ShownSpan, ...]
    seconds: float
    cause: str = ""

    @property
    def has_failed(self) -> bool:
        """Whether the call gives no answer that can be counted."""
        return self.state in ("partial", "refused", "bad_pattern", "timeout", "failed")
