"""Two or more rankings as one: reciprocal rank fusion, value(d) = sum over rankings of 1 / (60 + rank of d).

60 as in its source (Cormack, Clarke and Büttcher, SIGIR 2009). Ranks, not scores, are added: those of BM25 and
those of an encoder have no common scale.
"""

import math
from collections import defaultdict
from collections.abc import Sequence

from agentic_r.artifacts.fingerprint import fingerprint_value
from agentic_r.types import QueryText, ScoredDocument
from agentic_r.workspace.scope import ScopeRanker

__all__ = ["FusedRanker"]

_OFFSET = 60


class FusedRanker:
    """Ranks documents by several rankers at once (``scope.ScopeRanker``)."""

    def __init__(self, rankers: Sequence[ScopeRanker]) -> None:
        """Fuse these; their order does not matter."""
        self._rankers = tuple(rankers)

    @property
    def fingerprint(self) -> str:
        """Hash of all rankers."""
        return fingerprint_value(["fused", _OFFSET, sorted(ranker.fingerprint for ranker in self._rankers)])

    def rank_documents(self, query: QueryText, *, k: int) -> list[ScoredDocument]:
        """Return the ``k`` best of what each ranker puts among its first ``k``; equal values by document id.

        Raises:
            ToolFailure: one of the rankers failed.
        """
        parts: defaultdict[str, list[float]] = defaultdict(list)
        for ranker in self._rankers:
            for rank, document in enumerate(ranker.rank_documents(query, k=k), start=1):
                parts[document.document_id].append(1 / (_OFFSET + rank))
        values = {key: math.fsum(group) for key, group in parts.items()}  # exact: in whatever order they come
        fused = sorted(values.items(), key=lambda item: (-item[1], item[0]))
        return [ScoredDocument(document_id, value) for document_id, value in fused[:k]]
