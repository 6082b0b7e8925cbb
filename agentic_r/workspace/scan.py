"""The ordered scan: ripgrep over a ranked list of files, in that order, stopping when enough was found.

We run ripgrep ourselves, on explicit files, one thread, in shards (``shards.py``). What it prints equals the output of
one ``rg -j1 --no-mmap`` over the whole list, for every allowed flag (``flags.py``); an early stop is a prefix of it.
Rules for files: bytes are searched as they stand (``--encoding none``: no byte order mark is obeyed), a file with NUL
bytes is text like any other (``--text``), hidden files are files, no ignore file and no configuration file has a say, a
line may have any length. A pattern's time grows with the text alone (ripgrep's default engine); a deadline bounds all.
"""

import base64
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Protocol

from agentic_r.workspace.calls import CallState
from agentic_r.workspace.flags import FlagError, OutputForm, ScanFlags, parse_flags
from agentic_r.workspace.ripgrep import DeadlineError, Ripgrep, RipgrepProcess
from agentic_r.workspace.shards import max_shard_bytes, shard_names

__all__ = ["OrderedScanner", "ScanFailure", "ScanLine", "ScanRequest", "ScanResult"]

_FIXED = (
    *("-j1", "--no-config", "--no-mmap", "--encoding=none", "--text"),
    *("--with-filename", "--line-number", "--no-heading"),
)
_MAX_PATTERN_BYTES = 100_000  # Linux takes 128 KB in one argument
_GROUP_BORDER = b"--\n"  # between groups of lines that do not touch


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """What to look for, with ripgrep's flags.

    ``max_matches`` counts matching lines of all documents (with ``-l`` and ``-c``: documents), the other cap those of
    one document; None means all.
    """

    pattern: str
    flags: tuple[str, ...] = ()
    max_matches: int | None = None
    max_matches_per_document: int | None = None


@dataclass(frozen=True, slots=True)
class ScanLine:
    """A line as it stands in the file, and where in it the pattern matched, in bytes.

    ``line_number`` is 0 where a document was listed instead (``-l``, ``-c``): then ``line`` is empty, or its count.
    """

    name: str
    line_number: int
    line: bytes
    spans: tuple[tuple[int, int], ...] = ()
    is_match: bool = True

    @property
    def raw(self) -> bytes:
        """The line as ``rg -H -n`` prints it."""
        if self.line_number == 0:
            return os.fsencode(self.name) + (b":" + self.line if self.line else b"") + b"\n"
        end = b"" if self.line.endswith(b"\n") else b"\n"
        mark = b":" if self.is_match else b"-"
        return os.fsencode(self.name) + mark + str(self.line_number).encode() + mark + self.line + end

    def follows(self, other: "ScanLine") -> bool:
        """Whether this is the next line of the same file."""
        return self.name == other.name and self.line_number == other.line_number + 1


@dataclass(frozen=True, slots=True)
class ScanFailure:
    """A document that could not be searched; ``name`` is empty where ripgrep did not say which."""

    name: str
    cause: str


@dataclass(frozen=True, slots=True)
class ScanResult:
    """The answer to one scan.

    ``lines`` are in scope order, those around matches among them where the flags ask for them. ``num_found`` counts
    matches within the caps on documents, at most one more than asked for; it is all there are only where ``complete``.
    ``num_scanned`` documents were searched, of ``num_documents``; ``num_capped`` of them have more matches than the
    request's cap on a document (a ``-m`` among the flags is what was asked for, and is no such cap).
    """

    state: CallState
    lines: tuple[ScanLine, ...] = ()
    num_found: int = 0
    num_scanned: int = 0
    num_documents: int = 0
    num_capped: int = 0
    complete: bool = False
    failures: tuple[ScanFailure, ...] = ()
    cause: str = ""

    @property
    def matches(self) -> tuple[ScanLine, ...]:
        """The matching lines."""
        return tuple(line for line in self.lines if line.is_match)

    def raw(self, *, has_context: bool = False) -> bytes:
        """Return what ``rg`` prints for these lines; with context, groups that do not touch are divided."""
        pieces: list[bytes] = []
        for number, line in enumerate(self.lines):
            if has_context and number and not line.follows(self.lines[number - 1]):
                pieces.append(_GROUP_BORDER)
            pieces.append(line.raw)
        return b"".join(pieces)


