"""The ordered scan: ripgrep over a ranked list of files, in that order, stopping when enough was found.

We run ripgrep ourselves, on explicit files, one thread, in growing shards. The stream of matching lines equals
that of one ``rg -j1`` over the whole list; an early stop is a prefix of it. Rules for files: bytes are searched as
they stand (``--encoding none``), a file with NUL bytes is text like any other (``--text``), no ignore
file and no configuration file has a say. A match is a matching line.
"""

import base64
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentic_r.workspace.calls import CallState
from agentic_r.workspace.ripgrep import DeadlineError, Ripgrep, RipgrepProcess

__all__ = ["SCAN_FLAGS", "OrderedScanner", "ScanFailure", "ScanMatch", "ScanRequest", "ScanResult", "shard_names"]

SCAN_FLAGS = {"-i": "--ignore-case", "-w": "--word-regexp", "-F": "--fixed-strings"}
_FIXED = ("-j1", "--no-config", "--encoding=none", "--text", "--with-filename", "--line-number")

_FIRST_SHARD = 64  # files; the first matches of a good ranking come from here (facts: 8x faster than one long list)
_LARGEST_SHARD = 2000
_MAX_SHARD_BYTES = 1 << 19  # of file names: a quarter of Linux's limit for a command line, half of macOS's
_MAX_PATTERN_BYTES = 100_000  # Linux takes 128 KB in one argument


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """What to look for. ``flags`` are keys or values of ``SCAN_FLAGS``; caps count matching lines."""

    pattern: str
    flags: tuple[str, ...] = ()
    max_matches: int | None = None
    max_matches_per_document: int | None = None


@dataclass(frozen=True, slots=True)
class ScanMatch:
    """A matching line as it stands in the file, and where in it the pattern matched, in bytes."""

    name: str
    line_number: int
    line: bytes
    spans: tuple[tuple[int, int], ...]

    @property
    def raw(self) -> bytes:
        """The line as ``rg -H -n`` prints it."""
        end = b"" if self.line.endswith(b"\n") else b"\n"
        return os.fsencode(self.name) + b":" + str(self.line_number).encode() + b":" + self.line + end


@dataclass(frozen=True, slots=True)
class ScanFailure:
    """A document that could not be searched; ``name`` is empty where ripgrep did not say which."""

    name: str
    cause: str


@dataclass(frozen=True, slots=True)
class ScanResult:
    """The answer to one scan.

    ``matches`` are in scope order. ``num_found`` counts those seen, at most one more than asked for; it is all
    there are only where ``complete``. ``num_scanned`` documents were searched, of ``num_documents``.
    """

    state: CallState
    matches: tuple[ScanMatch, ...] = ()
    num_found: int = 0
    num_scanned: int = 0
    num_documents: int = 0
    complete: bool = False
    failures: tuple[ScanFailure, ...] = ()
    cause: str = ""


class OrderedScanner:
    """Scans files of one folder."""

    def __init__(self, ripgrep: Ripgrep, folder: Path, *, timeout_s: float) -> None:
        """Make a scanner of the files in ``folder``; ``timeout_s`` bounds each scan as a whole."""
        self._ripgrep = ripgrep
        self._folder = folder
        self._timeout_s = timeout_s

    def scan(self, names: Sequence[str], request: ScanRequest) -> ScanResult:
        """Search ``names`` (relative to the folder, no name twice) in order."""
        if len(set(names)) != len(names):
            raise ValueError("a file is named twice in one scope")
        refusal = _refusal(request)
        if refusal is not None:
            return refusal
        run = _Run(names, request)
        deadline = time.monotonic() + self._timeout_s
        try:
            for shard in shard_names(names):
                self._scan_shard(shard, run, deadline)
                if run.is_full or (run.doubts_pattern and not self._takes_pattern(run, deadline)):
                    break
        except DeadlineError:
            run.timed_out = True
        return run.result(self._timeout_s)

    def _scan_shard(self, shard: Sequence[str], run: "_Run", deadline: float) -> None:
        command = [*self._command(run.request), "--", *shard]
        process = RipgrepProcess(command, folder=self._folder, deadline=deadline)
        try:
            with process:
                for match in _matches(process.lines()):
                    run.add(match)
                    if run.is_full:
                        break
        finally:
            run.end_shard(shard, process)

    def _takes_pattern(self, run: "_Run", deadline: float) -> bool:
        """Ask ripgrep about the pattern alone, on an empty file, so that its messages need no interpretation."""
        command = [*self._command(run.request), "--", os.devnull]
        with RipgrepProcess(command, folder=self._folder, deadline=deadline) as process:
            for _ in process.lines():
                pass
        run.doubts_pattern = False
        if process.returncode not in (0, 1):
            run.pattern_error = " ".join(process.errors.decode("utf-8", "replace").removeprefix("rg: ").split())
        return not run.pattern_error

    def _command(self, request: ScanRequest) -> list[str]:
        per_document = request.max_matches_per_document
        cap = [] if per_document is None else [f"--max-count={per_document}"]
        flags = [SCAN_FLAGS.get(flag, flag) for flag in request.flags]
        return [str(self._ripgrep.path), *_FIXED, "--json", *flags, *cap, "-e", request.pattern]


