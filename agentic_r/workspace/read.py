"""``read``: numbered lines of one document, counted from 1, within a budget of characters."""

from dataclasses import dataclass

from agentic_r.workspace.calls import CallState
from agentic_r.workspace.excerpts import printable
from agentic_r.workspace.shown import Shown, ShownSpan
from agentic_r.workspace.store import DocumentStore

__all__ = ["ReadRequest", "ReadResult", "read_lines"]

_MIN_PIECE = 40  # characters of a line: a shorter rest of the budget is left unused


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Lines ``first_line`` (from 1) and the following ones, ``num_lines`` in all, of the file ``path``."""

    path: str
    first_line: int = 1
    num_lines: int = 2000


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The answer to one read; ``document_id`` is empty where no document was named."""

    state: CallState
    shown: Shown
    document_id: str = ""
    cause: str = ""


def read_lines(store: DocumentStore, request: ReadRequest, *, max_characters: int) -> ReadResult:
    """Read from one document of the store; a path outside it, or a line below 1, is refused.

    The text begins with a line that says what is shown of how many lines. A line that does not fit is cut, is the
    last, and says how many characters it goes on for.
    """
    if request.first_line < 1 or request.num_lines < 1:
        return _refused("lines are counted from 1, and at least one must be asked for.")
    document_id = store.find(request.path)
    if document_id is None:
        return _refused(f"{request.path!r} is not a document of this workspace.")
    try:
        lines = store.lines(document_id)
    except OSError as error:
        return ReadResult("failed", Shown("", ()), cause=f"{request.path}: {error.strerror}")
    wanted = lines[request.first_line - 1 : request.first_line - 1 + request.num_lines]
    shown = _show(document_id, wanted, request, len(lines), max_characters)
    if wanted and not shown.spans:
        cause = f"no room for a line within {max_characters} characters"
        return ReadResult("skipped", shown, document_id=document_id, cause=cause)
    return ReadResult("ok" if shown.spans else "empty", shown, document_id=document_id)


def _refused(sentence: str) -> ReadResult:
    return ReadResult("refused", Shown("", ()), cause=sentence)


def _show(document_id: str, wanted: list[str], request: ReadRequest, num_lines: int, max_characters: int) -> Shown:
    first = request.first_line
    last = first + len(wanted) - 1
    room = max_characters - len(_header(request.path, first, last, num_lines))
    pieces: list[str] = []
    spans: list[ShownSpan] = []
    for number, line in enumerate(wanted, start=first):
        piece, length = _piece(number, line.removesuffix("\r"), room)
        if not piece:
            break
        pieces.append(piece)
        room -= len(piece)
        spans.append(ShownSpan(document_id, number, 0, length, max_characters - room))
        if length < len(line.removesuffix("\r")):
            break
    header = _header(request.path, first, first + len(pieces) - 1, num_lines)
    return Shown((header + "".join(pieces))[:max_characters], tuple(spans))


def _piece(number: int, line: str, room: int) -> tuple[str, int]:
    """Return a numbered line as far as there is room, and how many of its characters that is."""
    head = f"\n{number:>6}  "
    if len(head) + len(line) <= room:
        return head + printable(line), len(line)
    length = room - len(head) - len(_cut_note(len(line)))
    if length < _MIN_PIECE:
        return "", 0
    return head + printable(line[:length]) + _cut_note(len(line) - length), length


def _cut_note(num_left: int) -> str:
    return f"… ({num_left} more characters)"


def _header(path: str, first: int, last: int, num_lines: int) -> str:
    shown = f"lines {first}-{last}" if last >= first else "no line"
    return f"{path}: {shown} of {num_lines}"