class OrderedScanner:
    """Scans files of one folder."""

    def __init__(self, ripgrep: Ripgrep, folder: Path, *, timeout_s: float) -> None:
        """Make a scanner of the files in ``folder``; ``timeout_s`` bounds each scan as a whole."""
        self._ripgrep = ripgrep
        self._folder = folder
        self._timeout_s = timeout_s
        self._max_bytes = max_shard_bytes()

    @property
    def ripgrep_version(self) -> str:
        """What ripgrep says of itself."""
        return self._ripgrep.version

    def scan(self, names: Sequence[str], request: ScanRequest) -> ScanResult:
        """Search ``names`` (relative to the folder, no name twice) in order."""
        return self._scan(names, request, lambda flags: _Lines(request, flags))

    def stream(self, names: Sequence[str], request: ScanRequest, write: Callable[[bytes], bool]) -> ScanResult:
        """Search as ``scan`` does, but hand out ripgrep's own output, piece by piece, as fast as it comes.

        Args:
            names: File names, in order.
            request: Its ``max_matches`` is not used: ``write`` says when it has enough.
            write: Takes the next piece; returns whether it wants more. The pieces together are what one ``rg -j1``
                prints, or the beginning of it.

        Returns:
            The result without lines; ``num_found`` and ``num_capped`` are 0, and the documents counted are those of
            finished shards.
        """
        return self._scan(names, request, lambda flags: _Raw(write, flags))

    def _scan(
        self, names: Sequence[str], request: ScanRequest, make_reader: Callable[[ScanFlags], "_Reader"]
    ) -> ScanResult:
        if len(set(names)) != len(names):
            raise ValueError("a file is named twice in one scope")
        try:
            flags = parse_flags(request.flags)
        except FlagError as error:
            return ScanResult("refused", cause=str(error))
        if cause := _pattern_fault(request.pattern):
            return ScanResult("bad_pattern", cause=cause)
        reader = make_reader(flags)
        run = _Run(len(names), reader)
        command = [*self._command(request, flags, num_more=reader.num_more), *reader.arguments]
        self._scan_shards(command, shard_names(names, max_bytes=self._max_bytes), run)
        return run.result(self._timeout_s)

    def _scan_shards(self, command: Sequence[str], shards: Iterator[Sequence[str]], run: "_Run") -> None:
        """Read shard after shard; from the second on, the next one is started before it is needed.

        So starting the program costs a full scan nothing where there is a second core, and an early stop in the first
        shard costs nothing at all.
        """
        deadline = time.monotonic() + self._timeout_s
        started: deque[tuple[Sequence[str], RipgrepProcess]] = deque()
        ahead = 0
        with ExitStack() as processes:
            try:
                while True:
                    for shard in islice(shards, 1 + ahead - len(started)):
                        process = RipgrepProcess([*command, "--", *shard], folder=self._folder, deadline=deadline)
                        started.append((shard, processes.enter_context(process)))
                    if not started:
                        break
                    self._scan_shard(*started.popleft(), run)
                    if run.reader.is_full or (run.doubts_pattern and not self._takes_pattern(command, run, deadline)):
                        break
                    ahead = 1
            except DeadlineError:
                run.timed_out = True

    def _scan_shard(self, shard: Sequence[str], process: RipgrepProcess, run: "_Run") -> None:
        try:
            with process:
                run.reader.read(process)
        finally:
            run.end_shard(shard, process)

    def _takes_pattern(self, command: Sequence[str], run: "_Run", deadline: float) -> bool:
        """Ask ripgrep about the pattern alone, on an empty file, so that its messages need no interpretation."""
        with RipgrepProcess([*command, "--", os.devnull], folder=self._folder, deadline=deadline) as process:
            for _ in process.chunks():
                pass
        run.doubts_pattern = False
        if process.returncode not in (0, 1):
            run.pattern_error = " ".join(process.errors.decode("utf-8", "replace").removeprefix("rg: ").split())
        return not run.pattern_error

    def _command(self, request: ScanRequest, flags: ScanFlags, *, num_more: int | None) -> list[str]:
        caps = [] if flags.max_count is None else [flags.max_count]
        document_cap = _document_cap(request, flags)
        if document_cap is not None:
            if num_more is not None:
                caps.append(document_cap + num_more)
            if flags.form == "counts":  # lines around matches are not shown, and would make ripgrep count past the cap
                flags = replace(flags, before=0, after=0)
        cap = [f"--max-count={min(caps)}"] if caps else []
        return [str(self._ripgrep.path), *_FIXED, *flags.arguments(), *cap, "-e", request.pattern]


