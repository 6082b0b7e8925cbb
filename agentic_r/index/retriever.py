"""Retrievers: an index together with what turns a query into its input.

Owns the agreement of encoder and index, and how a failed search is recorded: state ``failed`` with its
cause, which is neither an empty result nor an answer.
"""

from collections.abc import Sequence
from typing import Protocol

from agentic_r.errors import FingerprintError, ToolFailure
from agentic_r.index.bm25 import Bm25Index
from agentic_r.index.dense import DenseIndex
from agentic_r.index.rows import rank_by_best_passage
from agentic_r.protocols import Encoder, Retriever
from agentic_r.types import QueryText, ScoredDocument, SearchResult

__all__ = ["Bm25Retriever", "DenseRetriever", "QueryOnly", "ServingRetriever"]


class ServingRetriever(Retriever, Protocol):
    """A retriever that can also rank whole documents, as the workspace's scope needs it."""

    def rank_documents(self, query: QueryText, *, k: int) -> list[ScoredDocument]:
        """Return the ``k`` best documents. Raises ToolFailure when the search failed."""
        ...


class DenseRetriever:
    """Nearest passages by the encoder's vectors (``protocols.Retriever``)."""

    def __init__(self, encoder: Encoder, index: DenseIndex) -> None:
        """Put together an encoder and the index that it built.

        Raises:
            FingerprintError: another encoder built the index.
        """
        present = encoder.fingerprint
        if present != index.encoder_fingerprint:
            raise FingerprintError(
                f"retriever: the index was built by encoder {index.encoder_fingerprint}, but the encoder given is "
                f"{present}; build the index again with this encoder"
            )
        self._encoder = encoder
        self._index = index
        self._document_of = index.rows.document_of()

    @property
    def fingerprint(self) -> str:
        """Hash of encoder, corpus and kind of index."""
        return self._index.fingerprint

    def format_query(self, query: QueryText) -> str:
        """Return the encoder's input for ``query``."""
        return self._encoder.format_query(query)

    def search(self, queries: Sequence[QueryText], *, k: int) -> list[SearchResult]:
        """Return one result a query: at most ``k`` passages, best first, ties by passage id."""
        if not queries:
            return []
        try:
            return self._index.search(self._encoder.encode_queries(queries), k=k)
        except (ToolFailure, RuntimeError, MemoryError) as error:  # torch and faiss raise RuntimeError
            return [_failed(error) for _ in queries]

    def rank_documents(self, query: QueryText, *, k: int) -> list[ScoredDocument]:
        """Return the ``k`` best documents, each by its best passage; ties by document id.

        Raises:
            ToolFailure: the search failed.
        """
        return rank_by_best_passage(lambda depth: self.search([query], k=depth)[0], self._document_of, k=k)


class Bm25Retriever:
    """Best passages by BM25 for the query alone (``protocols.Retriever``)."""

    def __init__(self, index: Bm25Index) -> None:
        self._index = index
        self._document_of = index.rows.document_of()

    @property
    def fingerprint(self) -> str:
        """Hash of corpus, k1, b and what a term is."""
        return self._index.fingerprint

    def format_query(self, query: QueryText) -> str:
        """Return the query; BM25 does not read the question."""
        return query.query

    def search(self, queries: Sequence[QueryText], *, k: int) -> list[SearchResult]:
        """Return one result a query: at most ``k`` passages that share a term with it, best first."""
        try:
            return self._index.search([self.format_query(query) for query in queries], k=k)
        except (RuntimeError, MemoryError) as error:
            return [_failed(error) for _ in queries]

    def rank_documents(self, query: QueryText, *, k: int) -> list[ScoredDocument]:
        """Return the ``k`` best documents, each by its best passage; ties by document id.

        Raises:
            ToolFailure: the search failed.
        """
        return rank_by_best_passage(lambda depth: self.search([query], k=depth)[0], self._document_of, k=k)


class QueryOnly:
    """A retriever that is asked the query alone, whatever the question: how baselines are asked as published."""

    def __init__(self, retriever: ServingRetriever) -> None:
        self._retriever = retriever

    @property
    def fingerprint(self) -> str:
        """Hash of the retriever inside, marked: it is asked otherwise."""
        return f"{self._retriever.fingerprint} query only"

    def format_query(self, query: QueryText) -> str:
        """Return the retriever's input for the query without its question."""
        return self._retriever.format_query(QueryText(query.query))

    def search(self, queries: Sequence[QueryText], *, k: int) -> list[SearchResult]:
        """Return one result a query."""
        return self._retriever.search([QueryText(item.query) for item in queries], k=k)

    def rank_documents(self, query: QueryText, *, k: int) -> list[ScoredDocument]:
        """Return the ``k`` best documents. Raises ToolFailure when the search failed."""
        return self._retriever.rank_documents(QueryText(query.query), k=k)


def _failed(error: Exception) -> SearchResult:
    cause = " ".join(str(error).split()) or "no text"
    return SearchResult(passages=(), state="failed", cause=f"{type(error).__name__}: {cause}")
