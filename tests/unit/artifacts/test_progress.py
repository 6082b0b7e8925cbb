import io

import pytest

from agentic_r.artifacts.progress import (
    LineProgress,
    Silent,
    TerminalProgress,
    describe,
    spell_seconds,
    terminal_progress,
)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("seconds", "spelled"), [(0, "0:00"), (75, "1:15"), (59.6, "1:00"), (3725, "1:02:05")])
def test_seconds_are_spelled(seconds: float, spelled: str) -> None:
    assert spell_seconds(seconds) == spelled


def test_the_time_left_follows_from_what_this_sitting_did() -> None:
    # 20 of 120 in 10 s, the first 10 of them done before: 1 a second, 100 left
    assert describe("rollout", 20, 120, elapsed_s=10.0, done_before=10).split() == [
        "rollout",
        "20/120",
        "1.0/s",
        "1:40",
        "left",
    ]


def test_nothing_done_gives_no_rate() -> None:
    assert describe("rollout", 0, 5, elapsed_s=3.0).split() == ["rollout", "0/5"]


def test_off_a_terminal_a_line_comes_every_thirty_seconds() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = LineProgress(stream, clock=clock)
    progress.begin("corpus")
    for second in range(1, 91):
        clock.now = 100.0 + second
        progress.update(second, 100)
    progress.end("done")
    lines = stream.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == ["30/100", "60/100", "90/100", "done"]


def test_on_a_terminal_one_line_is_rewritten() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = TerminalProgress(stream, clock=clock)
    progress.begin("corpus")
    clock.now += 1
    progress.update(5, 10)
    progress.update(6, 10)  # a moment later: not said
    progress.end("done")
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text.count("\r\x1b[2K") == 2
    assert "5/10" in text
    assert "6/10" not in text


def test_a_stream_that_is_no_terminal_gets_lines() -> None:
    assert type(terminal_progress(io.StringIO())) is LineProgress


def test_silence_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Silent()
    progress.begin("x")
    progress.update(1, 2)
    progress.end("y")
    assert capsys.readouterr() == ("", "")
