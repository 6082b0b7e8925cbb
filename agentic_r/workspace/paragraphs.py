"""Paragraphs of a document, with the lines they come from.

Blank lines divide a text into blocks. Small blocks are put together until a paragraph has about its target size; a
block above the maximum is cut at its lines, and a line above it at white space where there is some near.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentic_r.config import OpeningConfig

__all__ = ["LinePart", "Paragraph", "split_paragraphs"]

_NEAR = 80  # characters before the limit in which white space to cut at is looked for


@dataclass(frozen=True, slots=True)
class LinePart:
    """Characters ``start`` to ``end`` of line ``number`` (from 1)."""

    number: int
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Parts of lines, in order; blank lines between blocks are not among them."""

    parts: tuple[LinePart, ...]

    @property
    def text(self) -> str:
        """The parts, a line each."""
        return "\n".join(part.text for part in self.parts)


def split_paragraphs(lines: Sequence[str], config: OpeningConfig) -> list[Paragraph]:
    """Return the paragraphs of a document; together they hold every line that is not blank, once."""
    made: list[list[LinePart]] = []
    current: list[LinePart] = []
    for block in _blocks(lines, config.max_paragraph):
        size, more = _size(current), _size(block)
        if current and (
            size + more > config.max_paragraph
            or (size >= config.min_paragraph and size + more > config.target_paragraph)
        ):
            made.append(current)
            current = []
        for part in block:
            if current and _size(current) + len(part.text) > config.max_paragraph:
                made.append(current)
                current = []
            current.append(part)
    if current:
        made.append(current)
    if (
        len(made) > 1
        and _size(made[-1]) < config.min_paragraph
        and _size(made[-2]) + _size(made[-1]) <= config.max_paragraph
    ):
        last = made.pop()
        made[-1] += last
    return [Paragraph(tuple(parts)) for parts in made]


def _blocks(lines: Sequence[str], max_characters: int) -> Iterator[list[LinePart]]:
    block: list[LinePart] = []
    for number, line in enumerate(lines, start=1):
        text = line.removesuffix("\r")
        if text.strip():
            block += _cut_line(number, text, max_characters)
        elif block:
            yield block
            block = []
    if block:
        yield block


def _cut_line(number: int, text: str, max_characters: int) -> Iterator[LinePart]:
    start = 0
    while start < len(text):
        end = min(start + max_characters, len(text))
        if end < len(text):
            space = text.rfind(" ", max(start + 1, end - _NEAR), end)
            end = space + 1 if space > start else end
        yield LinePart(number, start, end, text[start:end])
        start = end


def _size(parts: Sequence[LinePart]) -> int:
    return sum(len(part.text) for part in parts)
