"""Demonstrations from questions with steps."""

import pytest

from agentic_r.config import FilesData
from agentic_r.corpus.demonstrations import own_files, read_demonstrations, read_own_questions
from agentic_r.corpus.folder import write_folder
from agentic_r.errors import DataError

PASSAGES = [
    {"id": "film", "title": "Red Dawn (film)", "text": "Red Dawn is a film. It was directed by Ann Lee of Oslo."},
    {"id": "ann", "title": "Ann Lee", "text": "Ann Lee directed Red Dawn, a film. She died in Bergen."},
    {"id": "other", "title": "Oslo", "text": "Oslo is a city."},
]
QUESTION = {
    "id": "q1",
    "question": "Where did the director of Red Dawn die?",
    "answers": ["Bergen"],
    "type": "compositional",
    "supporting": ["ann", "film"],
    "split": "train",
    "steps": [
        {"query": "Sub-question: Who directed Red Dawn (film)?", "answer": "Sub-answer: Ann Lee directed it."},
        {"query": "Where did Ann Lee die?", "answer": "Ann Lee died in Bergen."},
    ],
}


@pytest.fixture
def convert(script, write_rows, tmp_path):
    def run(questions, **options):
        write_rows(tmp_path / "source" / "passages.jsonl", PASSAGES)
        write_rows(tmp_path / "source" / "questions.train.jsonl", questions)
        return script("twowiki_demonstrations").convert(tmp_path / "source", **options)

    return run


def test_each_step_shows_another_passage_the_one_its_query_names(convert):
    [demonstration] = convert([QUESTION]).demonstrations
    assert [step.shows[0].document_id for step in demonstration.steps] == ["film", "ann"]


def test_a_step_shows_the_sentence_with_most_of_its_words(convert):
    [demonstration] = convert([QUESTION]).demonstrations
    assert [step.shows[0].text for step in demonstration.steps] == [
        "It was directed by Ann Lee of Oslo.",
        "She died in Bergen.",
    ]


def test_labels_before_queries_and_answers_are_removed(convert):
    [demonstration] = convert([QUESTION]).demonstrations
    assert demonstration.steps[0].query == "Who directed Red Dawn (film)?"
    assert demonstration.steps[0].thought == "Ann Lee directed it."
    assert demonstration.answer == "Bergen"


def test_questions_left_out_are_listed_with_their_reason(convert):
    rows = [
        QUESTION,
        {**QUESTION, "id": "q2", "steps": []},
        {**QUESTION, "id": "q3", "supporting": ["ann", "gone"]},
        {**QUESTION, "id": "q4", "steps": QUESTION["steps"] * 2},
    ]
    made = convert(rows, max_steps=2)
    assert [(item.id, item.reason) for item in made.skipped] == [
        ("q2", "no steps"),
        ("q3", "a supporting passage is not among the passages"),
        ("q4", "more than 2 steps"),
    ]
    assert len(made.questions) == len(made.demonstrations) == 1


def test_more_steps_than_passages_may_show_one_twice(convert):
    [demonstration] = convert([{**QUESTION, "supporting": ["ann"]}]).demonstrations
    assert [step.shows[0].document_id for step in demonstration.steps] == ["ann", "ann"]


def test_a_heldout_question_is_refused(convert):
    with pytest.raises(DataError, match=r"questions\.train\.jsonl:1: question 'q1' is of split 'dev'"):
        convert([{**QUESTION, "split": "dev"}])


def test_the_folder_reads_back_as_a_set_of_its_own(convert, tmp_path):
    made = convert([QUESTION])
    counts = write_folder(
        tmp_path / "set", documents=made.documents, questions=made.questions, demonstrations=made.demonstrations
    )
    assert (counts.documents, counts.train_questions, counts.demonstrations) == (3, 1, 1)
    own = own_files(FilesData(kind="files", documents="d", questions="q", demonstrations=tmp_path / "set"))
    questions = read_own_questions(own, heldout=[])
    assert read_demonstrations(own.demonstrations, questions).demonstrations == made.demonstrations


@pytest.mark.shared
def test_every_training_question_of_2wiki_becomes_a_demonstration(script, shared_data):
    made = script("twowiki_demonstrations").convert(shared_data / "2wiki")
    assert len(made.demonstrations) == 400
    assert not made.skipped
    for item, question in zip(made.demonstrations, made.questions, strict=True):
        shown = [step.shows[0].document_id for step in item.steps]
        assert sorted(shown) == sorted(question.gold_documents)  # each supporting passage exactly once
