import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agentic_r.artifacts.records import from_json, read_records, to_json, write_records
from agentic_r.errors import DataError
from agentic_r.types import Question, ScoredPassage, Trajectory, Turn

TURN = Turn(
    text="<search>x</search>",
    action="search",
    content="x",
    sampled_ids=(1, 2),
    logprobs=(-0.5, -1.25),
    passages=(ScoredPassage("p", 0.5),),
    tool_state="ok",
)
TRAJECTORY = Trajectory("q", 0, (7,), (TURN,), "answered", "x", 1.0, 0.5)


def as_read() -> dict:
    return json.loads(json.dumps(to_json(TRAJECTORY)))


def test_a_nested_value_reads_back_equal(tmp_path: Path) -> None:
    write_records(tmp_path / "x.jsonl", [TRAJECTORY, TRAJECTORY])
    assert list(read_records(tmp_path / "x.jsonl", Trajectory)) == [TRAJECTORY, TRAJECTORY]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda value: value.update(colour="red"), "colour"),
        (lambda value: value["turns"][0].update(colour="red"), "turns.0.colour"),
        (lambda value: value["turns"][0]["passages"][0].update(rank=1), "turns.0.passages.0.rank"),
        (lambda value: value.pop("f1"), "f1"),
        (lambda value: value["turns"][0].pop("content"), "turns.0.content"),
        (lambda value: value.update(sample="0"), "sample"),
        (lambda value: value.update(sample=1.5), "sample"),
        (lambda value: value.update(status="done"), "status"),
        (lambda value: value.update(answer=3), "answer"),
        (lambda value: value["turns"][0].update(sampled_ids=["1"]), "turns.0.sampled_ids.0"),
    ],
)
def test_an_unknown_missing_or_wrong_field_is_named_at_any_depth(change: Callable[[dict], None], field: str) -> None:
    value = as_read()
    change(value)
    with pytest.raises(DataError, match=f"line 3: field '{field}' of a Trajectory: "):
        from_json(Trajectory, value, where="line 3")


def test_a_whole_number_is_taken_for_a_float() -> None:
    assert from_json(Trajectory, {**as_read(), "f1": 1}).f1 == 1.0


def test_a_field_with_a_default_may_be_missing() -> None:
    value = {"id": "q", "text": "?", "answers": ["a"], "split": "train"}
    assert from_json(Question, value) == Question("q", "?", ("a",), "train")
