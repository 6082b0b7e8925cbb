"""RARG+'s opening: the paragraphs of the first documents that are nearest to the query, with their line ranges."""

from collections.abc import Sequence
from dataclasses import dataclass

from agentic_r.config import OpeningConfig
from agentic_r.types import Passage, QueryText
from agentic_r.workspace.excerpts import printable
from agentic_r.workspace.paragraphs import Paragraph, split_paragraphs
from agentic_r.workspace.shown import Shown, ShownSpan
from agentic_r.workspace.similarity import TextSimilarity
from agentic_r.workspace.store import DocumentStore

__all__ = ["show_opening"]

_MAX_READ = 160_000  # characters of all documents together: the published 40,000 tokens, four characters each


@dataclass(frozen=True, slots=True)
class _Candidate:
    document_id: str
    paragraph: Paragraph
    passage: Passage


def show_opening(
    store: DocumentStore,
    similarity: TextSimilarity,
    query: QueryText,
    document_ids: Sequence[str],
    *,
    config: OpeningConfig,
    num_paragraphs: int,
    max_characters: int,
) -> Shown:
    """Choose the best paragraphs of some documents and show them, those of one document together.

    Args:
        store: Holds the documents.
        similarity: Says how near a paragraph is to the query.
        query: The scope's query.
        document_ids: The first documents of the scope, best first. They are read until 160,000 characters are
            reached; the last line says how many of them were.
        config: Sizes of paragraphs.
        num_paragraphs: At most so many are shown.
        max_characters: Of the whole text. A paragraph that does not fit is left out; a shorter one after it may fit.

    Raises:
        ToolFailure: the encoder failed.
        OSError: a document cannot be read.
    """
    candidates, num_read = _candidates(store, document_ids, config)
    scores = similarity.scores(query, [item.passage for item in candidates])
    order = sorted(range(len(candidates)), key=lambda place: (-scores[place], place))[:num_paragraphs]
    best = [candidates[place] for place in order]
    groups = {item.document_id: [other for other in best if other.document_id == item.document_id] for item in best}
    chosen = [
        item for group in groups.values() for item in sorted(group, key=lambda item: item.paragraph.parts[0].number)
    ]
    widest = _footer(len(chosen), len(candidates), num_read, len(document_ids))
    pieces: list[str] = []
    spans: list[ShownSpan] = []
    at = 0
    for item in chosen:
        piece = _render(store, item)
        if at + len(piece) + 1 + len(widest) > max_characters:
            continue
        spans += _spans(item, at + len(piece))
        pieces.append(piece)
        at += len(piece) + 1
    footer = _footer(len(pieces), len(candidates), num_read, len(document_ids))
    return Shown("\n".join([*pieces, footer])[:max_characters], tuple(spans))


def _candidates(
    store: DocumentStore, document_ids: Sequence[str], config: OpeningConfig
) -> tuple[list[_Candidate], int]:
    """Return the paragraphs of as many documents as may be read, and that number."""
    found: list[_Candidate] = []
    num_read = num_characters = 0
    for document_id in document_ids:
        lines = store.lines(document_id)
        num_characters += sum(len(line) for line in lines)
        if num_characters > _MAX_READ and num_read:
            break
        num_read += 1
        for number, paragraph in enumerate(split_paragraphs(lines, config)):
            passage = Passage(f"{document_id}#{number}", document_id, store.title(document_id), paragraph.text)
            found.append(_Candidate(document_id, paragraph, passage))
    return found, num_read


def _render(store: DocumentStore, item: _Candidate) -> str:
    first, last = item.paragraph.parts[0].number, item.paragraph.parts[-1].number
    body = "\n".join(printable(part.text) for part in item.paragraph.parts)
    return f"{store.name(item.document_id)}, lines {first}-{last}:\n{body}"


def _spans(item: _Candidate, until: int) -> list[ShownSpan]:
    return [ShownSpan(item.document_id, part.number, part.start, part.end, until) for part in item.paragraph.parts]


def _footer(num_shown: int, num_paragraphs: int, num_read: int, num_documents: int) -> str:
    return f"shown {num_shown} of {num_paragraphs} paragraphs, {num_read} of {num_documents} documents read"
