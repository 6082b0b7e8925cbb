"""From a search to a usable workspace, and from a query to a scope: 100,000 documents, seeded random vectors.

``import``: ``search`` with four sub-queries until ``rg`` and ``read`` work on the union of their rankings.
``import_bash``: the same until a shell has the files. The peer is the published way: every document is linked into the
workspace's folder one by one, and the folder is walked twice to count it. Rankings are given to both sides, so that
linking and counting are what is compared. ``embed_recall`` is measured alone: 10,000 documents ranked by the dense
index. Ratios are quotients of medians over interleaved runs; above 1 means that ours is faster.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from agentic_r.config import IndexConfig
from agentic_r.index.dense import build_dense_index
from agentic_r.index.retriever import DenseRetriever
from agentic_r.protocols import Vectors
from agentic_r.types import Document, Passage, QueryText, ScoredDocument
from agentic_r.workspace.members import Workspace
from agentic_r.workspace.read import ReadRequest, read_lines
from agentic_r.workspace.ripgrep import find_ripgrep
from agentic_r.workspace.scan import OrderedScanner, ScanRequest
from agentic_r.workspace.store import DocumentStore, create_store

SUB_QUERIES, DEPTH, SCOPE = 4, 1000, 10_000
DIMENSION = 64
WORDS = 60  # a document


class RandomEncoder:
    """Unit vectors drawn by seed and text (``protocols.Encoder``): what an encoder costs is not measured here."""

    fingerprint = "random vectors"

    def encode_queries(self, queries: Sequence[QueryText]) -> Vectors:
        """Return one drawn vector a query."""
        return np.stack([_drawn(hash_seed(query.query), 1)[0] for query in queries])

    def encode_passages(self, passages: Sequence[Passage]) -> Vectors:
        """Return one drawn vector a passage."""
        return _drawn(hash_seed(passages[0].id) if passages else 0, len(passages))

    def format_query(self, query: QueryText) -> str:
        """Return the query."""
        return query.query


def hash_seed(text: str) -> int:
    """Return a number that is the same in every process."""
    return int.from_bytes(text.encode()[-7:].rjust(7, b"\0"), "big")


def _drawn(seed: int, count: int) -> Vectors:
    vectors = np.random.default_rng(seed).standard_normal((count, DIMENSION)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def make_documents(count: int) -> list[Document]:
    """Return documents of 60 drawn words each."""
    generator = np.random.default_rng(0)
    numbers = generator.integers(0, 5000, size=(count, WORDS))
    return [
        Document(f"doc-{row:07d}", f"Title {row}", " ".join(f"w{number}" for number in numbers[row]) + "\n")
        for row in range(count)
    ]


def drawn_rankings(store: DocumentStore, seed: int) -> list[list[ScoredDocument]]:
    """Return four rankings of a thousand documents, as four sub-queries would give."""
    generator = np.random.default_rng(seed)
    ids = [item.id for item in store]
    return [
        [ScoredDocument(ids[place], 1.0) for place in generator.choice(len(ids), size=DEPTH, replace=False)]
        for _ in range(SUB_QUERIES)
    ]


def use(scanner: OrderedScanner, names: list[str], store: DocumentStore) -> None:
    """Scan the workspace for a word and read one document: the workspace works."""
    found = scanner.scan(names, ScanRequest("w42", max_matches=30))
    read_lines(store, ReadRequest(found.matches[0].name if found.matches else names[0]), max_characters=2000)


def ours(
    store: DocumentStore, scanner: OrderedScanner, rankings: list[list[ScoredDocument]], folder: Path | None
) -> None:
    """Admit the union and use it; with a folder, lay its files out instead."""
    workspace = Workspace(store)
    for ranking in rankings:
        workspace.admit(document.document_id for document in ranking)
    if folder is None:
        use(scanner, workspace.names(), store)
    else:
        workspace.lay_out(folder)


def published(store: DocumentStore, rankings: list[list[ScoredDocument]], folder: Path) -> list[str]:
    """Link the union file by file below a domain's folder, and walk the folder before and after."""
    before = sum(len(files) for _, _, files in os.walk(folder))
    for ranking in rankings:
        for document in ranking:
            name = store.name(document.document_id)
            target = folder / "domain" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(store.documents_folder / name, target)
            except FileExistsError:
                continue
    paths = [os.path.relpath(Path(top) / file, folder) for top, _, files in os.walk(folder) for file in files]
    assert len(paths) >= before
    return paths


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that ``work`` took."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def measure_import(root: Path, store: DocumentStore, runs: int) -> dict[str, float]:
    """Return the medians in milliseconds."""
    ripgrep = find_ripgrep()
    scanner = OrderedScanner(ripgrep, store.documents_folder, timeout_s=300)
    seconds: dict[str, list[float]] = {name: [] for name in ("ours", "ours_bash", "peer", "peer_bash")}
    for run in range(runs):
        rankings = drawn_rankings(store, run)
        seconds["ours"].append(timed(lambda: ours(store, scanner, rankings, None)))  # noqa: B023 (used at once)
        seconds["ours_bash"].append(timed(lambda: ours(store, scanner, rankings, root / "ours")))  # noqa: B023
        linked = timed(lambda: published(store, rankings, root / "peer"))  # noqa: B023
        names = [str(Path(top) / file) for top, _, files in os.walk(root / "peer") for file in files]
        in_place = OrderedScanner(ripgrep, root / "peer", timeout_s=300)
        seconds["peer"].append(linked + timed(lambda: use(in_place, names, store)))  # noqa: B023
        seconds["peer_bash"].append(linked)
        shutil.rmtree(root / "ours")
        shutil.rmtree(root / "peer")
    return {name: round(1000 * statistics.median(values), 2) for name, values in seconds.items()}


