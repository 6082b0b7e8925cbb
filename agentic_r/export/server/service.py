"""Vectors and hits for many callers at once, as coroutines.

Owns the two queues (encoding, searching) and the bound on what is inside. HTTP is ``app.py``'s.
Legend: B texts, Q queries, D dimensions.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentic_r.config import ServeConfig
from agentic_r.export.server.batching import Admission, Batcher
from agentic_r.export.server.counters import Counters
from agentic_r.export.server.served import SearchedIndex, Served
from agentic_r.types import Passage, QueryText, SearchResult

__all__ = ["EmbeddedText", "FoundPassages", "RetrievalService"]

Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EmbeddedText:
    """A (D,) unit vector, the tokens it was made from, and whether the text was longer than that."""

    vector_D: Vector
    num_tokens: int
    is_cut: bool


@dataclass(frozen=True, slots=True)
class FoundPassages:
    """The hits of one query, and whether question or query had to be shortened for it."""

    result: SearchResult
    is_cut: bool


@dataclass(frozen=True, slots=True)
class _Sought:
    vector_D: Vector
    k: int


class RetrievalService:
    """What is served, behind its queues."""

    def __init__(self, served: Served, config: ServeConfig, counters: Counters) -> None:
        self.served = served
        self._counters = counters
        self._admission = Admission(config.max_waiting_texts)
        counters.inside.set_function(lambda: self._admission.num_texts)
        size = config.max_batch_texts
        self._encoding = Batcher(self._encode, max_batch=size, observe=counters.batch.observe)
        self._searching = Batcher(self._search, max_batch=size, observe=counters.searches.observe)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Work on both queues inside the block."""
        tasks = [asyncio.create_task(batcher.run()) for batcher in (self._encoding, self._searching)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def embed(self, texts: Sequence[QueryText | Passage | str]) -> list[EmbeddedText]:
        """Return one vector a text.

        Raises:
            QueueFull: too much waits already.
        """
        with self._admission.hold(len(texts)):
            return await self._encoding.submit(texts)

    async def search(self, queries: Sequence[QueryText], *, k: int) -> list[FoundPassages]:
        """Return one result a query: at most ``k`` passages, best first, ties by passage id.

        Raises:
            QueueFull: too much waits already.
            ValueError: there is no index.
        """
        if self.served.searched is None:
            raise ValueError("no index is served")
        with self._admission.hold(len(queries)):
            embedded = await self._encoding.submit(queries)
            results = await self._searching.submit([_Sought(item.vector_D, k) for item in embedded])
        return [FoundPassages(result, item.is_cut) for result, item in zip(results, embedded, strict=True)]

    def _encode(self, texts: Sequence[QueryText | Passage | str]) -> list[EmbeddedText]:
        measured = self.served.encoder.encode_measured(texts)
        embedded = [
            EmbeddedText(*row) for row in zip(measured.vectors_BD, measured.num_tokens, measured.cut, strict=True)
        ]
        for kind, kind_of in (("query", QueryText), ("passage", Passage), ("plain", str)):
            of_kind = [item for item, text in zip(embedded, texts, strict=True) if isinstance(text, kind_of)]
            if of_kind:
                self._counters.texts.labels(kind).inc(len(of_kind))
                self._counters.tokens.labels(kind).inc(sum(item.num_tokens for item in of_kind))
                self._counters.cut.labels(kind).inc(sum(item.is_cut for item in of_kind))
        return embedded

    def _search(self, sought: Sequence[_Sought]) -> list[SearchResult]:
        """Search for all at the greatest depth asked for: a shallower result is the beginning of a deeper one."""
        searched = self.served.searched
        assert isinstance(searched, SearchedIndex)
        deepest = max(item.k for item in sought)
        results = searched.dense.search(np.stack([item.vector_D for item in sought]), k=deepest)
        return [
            SearchResult(result.passages[: item.k], result.state, result.cause)
            for result, item in zip(results, sought, strict=True)
        ]
