"""What long work tells its user: stage, done/total, rate, time left.

On a terminal one live line, elsewhere a line every 30 seconds. What is said goes to the stream that is given;
nothing here decides what counts as done.
"""

import sys
import time
from collections.abc import Callable
from typing import Protocol, TextIO

__all__ = ["LineProgress", "Progress", "Silent", "TerminalProgress", "describe", "spell_seconds", "terminal_progress"]

_LINE_EVERY_S = 30.0
_LIVE_EVERY_S = 0.1
_CLEAR_LINE = "\r\x1b[2K"


class Progress(Protocol):
    """Receives what a stage says of itself."""

    def begin(self, stage: str) -> None:
        """Say that a stage starts."""
        ...

    def update(self, done: int, total: int) -> None:
        """Say that ``done`` of ``total`` items of the present stage are finished."""
        ...

    def end(self, note: str) -> None:
        """Say that the present stage is finished, or was already."""
        ...


class Silent:
    """Says nothing; for tests and for callers with their own display."""

    def begin(self, stage: str) -> None:
        """Ignore it."""

    def update(self, done: int, total: int) -> None:
        """Ignore it."""

    def end(self, note: str) -> None:
        """Ignore it."""


class LineProgress:
    """One line at a stage's end, and one every 30 seconds in between."""

    every_s = _LINE_EVERY_S

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._stage = ""
        self._begun = self._said = 0.0
        self._done_before: int | None = None

    def begin(self, stage: str) -> None:
        """Remember the stage and when it began."""
        self._stage = stage
        self._begun = self._said = self._clock()
        self._done_before = None

    def update(self, done: int, total: int) -> None:
        """Say how far it is, unless that was said a moment ago; the first ``done`` is an earlier sitting's work."""
        now = self._clock()
        if self._done_before is None:
            self._done_before = done
        if now - self._said >= self.every_s:
            self._said = now
            line = describe(self._stage, done, total, elapsed_s=now - self._begun, done_before=self._done_before)
            self._show(line)

    def end(self, note: str) -> None:
        """Print the stage's last line."""
        self._write(f"{self._stage:<28} {note}\n")

    def _show(self, line: str) -> None:
        self._write(line + "\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class TerminalProgress(LineProgress):
    """One live line for the present stage, rewritten in place at most ten times a second."""

    every_s = _LIVE_EVERY_S

    def end(self, note: str) -> None:
        """Replace the live line with the stage's last line."""
        self._stream.write(_CLEAR_LINE)
        super().end(note)

    def _show(self, line: str) -> None:
        self._write(_CLEAR_LINE + line)


def terminal_progress(stream: TextIO | None = None) -> Progress:
    """Return live progress where ``stream`` (stderr, unless given) is a terminal, lines elsewhere."""
    stream = stream or sys.stderr
    return TerminalProgress(stream) if stream.isatty() else LineProgress(stream)


def describe(stage: str, done: int, total: int, *, elapsed_s: float, done_before: int = 0) -> str:
    """Return one line: stage, done/total and, from what this sitting did, rate and time left."""
    text = f"{stage:<28} {done:,}/{total:,}"
    if done > done_before and elapsed_s > 0:
        rate = (done - done_before) / elapsed_s
        text += f"  {rate:,.1f}/s  {spell_seconds((total - done) / rate)} left"
    return text


def spell_seconds(seconds: float) -> str:
    """Return minutes and seconds (75 is ``1:15``), with hours where there are any."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
