"""RISE's boundary: a search brings documents into the workspace, and shows a little of the best of them.

The union of all sub-queries' rankings is admitted; what is new and what was there is counted while doing so, never by
walking folders. Each sub-query's best documents are previewed by the excerpt that best answers to it.
"""

from collections.abc import Sequence

from agentic_r.types import Scope
from agentic_r.workspace.members import Workspace
from agentic_r.workspace.preview import Previewer
from agentic_r.workspace.shown import Shown, ShownSpan
from agentic_r.workspace.store import DocumentStore

__all__ = ["show_search"]


def show_search(
    store: DocumentStore,
    workspace: Workspace,
    scopes: Sequence[Scope],
    *,
    num_previewed: int,
    preview_characters: int,
    max_characters: int,
) -> Shown:
    """Admit the documents of all scopes, in their order, and render what came of it.

    Args:
        store: Holds the documents.
        workspace: Grows.
        scopes: One ranking a sub-query.
        num_previewed: Documents shown of each.
        preview_characters: Width of an excerpt.
        max_characters: Of the whole text, shared equally by the sub-queries, what one leaves going to the next; a
            preview that does not fit is left out, and so is all after it. Below the header's length only its head.

    Raises:
        OSError: a document cannot be read.
    """
    before = set(workspace)
    rows = []
    num_new = num_refused = 0
    for scope in scopes:
        admission = workspace.admit(document.document_id for document in scope.documents)
        num_new += admission.num_new
        num_refused += admission.num_refused
        rows.append(
            f'"{scope.query.query}": {len(scope.documents)} found, {admission.num_new} new, '
            f"{admission.num_already} already there"
        )
    refused = f", {num_refused} refused: the workspace is full" if num_refused else ""
    header = f"{num_new} documents added, {len(workspace)} in the workspace{refused}"
    text, spans = header, []
    for place, (scope, row) in enumerate(zip(scopes, rows, strict=True)):
        room = (max_characters - len(text) - sum(len(later) + 1 for later in rows[place:])) // (len(scopes) - place)
        text += f"\n{row}"
        shown = _previews(store, scope, before, num_previewed, preview_characters, room)
        spans += [_moved(span, len(text)) for span in shown.spans]
        text += shown.text
    return Shown(text[:max_characters], tuple(span for span in spans if span.until <= max_characters))


def _previews(store: DocumentStore, scope: Scope, before: set[str], num_previewed: int, width: int, room: int) -> Shown:
    previewer = Previewer(scope.query.query)
    text = ""
    spans = []
    for rank, document in enumerate(scope.documents[:num_previewed], start=1):
        key = document.document_id
        lines = store.lines(key)
        place = previewer.best_line(lines)
        line = lines[place].removesuffix("\r") if lines else ""
        excerpt = previewer.excerpt(line, max_characters=width)
        mark = " (already there)" if key in before else ""
        piece = f"\n{rank}. {store.name(key)}:{place + 1}:{mark} {excerpt.text}"
        if len(text) + len(piece) > room:
            break
        text += piece
        spans.append(ShownSpan(key, place + 1, excerpt.start, excerpt.end, len(text)))
    return Shown(text, tuple(spans))


def _moved(span: ShownSpan, by: int) -> ShownSpan:
    return ShownSpan(span.document_id, span.line, span.start, span.end, span.until + by)
