"""How near texts are to a query, by the same encoder that ranks the scope; every text is encoded once.

Vectors are kept by the hash of title and text, so that a paragraph or an excerpt that comes up again, under whatever
query, costs nothing. Legend: P passages, D dimensions.
"""

import hashlib
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from agentic_r.errors import ToolFailure
from agentic_r.protocols import Encoder, Vectors
from agentic_r.types import Passage, QueryText

__all__ = ["EncoderSimilarity", "TextSimilarity"]

_DECIMALS = 6  # float32 sums differ beyond that with the batch; equal texts must stay equal
_MAX_VECTORS = 200_000  # 200 MB at 256 dimensions; then the older half goes


class TextSimilarity(Protocol):
    """Scores texts for a query."""

    @property
    def fingerprint(self) -> str:
        """Hash of what decides the scores."""
        ...

    def scores(self, query: QueryText, passages: Sequence[Passage]) -> list[float]:
        """Return one score a passage, higher is nearer. Raises ToolFailure when it cannot."""
        ...


class EncoderSimilarity:
    """Cosine of an encoder's vectors (``TextSimilarity``). One instance serves all questions."""

    def __init__(self, encoder: Encoder, *, query_alone: bool = False) -> None:
        """Score with ``encoder``; with ``query_alone``, queries are asked without their question."""
        self._encoder = encoder
        self._query_alone = query_alone
        self._fingerprint = encoder.fingerprint + (" query only" if query_alone else "")
        self._vectors: dict[bytes, Vectors] = {}
        self._num_encoded = 0

    @property
    def fingerprint(self) -> str:
        """Hash of the encoder, and how it is asked."""
        return self._fingerprint

    @property
    def num_encoded(self) -> int:
        """Texts encoded so far, each once while it is kept."""
        return self._num_encoded

    def scores(self, query: QueryText, passages: Sequence[Passage]) -> list[float]:
        """Return one cosine a passage, to six decimals.

        Raises:
            ToolFailure: the encoder failed.
        """
        if not passages:
            return []
        asked = QueryText(query.query) if self._query_alone else query
        try:
            vector_D = self._encoder.encode_queries([asked])[0]
            vectors_PD = self._encoded(passages)
        except (RuntimeError, MemoryError) as error:  # torch raises RuntimeError
            raise ToolFailure(f"{type(error).__name__}: {' '.join(str(error).split())}") from error
        return [float(value) for value in np.round((vectors_PD @ vector_D).astype(np.float64), _DECIMALS)]

    def _encoded(self, passages: Sequence[Passage]) -> Vectors:
        keys = [
            hashlib.sha256(f"{item.title}\0{item.text}".encode("utf-8", "surrogatepass")).digest() for item in passages
        ]
        new = {key: item for key, item in zip(keys, passages, strict=True) if key not in self._vectors}
        if len(self._vectors) + len(new) > _MAX_VECTORS:
            wanted = set(keys)
            for old in list(self._vectors)[: len(self._vectors) // 2]:
                if old not in wanted:
                    del self._vectors[old]
        if new:
            made_PD = self._encoder.encode_passages(list(new.values()))
            self._vectors.update(zip(new, made_PD, strict=True))
            self._num_encoded += len(new)
        return np.stack([self._vectors[key] for key in keys])
