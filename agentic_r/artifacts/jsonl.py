"""JSON Lines and atomic files.

Owns how lines are cut (at LF only: U+2028, U+0085 and their kind stay inside strings), what text can be written
(all that UTF-8 can hold) and how a file comes into being (whole or not at all). What a line means belongs to
the caller.
"""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from agentic_r.errors import DataError

__all__ = [
    "JsonObject",
    "json_line",
    "read_jsonl",
    "write_bytes_atomic",
    "write_json",
    "write_jsonl",
    "write_text_atomic",
]

JsonObject = dict[str, Any]  # Any: JSON as it stands in a file, checked by whoever reads it


def read_jsonl(path: Path, *, remedy: str = "delete the stage's folder and run again") -> Iterator[JsonObject]:
    """Yield the objects of a file.

    Args:
        path: The file, by default of our own making.
        remedy: What its owner should do about a line that is not JSON.

    Raises:
        DataError: naming file and line, where a line is not a JSON object.
    """
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if not raw.strip():
                continue
            try:
                value = json.loads(raw)
            except ValueError as error:
                raise DataError(f"{path}:{number}: not JSON ({error}); {remedy}") from None
            if not isinstance(value, dict):
                raise DataError(f"{path}:{number}: expected an object, found {type(value).__name__}")
            yield value


def json_line(value: JsonObject, *, where: str) -> bytes:
    """Return an object as one line of UTF-8, its LF included.

    Raises:
        DataError: naming ``where`` and the text, where one holds half of a surrogate pair.
    """
    return _utf8(json.dumps(value, ensure_ascii=False) + "\n", where=where)


def write_jsonl(path: Path, objects: Iterable[JsonObject]) -> int:
    """Write the file whole or not at all; return the number of lines.

    Raises:
        DataError: as ``json_line``; the file is then as it was before.
    """
    count = 0
    with _whole(path) as file:
        for count, value in enumerate(objects, start=1):
            file.write(json_line(value, where=f"{path}, record {count}"))
    return count


def write_bytes_atomic(path: Path, content: bytes) -> None:
    """Write the file whole or not at all."""
    with _whole(path) as file:
        file.write(content)


def write_text_atomic(path: Path, text: str) -> None:
    """Write UTF-8 text whole or not at all.

    Raises:
        DataError: the text holds half of a surrogate pair.
    """
    write_bytes_atomic(path, _utf8(text, where=str(path)))


def write_json(path: Path, value: object) -> None:
    """Write indented JSON whole or not at all.

    Raises:
        DataError: a text in it holds half of a surrogate pair.
    """
    write_text_atomic(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


@contextmanager
def _whole(path: Path) -> Iterator[BinaryIO]:
    """Open a part file beside ``path`` that takes its name once all is written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _utf8(text: str, *, where: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        shown = text[max(0, error.start - 30) : error.start]
        raise DataError(
            f"{where}: U+{ord(text[error.start]):04X} after {shown!r} is half of a surrogate pair, which no text file "
            "can hold; mend the text that it came from"
        ) from None
