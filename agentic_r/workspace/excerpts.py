"""Excerpts: what is shown of matching lines, in characters, within a budget.

ripgrep counts bytes; here they become characters, so that windows are right in every script. Bytes that are not
UTF-8 become U+FFFD, and so do control characters, which must not reach a terminal or a model as commands; a tab stays.
"""

from collections.abc import Callable
from dataclasses import dataclass

from agentic_r.workspace.scan import ScanMatch, ScanResult
from agentic_r.workspace.shown import Shown, ShownSpan

__all__ = ["Excerpt", "cut_excerpt", "printable", "show_matches"]

_CUT_MARK = "…"
_MIN_WINDOW = 40  # characters: a narrower rest of the budget is left unused
_CONTROLS = {code: "\ufffd" for code in (*range(0x20), *range(0x7F, 0xA0)) if code != 0x09}


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Characters ``start`` to ``end`` of a line; ``text`` has a mark where the line goes on."""

    start: int
    end: int
    text: str


def printable(text: str) -> str:
    """Return the text with control characters replaced, one for one; a tab stays."""
    return text.translate(_CONTROLS)


def cut_excerpt(match: ScanMatch, *, max_characters: int) -> Excerpt:
    """Return the window of at most ``max_characters`` that holds most of the line's hits, centred on them."""
    line = match.line.removesuffix(b"\n").removesuffix(b"\r")
    text = line.decode("utf-8", "replace")
    if len(text) <= max_characters:
        return Excerpt(0, len(text), printable(text))
    hits = [(_characters(line, start), _characters(line, end)) for start, end in match.spans] or [(0, 0)]
    first, last = _densest(hits, max_characters)
    start = max(0, min(first, (first + last - max_characters) // 2, len(text) - max_characters))
    end = start + max_characters
    before = _CUT_MARK if start > 0 else ""
    after = _CUT_MARK if end < len(text) else ""
    return Excerpt(start, end, before + printable(text[start:end]) + after)


def show_matches(
    result: ScanResult,
    *,
    document_id: Callable[[str], str],
    excerpt_characters: int,
    max_characters: int,
) -> Shown:
    """Render matches as ``name:line: excerpt`` lines, and a footer that says what there is beyond them.

    An excerpt that does not fit whole is narrowed to the room that is left, and is then the last.

    Args:
        result: The scan.
        document_id: The id behind a file name.
        excerpt_characters: Width of the widest window.
        max_characters: Of the whole text. Below the length of the footer alone, only its head is shown.
    """
    lines: list[str] = []
    spans: list[ShownSpan] = []
    room = max_characters - len(_footer(result, len(result.matches)))
    for match in result.matches:
        head = f"{match.name}:{match.line_number}: "
        excerpt = _fit(match, excerpt_characters, room - len(head) - 1)
        if excerpt is None:
            break
        lines.append(head + excerpt.text)
        room -= len(lines[-1]) + 1
        spans.append(ShownSpan(document_id(match.name), match.line_number, excerpt.start, excerpt.end))
    text = "\n".join([*lines, _footer(result, len(lines))])
    return Shown(text[:max_characters], tuple(spans))


def _fit(match: ScanMatch, width: int, room: int) -> Excerpt | None:
    """Return the excerpt, narrowed to ``room`` if it must be; None where that is too little to read."""
    excerpt = cut_excerpt(match, max_characters=width)
    if len(excerpt.text) <= room:
        return excerpt
    narrowed = room - 2 * len(_CUT_MARK)
    return cut_excerpt(match, max_characters=narrowed) if narrowed >= _MIN_WINDOW else None


def _footer(result: ScanResult, num_shown: int) -> str:
    found = f"{result.num_found}" if result.complete else f"at least {result.num_found}"
    text = f"shown {num_shown} of {found} matches, {result.num_scanned} of {result.num_documents} documents scanned"
    return f"{text}; {result.state}: {printable(result.cause)}" if result.cause else text


def _characters(line: bytes, offset: int) -> int:
    return len(line[:offset].decode("utf-8", "replace"))


def _densest(hits: list[tuple[int, int]], width: int) -> tuple[int, int]:
    """Return start and end of the first longest group of hits that fits into ``width``; the first hit if none does."""
    best, best_count = hits[0], 0
    for number, (start, _) in enumerate(hits):
        group = [end for _, end in hits[number:] if end - start <= width]
        if len(group) > best_count:
            best, best_count = (start, group[-1]), len(group)
    return best
