"""What was read, left out and noticed: counts that are never capped, with listed places that are.

Owns the choice between stopping at a fault and counting it (``broken_lines``). Which faults there are belongs to
the readers; what becomes of it in a manifest belongs to ``build.py``.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from agentic_r.artifacts.jsonl import JsonObject
from agentic_r.errors import DataError

__all__ = ["MAX_LISTED", "Fault", "Listed", "ReadingReport", "Tally"]

MAX_LISTED = 100


class Fault(Exception):
    """Why one row or file cannot be used: a short reason to count by, and what exactly is wrong."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Listed:
    """One listed case: where it stands (``file:line``), its id where it has one, and what it is about."""

    place: str
    id: str = ""
    note: str = ""

    def to_json(self) -> JsonObject:
        """Return the fields that say something."""
        return {key: value for key, value in (("place", self.place), ("id", self.id), ("note", self.note)) if value}


@dataclass(slots=True)
class Tally:
    """A count with the first ``MAX_LISTED`` cases."""

    count: int = 0
    listed: list[Listed] = field(default_factory=list)

    def add(self, case: Listed) -> None:
        """Count one case and list it while there is room."""
        self.count += 1
        if len(self.listed) < MAX_LISTED:
            self.listed.append(case)

    def to_json(self) -> JsonObject:
        """Return count and cases."""
        return {"count": self.count, "listed": [case.to_json() for case in self.listed]}


@dataclass(slots=True)
class ReadingReport:
    """Accumulates what happens to rows and files while they are read.

    ``skipped`` are rows that should have become something and did not; ``ignored`` never claimed to be one (blank
    lines, hidden files, other file types); ``warned`` were kept; ``unused_fields`` counts fields that are not read.
    ``remedy`` is what to do about a broken row.
    """

    broken_lines: Literal["stop", "skip"] = "stop"
    remedy: str = "correct it, or set data.broken_lines to skip"
    read: int = 0
    skipped: dict[str, Tally] = field(default_factory=dict)
    ignored: dict[str, Tally] = field(default_factory=dict)
    warned: dict[str, Tally] = field(default_factory=dict)
    unused_fields: dict[str, int] = field(default_factory=dict)

    def reject(self, fault: Fault, *, place: str, identifier: str = "") -> None:
        """Count a broken row.

        Raises:
            DataError: ``broken_lines`` is "stop"; names the place, the reason and the way out.
        """
        if self.broken_lines == "stop":
            detail = f" ({fault.detail})" if fault.detail else ""
            raise DataError(f"{place}: {fault.reason}{detail}; {self.remedy}")
        self.skip(fault.reason, Listed(place, identifier, fault.detail))

    def skip(self, reason: str, case: Listed) -> None:
        """Count a row that is left out by rule."""
        self.skipped.setdefault(reason, Tally()).add(case)

    def ignore(self, reason: str, case: Listed) -> None:
        """Count something that is no row."""
        self.ignored.setdefault(reason, Tally()).add(case)

    def warn(self, reason: str, case: Listed) -> None:
        """Count a row that is kept though something about it is odd."""
        self.warned.setdefault(reason, Tally()).add(case)

    def count_unused_fields(self, names: Iterable[str], *, used: frozenset[str]) -> None:
        """Count the fields of a row that are not read."""
        for name in names:
            if name not in used:
                self.unused_fields[name] = self.unused_fields.get(name, 0) + 1

    @property
    def num_skipped(self) -> int:
        """All rows that were left out."""
        return sum(tally.count for tally in self.skipped.values())

    def summary(self, kept: int) -> str:
        """Return one line: what was kept, and what was skipped where and why."""
        listed = [f"{_short(case)} ({reason})" for reason, tally in self.skipped.items() for case in tally.listed]
        more = self.num_skipped - len(listed)
        shown = ", ".join(listed) + (f" and {more} more" if more else "")
        return f"kept {kept}, skipped {self.num_skipped}" + (f": {shown}" if shown else "")

    def reasons(self) -> str:
        """Return one line: how many were skipped for which reason, and where the first of each stands."""
        shown = [f"{tally.count} {reason}, first at {tally.listed[0].place}" for reason, tally in self.skipped.items()]
        return "; ".join(shown) or "nothing was skipped"

    def to_json(self) -> JsonObject:
        """Return everything counted."""
        groups = {"skipped": self.skipped, "ignored": self.ignored, "warned": self.warned}
        tallies = {name: {reason: tally.to_json() for reason, tally in group.items()} for name, group in groups.items()}
        return {"read": self.read, **tallies, "unused_fields": self.unused_fields}


def _short(case: Listed) -> str:
    file, _, line = case.place.rpartition(":")
    return f"line {line}" if file and line.isdigit() else case.place
