"""The dense index: unit vectors of all passages and exact inner product over them (faiss flat).

Built in shards of vectors on disk, each of which says what it was made from: a killed build keeps whole
shards, and a shard of another encoder or text is never taken for ours. ``index.json``, written last, names
encoder and corpus. Legend: Q queries, P passages, D dimensions.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from agentic_r.artifacts.fingerprint import fingerprint_strings, fingerprint_value
from agentic_r.artifacts.jsonl import write_bytes_atomic, write_json
from agentic_r.config import IndexConfig
from agentic_r.errors import ConfigError, FingerprintError
from agentic_r.index.rows import Rows, read_rows, write_rows
from agentic_r.protocols import Encoder, Vectors
from agentic_r.types import Passage, SearchResult

__all__ = ["DenseIndex", "StoredVectors", "build_dense_index", "has_unit_rows", "needed_bytes", "open_dense_index"]

_SCHEMA = 1
_FILE = "index.json"
_BYTES_A_COMPONENT = 4
_MARGIN = 16  # hits fetched beyond k, to see whether the k-th score goes on
_NORM_ERROR = 0.01
_DECIMALS = 6  # float32 sums differ beyond that with the batch; equal texts must stay equal

Progress = Callable[[int, int], None]


class _Description(BaseModel):
    """``index.json``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int
    encoder: str
    corpus: str
    dimension: int
    passages: int
    shards: int
    encoded: int
    memory_bytes: int

    @property
    def fingerprint(self) -> str:
        """Hash of what decides the hits."""
        return fingerprint_value(["dense flat", self.schema_version, self.encoder, self.corpus, self.passages])


class DenseIndex:
    """An index in memory. ``encoded`` counts the passages that the build had to encode."""

    def __init__(self, description: _Description, rows: Rows, shards: Iterable[Vectors]) -> None:
        self.description = description
        self.rows = rows
        self._flat = faiss.IndexFlatIP(description.dimension)
        for vectors_PD in shards:
            self._flat.add(vectors_PD)
        if self._flat.ntotal != len(rows):
            raise ConfigError(
                f"an index holds {self._flat.ntotal:,} vectors and names {len(rows):,} passages: its files are not of "
                "one build; build it again (agentic-r run)"
            )

    @property
    def fingerprint(self) -> str:
        """Hash of encoder, corpus and kind of index."""
        return self.description.fingerprint

    @property
    def encoder_fingerprint(self) -> str:
        """Fingerprint of the encoder that made the vectors."""
        return self.description.encoder

    @property
    def encoded(self) -> int:
        """Passages encoded when this index was last built; 0 where everything was there."""
        return self.description.encoded

    @property
    def memory_bytes(self) -> int:
        """Memory of the vectors."""
        return self.description.memory_bytes

    def __len__(self) -> int:
        return len(self.rows)

    def search(self, vectors_QD: Vectors, *, k: int) -> list[SearchResult]:
        """Return the nearest passages of each row of ``vectors_QD``.

        Args:
            vectors_QD: Float32 unit vectors.
            k: Depth, at least 1; fewer hits come back where the index holds fewer passages.

        Returns:
            Cosines to six decimals, best first, equal ones by passage id.
        """
        if k < 1:
            raise ValueError(f"k is {k}; it must be at least 1")
        if not np.isfinite(vectors_QD).all():
            raise ValueError("a query vector is not finite")
        if len(vectors_QD) == 0:
            return []
        if len(self) == 0:
            return [self.rows.best([], k=k) for _ in vectors_QD]
        depth = min(len(self), k + _MARGIN)
        while True:
            scores, rows = self._flat.search(np.ascontiguousarray(vectors_QD), depth)
            values = np.round(scores.astype(np.float64), _DECIMALS)
            last_kept = values[:, min(k, depth) - 1]
            if depth == len(self) or not (values[:, -1] == last_kept).any():
                break
            depth = min(len(self), 2 * depth)
        return [
            self.rows.best(zip(found.tolist(), value.tolist(), strict=True), k=k)
            for found, value in zip(rows, values, strict=True)
        ]


class StoredVectors:
    """The vectors of a finished index as they lie on disk, a stretch of them at a time."""

    def __init__(self, folder: Path, *, encoder_fingerprint: str) -> None:
        """Open an index's folder.

        Raises:
            ConfigError: there is no finished index in the folder.
            FingerprintError: another encoder made it; names both.
        """
        description = _read_description(folder / _FILE)
        if description.encoder != encoder_fingerprint:
            raise FingerprintError(
                f"{folder}: this index was built by encoder {description.encoder}, but the encoder given is "
                f"{encoder_fingerprint}; build the index again with this encoder"
            )
        self._folder = folder
        self._shards = description.shards
        self.corpus = description.corpus
        self.dimension = description.dimension
        self.passage_ids = read_rows(folder).passage_ids

    def read(self, start: int, stop: int) -> Vectors:
        """Return (stop - start, D) vectors of the passages from ``start`` on, in the order of ``passage_ids``.

        Raises:
            ConfigError: a shard is missing or broken.
        """
        parts, begin = [], 0
        for number in range(self._shards):
            with _open_shard(self._folder / _shard_name(number)) as shard:
                whole = shard.get_slice("vectors")
                size = whole.get_shape()[0]
                first, last = max(start - begin, 0), min(stop - begin, size)
                if first < last:
                    parts.append(whole[first:last])
            begin += size
        vectors_PD: Vectors = np.concatenate(parts) if parts else np.zeros((0, self.dimension), dtype=np.float32)
        return vectors_PD


def needed_bytes(num_passages: int, dimension: int) -> int:
    """Memory of the vectors of a flat index (float32), as it can be told before building."""
    return num_passages * dimension * _BYTES_A_COMPONENT


