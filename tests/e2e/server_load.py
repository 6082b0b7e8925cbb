"""Load on a running server: random sizes, cuts and malformed bodies; nothing may crash, be lost or be wrong.

As a script it starts ``agentic-r serve`` on a run's folder and prints what came of the requests; memory of the server
is read from ``/proc`` along the way. The suite runs a small load of the same kind.
"""

import argparse
import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from sentence_transformers import SentenceTransformer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from served_world import server_process

from agentic_r.corpus.store import load_corpus
from agentic_r.encoder.settings import read_settings
from agentic_r.export.server.folders import find_folders

TOLERANCE = 1e-4  # of a component or a score
MAX_POOL = 200
MAX_K = 20
MALFORMED = (
    b"",
    b"{",
    b"null",
    b'{"queries": ["a"',
    b'{"queries": "a"}',
    b'{"queries": [1, null]}',
    b'{"queries": ["\\ud800"]}',
    b'{"queries": ["a"], "topk": -1}',
    b'{"queries": ["a"], "topk": 1e400}',
    b'{"queries": ["a"], "more": true}',
    b'{"queries": ["' + b"a" * 9000 + b'"]}',
    b'{"queries": [' + b",".join([b'"a"'] * 1100) + b"]}",
    b"[" * 20_000,
    b"\xff\xfe\x00",
)


@dataclass
class Expected:
    """Texts with their vectors, from the export as anybody loads it."""

    name: str
    queries: list[str]
    passages: list[str]
    query_vectors: np.ndarray
    passage_vectors: np.ndarray
    scores: list[dict[str, float]]  # of each query, by passage id
    best: list[list[float]]  # of each query, its highest scores

    @classmethod
    def of_run(cls, run: Path, *, seed: int) -> "Expected":
        folders = find_folders(run)
        model = SentenceTransformer(str(folders.encoder), device="cpu", local_files_only=True)
        passages = list(load_corpus(folders.corpus).passages.values())
        texts = [f"{item.title}\n{item.text}" if item.title else item.text for item in passages]
        draw = random.Random(seed)
        pool = draw.sample(texts, min(MAX_POOL, len(texts)))
        queries = [*(" ".join(text.split()[: draw.randint(1, 30)]) for text in pool), "", "川は湖 🌊", "x" * 5000]
        passage_vectors = model.encode_document(texts)
        pool_vectors = model.encode_document(pool)
        model.max_seq_length = read_settings(folders.encoder).max_query_tokens  # as training cut them
        vectors = model.encode_query(queries)
        matrix = vectors @ passage_vectors.T
        scores = [dict(zip((item.id for item in passages), map(float, row), strict=True)) for row in matrix]
        best = [sorted(row.values(), reverse=True)[:MAX_K] for row in scores]
        return cls(folders.name, queries, pool, vectors, pool_vectors, scores, best)


