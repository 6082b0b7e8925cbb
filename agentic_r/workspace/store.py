"""The document store: one read-only file a document, and the map between ids and file names.

A file holds the document's text and nothing else, so that its bytes are those of the corpus. Every file
comes into being whole; ``map.jsonl`` is written last, and a folder without it is unfinished work that the
next call goes on with. Files are not flushed one by one (a corpus would take minutes): instead,
``create_store`` checks sizes on every call and writes a file that a power cut has emptied again.
Nothing but documents is ever put beside them: no gold answers, no qrels, no traces.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agentic_r.artifacts.fingerprint import fingerprint_strings
from agentic_r.artifacts.records import read_records, write_records
from agentic_r.errors import DataError, StaleError
from agentic_r.types import Document
from agentic_r.workspace.names import file_name

__all__ = ["DocumentStore", "StoredDocument", "create_store", "open_store"]

_READ_ONLY = 0o444  # the folder itself stays writable, else nobody but root could delete a run


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """One line of the map: a document, its file, and what the file's bytes must be."""

    id: str
    title: str
    name: str
    num_bytes: int
    sha256: str


class DocumentStore:
    """The documents of a corpus as files, found by id or by name."""

    def __init__(self, folder: Path, documents: Mapping[str, StoredDocument]) -> None:
        """Use ``create_store`` or ``open_store``."""
        self._folder = folder
        self._documents = documents
        self._ids = {document.name: document.id for document in documents.values()}
        self._fingerprint = fingerprint_strings(
            part for document in documents.values() for part in (document.id, document.sha256)
        )

    @property
    def fingerprint(self) -> str:
        """Hash of the documents' ids and bytes, in order."""
        return self._fingerprint

    @property
    def documents_folder(self) -> Path:
        """The folder that holds the files, and nothing else."""
        return self._folder / "documents"

    def __len__(self) -> int:
        return len(self._documents)

    def __contains__(self, document_id: object) -> bool:
        return document_id in self._documents

    def __iter__(self) -> Iterator[StoredDocument]:
        return iter(self._documents.values())

    def name(self, document_id: str) -> str:
        """Return the file name of a document. Raises KeyError for an unknown id."""
        return self._documents[document_id].name

    def title(self, document_id: str) -> str:
        """Return the title of a document. Raises KeyError for an unknown id."""
        return self._documents[document_id].title

    def find(self, path: str) -> str | None:
        """Return the id of the document that ``path`` names inside the store, or None.

        Only names in the map count: a path with other components (``..``, a root, a sibling folder), and a file
        that has been replaced by a link, name no document.
        """
        parts = [part for part in PurePosixPath(path).parts if part != "."]
        document_id = self._ids.get(parts[0]) if len(parts) == 1 else None
        if document_id is None or self._path(document_id).is_symlink():
            return None
        return document_id

    def lines(self, document_id: str) -> list[str]:
        """Return the document's lines as ripgrep counts them: cut at LF only, bad bytes replaced."""
        text = self._path(document_id).read_bytes().decode("utf-8", "replace")
        lines = text.split("\n")
        return lines[:-1] if lines[-1] == "" else lines

    def _path(self, document_id: str) -> Path:
        return self.documents_folder / self._documents[document_id].name


def create_store(folder: Path, documents: Iterable[Document]) -> DocumentStore:
    """Write the documents that are not there yet, and the map; streams, and may be killed at any moment.

    Raises:
        DataError: a document id occurs twice.
        StaleError: ``folder`` holds the finished store of other documents.
    """
    known = _read_map(folder)
    target = folder / "documents"
    target.mkdir(parents=True, exist_ok=True)
    made: dict[str, StoredDocument] = {}
    names: set[str] = set()
    for document in documents:
        body = document.text.encode("utf-8", "surrogatepass")
        entry = _describe(document, body)
        if entry.id in made or entry.name in names:
            raise DataError(f"document {entry.id!r}: its id (or its hash) occurs twice in the corpus; make ids unique")
        if known and known.get(entry.id) != entry:
            raise StaleError(f"{folder} holds other documents ({entry.id!r} differs); delete it or use another name")
        if not _is_written(target / entry.name, body, trusted=bool(known)):
            _write_read_only(target / entry.name, body)
        made[entry.id] = entry
        names.add(entry.name)
    if len(known) > len(made):
        missing = next(key for key in known if key not in made)
        raise StaleError(f"{folder} holds more documents ({missing!r} and others); delete it or use another name")
    if not known:
        _remove_strangers(target, names)
        write_records(_map_file(folder), made.values())
    return DocumentStore(folder, made)


def open_store(folder: Path) -> DocumentStore:
    """Open a finished store.

    Raises:
        DataError: the folder holds none, or its map is damaged.
    """
    if not _map_file(folder).exists():
        raise DataError(f"{folder}: no finished document store (map.jsonl is missing); create it first")
    return DocumentStore(folder, _read_map(folder))


def _map_file(folder: Path) -> Path:
    return folder / "map.jsonl"


def _read_map(folder: Path) -> dict[str, StoredDocument]:
    if not _map_file(folder).exists():
        return {}
    return {entry.id: entry for entry in read_records(_map_file(folder), StoredDocument)}


def _describe(document: Document, body: bytes) -> StoredDocument:
    return StoredDocument(
        id=document.id,
        title=document.title.encode("utf-8", "replace").decode(),  # half a surrogate pair is in no text file
        name=file_name(document.title or document.id, key=document.id, extension=".txt"),
        num_bytes=len(body),
        sha256=hashlib.sha256(body).hexdigest(),
    )


def _is_written(path: Path, body: bytes, *, trusted: bool) -> bool:
    """Whether the file holds ``body``; in a finished store its size says so, else its bytes."""
    try:
        return path.stat().st_size == len(body) and (trusted or path.read_bytes() == body)
    except FileNotFoundError:
        return False


def _write_read_only(path: Path, body: bytes) -> None:
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)  # a killed run may have left a read-only one
    part.write_bytes(body)
    part.chmod(_READ_ONLY)
    part.replace(path)


def _remove_strangers(folder: Path, names: set[str]) -> None:
    """Remove what killed runs left: half-written files, and documents that the corpus no longer has."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name not in names:
                Path(entry.path).unlink()
