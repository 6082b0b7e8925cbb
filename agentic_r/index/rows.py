"""Row numbers and the ids behind them: the one place where a row becomes a passage.

Owns the file of ids, the order of hits (score, then passage id) and the ranking of documents by their best
passage. Row numbers never leave this package.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentic_r.artifacts.jsonl import read_jsonl, write_jsonl
from agentic_r.errors import ToolFailure
from agentic_r.types import Passage, ScoredDocument, ScoredPassage, SearchResult

__all__ = ["Rows", "rank_by_best_passage", "read_rows", "write_rows"]

_FILE = "rows.jsonl"
_FIRST_DEPTH = 4  # passages looked at for each document wanted, before looking deeper


@dataclass(frozen=True, slots=True)
class Rows:
    """Passage and document ids of an index, by row."""

    passage_ids: tuple[str, ...]
    document_ids: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.passage_ids)

    def best(self, scored_rows: Iterable[tuple[int, float]], *, k: int) -> SearchResult:
        """Return the ``k`` best of (row, score) pairs: higher scores first, equal ones by passage id."""
        hits = [ScoredPassage(self.passage_ids[row], value) for row, value in scored_rows]
        hits.sort(key=lambda hit: (-hit.value, hit.passage_id))
        return SearchResult(passages=tuple(hits[:k]), state="ok" if hits else "empty")

    def document_of(self) -> dict[str, str]:
        """Return the document of each passage."""
        return dict(zip(self.passage_ids, self.document_ids, strict=True))


def write_rows(folder: Path, passages: Sequence[Passage]) -> Rows:
    """Write the ids of ``passages``, in order.

    Raises:
        ValueError: two passages have one id.
    """
    ids = tuple(passage.id for passage in passages)
    if len(set(ids)) != len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise ValueError(f"passage id {twice!r} stands twice; an index needs one passage an id")
    write_jsonl(folder / _FILE, ({"passage": passage.id, "document": passage.document_id} for passage in passages))
    return Rows(ids, tuple(passage.document_id for passage in passages))


def read_rows(folder: Path) -> Rows:
    """Read what ``write_rows`` wrote."""
    pairs = [(str(line["passage"]), str(line["document"])) for line in read_jsonl(folder / _FILE)]
    return Rows(tuple(passage for passage, _ in pairs), tuple(document for _, document in pairs))


def rank_by_best_passage(
    search: Callable[[int], SearchResult], document_of: dict[str, str], *, k: int
) -> list[ScoredDocument]:
    """Rank documents by their best passage; equal scores by document id.

    Args:
        search: Gives the best passages, as many as asked for or all there are.
        document_of: The document of each passage.
        k: Documents wanted; fewer come back where fewer are found.

    Raises:
        ToolFailure: the search failed.
    """
    depth = _FIRST_DEPTH * k
    while True:
        result = search(depth)
        if result.state == "failed":
            raise ToolFailure(result.cause)
        best: dict[str, float] = {}
        for hit in result.passages:
            best.setdefault(document_of[hit.passage_id], hit.value)
        ranked = sorted((ScoredDocument(name, value) for name, value in best.items()), key=_document_order)
        exhausted = len(result.passages) < depth
        # a document not seen yet may only equal the k-th one while the last hit does
        if exhausted or (len(ranked) >= k and result.passages[-1].value < ranked[k - 1].value):
            return ranked[:k]
        depth *= 2


def _document_order(document: ScoredDocument) -> tuple[float, str]:
    return (-document.value, document.document_id)
