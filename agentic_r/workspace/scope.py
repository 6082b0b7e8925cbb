"""The scope: which documents a question's workspace admits, in which order.

A retriever proves itself here: its ranking of documents is the order in which they are scanned.
"""

from typing import Protocol

from agentic_r.errors import FingerprintError
from agentic_r.types import QueryText, Scope, ScoredDocument
from agentic_r.workspace.store import DocumentStore

__all__ = ["RememberedRanker", "ScopeRanker", "build_scope"]


class ScopeRanker(Protocol):
    """Ranks documents for queries; its queries go through its own input format."""

    @property
    def fingerprint(self) -> str:
        """Hash of the index and of what encodes queries for it."""
        ...

    def rank_documents(self, query: QueryText, *, k: int) -> list[ScoredDocument]:
        """Return at most ``k`` documents, best first. Raises ToolFailure when it cannot."""
        ...


class RememberedRanker:
    """A ranker that is asked the same thing once (``ScopeRanker``): several systems share its scopes."""

    def __init__(self, ranker: ScopeRanker) -> None:
        self._ranker = ranker
        self._fingerprint = ranker.fingerprint
        self._rankings: dict[tuple[QueryText, int], list[ScoredDocument]] = {}

    @property
    def fingerprint(self) -> str:
        """That of the ranker inside, as it was at first."""
        return self._fingerprint

    def rank_documents(self, query: QueryText, *, k: int) -> list[ScoredDocument]:
        """Return what the ranker inside said the first time. A failure is not remembered."""
        key = (query, k)
        if key not in self._rankings:
            self._rankings[key] = self._ranker.rank_documents(query, k=k)
        return self._rankings[key]


def build_scope(ranker: ScopeRanker, query: QueryText, *, k: int, store: DocumentStore, number: int = 1) -> Scope:
    """Ask the ranker for the first ``k`` documents of a query.

    Args:
        ranker: Decides which documents, and their order.
        query: What the agent asked, and the question it serves.
        k: At most so many documents.
        store: The documents there are.
        number: The scope's number within its question, from 1.

    Raises:
        FingerprintError: the ranker knows a document that the store does not have.
        ToolFailure: the ranker failed.
    """
    ranking = ranker.rank_documents(query, k=k)
    ids = {document.document_id for document in ranking}
    if len(ids) != len(ranking) or len(ranking) > k:
        raise ValueError(f"a ranking of {len(ranking)} documents, {len(ids)} different, where {k} were asked for")
    for document_id in ids:
        if document_id not in store:
            raise FingerprintError(
                f"document {document_id!r} is in the index but not in the document store; make both from one corpus"
            )
    return Scope(number=number, query=query, documents=tuple(ranking))
