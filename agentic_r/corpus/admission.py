"""Which documents that were read become part of the corpus.

Owns empty texts, repeated ids and equal texts. Keeps a hash for each id and each text, never a text.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Literal

from agentic_r.artifacts.fingerprint import same_text_key
from agentic_r.corpus.readers import PlacedDocument
from agentic_r.corpus.report import Listed, ReadingReport
from agentic_r.corpus.text import is_empty_text
from agentic_r.errors import DataError
from agentic_r.types import Document

__all__ = ["CONFLICTING_ID", "EMPTY_TEXT", "REPEATED", "SAME_TEXT", "admit_documents"]

EMPTY_TEXT = "empty text"
CONFLICTING_ID = "id used twice with different texts"
REPEATED = "same id and text again"
SAME_TEXT = "same text under another id"


def admit_documents(
    documents: Iterable[PlacedDocument],
    *,
    report: ReadingReport,
    keep_empty: bool,
    conflicting_ids: Literal["stop", "first"],
) -> Iterator[Document]:
    """Yield the documents that the corpus keeps.

    A row that repeats an id with the same title and text is dropped with a warning. An id with another text stops,
    or with "first" is skipped. A text that another id already has (case and white space aside) is kept and listed as
    ``SAME_TEXT`` with the first id.

    Raises:
        DataError: an id has two texts and ``conflicting_ids`` is "stop"; names both places.
    """
    seen: dict[str, tuple[bytes, str]] = {}
    first_with_text: dict[bytes, str] = {}
    for placed in documents:
        document, place = placed.document, placed.place
        is_empty = is_empty_text(document.text)
        if is_empty and not keep_empty:
            report.skip(EMPTY_TEXT, Listed(place, document.id, "no visible character"))
            continue
        content = _digest(document.title + "\0" + document.text)
        if document.id in seen:
            known, first_place = seen[document.id]
            case = Listed(place, document.id, f"first at {first_place}")
            if known == content:
                report.warn(REPEATED, case)
            elif conflicting_ids == "stop":
                raise DataError(
                    f"{place}: id {document.id!r} was used at {first_place} with another title or text; "
                    "make ids unique, or set data.conflicting_ids to first"
                )
            else:
                report.skip(CONFLICTING_ID, case)
            continue
        seen[document.id] = (content, place)
        if not is_empty:
            first = first_with_text.setdefault(_digest(same_text_key(document.text)), document.id)
            if first != document.id:
                report.warn(SAME_TEXT, Listed(place, document.id, f"same text as {first}"))
        yield document


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
