"""An index written for an engine: part by part, resumable, with a count of everything left out.

Each part is one file, written whole or not at all; after a kill the parts that are there are kept. The folder's
manifest is written last. What an engine's files look like is the engine's. Legend: P passages, D dimensions.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, assert_never

import numpy as np

from agentic_r.artifacts.fingerprint import fingerprint_files
from agentic_r.artifacts.jsonl import read_jsonl, write_bytes_atomic, write_json, write_jsonl
from agentic_r.artifacts.stage import StageFolder, StageIdentity, open_stage
from agentic_r.encoder.settings import EncoderSettings
from agentic_r.errors import ConfigError, DataError, StaleError
from agentic_r.export.engines.bulk import ElasticsearchEngine, OpenSearchEngine
from agentic_r.export.engines.engine import Engine, Facts
from agentic_r.export.engines.pgvector import MAX_PGVECTOR_DIMENSION, PgvectorEngine
from agentic_r.export.engines.qdrant import QdrantEngine
from agentic_r.export.engines.source import Source, batches
from agentic_r.export.engines.tables import FaissEngine, ParquetEngine
from agentic_r.export.engines.vespa import VespaEngine
from agentic_r.index.dense import has_unit_rows
from agentic_r.protocols import Vectors
from agentic_r.types import Passage, Skipped

__all__ = ["KINDS", "EncoderFacts", "EngineKind", "IndexWish", "build_engine", "engine_kind", "export_index"]

EngineKind = Literal["parquet", "faiss", "elasticsearch", "opensearch", "vespa", "qdrant", "pgvector"]
KINDS: tuple[EngineKind, ...] = ("parquet", "faiss", "elasticsearch", "opensearch", "vespa", "qdrant", "pgvector")

_SCHEMA = 2
_SKIPPED, _SIZES = "skipped.jsonl", "sizes.json"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")  # what every engine takes without quoting


@dataclass(frozen=True, slots=True)
class IndexWish:
    """What to write: for which engine, under which name, and how.

    ``dimension`` cuts vectors (None: whole), ``part_passages`` are the passages a file.
    """

    kind: EngineKind
    name: str
    dimension: int | None = None
    part_passages: int = 1000


@dataclass(frozen=True, slots=True)
class EncoderFacts:
    """The encoder that made, or makes, the vectors."""

    settings: EncoderSettings
    fingerprint: str
    dimension: int


def engine_kind(name: str) -> EngineKind:
    """Return the kind of that name.

    Raises:
        ConfigError: there is none; names those there are.
    """
    for kind in KINDS:
        if kind == name:
            return kind
    raise ConfigError(f"--kind {name}: no such engine; give one of {', '.join(KINDS)}")


def build_engine(kind: EngineKind) -> Engine:
    """Return the engine of a kind."""
    match kind:
        case "parquet":
            return ParquetEngine()
        case "faiss":
            return FaissEngine()
        case "elasticsearch":
            return ElasticsearchEngine()
        case "opensearch":
            return OpenSearchEngine()
        case "vespa":
            return VespaEngine()
        case "qdrant":
            return QdrantEngine()
        case "pgvector":
            return PgvectorEngine()
        case _:
            assert_never(kind)


def export_index(
    folder: Path,
    source: Source,
    *,
    encoder: EncoderFacts,
    passages_file: Path,
    wish: IndexWish,
    progress: Callable[[int, int], None],
) -> StageFolder:
    """Write an index's files for an engine, or what is missing of them.

    Args:
        folder: Its own folder.
        source: Passages and vectors.
        encoder: What made the vectors.
        passages_file: Where the passages are from; its bytes are part of the folder's identity.
        wish: What to write.
        progress: Called with (passages done, passages seen so far).

    Returns:
        The finished folder, with counts of written passages and of those left out, by reason; ``skipped.jsonl`` in
        it names them.

    Raises:
        StaleError: the folder holds another finished export, or something else, or lost a part since.
        DataError: a vector has another norm than 1.
        ConfigError: the name is not one that every engine takes, the dimension is not shorter than the encoder's,
            or the engine indexes no vectors of that length.
    """
    if not _NAME.fullmatch(wish.name):
        raise ConfigError(f"--name {wish.name}: expected small letters, digits and _, a letter first")
    if wish.dimension is not None and wish.dimension >= encoder.dimension:
        raise ConfigError(f"--dimension {wish.dimension}: not shorter than the encoder's {encoder.dimension}")
    length = wish.dimension or encoder.dimension
    if wish.kind == "pgvector" and length > MAX_PGVECTOR_DIMENSION:
        raise ConfigError(
            f"--kind pgvector: indexes at most {MAX_PGVECTOR_DIMENSION} dimensions, and these vectors have {length}; "
            f"cut them with --dimension {MAX_PGVECTOR_DIMENSION}"
        )
    identity = StageIdentity(
        name="index export",
        schema=_SCHEMA,
        inputs={"encoder": encoder.fingerprint, "passages": fingerprint_files([passages_file])},
        settings={
            "kind": wish.kind,
            "name": wish.name,
            "dimension": wish.dimension,
            "part_passages": wish.part_passages,
        },
        seed=0,
    )
    stage = open_stage(folder, identity)
    if stage.done:
        _refuse_incomplete(folder)
        _remove_notes(folder)  # a kill may have come between the manifest and them
        return stage
    engine = build_engine(wish.kind)
    parts = _write_parts(folder, source, engine, wish=wish, progress=progress)
    facts = Facts(encoder.settings, encoder.fingerprint, length, wish.name, tuple(parts.names))
    engine.complete(folder, facts)
    _count(stage, parts, folder)
    write_json(folder / _SIZES, {file.name: file.stat().st_size for file in _files(folder)})
    stage.finish()
    _remove_notes(folder)
    return stage


def _files(folder: Path) -> list[Path]:
    """The files an engine reads: what a copy or a cleaning may have lost."""
    own = {_SIZES, _SKIPPED}
    return sorted(
        file
        for file in folder.iterdir()
        if file.is_file() and file.name not in own and not file.name.startswith((".", "left-out-"))
    )


def _refuse_incomplete(folder: Path) -> None:
    sizes = json.loads((folder / _SIZES).read_bytes()) if (folder / _SIZES).is_file() else {}
    now = {file.name: file.stat().st_size for file in _files(folder)}
    lost = [name for name, size in sizes.items() if now.get(name) != size]
    if lost or not sizes:
        what = f"{lost[0]} is missing or not as it was written" if lost else f"{_SIZES} is missing"
        raise StaleError(f"{folder}: {what}; delete the folder and run again")


def _remove_notes(folder: Path) -> None:
    for note in folder.glob("left-out-*.jsonl"):
        note.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _Parts:
    names: list[str]
    notes: list[str]
    num_passages: int


def _write_parts(
    folder: Path, source: Source, engine: Engine, *, wish: IndexWish, progress: Callable[[int, int], None]
) -> _Parts:
    names, notes, start = [], [], 0
    for number, batch in enumerate(batches(source.passages(), wish.part_passages)):
        name, note = f"part-{number:05d}{engine.suffix}", f"left-out-{number:05d}.jsonl"
        progress(start, start + len(batch))
        if not (folder / name).exists():
            kept, vectors_PD, left_out = _usable(engine, batch, source.vectors(start, batch), wish.dimension)
            write_jsonl(folder / note, ({"id": item.id, "reason": item.reason} for item in left_out))
            write_bytes_atomic(folder / name, engine.part(kept, vectors_PD))  # last: it says that the part is done
        names.append(name)
        notes.append(note)
        start += len(batch)
    progress(start, start)
    return _Parts(names, notes, start)


def _usable(
    engine: Engine, batch: list[Passage], vectors_PD: Vectors, dimension: int | None
) -> tuple[list[Passage], Vectors, list[Skipped]]:
    """Leave out what the engine cannot take, and vectors without direction; shorten the others."""
    finite_PD = vectors_PD[np.isfinite(vectors_PD).all(axis=1)]
    if not has_unit_rows(finite_PD):
        raise DataError(
            f"a vector of passages {batch[0].id!r} to {batch[-1].id!r} has not norm 1: the index is damaged; "
            "delete it and build it again (agentic-r run)"
        )
    if dimension is not None:
        vectors_PD = vectors_PD[:, :dimension]
    norms_P = np.linalg.norm(vectors_PD, axis=1)
    reasons = [_reason(engine, passage, float(norm)) for passage, norm in zip(batch, norms_P, strict=True)]
    rows = [row for row, reason in enumerate(reasons) if not reason]
    kept_PD = vectors_PD[rows]
    if dimension is not None:
        kept_PD = kept_PD / norms_P[rows, None]
    left_out = [Skipped(passage.id, reason) for passage, reason in zip(batch, reasons, strict=True) if reason]
    return [batch[row] for row in rows], kept_PD, left_out


def _reason(engine: Engine, passage: Passage, norm: float) -> str:
    if not np.isfinite(norm):
        return "a vector that is not finite"
    return "a zero vector" if norm == 0 else engine.refuses(passage)


def _count(stage: StageFolder, parts: _Parts, folder: Path) -> None:
    left_out = [item for name in parts.notes for item in read_jsonl(folder / name)]
    write_jsonl(folder / _SKIPPED, left_out)
    for item in left_out:
        stage.skipped[item["reason"]] = stage.skipped.get(item["reason"], 0) + 1
    stage.counts.update(passages=parts.num_passages, written=parts.num_passages - len(left_out), parts=len(parts.names))
