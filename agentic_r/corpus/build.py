"""The corpus stage: one streaming pass from documents to ``documents.jsonl``, ``passages.jsonl`` and ``report.json``.

Memory does not grow with the texts (a hash for each id and text is kept). Each file comes into being whole or not at
all; ``report.json`` comes last and holds the corpus's fingerprint.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from agentic_r.artifacts.fingerprint import fingerprint_strings
from agentic_r.artifacts.jsonl import JsonObject, write_json
from agentic_r.artifacts.records import to_json
from agentic_r.artifacts.stage import StageFolder
from agentic_r.config import PassagesConfig
from agentic_r.corpus.admission import REPEATED, SAME_TEXT, admit_documents
from agentic_r.corpus.passages import split_document
from agentic_r.corpus.readers import PlacedDocument
from agentic_r.corpus.report import Listed, ReadingReport, Tally
from agentic_r.corpus.text import count_words
from agentic_r.errors import DataError
from agentic_r.types import Document

__all__ = ["DOCUMENTS_FILE", "PASSAGES_FILE", "REPORT_FILE", "CorpusReport", "build_corpus"]

DOCUMENTS_FILE, PASSAGES_FILE, REPORT_FILE = "documents.jsonl", "passages.jsonl", "report.json"
_PROGRESS_EVERY = 500


@dataclass(slots=True)
class CorpusReport:
    """What became of everything that was read.

    ``long_documents`` have more than ``max_words`` words: cut into passages nothing of them is lost;
    ``words_beyond`` counts what an encoder that reads only the first ``max_words`` would never see.
    """

    reading: ReadingReport
    max_words: int
    documents: int = 0
    passages: int = 0
    words: int = 0
    words_beyond: int = 0
    long_documents: Tally = field(default_factory=Tally)
    fingerprint: str = ""

    def count(self, document: Document, *, num_passages: int) -> None:
        """Count one kept document."""
        words = count_words(document.text)
        self.documents += 1
        self.passages += num_passages
        self.words += words
        if words > self.max_words:
            beyond = words - self.max_words
            self.words_beyond += beyond
            note = f"{words} words, {beyond / words:.0%} of them beyond the first {self.max_words}"
            self.long_documents.add(Listed(document.id, document.id, note))

    def to_json(self) -> JsonObject:
        """Return the content of ``report.json``."""
        return {
            "fingerprint": self.fingerprint,
            "summary": self.reading.summary(self.documents),
            "documents": self.documents,
            "passages": self.passages,
            "words": self.words,
            "max_words": self.max_words,
            "long_documents": self.long_documents.to_json(),
            "share_of_words_beyond": self.words_beyond / self.words if self.words else 0.0,
            **self.reading.to_json(),
        }


def build_corpus(
    stage: StageFolder,
    documents: Iterable[PlacedDocument],
    *,
    passages: PassagesConfig,
    report: ReadingReport,
    conflicting_ids: Literal["stop", "first"],
    progress: Callable[[int, int], None],
) -> CorpusReport:
    """Write the corpus into ``stage.path`` and its counts into ``stage``; the caller finishes the stage.

    Args:
        stage: The open stage.
        documents: ``read_documents(...)`` or ``place_documents(...)`` with the same ``report``.
        passages: Size of passages, and whether empty texts are kept.
        report: What the reader counts into.
        conflicting_ids: What to do where an id has two texts.
        progress: Called with (rows read, 0) while the total is not known, at the end with (all, all).

    Raises:
        DataError: a fault that stops (see ``report``), or no document is left.
    """
    made = CorpusReport(reading=report, max_words=passages.max_words)
    admitted = admit_documents(
        documents, report=report, keep_empty=passages.keep_empty, conflicting_ids=conflicting_ids
    )
    with _LineFile(stage.path / DOCUMENTS_FILE) as document_file, _LineFile(stage.path / PASSAGES_FILE) as passage_file:
        for document in admitted:
            pieces = split_document(document, max_words=passages.max_words)
            document_file.write(document)
            for piece in pieces:
                passage_file.write(piece)
            made.count(document, num_passages=len(pieces))
            if made.documents % _PROGRESS_EVERY == 0:
                progress(report.read, 0)
        if not made.documents:
            raise DataError(f"no document is left of {report.read} read ({report.reasons()}); correct data.documents")
        made.fingerprint = fingerprint_strings((document_file.hexdigest, passage_file.hexdigest))
    write_json(stage.path / REPORT_FILE, made.to_json())
    _count_into(stage, made)
    progress(report.read, report.read)
    return made


def _count_into(stage: StageFolder, made: CorpusReport) -> None:
    warned = made.reading.warned
    stage.counts.update(
        read=made.reading.read,
        documents=made.documents,
        passages=made.passages,
        words=made.words,
        long_documents=made.long_documents.count,
        repeated=warned[REPEATED].count if REPEATED in warned else 0,
        same_text=warned[SAME_TEXT].count if SAME_TEXT in warned else 0,
    )
    stage.skipped.update({reason: tally.count for reason, tally in made.reading.skipped.items()})


class _LineFile:
    """A JSON Lines file that appears under its name only when its block ends without an error."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._digest = hashlib.sha256()

    @property
    def hexdigest(self) -> str:
        """Hash of everything written so far."""
        return self._digest.hexdigest()

    def write(self, record: object) -> None:
        line = (json.dumps(to_json(record), ensure_ascii=False) + "\n").encode("utf-8")
        self._digest.update(line)
        self._file.write(line)

    def __enter__(self) -> Self:
        self._file = self._part.open("wb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        if kind is None:
            self._part.replace(self._path)
        else:
            self._part.unlink()