def build_dense_index(
    folder: Path,
    encoder: Encoder,
    passages: Sequence[Passage],
    *,
    corpus_fingerprint: str,
    config: IndexConfig,
    progress: Progress,
) -> DenseIndex:
    """Encode what is not yet encoded by this very encoder, and open the index.

    Args:
        folder: The index's own folder; shards of other encoders in it are replaced.
        encoder: Makes the vectors.
        passages: Every passage once; order is kept in the files.
        corpus_fingerprint: What the passages belong to.
        config: Passages a call of the encoder, passages a shard.
        progress: Called with (passages done, passages in all).

    Raises:
        ValueError: two passages have one id.
    """
    (folder / _FILE).unlink(missing_ok=True)  # unfinished from here on
    rows = write_rows(folder, passages)
    encoder_fingerprint = encoder.fingerprint
    encoded = 0
    begins = range(0, len(passages), config.shard_passages)
    for number, begin in enumerate(begins):
        progress(begin, len(passages))
        shard = passages[begin : begin + config.shard_passages]
        file = folder / _shard_name(number)
        identity = _shard_identity(encoder_fingerprint, shard)
        if not _is_whole(file, identity):
            vectors_PD = _encode(encoder, shard, config.batch_size, lambda done: progress(done, len(passages)), begin)
            write_bytes_atomic(file, to_safetensors({"vectors": vectors_PD}, {"identity": identity}))
            encoded += len(shard)
    progress(len(passages), len(passages))
    _remove_other_shards(folder, keep=len(begins))
    first = next(_read_shards(folder, min(1, len(begins))), None)
    dimension = (encoder.encode_passages([]) if first is None else first).shape[1]
    description = _Description(
        schema_version=_SCHEMA,
        encoder=encoder_fingerprint,
        corpus=corpus_fingerprint,
        dimension=dimension,
        passages=len(passages),
        shards=len(begins),
        encoded=encoded,
        memory_bytes=needed_bytes(len(passages), dimension),
    )
    write_json(folder / _FILE, description.model_dump())
    return DenseIndex(description, rows, _read_shards(folder, len(begins)))


def open_dense_index(folder: Path, encoder: Encoder) -> DenseIndex:
    """Open an index for the encoder that made it.

    Raises:
        ConfigError: there is no finished index in the folder.
        FingerprintError: it was made by another encoder; names both.
    """
    description = _read_description(folder / _FILE)
    present = encoder.fingerprint
    if description.encoder != present:
        raise FingerprintError(
            f"{folder}: this index was built by encoder {description.encoder}, but the encoder given is {present} "
            "(weights, prefixes, pooling, lengths or tokenizer differ); build the index again with this encoder"
        )
    return DenseIndex(description, read_rows(folder), _read_shards(folder, description.shards))


def _read_description(file: Path) -> _Description:
    try:
        return _Description.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        raise ConfigError(f"{file.parent}: no finished index there; build it first (agentic-r run)") from None
    except ValidationError:
        raise ConfigError(f"{file}: not an index description of this version; build the index again") from None


def _shard_name(number: int) -> str:
    return f"vectors-{number:05d}.safetensors"


def _shard_identity(encoder_fingerprint: str, shard: Sequence[Passage]) -> str:
    texts = (f"{passage.id}\0{passage.title}\0{passage.text}" for passage in shard)
    return fingerprint_value([_SCHEMA, encoder_fingerprint, fingerprint_strings(texts)])


def _is_whole(file: Path, identity: str) -> bool:
    """Whether the file is a complete shard of this identity; a cut file cannot be opened."""
    try:
        with safe_open(file, "numpy") as shard:
            return (shard.metadata() or {}).get("identity") == identity
    except (FileNotFoundError, SafetensorError):
        return False


def _read_shards(folder: Path, count: int) -> Iterator[Vectors]:
    """One shard in memory at a time."""
    for number in range(count):
        file = folder / _shard_name(number)
        with _open_shard(file) as shard:
            vectors_PD: Vectors = shard.get_tensor("vectors")
        if not has_unit_rows(vectors_PD):
            raise ConfigError(f"{file}: holds vectors that are not of norm 1; delete it and build the index again")
        yield vectors_PD


@contextmanager
def _open_shard(file: Path) -> Iterator[Any]:  # Any: safetensors has no public name for what it opens
    try:
        with safe_open(file, "numpy") as shard:
            yield shard
    except (FileNotFoundError, SafetensorError):
        raise ConfigError(f"{file}: missing or broken; build the index again (whole shards are kept)") from None


def has_unit_rows(vectors_PD: Vectors) -> bool:
    """Say whether every row has norm 1 (within 0.01) or, for a text without direction, 0."""
    norms_P = np.linalg.norm(vectors_PD, axis=1)
    return bool(((np.abs(norms_P - 1) < _NORM_ERROR) | (norms_P == 0)).all())


def _encode(
    encoder: Encoder, shard: Sequence[Passage], batch_size: int, report: Callable[[int], None], begin: int
) -> Vectors:
    parts = []
    for start in range(0, len(shard), batch_size):
        parts.append(encoder.encode_passages(shard[start : start + batch_size]))
        report(begin + min(start + batch_size, len(shard)))
    vectors_PD = np.concatenate(parts)
    if not np.isfinite(vectors_PD).all():
        raise ValueError("the encoder gave a vector that is not finite")
    return vectors_PD


def _remove_other_shards(folder: Path, *, keep: int) -> None:
    ours = {_shard_name(number) for number in range(keep)}
    for file in folder.glob("vectors-*"):
        if file.name not in ours:
            file.unlink()
