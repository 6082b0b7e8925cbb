"""Tool calls: what was asked of a tool, how it ended, what it found and showed.

States: ``ok`` found something; ``empty`` ran and found nothing; ``partial`` ran, but some documents could not be
searched; ``refused`` is not run as asked; ``bad_pattern``, ``timeout`` and ``failed`` did not run to an
answer; ``skipped`` was not tried, for the cause given. A failure is never an empty result. An input holds all that
was asked, so that the call can be made again.
"""

from dataclasses import dataclass
from typing import Literal

from agentic_r.workspace.shown import ShownSpan

__all__ = ["CallState", "ReadInput", "RecallInput", "ScanInput", "SearchInput", "Tool", "ToolCall", "ToolInput"]

CallState = Literal["ok", "empty", "partial", "refused", "bad_pattern", "timeout", "failed", "skipped"]
Tool = Literal["search", "embed_recall", "rg", "read"]

_WITHOUT_ANSWER = ("partial", "refused", "bad_pattern", "timeout", "failed")


@dataclass(frozen=True, slots=True)
class SearchInput:
    """Admit the ``k`` best documents of each query to the workspace, and show the ``num_previewed`` best of each.

    Its queries' rankings become scopes ``scope``, ``scope + 1`` ...
    """

    scope: int
    queries: tuple[str, ...]
    question: str
    k: int
    num_previewed: int
    max_characters: int
    history: tuple[str, ...] = ()
    tool: Literal["search"] = "search"


@dataclass(frozen=True, slots=True)
class RecallInput:
    """Rank documents for a query: they become scope ``scope``.

    With ``num_paragraphs``, so many paragraphs of the first ``num_opened`` documents are shown.
    """

    scope: int
    query: str
    question: str
    k: int
    max_characters: int
    num_opened: int = 0
    num_paragraphs: int = 0
    history: tuple[str, ...] = ()
    tool: Literal["embed_recall"] = "embed_recall"


@dataclass(frozen=True, slots=True)
class ScanInput:
    """Search the documents of scope ``scope`` in its order; scope 0 is the workspace, in the order of names.

    With ``pool``, so many matches are collected and the ``max_matches`` nearest to query and pattern are shown; not
    where the flags ask for lines around matches, or for documents.
    """

    scope: int
    pattern: str
    flags: tuple[str, ...]
    max_matches: int
    max_matches_per_document: int | None
    max_characters: int
    pool: int = 0
    tool: Literal["rg"] = "rg"


@dataclass(frozen=True, slots=True)
class ReadInput:
    """Read lines of a file."""

    path: str
    first_line: int
    num_lines: int
    max_characters: int
    tool: Literal["read"] = "read"


ToolInput = SearchInput | RecallInput | ScanInput | ReadInput


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call. ``documents`` are those it previewed, matched or read, in order; rankings are the trace's scopes.

    ``lines`` are the first matching lines of these documents (for a scan of lines), ``output`` is what the agent would
    see, ``shown`` the parts of documents in it.
    """

    input: ToolInput
    state: CallState
    output: str
    documents: tuple[str, ...]
    shown: tuple[ShownSpan, ...]
    seconds: float
    cause: str = ""
    lines: tuple[int, ...] = ()

    @property
    def has_failed(self) -> bool:
        """Whether the call gives no answer that can be counted."""
        return self.state in _WITHOUT_ANSWER
