"""Documents from files in any common shape, one at a time.

Owns the field names, the title rules and which files of a folder are documents. Duplicate ids and empty texts are
judged later, where documents are admitted to the corpus (``admission.py``).
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agentic_r.config import FilesData
from agentic_r.corpus.report import Fault, Listed, ReadingReport
from agentic_r.corpus.rows import ROW_SUFFIXES, Row, check_unicode, first_field, id_field, read_rows, text_field
from agentic_r.errors import DataError
from agentic_r.types import Document

__all__ = ["TEXT_SUFFIXES", "PlacedDocument", "list_document_files", "place_documents", "read_documents"]

TEXT_SUFFIXES = (".txt", ".md", ".markdown", ".rst")

_ID_NAMES = ("id", "_id", "docid", "doc_id", "document_id", "pid", "passage_id")
_TEXT_NAMES = ("text", "contents", "content", "body", "passage", "document")
_TITLE_NAMES = ("title", "heading", "headline")
_ALL_NAMES = frozenset(_ID_NAMES + _TEXT_NAMES + _TITLE_NAMES)
_MAX_TITLE_LINE = 200  # characters: a longer first line of `contents` is a paragraph, not a title
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.+?)(?:[ \t]+#+)?[ \t]*\r?")
_FENCE = re.compile(r" {0,3}(```|~~~)")


@dataclass(frozen=True, slots=True)
class PlacedDocument:
    """A document and where it was read (``file:line``, or the file)."""

    document: Document
    place: str


def read_documents(data: FilesData, *, report: ReadingReport) -> Iterator[PlacedDocument]:
    """Yield the documents of ``data.documents``, a file or a folder.

    A folder is walked to its depths in the order of its paths; text files become one document each (id: path in the
    folder), jsonl, tsv and parquet files one a row. The question and demonstration files are left out.

    Raises:
        DataError: a missing or empty source; a broken line or file, unless ``broken_lines`` is "skip".
    """
    root = data.documents
    for file in list_document_files(data, report=report):
        if file.suffix.lower() in TEXT_SUFFIXES:
            yield from _read_text_file(file, root=root, report=report)
        else:
            yield from _read_row_file(file, report=report)


def list_document_files(data: FilesData, *, report: ReadingReport) -> list[Path]:
    """Return the files that hold documents, sorted by path; the others go to the report as ignored.

    Raises:
        DataError: there is none.
    """
    root = data.documents
    if not root.exists():
        raise DataError(f"{root}: no such file or folder; correct data.documents")
    if root.is_file():
        return [root]
    others = {
        path.resolve() for path in (data.questions, data.heldout_questions, data.demonstrations) if path is not None
    }
    others -= {root.resolve(), *root.resolve().parents}  # demonstrations may be a folder, even this one
    files = []
    for path in sorted(_walk(root, report), key=lambda item: item.as_posix()):
        place = path.relative_to(root).as_posix()
        if not others.isdisjoint((path.resolve(), *path.resolve().parents)):
            report.ignore("question or demonstration file", Listed(place))
        elif path.suffix.lower() in TEXT_SUFFIXES + ROW_SUFFIXES:
            files.append(path)
        else:
            report.ignore(f"file type {path.suffix.lower() or '(none)'}", Listed(place))
    if not files:
        kinds = ", ".join(TEXT_SUFFIXES + ROW_SUFFIXES)
        raise DataError(f"{root}: no file of a type that is read ({kinds}); correct data.documents")
    return files


def place_documents(documents: Iterable[Document], *, report: ReadingReport, origin: str) -> Iterator[PlacedDocument]:
    """Give documents that come from elsewhere a place: ``origin:number``, counted from 1."""
    for number, document in enumerate(documents, start=1):
        report.read += 1
        yield PlacedDocument(document, f"{origin}:{number}")


def _walk(folder: Path, report: ReadingReport) -> Iterator[Path]:
    try:
        inside = list(folder.iterdir())
    except OSError as error:
        report.reject(Fault("cannot be read", error.strerror or ""), place=str(folder))
        return
    for path in inside:
        if path.name.startswith("."):
            report.ignore("hidden", Listed(str(path)))
        elif path.is_symlink() and path.is_dir():
            report.ignore("link to a folder", Listed(str(path)))
        elif path.is_dir():
            yield from _walk(path, report)
        else:
            yield path


def _read_text_file(file: Path, *, root: Path, report: ReadingReport) -> Iterator[PlacedDocument]:
    report.read += 1
    identifier = file.name if file == root else file.relative_to(root).as_posix()
    try:
        check_unicode(identifier)
        text = file.read_bytes().decode("utf-8-sig")
    except Fault as fault:
        report.reject(Fault("file name is not UTF-8", fault.detail), place=repr(str(file)))
    except UnicodeDecodeError as error:
        undecodable = Fault("not UTF-8", f"byte {error.start + 1}: {error.reason}")
        report.reject(undecodable, place=str(file), identifier=identifier)
    except OSError as error:
        report.reject(Fault("cannot be read", error.strerror or ""), place=str(file), identifier=identifier)
    else:
        title = _markdown_title(text) if file.suffix.lower() in (".md", ".markdown") else ""
        yield PlacedDocument(Document(identifier, title or file.stem, text), str(file))


def _markdown_title(text: str) -> str:
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and fence in ("", mark.group(1)):
            fence = "" if fence else mark.group(1)
        elif not fence and (heading := _HEADING.fullmatch(line)):
            return heading.group(1).strip()
    return ""


def _read_row_file(file: Path, *, report: ReadingReport) -> Iterator[PlacedDocument]:
    for row in read_rows(file, report=report, columns=(_ID_NAMES, _TEXT_NAMES)):
        try:
            document = _document(row)
            report.count_unused_fields(row.values, used=_ALL_NAMES)
        except Fault as fault:
            _, identifier = first_field(row.values, _ID_NAMES)
            report.reject(fault, place=row.place, identifier=str(identifier or ""))
        else:
            yield PlacedDocument(document, row.place)


def _document(row: Row) -> Document:
    identifier = id_field(row.values, _ID_NAMES)
    field, text = text_field(row.values, _TEXT_NAMES)
    name, title = first_field(row.values, _TITLE_NAMES)
    if name and not isinstance(title, str):
        raise Fault("title is not a string", f"field {name!r}")
    if not name and field == "contents":
        title = _title_line(text)
    check_unicode(identifier, text, title or "")
    return Document(identifier, str(title or ""), text)


def _title_line(text: str) -> str:
    """Title of ``contents``: its first line, unquoted, where more text follows."""
    line, _, rest = text.partition("\n")
    line = line.strip()
    if not rest.strip() or len(line) > _MAX_TITLE_LINE:
        return ""
    if len(line) > 1 and line[0] == line[-1] == '"':
        line = line[1:-1]
    return line
