import json

import pytest

from agentic_r.config import FilesData
from agentic_r.corpus.questions import hash_share, read_questions
from agentic_r.errors import DataError
from agentic_r.types import Evidence, Question


def rows_file(path, rows):
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def data_of(folder, rows, heldout=None, **settings):
    if heldout is not None:
        settings["heldout_questions"] = rows_file(folder / "heldout.jsonl", heldout)
    return FilesData(kind="files", documents=folder, questions=rows_file(folder / "questions.jsonl", rows), **settings)


def row(identifier, text=None, **fields):
    return {"id": identifier, "question": text or f"What is {identifier}?", "answers": ["x"], **fields}


OTHER = [row("h", "held?")]


def only_question(tmp_path, fields, **settings):
    return read_questions(data_of(tmp_path, [fields], OTHER, **settings)).train[0]


@pytest.mark.parametrize(
    ("fields", "question"),
    [
        ({"id": 7, "question": "q?", "answer": "A"}, Question("7", "q?", ("A",), "train")),
        ({"_id": "a", "text": "q?", "golden_answers": ["A", "B", "A"]}, Question("a", "q?", ("A", "B"), "train")),
        ({"qid": "a", "query": "q?", "answers": [1990]}, Question("a", "q?", ("1990",), "train")),
        (
            {"id": "a", "question": "q?", "answers": ["A"], "type": "bridge"},
            Question("a", "q?", ("A",), "train", "bridge"),
        ),
    ],
)
def test_fields_are_found_under_their_usual_names(tmp_path, fields, question):
    assert only_question(tmp_path, fields) == question


def test_supporting_ids_become_evidence_unless_evidence_names_them(tmp_path):
    fields = row(
        "a", supporting=["d1", "d2", 3], evidence=[{"document_id": "d1", "text": "here"}, {"doc_id": "d4", "line": 2}]
    )
    assert only_question(tmp_path, fields).evidence == (
        Evidence("d1", "here"),
        Evidence("d4", "", 2),
        Evidence("d2"),
        Evidence("3"),
    )


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (row("a", answers=[]), "no answers"),
        ({"id": "a", "question": "q?"}, "no answers"),
        (row("a", answers=[""]), "empty answer"),
        (row("a", answers=[True]), "answer is not text"),
        ({"id": "a", "answers": ["x"]}, "no question"),
        (row("a", " "), "empty question"),
        ({"question": "q?", "answers": ["x"]}, "no id"),
        (row("a", split="other"), "unknown split"),
        (row("a", evidence=[{"document_id": "d", "start": 1}]), "unknown shape of evidence"),
        (row("a", evidence=[{"document_id": "d", "line": 0}]), "line of evidence is not a line number"),
        (row("a", evidence=[{"text": "x"}]), "no id"),
        (row("a", supporting=[None]), "supporting id is not an id"),
        (row("a", supporting={"d": 1}), "supporting is not a list"),
        ("{", "not JSON"),
    ],
)
def test_h17_a_question_that_cannot_be_used_stops_or_is_counted(tmp_path, fields, reason):
    with pytest.raises(DataError, match=rf"questions\.jsonl:1: {reason}"):
        read_questions(data_of(tmp_path, [fields, row("b")], OTHER))
    questions = read_questions(data_of(tmp_path, [fields, row("b")], OTHER, broken_lines="skip"))
    assert [question.id for question in questions.train] == ["b"]
    assert {name: tally.count for name, tally in questions.report.skipped.items()} == {reason: 1}


def test_ids_must_be_unique(tmp_path):
    with pytest.raises(DataError, match=r"questions\.jsonl:2: question id 'a' was used at .*questions\.jsonl:1"):
        read_questions(data_of(tmp_path, [row("a"), row("a", "other?")], OTHER))


def test_a_question_on_both_sides_is_named(tmp_path):
    with pytest.raises(DataError, match=r"heldout\.jsonl:1: held-out question 'a' is a training question too"):
        read_questions(data_of(tmp_path, [row("a")], [row("a")]))


