"""Parquet files, and a FAISS index built from them.

Parquet is for whatever reads tables; its schema carries the encoder's settings. FAISS keeps vectors alone, so the ids
stand beside the index, one a line, in the order of its rows. Legend: P passages, D dimensions.
"""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from agentic_r.artifacts.jsonl import write_bytes_atomic, write_json, write_jsonl, write_text_atomic
from agentic_r.export.engines.engine import Facts, render_recipe
from agentic_r.protocols import Vectors
from agentic_r.types import Passage

__all__ = ["FaissEngine", "ParquetEngine"]


class ParquetEngine:
    """Tables of id, document_id, title, text and embedding."""

    suffix = ".parquet"

    def refuses(self, passage: Passage) -> str:
        """Nothing is refused."""
        return ""

    def part(self, passages: Sequence[Passage], vectors_PD: Vectors) -> bytes:
        """Return a parquet file."""
        return _table(passages, vectors_PD, with_texts=True)

    def complete(self, folder: Path, facts: Facts) -> None:
        """Write the encoder's settings and the recipe."""
        described = {"encoder": facts.fingerprint, "dimension": facts.dimension, **facts.settings.model_dump()}
        write_json(folder / "encoder.json", described)
        write_text_atomic(folder / "README.md", render_recipe("parquet.md.jinja", facts))


class FaissEngine:
    """An exact inner-product index (``IndexFlatIP``) and its ids; the whole index is in memory while it is built."""

    suffix = ".parquet"

    def refuses(self, passage: Passage) -> str:
        """Nothing is refused."""
        return ""

    def part(self, passages: Sequence[Passage], vectors_PD: Vectors) -> bytes:
        """Return a parquet file of ids and vectors."""
        return _table(passages, vectors_PD, with_texts=False)

    def complete(self, folder: Path, facts: Facts) -> None:
        """Build the index from the parts, which are no longer needed then."""
        import faiss

        index = faiss.IndexFlatIP(facts.dimension)
        ids: list[str] = []
        for name in facts.parts:
            table = parquet.read_table(folder / name)
            vectors = np.asarray(table["embedding"].combine_chunks().flatten(), dtype=np.float32)
            index.add(vectors.reshape(-1, facts.dimension))
            ids += table["id"].to_pylist()
        write_jsonl(folder / "ids.jsonl", ({"id": identifier} for identifier in ids))
        write_bytes_atomic(folder / "index.faiss", faiss.serialize_index(index).tobytes())
        write_text_atomic(folder / "README.md", render_recipe("faiss.md.jinja", facts))


def _table(passages: Sequence[Passage], vectors_PD: Vectors, *, with_texts: bool) -> bytes:
    dimension = vectors_PD.shape[1]
    values = pa.array(np.ascontiguousarray(vectors_PD).reshape(-1), type=pa.float32())
    columns = {"id": pa.array([item.id for item in passages], type=pa.string())}
    if with_texts:
        columns["document_id"] = pa.array([item.document_id for item in passages], type=pa.string())
        columns["title"] = pa.array([item.title for item in passages], type=pa.string())
        columns["text"] = pa.array([item.text for item in passages], type=pa.string())
    columns["embedding"] = pa.FixedSizeListArray.from_arrays(values, dimension)
    buffer = io.BytesIO()
    parquet.write_table(pa.table(columns), buffer)
    return buffer.getvalue()
