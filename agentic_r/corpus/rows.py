"""Rows of files that people made: jsonl, tsv, parquet, each row with the place it stands at.

Owns encodings, line ends (LF only), byte order marks, blank and broken lines, and how a field is found under its
usual names. What a row means belongs to ``readers.py`` (documents) and ``questions.py``.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentic_r.artifacts.jsonl import JsonObject
from agentic_r.corpus.report import Fault, Listed, ReadingReport
from agentic_r.errors import DataError

__all__ = ["ROW_SUFFIXES", "Number", "Row", "check_unicode", "first_field", "id_field", "read_rows", "text_field"]

ROW_SUFFIXES = (".jsonl", ".ndjson", ".tsv", ".parquet")

_BOM = b"\xef\xbb\xbf"
_QUOTED_CELL = re.compile(r'"(?:[^"]|"")*"')
_PARQUET_BATCH = 1024


class Number(str):
    """A JSON number, as written."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One object of a file and its ``file:line``."""

    place: str
    values: JsonObject


def read_rows(path: Path, *, report: ReadingReport, columns: Sequence[Sequence[str]] = ()) -> Iterator[Row]:
    """Yield the rows of a jsonl, tsv or parquet file, one at a time.

    Args:
        path: The file; its suffix says what it is.
        report: Gets blank lines, broken lines and the number of rows read.
        columns: Names that tell a tsv header (one group of names for each field that must be there).

    Raises:
        DataError: the file is missing, of another kind, or broken (with ``broken_lines`` "stop", or as a whole).
    """
    if path.is_dir():
        raise DataError(f"{path}: is a folder; give one file of a type that is read ({', '.join(ROW_SUFFIXES)})")
    try:
        match path.suffix.lower():
            case ".jsonl" | ".ndjson":
                yield from _jsonl_rows(path, report)
            case ".tsv":
                yield from _tsv_rows(path, report, columns)
            case ".parquet":
                yield from _parquet_rows(path, report)
            case suffix:
                kinds = ", ".join(ROW_SUFFIXES)
                raise DataError(f"{path}: files of type {suffix or '(none)'!r} are not read; give one of {kinds}")
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; correct the path in the configuration") from None
    except PermissionError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); give a readable file") from None


def first_field(values: Mapping[str, Any], names: Sequence[str]) -> tuple[str, Any]:  # Any: JSON, checked by callers
    """Return the first of ``names`` that holds something, with its value; ("", None) where none does."""
    for name in names:
        if values.get(name) is not None:
            return name, values[name]
    return "", None


def id_field(values: Mapping[str, object], names: Sequence[str]) -> str:
    """Return an id as written.

    Raises:
        Fault: there is none, it is empty, or it is neither text nor number.
    """
    name, value = first_field(values, names)
    if not name:
        raise Fault("no id", f"expected one of {', '.join(names)}")
    if not isinstance(value, str):
        raise Fault("id is not text", f"field {name!r} holds {_kind(value)}")
    if not value.strip():
        raise Fault("empty id", f"field {name!r}")
    return str(value)


def text_field(values: Mapping[str, object], names: Sequence[str], *, reason: str = "no text") -> tuple[str, str]:
    """Return (field name, text).

    Raises:
        Fault: there is none, or it is not text.
    """
    name, value = first_field(values, names)
    if not name:
        raise Fault(reason, f"expected one of {', '.join(names)}")
    if not isinstance(value, str) or isinstance(value, Number):
        raise Fault("text is not a string", f"field {name!r} holds {_kind(value)}")
    return name, value


def check_unicode(*texts: str) -> None:
    r"""Refuse half of a surrogate pair (``\ud83d`` alone), which no file can hold.

    Raises:
        Fault: one of ``texts`` has one.
    """
    for text in texts:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise Fault("not Unicode", f"a lone surrogate at character {error.start}") from None


def _kind(value: object) -> str:
    return "a number" if isinstance(value, Number | float | int) else f"a {type(value).__name__}"


def _lines(path: Path, report: ReadingReport) -> Iterator[tuple[str, str]]:
    """Yield (place, line) without the line's end; blank and undecodable lines go to the report."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            place = f"{path}:{number}"
            if number == 1 and raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise DataError(f"{path}: starts with a UTF-16 byte order mark; convert the file to UTF-8")
            try:
                line = raw.removeprefix(_BOM if number == 1 else b"").decode("utf-8")
            except UnicodeDecodeError as error:
                report.read += 1
                report.reject(Fault("not UTF-8", f"byte {error.start + 1}: {error.reason}"), place=place)
                continue
            line = line.removesuffix("\n").removesuffix("\r")
            if line.strip():
                yield place, line
            else:
                report.ignore("blank line", Listed(place))


def _jsonl_rows(path: Path, report: ReadingReport) -> Iterator[Row]:
    for place, line in _lines(path, report):
        report.read += 1
        try:
            yield Row(place, _parse_object(line))
        except Fault as fault:
            report.reject(fault, place=place)


def _parse_object(line: str) -> JsonObject:
    try:
        value = json.loads(line, parse_int=Number, parse_float=Number)
    except RecursionError:
        raise Fault("not JSON", "nested too deeply") from None
    except json.JSONDecodeError as error:
        raise Fault("not JSON", f"{error.msg} at column {error.colno}") from None
    if not isinstance(value, dict):
        raise Fault("not an object", f"found {_kind(value)}")
    return value


def _tsv_rows(path: Path, report: ReadingReport, columns: Sequence[Sequence[str]]) -> Iterator[Row]:
    """Rows of a tab-separated file; without a header two columns are read as the first names of ``columns``."""
    header: list[str] | None = None
    for place, line in _lines(path, report):
        cells = [_cell(cell) for cell in line.split("\t")]
        if header is None:
            header = _header(cells, columns)
            if header is not None:
                continue
            if len(cells) != len(columns):
                raise DataError(
                    f"{place}: {len(cells)} columns and no header; put a header line such as "
                    f"{' '.join(group[0] for group in columns)} (tab-separated) on top"
                )
            header = [group[0] for group in columns]
        report.read += 1
        if len(cells) == len(header):
            yield Row(place, dict(zip(header, cells, strict=True)))
        else:
            fault = Fault("wrong number of columns", f"{len(cells)} instead of {len(header)}")
            report.reject(fault, place=place)


def _header(cells: Sequence[str], columns: Sequence[Sequence[str]]) -> list[str] | None:
    names = [cell.strip() for cell in cells]
    return names if all(any(name in group for name in names) for group in columns) else None


def _cell(cell: str) -> str:
    """Undo the quoting of spreadsheet programs: the whole cell in quotes, those inside doubled."""
    return cell[1:-1].replace('""', '"') if _QUOTED_CELL.fullmatch(cell) else cell


def _parquet_rows(path: Path, report: ReadingReport) -> Iterator[Row]:
    import pyarrow  # heavy, and needed for this file type alone
    from pyarrow import parquet

    number = 0
    try:
        with path.open("rb") as file, parquet.ParquetFile(file) as table:
            for batch in table.iter_batches(batch_size=_PARQUET_BATCH):
                for values in batch.to_pylist():
                    number += 1
                    report.read += 1
                    yield Row(f"{path}:{number}", {key: _as_written(value) for key, value in values.items()})
    except pyarrow.ArrowException as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path}: not a readable parquet file ({reason}); write it again, or take it away") from None


def _as_written(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Number(value)
    return [_as_written(item) for item in value] if isinstance(value, list) else value
