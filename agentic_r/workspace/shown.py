"""What of the documents has been shown: which characters of which lines.

Counted by place, not by comparing texts, so that it does not matter how output is numbered, cut or marked.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Shown", "ShownLines", "ShownSpan"]


@dataclass(frozen=True, slots=True)
class ShownSpan:
    """Characters ``start`` to ``end`` of a document's line ``line`` (counted from 1) were in the output.

    ``until`` is the length of the output up to and including them: what had to be read to see them.
    """

    document_id: str
    line: int
    start: int
    end: int
    until: int


@dataclass(frozen=True, slots=True)
class Shown:
    """Text for the agent, and which parts of documents it holds."""

    text: str
    spans: tuple[ShownSpan, ...]


class ShownLines:
    """Everything shown so far."""

    def __init__(self, spans: Iterable[ShownSpan] = ()) -> None:
        """Begin with these spans."""
        self._spans: defaultdict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        self.add(spans)

    def add(self, spans: Iterable[ShownSpan]) -> None:
        """Count these too."""
        for span in spans:
            self._spans[span.document_id, span.line].append((span.start, span.end))

    def covers(self, document_id: str, line: int, text: str, *, start: int = 0, end: int | None = None) -> bool:
        """Whether characters ``start`` to ``end`` of a line were shown, white space at their borders aside.

        Args:
            document_id: The document.
            line: The line's number, from 1.
            text: The whole line.
            start: First character.
            end: After the last character; None for the end of the line.
        """
        part = text[start:end]
        first = start + len(part) - len(part.lstrip())
        last = start + len(part.rstrip())
        for left, right in sorted(self._spans.get((document_id, line), ())):
            if left <= first < right:
                first = right
        return first >= last