def _document_cap(request: ScanRequest, flags: ScanFlags) -> int | None:
    """The request's cap on a document, where the flags do not ask for as few themselves."""
    cap = request.max_matches_per_document
    return None if cap is None or (flags.max_count is not None and flags.max_count <= cap) else cap


def _pattern_fault(text: str) -> str:
    try:
        pattern = text.encode()
    except UnicodeEncodeError:
        return "the pattern is not valid Unicode; write it without lone surrogates."
    if b"\0" in pattern:
        return "the pattern holds a NUL character; write it as \\x00."
    if len(pattern) > _MAX_PATTERN_BYTES:
        return f"the pattern has {len(pattern)} bytes; at most {_MAX_PATTERN_BYTES} fit."
    return ""


class _Reader(Protocol):
    """Takes what ripgrep prints, shard by shard. ``last_name`` is the file of the last line seen, where known.

    ``num_more`` matches beyond a document's cap are wanted, to see whether there are any; None means all.
    """

    arguments: tuple[str, ...]
    num_more: int | None
    lines: list[ScanLine]
    num_matches: int
    last_name: str
    has_read: bool
    is_full: bool

    @property
    def num_capped(self) -> int:
        """Documents that have more than the cap on one."""
        ...

    def read(self, process: RipgrepProcess) -> None:
        """Read until the end or until full."""
        ...


class _Raw:
    """Hands ripgrep's output on as it is."""

    def __init__(self, write: Callable[[bytes], bool], flags: ScanFlags) -> None:
        self.arguments: tuple[str, ...] = ("--color=never",)
        self.num_more: int | None = 0
        self.num_capped = 0
        self.lines: list[ScanLine] = []
        self.num_matches = 0
        self.last_name = ""
        self.has_read = False
        self.is_full = False
        self._write = write
        self._border = _GROUP_BORDER if flags.has_context else b""

    def read(self, process: RipgrepProcess) -> None:
        border = self._border if self.has_read else b""  # ripgrep puts it between files; between shards, we do
        for chunk in process.chunks():
            self.has_read = True
            if (border and not self._write(border)) or not self._write(chunk):
                self.is_full = True
                return
            border = b""


class _Lines:
    """Reads lines with the places of their hits, or documents where the flags ask for names or counts.

    Full when one match more than asked for was seen: that one tells "all" from "the first". So does one more in a
    document than its cap, which is dropped.
    """

    def __init__(self, request: ScanRequest, flags: ScanFlags) -> None:
        self.arguments: tuple[str, ...] = ("--json",) if flags.form == "lines" else ("--null", "--color=never")
        self.lines: list[ScanLine] = []
        self.num_matches = 0
        self.last_name = ""
        self.has_read = False
        self.is_full = False
        self.num_more = None if flags.has_context else 1  # in context ripgrep shows matches beyond its cap
        self._max_matches = request.max_matches
        self._form = flags.form
        self._cap = _DocumentCap(_document_cap(request, flags), num_after=flags.after)

    @property
    def num_capped(self) -> int:
        return self._cap.num_capped

    def read(self, process: RipgrepProcess) -> None:
        listing = self._form != "lines"
        for seen in _listed(process.chunks(), self._form) if listing else _lines(process.lines()):
            self.has_read = True
            self.last_name = seen.name
            line = self._cap.take(seen)
            if line is None:
                continue
            self.num_matches += line.is_match
            if self._max_matches is not None and self.num_matches > self._max_matches:
                self.is_full = True
                return
            self.lines.append(line)


class _DocumentCap:
    """Leaves of each document what ``rg --max-count`` leaves, and counts the documents that have more.

    The lines behind the last match that are asked for stay; matches among them are matches there, too.
    """

    def __init__(self, cap: int | None, *, num_after: int) -> None:
        self.num_capped = 0
        self._cap = cap
        self._num_after = num_after
        self._name = ""
        self._num_matches = 0
        self._last_match = 0
        self._has_more = False

    def take(self, line: ScanLine) -> ScanLine | None:
        """Return the line as it is to be kept, or None."""
        if self._cap is None:
            return line
        if line.line_number == 0:
            return self._take_count(line, self._cap)
        if line.name != self._name:
            self._name, self._num_matches, self._has_more = line.name, 0, False
        if self._num_matches < self._cap:
            self._num_matches += line.is_match
            self._last_match = line.line_number
            return line
        if line.line_number <= self._last_match + self._num_after:
            return line
        self.num_capped += line.is_match and not self._has_more
        self._has_more = self._has_more or line.is_match
        return None

    def _take_count(self, line: ScanLine, cap: int) -> ScanLine:
        if not line.line or int(line.line) <= cap:
            return line
        self.num_capped += 1
        return replace(line, line=str(cap).encode())


