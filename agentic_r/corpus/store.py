"""A finished corpus, read back: documents and passages by id, in the order of their files.

Owns which passages belong to a document and which share a text. Whoever changed a file by hand is told so.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from agentic_r.artifacts.fingerprint import fingerprint_strings, same_text_key
from agentic_r.artifacts.records import from_json
from agentic_r.corpus.build import DOCUMENTS_FILE, PASSAGES_FILE, REPORT_FILE
from agentic_r.corpus.text import is_empty_text
from agentic_r.errors import DataError, FingerprintError, StaleError
from agentic_r.types import Document, Passage

__all__ = ["Corpus", "corpus_fingerprint", "load_corpus", "make_corpus"]

Kind = TypeVar("Kind", Document, Passage)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents and passages by id, in file order. ``fingerprint`` is the hash of both files."""

    documents: Mapping[str, Document]
    passages: Mapping[str, Passage]
    fingerprint: str
    _passage_ids: Mapping[str, tuple[str, ...]] = field(repr=False)

    def passages_of(self, document_id: str) -> list[Passage]:
        """Return a document's passages in order.

        Raises:
            KeyError: the document is not in the corpus.
        """
        return [self.passages[passage_id] for passage_id in self._passage_ids[document_id]]

    def same_text_passages(self) -> dict[str, str]:
        """Return, for each passage that repeats an earlier one's text, the id of the first with that text."""
        first: dict[str, str] = {}
        repeats = {}
        for passage in self.passages.values():
            if is_empty_text(passage.text):
                continue
            key = hashlib.sha256(same_text_key(passage.text).encode()).hexdigest()
            if first.setdefault(key, passage.id) != passage.id:
                repeats[passage.id] = first[key]
        return repeats


def make_corpus(documents: Mapping[str, Document], passages: Mapping[str, Passage], *, fingerprint: str) -> Corpus:
    """Put a corpus together from values.

    Raises:
        ValueError: a passage names a document that is not there.
    """
    passage_ids: dict[str, list[str]] = {document_id: [] for document_id in documents}
    for passage in passages.values():
        if passage.document_id not in passage_ids:
            raise ValueError(f"passage {passage.id!r} belongs to the unknown document {passage.document_id!r}")
        passage_ids[passage.document_id].append(passage.id)
    return Corpus(documents, passages, fingerprint, {key: tuple(ids) for key, ids in passage_ids.items()})


def load_corpus(path: Path) -> Corpus:
    """Read the folder that ``build_corpus`` wrote.

    Raises:
        StaleError: the folder holds no finished corpus.
        FingerprintError: a file was changed after the corpus was built.
    """
    try:
        report = _report(path)
        digests = [hashlib.sha256(), hashlib.sha256()]
        documents = {item.id: item for item in _records(path / DOCUMENTS_FILE, Document, digests[0])}
        passages = {item.id: item for item in _records(path / PASSAGES_FILE, Passage, digests[1])}
    except FileNotFoundError as error:
        raise StaleError(
            f"{path}: no finished corpus here ({error.filename} is missing); run the corpus stage"
        ) from None
    except (DataError, json.JSONDecodeError) as error:
        raise FingerprintError(
            f"{path}: {error}; the corpus was changed by hand: delete the folder and run again"
        ) from None
    found = fingerprint_strings(digest.hexdigest() for digest in digests)
    _refuse_changed(path, report, found)
    return make_corpus(documents, passages, fingerprint=found)


def corpus_fingerprint(path: Path) -> str:
    """Return a corpus's fingerprint, from its files as they are now, without keeping them in memory.

    Raises:
        StaleError: the folder holds no finished corpus.
        FingerprintError: a file was changed after the corpus was built.
    """
    try:
        report = _report(path)
        digests = []
        for name in (DOCUMENTS_FILE, PASSAGES_FILE):
            with (path / name).open("rb") as file:
                digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    except FileNotFoundError as error:
        raise StaleError(
            f"{path}: no finished corpus here ({error.filename} is missing); run the corpus stage"
        ) from None
    except json.JSONDecodeError as error:
        raise FingerprintError(
            f"{path}: {error}; the corpus was changed by hand: delete the folder and run again"
        ) from None
    found = fingerprint_strings(digests)
    _refuse_changed(path, report, found)
    return found


def _report(path: Path) -> dict[str, str]:
    report: dict[str, str] = json.loads((path / REPORT_FILE).read_bytes())
    return report


def _refuse_changed(path: Path, report: dict[str, str], found: str) -> None:
    if found != report["fingerprint"]:
        raise FingerprintError(
            f"{path}: the corpus was built as {report['fingerprint']} and its files are now {found}; "
            "they were changed by hand: delete the folder and run again"
        )


def _records(path: Path, kind: type[Kind], digest: "hashlib._Hash") -> Iterator[Kind]:
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            digest.update(raw)
            yield from_json(kind, json.loads(raw), where=f"{path}:{number}")
