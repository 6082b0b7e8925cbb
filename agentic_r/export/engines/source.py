"""Where an index export takes passages and vectors from, a part at a time.

Either a run's index, whose vectors lie on disk, or an export folder and a file of passages, which are encoded. Vectors
are asked for only where a part is still to be written. Legend: P passages, D dimensions.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol

from agentic_r.artifacts.jsonl import JsonObject, read_jsonl
from agentic_r.artifacts.records import from_json
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.errors import DataError, FingerprintError
from agentic_r.index.dense import StoredVectors
from agentic_r.protocols import Vectors
from agentic_r.types import Passage

__all__ = ["EncodedPassages", "IndexedPassages", "Source", "batches", "read_passages"]


class Source(Protocol):
    """Passages in a fixed order, and their vectors."""

    def passages(self) -> Iterator[Passage]:
        """Yield all passages."""
        ...

    def vectors(self, start: int, passages: Sequence[Passage]) -> Vectors:
        """Return (P, D) vectors of the passages that stand from ``start`` on."""
        ...


class IndexedPassages:
    """A run's passages, in the order of its index."""

    def __init__(self, passages: Path, stored: StoredVectors) -> None:
        self._file = passages
        self._stored = stored

    def passages(self) -> Iterator[Passage]:
        """Yield the corpus's passages."""
        return read_passages(self._file)

    def vectors(self, start: int, passages: Sequence[Passage]) -> Vectors:
        """Read vectors from the index's shards.

        Raises:
            FingerprintError: the index holds other passages at this place.
        """
        stop = start + len(passages)
        if self._stored.passage_ids[start:stop] != tuple(passage.id for passage in passages):
            raise FingerprintError(
                f"{self._file}: passages {start + 1} to {stop} are not those of the index; build the index again"
            )
        return self._stored.read(start, stop)


class EncodedPassages:
    """A file of passages, encoded by an export's encoder."""

    def __init__(self, passages: Path, encoder: BiEncoder) -> None:
        self._file = passages
        self._encoder = encoder

    def passages(self) -> Iterator[Passage]:
        """Yield the file's passages."""
        return read_passages(self._file)

    def vectors(self, start: int, passages: Sequence[Passage]) -> Vectors:
        """Encode passages."""
        return self._encoder.encode_passages(passages)


def read_passages(path: Path) -> Iterator[Passage]:
    """Yield the passages of a jsonl file: ``id`` and ``text``, and where there are any ``title``, ``document_id``.

    A passage without ``document_id`` is a document of its own. Lengths are not limited: what the encoder cuts is in the
    engine whole.

    Raises:
        DataError: a line that is no such passage, or an id that is there twice; names file and line.
    """
    seen: set[str] = set()
    for number, value in enumerate(read_jsonl(path, remedy="mend that line"), start=1):
        passage = from_json(Passage, _complete(value), where=f"{path}, record {number}")
        if passage.id in seen:
            raise DataError(f"{path}, record {number}: the id {passage.id!r} stands twice; give each passage its own")
        seen.add(passage.id)
        yield passage


def batches(passages: Iterator[Passage], size: int) -> Iterator[list[Passage]]:
    """Yield lists of ``size`` passages, the last one shorter."""
    while batch := list(islice(passages, size)):
        yield batch


def _complete(value: JsonObject) -> JsonObject:
    return {"title": "", "document_id": value.get("id"), **value}