class _Run:
    """How far one scan has come, and what went wrong on the way."""

    def __init__(self, num_documents: int, reader: _Reader) -> None:
        self.reader = reader
        self.num_documents = num_documents
        self.failures: list[ScanFailure] = []
        self.num_passed = 0  # documents behind us, searched or failed
        self.doubts_pattern = False  # a first shard ended with an error and nothing found
        self.pattern_error = ""
        self.timed_out = False

    def end_shard(self, shard: Sequence[str], process: RipgrepProcess) -> None:
        """Count the shard's documents: all of it, or, when it was cut short, up to the last line seen."""
        is_first = self.num_passed == 0
        passed: Sequence[str] = ()
        if process.returncode is not None:
            passed = shard
        elif self.reader.last_name in shard:
            passed = shard[: shard.index(self.reader.last_name) + 1]
        self.num_passed += len(passed)
        failed = process.returncode not in (0, 1, None)
        self._note_errors(process.errors, shard, set(passed), ended=failed)
        self.doubts_pattern = failed and is_first and not self.reader.has_read

    def _note_errors(self, errors: bytes, shard: Sequence[str], passed: Set[str], *, ended: bool) -> None:
        unnamed = []
        for line in filter(None, os.fsdecode(errors).split("\n")):
            name, _, cause = line.removeprefix("rg: ").partition(": ")
            if name in passed:
                self.failures.append(ScanFailure(name, cause))
            elif name not in shard:  # else ripgrep has run ahead of where we stopped
                unnamed.append(line)
        if ended and unnamed:
            self.failures.append(ScanFailure("", " ".join(" ".join(unnamed).split())))
        if ended and not errors:
            self.failures.append(ScanFailure("", "ripgrep ended without a word"))

    def result(self, timeout_s: float) -> ScanResult:
        if self.pattern_error:
            return ScanResult("bad_pattern", num_documents=self.num_documents, cause=self.pattern_error)
        num_failed = len({failure.name for failure in self.failures if failure.name})
        return ScanResult(
            state=self._state(num_failed),
            lines=tuple(self.reader.lines),
            num_found=self.reader.num_matches,
            num_scanned=self.num_passed - num_failed,
            num_documents=self.num_documents,
            num_capped=self.reader.num_capped,
            complete=not (self.reader.is_full or self.reader.num_capped or self.timed_out or self.failures),
            failures=tuple(self.failures),
            cause=self._cause(timeout_s),
        )

    def _state(self, num_failed: int) -> CallState:
        if self.timed_out:
            return "timeout"
        if self.failures:
            nothing_searched = num_failed == self.num_passed or any(not failure.name for failure in self.failures)
            return "failed" if nothing_searched and not self.reader.has_read else "partial"
        return "ok" if self.reader.has_read else "empty"

    def _cause(self, timeout_s: float) -> str:
        if self.timed_out:
            return f"the scan was ended after {timeout_s:g} s"
        if not self.failures:
            return ""
        first = self.failures[0]
        more = f" (and {len(self.failures) - 1} more)" if len(self.failures) > 1 else ""
        return f"{first.name or 'ripgrep'}: {first.cause}{more}"


def _lines(lines: Iterator[bytes]) -> Iterator[ScanLine]:
    for line in lines:
        if not line.startswith((b'{"type":"match"', b'{"type":"context"')):
            continue
        event = json.loads(line)
        found = event["data"]
        yield ScanLine(
            name=os.fsdecode(_bytes(found["path"])),
            line_number=found["line_number"],
            line=_bytes(found["lines"]),
            spans=tuple((submatch["start"], submatch["end"]) for submatch in found["submatches"]),
            is_match=event["type"] == "match",
        )


def _listed(chunks: Iterator[bytes], form: OutputForm) -> Iterator[ScanLine]:
    """Read ``name NUL`` (``-l``) or ``name NUL count LF`` (``-c``)."""
    end = b"\0" if form == "names" else b"\n"
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(end)
        for entry in whole:
            name, _, count = entry.partition(b"\0")
            yield ScanLine(os.fsdecode(name), 0, count)


def _bytes(value: dict[str, str]) -> bytes:
    """Undo ripgrep's choice between text and, where bytes are not UTF-8, base64."""
    return base64.b64decode(value["bytes"]) if "bytes" in value else value["text"].encode()
