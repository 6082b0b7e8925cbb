"""HotpotQA in both of its shapes."""

import json

import pytest

from agentic_r.config import FilesData
from agentic_r.corpus.folder import write_folder
from agentic_r.corpus.questions import read_questions
from agentic_r.errors import DataError
from agentic_r.types import Evidence

OFFICIAL = {
    "_id": "a",
    "question": "Who built the bridge in Oslo?",
    "answer": "Ann",
    "type": "bridge",
    "level": "easy",
    "supporting_facts": [["Oslo", 1], ["Bridge", 0], ["Bridge", 7]],
    "context": [["Oslo", ["Oslo is a city.", " It has a bridge."]], ["Bridge", ["Ann built it."]], ["Fog", ["Fog."]]],
}


@pytest.fixture
def read_official(script, tmp_path):
    def read(train, dev):
        for name, rows in (("train", train), ("dev", dev)):
            (tmp_path / f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")
        return script("hotpotqa").read_official(tmp_path / "train.json", tmp_path / "dev.json")

    return read


def test_paragraphs_of_all_questions_are_pooled_once(read_official):
    data = read_official([OFFICIAL], [{**OFFICIAL, "_id": "b", "question": "And who else?"}])
    assert sorted(document.title for document in data.documents.values()) == ["Bridge", "Fog", "Oslo"]
    assert [(question.id, question.split) for question in data.questions] == [("a", "train"), ("b", "heldout")]


def test_evidence_is_the_supporting_sentence_as_it_stands_in_the_document(read_official):
    data = read_official([OFFICIAL], [])
    oslo, bridge = (
        next(key for key, item in data.documents.items() if item.title == title) for title in ("Oslo", "Bridge")
    )
    assert data.documents[oslo].text == "Oslo is a city. It has a bridge."
    assert data.questions[0].evidence[:2] == (Evidence(oslo, "It has a bridge."), Evidence(bridge, "Ann built it."))


def test_a_supporting_fact_past_its_paragraph_is_counted_and_the_paragraph_stands_for_it(read_official):
    data = read_official([OFFICIAL], [])
    assert data.questions[0].evidence[2].text == ""
    assert [(item.id, item.reason) for item in data.skipped] == [
        ("a: Bridge 7", "supporting sentence is not in its paragraph")
    ]


def test_a_question_whose_facts_are_all_elsewhere_is_left_out_and_listed(read_official):
    data = read_official([{**OFFICIAL, "supporting_facts": [["Nowhere", 0]]}], [])
    assert not data.questions
    assert [item.reason for item in data.skipped] == [
        "supporting paragraph is not in the context",
        "question without supporting facts",
    ]


@pytest.mark.parametrize(
    ("row", "text"), [({"_id": "a"}, r"question 0 \(from 0\): question: Field required"), ("x", "question 0")]
)
def test_a_file_of_another_shape_is_named(read_official, row, text):
    with pytest.raises(DataError, match=rf"train\.json: {text}"):
        read_official([row], [])


def test_limits_keep_questions_by_hash_and_gold_documents_first(read_official, script):
    train = [{**OFFICIAL, "_id": f"t{n}", "question": f"{n}?", "supporting_facts": [["Oslo", 1]]} for n in range(9)]
    data = read_official(train, [])
    small = script("hotpotqa").limit(data, train=2, documents=1)
    assert len(small.questions) == 2
    assert [document.title for document in small.documents.values()] == ["Oslo"]
    assert sum(item.reason == "over the limit of questions" for item in small.skipped) == 7
    with pytest.raises(DataError, match="--documents 0: the questions have 1 gold ones"):
        script("hotpotqa").limit(data, documents=0)


def test_what_is_written_is_read_as_it_was(read_official, tmp_path):
    data = read_official([OFFICIAL], [{**OFFICIAL, "_id": "b", "question": "And who else?"}])
    write_folder(tmp_path / "out", documents=data.documents.values(), questions=data.questions, skipped=data.skipped)
    files = FilesData(
        kind="files", documents=tmp_path / "out" / "documents.jsonl", questions=tmp_path / "out" / "questions.jsonl"
    )
    found = read_questions(files)
    assert [*found.train, *found.heldout] == data.questions
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["skipped"] == {"supporting sentence is not in its paragraph": ["a: Bridge 7", "b: Bridge 7"]}


@pytest.mark.shared
def test_the_real_folder_keeps_every_question_and_passage(script, shared_data):
    data = script("hotpotqa").read_folder(shared_data / "hotpotqa")
    assert len(data.documents) == 13_339
    assert sum(question.split == "heldout" for question in data.questions) == 300
    assert all(key in data.documents for question in data.questions for key in question.gold_documents)
