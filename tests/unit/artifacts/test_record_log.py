from collections.abc import Sequence
from pathlib import Path

import pytest

from agentic_r.artifacts.record_log import map_in_chunks
from agentic_r.errors import DataError
from agentic_r.types import Skipped


class Worker:
    """Makes one record an item; ``calls`` keeps the chunks it was given; dies before chunk ``dies_at``."""

    def __init__(self, dies_at: int | None = None) -> None:
        self.calls: list[tuple[int, tuple[str, ...]]] = []
        self.dies_at = dies_at

    def __call__(self, number: int, chunk: Sequence[str]) -> list[Skipped]:
        if number == self.dies_at:
            raise KeyboardInterrupt
        self.calls.append((number, tuple(chunk)))
        return [Skipped(item, f"chunk {number}") for item in chunk]


def run(output: Path, work: Worker, items: str = "abcde", said: list[tuple[int, int]] | None = None) -> list[Skipped]:
    heard = [] if said is None else said
    return map_in_chunks(
        list(items),
        work,
        kind=Skipped,
        output=output,
        chunk_size=2,
        progress=lambda done, total: heard.append((done, total)),
    )


def test_chunks_are_composed_in_order_and_the_last_may_be_short(tmp_path: Path) -> None:
    work, said = Worker(), []
    records = run(tmp_path / "x.jsonl", work, said=said)
    assert work.calls == [(0, ("a", "b")), (1, ("c", "d")), (2, ("e",))]
    assert [record.id for record in records] == list("abcde")
    assert said == [(0, 5), (2, 5), (4, 5), (5, 5)]


def test_after_a_kill_only_the_missing_chunks_are_worked_on_composed_as_before(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole.jsonl", Worker())
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "x.jsonl", Worker(dies_at=1))
    assert not (tmp_path / "x.jsonl").exists()
    work = Worker()
    assert run(tmp_path / "x.jsonl", work) == whole
    assert [number for number, _ in work.calls] == [1, 2]
    assert (tmp_path / "x.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_a_half_line_is_cut_off_before_the_next_chunk_is_written(tmp_path: Path) -> None:
    output, log = tmp_path / "x.jsonl", tmp_path / "x.jsonl.log"
    with pytest.raises(KeyboardInterrupt):
        run(output, Worker(dies_at=2))
    log.write_bytes(log.read_bytes()[:-5])  # in the line of chunk 1
    with pytest.raises(KeyboardInterrupt):
        run(output, Worker(dies_at=2))
    work = Worker()
    assert [record.id for record in run(output, work)] == list("abcde")
    assert [number for number, _ in work.calls] == [2]


def test_a_finished_file_is_read_and_nothing_is_done_again(tmp_path: Path) -> None:
    whole = run(tmp_path / "x.jsonl", Worker())
    work = Worker()
    assert run(tmp_path / "x.jsonl", work) == whole
    assert work.calls == []
    assert not (tmp_path / "x.jsonl.log").exists()


def test_no_items_make_an_empty_file(tmp_path: Path) -> None:
    assert run(tmp_path / "x.jsonl", Worker(), items="") == []
    assert (tmp_path / "x.jsonl").read_bytes() == b""


def test_a_line_of_the_log_that_is_not_its_chunk_is_an_error(tmp_path: Path) -> None:
    for line in (b"\x00\x00\n", b'{"chunk": 1, "records": []}\n', b"[]\n", b'{"chunk": 0}\n'):
        (tmp_path / "x.jsonl.log").write_bytes(line)
        with pytest.raises(DataError, match=r"x\.jsonl\.log:1: not chunk 0"):
            run(tmp_path / "x.jsonl", Worker())


def test_text_that_no_file_can_hold_stops_before_anything_of_its_chunk_is_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="chunk 0: U\\+DC00"):
        run(tmp_path / "x.jsonl", Worker(), items="a\udc00")
    assert (tmp_path / "x.jsonl.log").read_bytes() == b""


def test_a_chunk_of_nothing_is_a_callers_bug(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="chunk_size 0"):
        map_in_chunks(
            ["a"], Worker(), kind=Skipped, output=tmp_path / "x", chunk_size=0, progress=lambda done, total: None
        )
