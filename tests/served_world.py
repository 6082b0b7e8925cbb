"""A run's folder with a tiny export, its index and its corpus, for tests of what serves them."""

import hashlib
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from tiny_export import SETTINGS

from agentic_r.artifacts.fingerprint import fingerprint_strings
from agentic_r.artifacts.jsonl import write_json, write_jsonl
from agentic_r.artifacts.records import to_json
from agentic_r.config import IndexConfig, ScratchEncoder
from agentic_r.corpus.store import load_corpus
from agentic_r.encoder.bi_encoder import BiEncoder, MeasuredVectors
from agentic_r.encoder.scratch_model import new_model
from agentic_r.export.card import Card
from agentic_r.export.folder import export_encoder
from agentic_r.index.dense import build_dense_index
from agentic_r.types import Document, Passage, QueryText

SUBJECTS = ("river", "tower", "bridge", "garden", "harbour", "library", "market", "mill", "castle", "chapel")
NAMES = tuple(
    first + last
    for first in ("Kor", "Mel", "Tan", "Vis", "Dur")
    for last in ("ado", "eri", "ilu", "ona", "uba", "ek", "is", "ol", "um", "ax")
)
DOCUMENTS = tuple(
    Document(f"d{row}", "" if row == 7 else name, f"the {SUBJECTS[row % 10]} of {name} is {row} years old")
    for row, name in enumerate(NAMES)
)
PASSAGES = tuple(Passage(f"{item.id}#0", item.id, item.title, item.text) for item in DOCUMENTS)


def make_encoder(folder: Path, *, seed: int = 0, **changes: object) -> BiEncoder:
    """Make a random encoder of one layer, width 64."""
    sizes = ScratchEncoder(
        kind="scratch", layers=1, width=64, vocabulary=600, max_query_tokens=32, max_passage_tokens=48
    )
    texts = [f"{item.title} {item.text}" for item in DOCUMENTS]
    settings = SETTINGS.model_validate(SETTINGS.model_dump() | changes)
    return BiEncoder(new_model(sizes, texts, folder / f"parts-{seed}", seed=seed).to("cpu"), settings)


def write_corpus(folder: Path, documents: Sequence[Document], passages: Sequence[Passage]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write_jsonl(folder / "documents.jsonl", (to_json(item) for item in documents))
    write_jsonl(folder / "passages.jsonl", (to_json(item) for item in passages))
    digests = [hashlib.sha256((folder / name).read_bytes()) for name in ("documents.jsonl", "passages.jsonl")]
    write_json(folder / "report.json", {"fingerprint": fingerprint_strings(item.hexdigest() for item in digests)})
    return folder


def make_run(folder: Path, *, working: Path) -> Path:
    """Write export, index of the second iteration and corpus, as a run leaves them."""
    encoder = make_encoder(working)
    encoder.save(working / "trained")
    export_encoder(working / "trained", folder / "export" / "encoder", card=Card("tiny", "a random BERT", 0.01))
    corpus = load_corpus(write_corpus(folder / "corpus", DOCUMENTS, PASSAGES))
    build_dense_index(
        folder / "iter-2" / "index" / "vectors",
        encoder,
        PASSAGES,
        corpus_fingerprint=corpus.fingerprint,
        config=IndexConfig(),
        progress=lambda done, total: None,
    )
    return folder


@dataclass(frozen=True)
class ServerProcess:
    """A running ``agentic-r serve`` and where it answers."""

    process: "subprocess.Popen[str]"
    address: str
    log_file: IO[str]

    def log(self) -> str:
        """What it wrote on standard error so far."""
        self.log_file.seek(0)
        return self.log_file.read()


@contextmanager
def server_process(run: Path, *options: str) -> Iterator[ServerProcess]:
    """Start the command line's server on a free port; kill it at the end where it still runs."""
    command = [sys.executable, "-m", "agentic_r", "serve", str(run), "--port", "0", "--json", *options]
    with tempfile.TemporaryFile("a+") as log_file:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log_file, text=True)
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                log_file.seek(0)
                raise RuntimeError(f"the server ended: {log_file.read()}")
            yield ServerProcess(process, json.loads(line)["address"], log_file)
        finally:
            process.kill()
            process.communicate()


class FakeMeasuringEncoder:
    """Vectors from a text's length alone; fails on texts that hold "break".

    ``batches`` keeps what came together; a cleared ``gate`` holds the work up.
    """

    dimension = 2
    settings = SETTINGS

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()

    def encode_measured(self, texts: Sequence[QueryText | Passage | str]) -> MeasuredVectors:
        plain = [getattr(item, "query", None) or getattr(item, "text", item) for item in texts]
        self.batches.append(plain)
        assert self.gate.wait(20)
        broken = [text for text in plain if "break" in text]
        if broken:
            raise RuntimeError(f"cannot encode {broken[0]}")
        angles = np.array([len(text) for text in plain], dtype=np.float32)
        vectors_BD = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return MeasuredVectors(vectors_BD, tuple(map(len, plain)), tuple(len(text) > 9 for text in plain))
