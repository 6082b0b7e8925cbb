import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_r.artifacts.jsonl import read_jsonl, write_jsonl
from agentic_r.artifacts.record_log import map_in_chunks
from agentic_r.artifacts.records import read_records, write_records
from agentic_r.types import ScoredPassage, Skipped, Trajectory, Turn

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
floats = st.floats(allow_nan=False, allow_infinity=False)
ids = st.lists(st.integers(0, 2**40), max_size=4).map(tuple)
turns = st.builds(
    Turn,
    text=texts,
    action=st.sampled_from(["search", "answer", "invalid", "truncated"]),
    content=texts,
    sampled_ids=ids,
    logprobs=st.lists(floats, max_size=4).map(tuple),
    observation_ids=ids,
    retriever_input=texts,
    passages=st.lists(st.builds(ScoredPassage, texts, floats), max_size=3).map(tuple),
    tool_state=st.sampled_from(["ok", "empty", "failed", "none"]),
    num_passages_cut=st.integers(0, 9),
    cause=texts,
)
trajectories = st.builds(
    Trajectory,
    question_id=texts,
    sample=st.integers(0, 9),
    prompt_ids=ids,
    turns=st.lists(turns, max_size=3).map(tuple),
    status=st.sampled_from(["answered", "turn_budget", "context_budget", "tool_failed"]),
    answer=st.none() | texts,
    correct=floats,
    f1=floats,
)


@given(st.lists(st.dictionaries(texts, st.none() | texts | st.integers() | st.lists(texts)), max_size=5))
def test_json_lines_read_back_equal_and_are_as_many_as_the_objects(rows: list[dict[str, object]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "x.jsonl"
        assert write_jsonl(file, rows) == len(rows)
        assert file.read_bytes().count(b"\n") == len(rows)
        assert list(read_jsonl(file)) == rows


@given(st.lists(trajectories, max_size=3))
def test_trajectories_read_back_equal(records: list[Trajectory]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "x.jsonl"
        write_records(file, records)
        assert list(read_records(file, Trajectory)) == records


@settings(max_examples=60, deadline=None)
@given(st.lists(texts, min_size=1, max_size=7), st.integers(1, 3), st.data())
def test_a_kill_at_any_byte_of_the_log_changes_neither_records_nor_chunks(
    items: list[str], chunk_size: int, data: st.DataObject
) -> None:
    composed: dict[int, tuple[str, ...]] = {}

    def work(number: int, chunk: Sequence[str]) -> list[Skipped]:
        assert composed.setdefault(number, tuple(chunk)) == tuple(chunk)
        if number == killed_at:
            raise KeyboardInterrupt
        return [Skipped(item, f"{number}\n") for item in chunk]

    def run(output: Path) -> list[Skipped]:
        return map_in_chunks(
            items, work, kind=Skipped, output=output, chunk_size=chunk_size, progress=lambda done, total: None
        )

    with tempfile.TemporaryDirectory() as folder:
        killed_at = -1
        whole = run(Path(folder) / "whole.jsonl")
        output, log = Path(folder) / "x.jsonl", Path(folder) / "x.jsonl.log"
        for _ in range(3):
            killed_at = data.draw(st.integers(0, (len(items) - 1) // chunk_size))
            try:
                run(output)
            except KeyboardInterrupt:
                content = log.read_bytes()
                log.write_bytes(content[: data.draw(st.integers(0, len(content)))])
        killed_at = -1
        assert run(output) == whole
        assert output.read_bytes() == (Path(folder) / "whole.jsonl").read_bytes()
