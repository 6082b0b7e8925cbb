"""The BM25 index, by bm25s: title and text of every passage.

Owns its files and its choice of hits: only passages that share a term with the query (score above 0) are
hits. What a term is belongs to ``words.py``.
"""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import bm25s
import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from agentic_r.artifacts.fingerprint import fingerprint_value
from agentic_r.artifacts.jsonl import write_json
from agentic_r.config import Bm25Config
from agentic_r.errors import ConfigError
from agentic_r.index.rows import Rows, read_rows, write_rows
from agentic_r.index.words import TERMS_SCHEMA, TermSplitter
from agentic_r.types import Passage, SearchResult

__all__ = ["Bm25Index", "build_bm25_index", "open_bm25_index"]

_FILE = "index.json"
_METHOD = "lucene"

Progress = Callable[[int, int], None]


class _Description(BaseModel):
    """``index.json``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    terms_schema: int
    corpus: str
    k1: float
    b: float
    passages: int
    terms: int

    @property
    def fingerprint(self) -> str:
        """Hash of what decides the hits."""
        return fingerprint_value(["bm25", _METHOD, self.terms_schema, self.corpus, self.k1, self.b, self.passages])


class Bm25Index:
    """An index in memory."""

    def __init__(self, description: _Description, rows: Rows, scorer: bm25s.BM25 | None) -> None:
        self.description = description
        self.rows = rows
        self._scorer = scorer  # None: no passage has a term
        self._splitter = TermSplitter()

    @property
    def fingerprint(self) -> str:
        """Hash of corpus, k1, b and what a term is."""
        return self.description.fingerprint

    def __len__(self) -> int:
        return len(self.rows)

    def search(self, queries: Sequence[str], *, k: int) -> list[SearchResult]:
        """Return the best passages of each query; ``empty`` where none shares a term with it.

        Args:
            queries: Plain texts.
            k: Depth, at least 1; fewer hits come back where fewer passages score above 0.
        """
        if k < 1:
            raise ValueError(f"k is {k}; it must be at least 1")
        return [self._search_one(query, k) for query in queries]

    def _search_one(self, query: str, k: int) -> SearchResult:
        if self._scorer is None:
            return self.rows.best([], k=k)
        known = [self._scorer.vocab_dict.get(term) for term in self._splitter.terms(query)]
        numbers = [number for number in known if number is not None]
        if not numbers:
            return self.rows.best([], k=k)
        scores: NDArray[np.float32] = self._scorer.get_scores_from_ids(numbers)
        hits = np.flatnonzero(scores > 0)
        if len(hits) > k:
            kth = np.partition(scores[hits], len(hits) - k)[len(hits) - k]
            hits = hits[scores[hits] >= kth]
        return self.rows.best(zip(hits.tolist(), scores[hits].tolist(), strict=True), k=k)


def build_bm25_index(
    folder: Path,
    passages: Sequence[Passage],
    *,
    corpus_fingerprint: str,
    config: Bm25Config,
    progress: Progress,
) -> Bm25Index:
    """Index title and text of ``passages``; an index of the same corpus and settings is only opened.

    Args:
        folder: The index's own folder.
        passages: Every passage once; one without a term is in the index and never a hit.
        corpus_fingerprint: What the passages belong to.
        config: k1 and b.
        progress: Called with (passages done, passages in all).

    Raises:
        ValueError: two passages have one id.
    """
    found = _read_description(folder / _FILE)
    if found is not None and _same(found, corpus_fingerprint, config, len(passages)):
        progress(len(passages), len(passages))
        return open_bm25_index(folder)
    (folder / _FILE).unlink(missing_ok=True)  # first: what is half deleted is not an index
    shutil.rmtree(folder, ignore_errors=True)
    rows = write_rows(folder, passages)
    number_of: dict[str, int] = {}
    splitter = TermSplitter()
    numbers: list[list[int]] = []
    for done, passage in enumerate(passages):
        if done % 1000 == 0:
            progress(done, len(passages))
        terms = splitter.terms(f"{passage.title}\n{passage.text}")
        numbers.append([number_of.setdefault(term, len(number_of)) for term in terms])
    scorer = None
    if number_of:
        scorer = bm25s.BM25(k1=config.k1, b=config.b, method=_METHOD, backend="numpy")
        scorer.index((numbers, dict(number_of)), create_empty_token=False, show_progress=False)
        scorer.save(folder / "scores", show_progress=False)
    description = _Description(
        terms_schema=TERMS_SCHEMA,
        corpus=corpus_fingerprint,
        k1=config.k1,
        b=config.b,
        passages=len(passages),
        terms=len(number_of),
    )
    write_json(folder / _FILE, description.model_dump())
    progress(len(passages), len(passages))
    return Bm25Index(description, rows, scorer)


def open_bm25_index(folder: Path) -> Bm25Index:
    """Open a finished index.

    Raises:
        ConfigError: there is none in the folder, or one of another version.
    """
    description = _read_description(folder / _FILE)
    if description is None:
        raise ConfigError(f"{folder}: no finished BM25 index there; build it first (agentic-r run)")
    scorer = bm25s.BM25.load(folder / "scores", show_progress=False) if description.terms else None
    return Bm25Index(description, read_rows(folder), scorer)


def _read_description(file: Path) -> _Description | None:
    """Return the description of a finished index of this version, else None."""
    try:
        description = _Description.model_validate_json(file.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
    return description if description.terms_schema == TERMS_SCHEMA else None


def _same(found: _Description, corpus: str, config: Bm25Config, num_passages: int) -> bool:
    return (found.corpus, found.k1, found.b, found.passages) == (corpus, config.k1, config.b, num_passages)
