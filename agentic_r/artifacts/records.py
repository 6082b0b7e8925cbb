"""The frozen values of ``types.py`` as JSON objects, both ways, without loss.

One generic codec: field names are the keys, tuples are lists, nested values are objects. A key that is missing or
unknown, at any depth, and a value of another type are errors that name the field; nothing is converted or left out.
"""

import dataclasses
import functools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError

from agentic_r.artifacts.jsonl import JsonObject, read_jsonl, write_jsonl
from agentic_r.errors import DataError

__all__ = ["from_json", "read_records", "to_json", "write_records"]

Record = TypeVar("Record")


@functools.cache
def _adapter(kind: type[object]) -> TypeAdapter[Any]:  # Any: the adapter of a type made at run time
    # In a tuple, since only then do the settings reach a dataclass and those inside it.
    return TypeAdapter(tuple[kind], config=ConfigDict(extra="forbid", strict=True))  # type: ignore[valid-type]  # as above


def to_json(record: object) -> JsonObject:
    """Return a dataclass value as a JSON object."""
    return dataclasses.asdict(cast(Any, record))  # Any: asdict's own protocol type is private


def from_json(kind: type[Record], value: JsonObject, *, where: str = "record") -> Record:
    """Build a ``kind`` from a JSON object.

    Raises:
        DataError: naming ``where``, the field and what was expected.
    """
    # Through JSON text: strict checking takes a list for a tuple, and an object for a dataclass, only there.
    text = json.dumps([value])
    try:
        record: Record = _adapter(cast(Any, kind)).validate_json(text)[0]  # Any: the cache wants a hashable
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(step) for step in first["loc"][1:])
        raise DataError(f"{where}: field {place!r} of a {kind.__name__}: {first['msg']}") from None
    return record


def write_records(path: Path, records: Iterable[object]) -> int:
    """Write values as JSON Lines, whole or not at all; return how many."""
    return write_jsonl(path, (to_json(record) for record in records))


def read_records(path: Path, kind: type[Record]) -> Iterator[Record]:
    """Yield the values of a file that ``write_records`` or ``map_in_chunks`` wrote.

    Raises:
        DataError: naming file and record, where one is not a ``kind``.
    """
    for number, value in enumerate(read_jsonl(path), start=1):
        yield from_json(kind, value, where=f"{path}, record {number}")
