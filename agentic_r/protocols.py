"""The seams: what the parts ask of one another.

Protocols of at most four methods, batch first, synchronous; concurrency lives behind them. Choosing
an implementation happens in one ``build_x(config, ...)`` beside each family, never here.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from agentic_r.types import (
    Generation,
    Passage,
    QueryText,
    Relevance,
    RelevanceRequest,
    Reply,
    Sampling,
    SearchResult,
    SubAnswer,
    SubAnswerRequest,
)

__all__ = ["ChatModel", "Encoder", "Judge", "LanguageModel", "Retriever", "Vectors"]

Vectors = NDArray[np.float32]


class Encoder(Protocol):
    """Text in, unit vectors out; owns prefix, pooling, normalisation, lengths and query format."""

    @property
    def fingerprint(self) -> str:
        """Hash of weights, pooling, prefixes, lengths and query format."""
        ...

    def encode_queries(self, queries: Sequence[QueryText]) -> Vectors:
        """Return (Q, D) float32 rows of norm 1."""
        ...

    def encode_passages(self, passages: Sequence[Passage]) -> Vectors:
        """Return (P, D) float32 rows of norm 1."""
        ...

    def format_query(self, query: QueryText) -> str:
        """Return the text that is tokenised for ``query``, prefix and separator included."""
        ...


class Retriever(Protocol):
    """An encoder or BM25 together with its index."""

    @property
    def fingerprint(self) -> str:
        """Hash of the index and of what encodes queries for it."""
        ...

    def search(self, queries: Sequence[QueryText], *, k: int) -> list[SearchResult]:
        """Return one result a query: at most ``k`` passages, best first, ties by passage id."""
        ...

    def format_query(self, query: QueryText) -> str:
        """Return the retriever's input for ``query`` (BM25: the query itself)."""
        ...


class LanguageModel(Protocol):
    """A causal language model: tokens in, tokens out."""

    @property
    def fingerprint(self) -> str:
        """Hash of weights and tokenizer."""
        ...

    def encode(
        self, text: str, *, control: bool = False, begins: bool = False, ends: bool = False, chat: bool = False
    ) -> list[int]:
        """Token ids of ``text``; only with ``control`` may it produce control tokens.

        ``begins`` and ``ends`` mark the two ends of a prompt: the start token and, with ``chat``, the chat
        template's opening and its generation prompt are added there.
        """
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ``ids``, tags included, padding and end-of-text left out."""
        ...

    def generate(self, prompts: Sequence[Sequence[int]], *, sampling: Sampling) -> list[Generation]:
        """Continue each prompt until a stop string, the end token or ``max_tokens``."""
        ...


class ChatModel(Protocol):
    """An endpoint that answers prompts; failures are recorded by the caller, never scored."""

    @property
    def name(self) -> str:
        """Model and settings, as they belong into a label's identity."""
        ...

    def complete(self, prompts: Sequence[str], *, arrived: Callable[[int, Reply], None] | None = None) -> list[Reply]:
        """One reply a prompt, in order; ``arrived`` is called with (number of the prompt, reply) as each comes."""
        ...


class Judge(Protocol):
    """Says what a query should have found (sub-answer) and how well each candidate does it."""

    @property
    def name(self) -> str:
        """Kind, model, prompt hash: a label's identity."""
        ...

    def sub_answers(self, requests: Sequence[SubAnswerRequest]) -> list[list[SubAnswer]]:
        """For each trajectory one sub-answer a query, in order."""
        ...

    def relevance(self, requests: Sequence[RelevanceRequest]) -> list[list[Relevance]]:
        """For each query one relevance a candidate, in order."""
        ...
