"""An append-only log of records for stages that are maps over items.

Items are written in chunks. A chunk is one line ``{"chunk": n, "records": [...]}``: a killed process leaves
at most one half-written line, which is recognised, cut off and done again. So a resumed stage
works on the same chunks, composed the same way, as an unbroken one. The log gives way to the finished file, one
record a line; where that stands, all is done.
"""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from agentic_r.artifacts.jsonl import JsonObject, json_line
from agentic_r.artifacts.records import from_json, read_records, to_json, write_records
from agentic_r.errors import DataError

__all__ = ["map_in_chunks"]

Item = TypeVar("Item")
Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class _Done:
    """The JSON records of the chunks in a log, how many chunks these are, and the bytes that hold them."""

    records: list[JsonObject]
    num_chunks: int
    num_bytes: int


def map_in_chunks(
    items: Sequence[Item],
    work: Callable[[int, Sequence[Item]], Sequence[Record]],
    *,
    kind: type[Record],
    output: Path,
    chunk_size: int,
    progress: Callable[[int, int], None],
) -> list[Record]:
    """Apply ``work`` to chunks of ``items``, each exactly once over all restarts.

    The caller answers for it that a restart brings the same items, work and chunk size (a stage's identity does).

    Args:
        items: What to work on, in a fixed order.
        work: Called with (chunk number, items) for every chunk not yet in the log; returns the chunk's records.
        kind: The dataclass of a record.
        output: The finished JSON Lines file, one record a line; the log stands beside it until then.
        chunk_size: Items a chunk, at least 1.
        progress: Called with (items done, items in all).

    Returns:
        All records, in the order of the items.

    Raises:
        DataError: the log or the finished file is damaged, or a record holds text that no file can hold.
    """
    if chunk_size < 1:
        raise ValueError(f"chunk_size {chunk_size}: at least 1 item a chunk")
    log = output.with_name(output.name + ".log")
    if output.exists():
        log.unlink(missing_ok=True)
        progress(len(items), len(items))
        return list(read_records(output, kind))
    log.parent.mkdir(parents=True, exist_ok=True)
    done = _read(log)
    records = [from_json(kind, value, where=f"{log}, record {number}") for number, value in enumerate(done.records, 1)]
    with log.open("ab") as file:
        file.truncate(done.num_bytes)
        for number in range(done.num_chunks, -(-len(items) // chunk_size)):
            progress(number * chunk_size, len(items))
            made = work(number, items[number * chunk_size : (number + 1) * chunk_size])
            line = {"chunk": number, "records": [to_json(record) for record in made]}
            file.write(json_line(line, where=f"{output}, chunk {number}"))
            file.flush()
            os.fsync(file.fileno())
            records.extend(made)
    progress(len(items), len(items))
    write_records(output, records)
    log.unlink()
    return records


def _read(log: Path) -> _Done:
    """Read the whole lines of a log; what stands after the last line end is a killed process's half line."""
    records: list[JsonObject] = []
    num_chunks = num_bytes = 0
    if log.exists():
        with log.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                records += _records_of(line, num_chunks, log)
                num_chunks += 1
                num_bytes += len(line)
    return _Done(records, num_chunks, num_bytes)


def _records_of(line: bytes, number: int, log: Path) -> list[JsonObject]:
    try:
        entry = json.loads(line)
        if entry["chunk"] == number:
            return list(entry["records"])
    except (ValueError, KeyError, TypeError):
        pass
    raise DataError(f"{log}:{number + 1}: not chunk {number} of this log; delete the stage's folder and run again")
