import json

import pytest

from agentic_r.corpus.demonstrations import read_demonstrations, write_demonstrations
from agentic_r.corpus.questions import QuestionSet
from agentic_r.corpus.report import ReadingReport
from agentic_r.errors import DataError
from agentic_r.types import Demonstration, DemonstrationStep, Evidence, Question

STEP = DemonstrationStep("who\u2028?", (Evidence("d", "text"),), "so it is x")
GOOD = Demonstration("m1", "t", (STEP,), "x")


def questions(broken_lines="stop"):
    train = (Question("t", "t?", ("x",), "train"),)
    heldout = (Question("h", "h?", ("x",), "heldout"),)
    return QuestionSet(train, heldout, frozenset({"aside"}), "file", ReadingReport(broken_lines=broken_lines))


def test_demonstrations_are_read_back_as_written(tmp_path):
    lazy = Demonstration("m2", "t", (), "x", "lazy")
    assert write_demonstrations(tmp_path / "d.jsonl", [GOOD, lazy]) == 2
    assert read_demonstrations(tmp_path / "d.jsonl", questions()).demonstrations == (GOOD, lazy)


@pytest.mark.parametrize(
    ("question_id", "text"),
    [("h", "demonstration of the held-out question 'h'"), ("z", "demonstration of the unknown question 'z'")],
)
def test_a_demonstration_of_another_question_is_named(tmp_path, question_id, text):
    write_demonstrations(tmp_path / "d.jsonl", [Demonstration("m", question_id, (), "x")])
    with pytest.raises(DataError, match=rf"d\.jsonl:1: {text}"):
        read_demonstrations(tmp_path / "d.jsonl", questions())


def test_demonstrations_of_questions_set_aside_are_counted(tmp_path):
    write_demonstrations(tmp_path / "d.jsonl", [GOOD, Demonstration("m2", "aside", (), "x")])
    read = read_demonstrations(tmp_path / "d.jsonl", questions())
    assert read.demonstrations == (GOOD,)
    assert [case.id for tally in read.report.ignored.values() for case in tally.listed] == ["m2"]


def test_demonstration_ids_must_be_unique(tmp_path):
    write_demonstrations(tmp_path / "d.jsonl", [GOOD, GOOD])
    with pytest.raises(DataError, match=r"d\.jsonl:2: demonstration id 'm1' was used at .*d\.jsonl:1"):
        read_demonstrations(tmp_path / "d.jsonl", questions())


def test_a_line_that_is_no_demonstration_stops_or_is_counted(tmp_path):
    (tmp_path / "d.jsonl").write_text(json.dumps({"id": "m", "question_id": "t"}) + "\n{\n")
    with pytest.raises(DataError, match=r"d\.jsonl:1: not a demonstration \(field 'steps' of a Demonstration"):
        read_demonstrations(tmp_path / "d.jsonl", questions())
    read = read_demonstrations(tmp_path / "d.jsonl", questions("skip"))
    assert {reason: tally.count for reason, tally in read.report.skipped.items()} == {
        "not a demonstration": 1,
        "not JSON": 1,
    }