def measure_recall(folder: Path, count: int, runs: int) -> dict[str, float]:
    """Return p50 and p95 of ``embed_recall`` in milliseconds, and memory in MB."""
    encoder = RandomEncoder()
    passages = [Passage(f"doc-{row:07d}#0", f"doc-{row:07d}", "", "") for row in range(count)]
    index = build_dense_index(
        folder, encoder, passages, corpus_fingerprint="drawn", config=IndexConfig(), progress=lambda done, total: None
    )
    retriever = DenseRetriever(encoder, index)
    seconds = [
        timed(lambda: retriever.rank_documents(QueryText(f"query {run}"), k=min(SCOPE, count)))  # noqa: B023
        for run in range(runs)
    ]
    p50, p95 = np.quantile(seconds, [0.5, 0.95])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "p50_ms": round(1000 * float(p50), 1),
        "p95_ms": round(1000 * float(p95), 1),
        "vectors_mb": round(index.memory_bytes / 2**20, 1),
        "process_peak_mb": round(peak, 1),
    }


def measure(root: Path, *, documents: int, runs: int, sizes: Sequence[int]) -> dict[str, object]:
    """Return the benchmark's object."""
    store_s = time.perf_counter()
    store = create_store(root / "store", make_documents(documents))
    store_s = time.perf_counter() - store_s
    found = measure_import(root, store, runs)
    recall = {}
    for size in sizes:
        recall[str(size)] = measure_recall(root / f"index-{size}", size, runs)
        shutil.rmtree(root / f"index-{size}")
    return {
        "name": "workspace",
        "ratios": {
            "import": round(found["peer"] / found["ours"], 2),
            "import_bash": round(found["peer_bash"] / found["ours_bash"], 2),
        },
        "measured": {
            "documents": documents,
            "runs": runs,
            "store_s": round(store_s, 1),
            "import_ms": found,
            "embed_recall": recall,
        },
        "peer": "links file by file, the folder walked twice",
        "machine": f"{platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
    }


def main() -> int:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000, help="in the store (%(default)s)")
    parser.add_argument("--runs", type=int, default=11, help="interleaved runs (%(default)s)")
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=[10_000, 100_000, 1_000_000], help="of the index (%(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print the object alone, in one line")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = measure(Path(name), documents=options.documents, runs=options.runs, sizes=options.sizes)
    print(json.dumps(found, indent=None if options.json else 2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