def shard_names(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Cut a list into shards of 64, 128, ... at most 2,000 names, each short enough for a command line."""
    size, start = _FIRST_SHARD, 0
    while start < len(names):
        end, num_bytes = start, 0
        while end < min(start + size, len(names)):
            num_bytes += len(os.fsencode(names[end])) + 9  # each argument brings a NUL and a pointer
            if num_bytes > _MAX_SHARD_BYTES and end > start:
                break
            end += 1
        yield names[start:end]
        start, size = end, min(2 * size, _LARGEST_SHARD)


def _refusal(request: ScanRequest) -> ScanResult | None:
    for flag in request.flags:
        if flag not in SCAN_FLAGS and flag not in SCAN_FLAGS.values():
            allowed = ", ".join(f"{short} ({long})" for short, long in SCAN_FLAGS.items())
            return ScanResult("refused", cause=f"flag {flag} would change what a scan means; allowed are {allowed}.")
    try:
        pattern = request.pattern.encode()
    except UnicodeEncodeError:
        return ScanResult("bad_pattern", cause="the pattern is not valid Unicode; write it without lone surrogates.")
    if b"\0" in pattern:
        return ScanResult("bad_pattern", cause="the pattern holds a NUL character; write it as \\x00.")
    if len(pattern) > _MAX_PATTERN_BYTES:
        return ScanResult(
            "bad_pattern", cause=f"the pattern has {len(pattern)} bytes; at most {_MAX_PATTERN_BYTES} fit."
        )
    return None


class _Run:
    """What one scan has found so far."""

    def __init__(self, names: Sequence[str], request: ScanRequest) -> None:
        self.request = request
        self.places = {name: place for place, name in enumerate(names)}
        self.matches: list[ScanMatch] = []
        self.failures: list[ScanFailure] = []
        self.num_passed = 0  # documents behind us, searched or failed
        self.doubts_pattern = False  # a first shard ended with an error and nothing found
        self.pattern_error = ""
        self.timed_out = False

    @property
    def is_full(self) -> bool:
        """Whether one more match than asked for was seen: that one tells "all" from "the first"."""
        return self.request.max_matches is not None and len(self.matches) > self.request.max_matches

    def add(self, match: ScanMatch) -> None:
        self.matches.append(match)

    def end_shard(self, shard: Sequence[str], process: RipgrepProcess) -> None:
        """Count the shard's documents: all of it, or, when it was cut short, up to the last match."""
        if process.returncode is not None:
            self.num_passed = self.places[shard[-1]] + 1
        elif self.matches:
            self.num_passed = max(self.num_passed, self.places[self.matches[-1].name] + 1)
        failed = process.returncode not in (0, 1, None)
        self._note_errors(process.errors, ended=failed)
        self.doubts_pattern = failed and shard[0] == next(iter(self.places)) and not self.matches

    def _note_errors(self, errors: bytes, *, ended: bool) -> None:
        unnamed = []
        for line in filter(None, os.fsdecode(errors).split("\n")):
            name, _, cause = line.removeprefix("rg: ").partition(": ")
            if name not in self.places:
                unnamed.append(line)
            elif self.places[name] < self.num_passed:  # ripgrep may have run ahead of where we stopped
                self.failures.append(ScanFailure(name, cause))
        if ended and unnamed:
            self.failures.append(ScanFailure("", " ".join(" ".join(unnamed).split())))
        if ended and not errors:
            self.failures.append(ScanFailure("", "ripgrep ended without a word"))

    def result(self, timeout_s: float) -> ScanResult:
        if self.pattern_error:
            return ScanResult("bad_pattern", num_documents=len(self.places), cause=self.pattern_error)
        num_failed = len({failure.name for failure in self.failures if failure.name})
        shown = self.matches[: self.request.max_matches]
        return ScanResult(
            state=self._state(num_failed),
            matches=tuple(shown),
            num_found=len(self.matches),
            num_scanned=self.num_passed - num_failed,
            num_documents=len(self.places),
            complete=not self.is_full and not self.timed_out and not self.failures,
            failures=tuple(self.failures),
            cause=self._cause(timeout_s),
        )

    def _state(self, num_failed: int) -> CallState:
        if self.timed_out:
            return "timeout"
        if self.failures:
            nothing_searched = num_failed == self.num_passed or any(not failure.name for failure in self.failures)
            return "failed" if nothing_searched and not self.matches else "partial"
        return "ok" if self.matches else "empty"

    def _cause(self, timeout_s: float) -> str:
        if self.timed_out:
            return f"the scan was ended after {timeout_s:g} s"
        if not self.failures:
            return ""
        first = self.failures[0]
        more = f" (and {len(self.failures) - 1} more)" if len(self.failures) > 1 else ""
        return f"{first.name or 'ripgrep'}: {first.cause}{more}"


def _matches(lines: Iterator[bytes]) -> Iterator[ScanMatch]:
    for line in lines:
        if not line.startswith(b'{"type":"match"'):
            continue
        event = json.loads(line)["data"]
        yield ScanMatch(
            name=os.fsdecode(_bytes(event["path"])),
            line_number=event["line_number"],
            line=_bytes(event["lines"]),
            spans=tuple((submatch["start"], submatch["end"]) for submatch in event["submatches"]),
        )


def _bytes(value: dict[str, str]) -> bytes:
    """Undo ripgrep's choice between text and, where bytes are not UTF-8, base64."""
    return base64.b64decode(value["bytes"]) if "bytes" in value else value["text"].encode()
