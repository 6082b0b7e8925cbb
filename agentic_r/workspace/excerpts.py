"""Excerpts: what is shown of matching lines, in characters, within a budget.

ripgrep counts bytes; here they become characters, so that windows are right in every script. Bytes that are not
UTF-8 become U+FFFD, and so do control characters, which must not reach a terminal or a model as commands; a tab stays.
"""

import codecs
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentic_r.workspace.scan import ScanLine, ScanResult
from agentic_r.workspace.shown import Shown, ShownSpan

__all__ = ["Excerpt", "cut_excerpt", "cut_text", "printable", "show_matches"]

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


def cut_excerpt(match: ScanLine, *, max_characters: int) -> Excerpt:
    """Return the window of at most ``max_characters`` that holds most of the line's hits, centred on them."""
    line = match.line.removesuffix(b"\n").removesuffix(b"\r")
    text = line.decode("utf-8", "replace")
    hits = [] if len(text) <= max_characters else _in_characters(line, match.spans)
    return cut_text(text, hits, max_characters=max_characters)


def cut_text(text: str, hits: Sequence[tuple[int, int]], *, max_characters: int) -> Excerpt:
    """Return the window of ``text`` that holds most of ``hits`` (spans of characters, in order), centred on them."""
    if len(text) <= max_characters:
        return Excerpt(0, len(text), printable(text))
    first, last = _densest(hits or [(0, 0)], max_characters)
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
    """Render lines as ``name:line: excerpt``, and a footer that says what there is beyond them.

    Lines around matches have ``-`` in place of ``:``; a listed document is its name, or name and count. An excerpt
    that does not fit whole is narrowed to the room that is left, and is then the last.

    Args:
        result: The scan.
        document_id: The id behind a file name.
        excerpt_characters: Width of the widest window.
        max_characters: Of the whole text. Below the length of the footer alone, only its head is shown.
    """
    pieces: list[str] = []
    spans: list[ShownSpan] = []
    num_shown = at = 0
    room = max_characters - len(_footer(result, len(result.matches)))
    for line in result.lines:
        head = _head(line)
        excerpt = _fit(line, excerpt_characters, room - at - len(head) - 1)
        if excerpt is None:
            break
        pieces.append(head + excerpt.text)
        at += len(pieces[-1]) + 1
        num_shown += line.is_match
        if line.line_number:
            spans.append(ShownSpan(document_id(line.name), line.line_number, excerpt.start, excerpt.end, at - 1))
    text = "\n".join([*pieces, _footer(result, num_shown)])
    return Shown(text[:max_characters], tuple(spans))


def _head(line: ScanLine) -> str:
    if line.line_number == 0:
        return line.name + (":" if line.line else "")
    mark = ":" if line.is_match else "-"
    return f"{line.name}{mark}{line.line_number}{mark} "


def _fit(match: ScanLine, width: int, room: int) -> Excerpt | None:
    """Return the excerpt, narrowed to ``room`` if it must be; None where that is too little to read."""
    excerpt = cut_excerpt(match, max_characters=width)
    if len(excerpt.text) <= room:
        return excerpt
    narrowed = room - 2 * len(_CUT_MARK)
    return cut_excerpt(match, max_characters=narrowed) if narrowed >= _MIN_WINDOW else None


def _footer(result: ScanResult, num_shown: int) -> str:
    found = f"{result.num_found}" if result.complete else f"at least {result.num_found}"
    text = f"shown {num_shown} of {found} matches, {result.num_scanned} of {result.num_documents} documents scanned"
    if result.num_capped:
        text = f"{text}, {result.num_capped} of them with more matches"
    return f"{text}; {result.state}: {printable(result.cause)}" if result.cause else text


def _in_characters(line: bytes, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return byte spans (in order, apart from one another) as character spans, in one pass over the line."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    places: list[int] = []
    done = count = 0
    for offset in (offset for span in spans for offset in span):
        count += len(decoder.decode(line[done:offset]))
        done = max(done, offset)
        places.append(count)
    return list(zip(places[::2], places[1::2], strict=True))


def _densest(hits: Sequence[tuple[int, int]], width: int) -> tuple[int, int]:
    """Return start and end of the first longest group of hits that fits into ``width``; the first hit if none does."""
    best, best_count, last = hits[0], 0, 0
    for number, (start, _) in enumerate(hits):
        last = max(last, number)
        while last < len(hits) and hits[last][1] - start <= width:
            last += 1
        if last - number > best_count:
            best, best_count = (start, hits[last - 1][1]), last - number
    return best