def test_the_same_text_on_both_sides_is_named(tmp_path):
    with pytest.raises(DataError, match="held-out question 'h' has the same text as training question 'a'"):
        read_questions(data_of(tmp_path, [row("a", "Who is it?")], [row("h", "who  is it?")]))


def test_two_files_are_the_split(tmp_path):
    questions = read_questions(data_of(tmp_path, [row("a", split="train")], [row("h", split="dev")]))
    assert [question.split for question in (*questions.train, *questions.heldout)] == ["train", "heldout"]
    assert questions.split_by == "file"


def test_a_row_whose_split_contradicts_its_file_is_named(tmp_path):
    with pytest.raises(DataError, match="'a' says split heldout, but stands in the train file"):
        read_questions(data_of(tmp_path, [row("a", split="dev")], OTHER))


def test_the_rows_own_splits_are_used_where_some_are_heldout(tmp_path):
    rows = [row("a", split="train"), row("b", split="test"), row("c", split="train")]
    questions = read_questions(data_of(tmp_path, rows))
    assert [question.id for question in questions.train] == ["a", "c"]
    assert [(question.id, question.split) for question in questions.heldout] == [("b", "heldout")]
    with pytest.raises(DataError, match="'d' has no split while others are held-out"):
        read_questions(data_of(tmp_path, [*rows, row("d")]))


def test_one_file_is_split_by_the_hash_of_the_id_alone(tmp_path):
    rows = [row(f"q{number}") for number in range(200)]
    questions = read_questions(data_of(tmp_path, rows, heldout_share=0.2))
    heldout = [f"q{number}" for number in range(200) if hash_share(f"q{number}") < 0.2]
    assert [question.id for question in questions.heldout] == heldout
    assert len(questions.train) + len(questions.heldout) == 200
    assert 20 < len(heldout) < 60
    assert {question.split for question in questions.heldout} == {"heldout"}
    more = read_questions(data_of(tmp_path, [row("new"), *rows], heldout_share=0.2))
    assert {question.id for question in more.heldout} - {"new"} == set(heldout)


def test_questions_of_one_text_are_on_one_side(tmp_path):
    rows = [row(f"q{number}", f"Same text {number // 4}?") for number in range(80)]
    questions = read_questions(data_of(tmp_path, rows, heldout_share=0.5))
    assert not {question.text for question in questions.train} & {question.text for question in questions.heldout}


def test_a_side_without_questions_is_an_error(tmp_path):
    with pytest.raises(DataError, match="all 1 usable questions are on one side"):
        read_questions(data_of(tmp_path, [row("a")]))
    with pytest.raises(DataError, match="no usable question"):
        read_questions(data_of(tmp_path, [], []))


def test_limits_keep_the_first_by_hash_and_count_the_others(tmp_path):
    rows = [row(f"q{number}") for number in range(10)]
    questions = read_questions(data_of(tmp_path, rows, OTHER, max_train_questions=3))
    first = sorted((f"q{number}" for number in range(10)), key=hash_share)[:3]
    assert [question.id for question in questions.train] == sorted(first)
    assert questions.set_aside == {f"q{number}" for number in range(10)} - set(first)
    assert questions.report.ignored["over the limit of questions"].count == 7
    assert questions.to_json()["set_aside"] == 7


def test_fields_that_are_not_read_are_counted(tmp_path):
    questions = read_questions(data_of(tmp_path, [row("a", steps=[])], OTHER))
    assert questions.report.unused_fields == {"steps": 1}


def test_a_missing_file_is_one_line(tmp_path):
    data = FilesData(kind="files", documents=tmp_path, questions=tmp_path / "none.jsonl")
    with pytest.raises(DataError, match=r"none\.jsonl: no such file"):
        read_questions(data)


def test_questions_may_be_a_tsv_file(tmp_path):
    path = tmp_path / "q.tsv"
    path.write_text("a\tWho?\tPaul\n")
    data = FilesData(
        kind="files", documents=tmp_path, questions=path, heldout_questions=rows_file(tmp_path / "h.jsonl", OTHER)
    )
    assert read_questions(data).train == (Question("a", "Who?", ("Paul",), "train"),)