@dataclass
class Load:
    """Requests of every kind against one server, and what came of them."""

    address: str
    expected: Expected
    draw: random.Random
    outcomes: Counter = field(default_factory=Counter)
    mistakes: list[str] = field(default_factory=list)

    async def run(self, num_requests: int, *, clients: int, watch: Callable[[int], None]) -> None:
        """Send requests, ``clients`` at a time; ``watch`` is called with the number done, now and then."""
        kinds = [self.embeddings] * 4 + [self.retrieve] * 4 + [self.malformed, self.cut, self.left, self.no_http]
        left = iter(range(num_requests))

        async def client() -> None:
            for number in left:
                await self.draw.choice(kinds)()
                if number % max(1, num_requests // 20) == 0:
                    watch(number)

        await asyncio.gather(*(client() for _ in range(clients)))
        watch(num_requests)

    async def embeddings(self) -> None:
        is_query = self.draw.random() < 0.5
        texts = self.expected.queries if is_query else self.expected.passages
        vectors = self.expected.query_vectors if is_query else self.expected.passage_vectors
        rows = self.draw.choices(range(len(texts)), k=self.draw.choice([1, 1, 1, 2, 5, 17, 70]))
        model = f"{self.expected.name}:{'query' if is_query else 'passage'}"
        body = {"input": [texts[row] for row in rows], "model": model}
        answer = await self.ask("/v1/embeddings", json.dumps(body).encode())
        if not self.expect("embeddings", answer, (200,)):
            return
        found = np.array([item["embedding"] for item in json.loads(answer[1])["data"]], dtype=np.float32)
        if found.shape != vectors[rows].shape or np.abs(found - vectors[rows]).max() > TOLERANCE:
            self.mistakes.append(f"a wrong vector among {len(rows)}")

    async def retrieve(self) -> None:
        rows = self.draw.choices(range(len(self.expected.queries)), k=self.draw.choice([1, 1, 2, 9, 65]))
        k = self.draw.choice([1, 3, 3, MAX_K])
        body = {"queries": [self.expected.queries[row] for row in rows], "topk": k, "return_scores": True}
        answer = await self.ask("/retrieve", json.dumps(body).encode())
        if not self.expect("retrieve", answer, (200,)):
            return
        for row, found in zip(rows, json.loads(answer[1])["result"], strict=True):
            scores = self.expected.scores[row]
            best = self.expected.best[row][:k]
            given = [(hit["document"]["id"], hit["score"]) for hit in found]
            right = len(given) == len(best) == len({name for name, _ in given})
            right = right and all(abs(scores[name] - score) < TOLERANCE for name, score in given)
            right = right and all(abs(score - most) < TOLERANCE for (_, score), most in zip(given, best, strict=True))
            if not right:
                self.mistakes.append(f"wrong hits for {self.expected.queries[row][:60]!r}")

    async def malformed(self) -> None:
        route = self.draw.choice(["/retrieve", "/v1/embeddings", "/search"])
        answer = await self.ask(route, self.draw.choice(MALFORMED))
        if self.expect("malformed", answer, (400,)) and "error" not in json.loads(answer[1]):
            self.mistakes.append("an error without its shape")

    async def cut(self) -> None:
        """Send a part of a request, then leave."""
        whole = self.request("/retrieve", json.dumps({"queries": ["a" * 500] * 20}).encode())
        await self.leave(whole[: self.draw.randrange(len(whole))])
        self.outcomes["cut"] += 1

    async def left(self) -> None:
        """Send a whole request, then leave before its answer."""
        await self.leave(self.request("/retrieve", json.dumps({"queries": ["a b c"] * 9}).encode()))
        self.outcomes["left"] += 1

    async def no_http(self) -> None:
        """Send noise, which is refused or simply closed on."""
        await self.leave(self.draw.randbytes(self.draw.randint(1, 300)) + b"\r\n\r\n")
        self.outcomes["no http"] += 1

    async def ask(self, route: str, body: bytes) -> tuple[int, bytes]:
        """Send a request; return status and body."""
        reader, writer = await self.connect()
        writer.write(self.request(route, body))
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 300)).decode("latin-1").lower()
        length = int(head.split("content-length:")[1].split("\r\n")[0])
        payload = await asyncio.wait_for(reader.readexactly(length), 300)
        await self.close(writer)
        return int(head.split()[1]), payload

    async def leave(self, raw: bytes) -> None:
        _, writer = await self.connect()
        writer.write(raw)
        with suppress(ConnectionError):
            await writer.drain()
        await self.close(writer)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        where = urlsplit(self.address)
        return await asyncio.open_connection(where.hostname, where.port)

    async def close(self, writer: asyncio.StreamWriter) -> None:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    def request(self, route: str, body: bytes) -> bytes:
        head = (
            f"POST {route} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def expect(self, kind: str, answer: tuple[int, bytes], statuses: tuple[int, ...]) -> bool:
        self.outcomes[f"{kind} {answer[0]}"] += 1
        if answer[0] not in statuses:
            self.mistakes.append(f"{kind}: {answer[0]} {answer[1][:200]!r}")
        return answer[0] in statuses


def resident_mb(process_id: int) -> float:
    """Return what of a process is in memory, in MB."""
    fields = Path(f"/proc/{process_id}/statm").read_text().split()
    return int(fields[1]) * 4096 / 1e6


def apply_load(run: Path, *, num_requests: int, seed: int = 0, clients: int = 16) -> dict[str, object]:
    """Start a server, load it, and return what came of it; the server must still answer at the end."""
    expected = Expected.of_run(run, seed=seed)
    memory: list[tuple[int, float]] = []
    with server_process(run) as server:
        load = Load(server.address, expected, random.Random(seed))

        def watch(done: int) -> None:
            memory.append((done, round(resident_mb(server.process.pid), 1)))

        asyncio.run(load.run(num_requests, clients=clients, watch=watch))
        still = asyncio.run(load.ask("/retrieve", b'{"queries": ["a"]}'))[0]
        crashed = server.process.poll() is not None
        server.process.terminate()
        server.process.wait(300)
        log = Counter(server.log().splitlines())
    return {
        "requests": num_requests,
        "outcomes": dict(sorted(load.outcomes.items())),
        "mistakes": load.mistakes,
        "answers_at_the_end": still,
        "crashed": crashed,
        "exit_code": server.process.returncode,
        "log": dict(log),
        "memory_mb": memory,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="a run's folder")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(json.dumps(apply_load(arguments.run, num_requests=arguments.requests, seed=arguments.seed), indent=1))
