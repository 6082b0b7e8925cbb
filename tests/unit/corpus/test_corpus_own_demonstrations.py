"""Demonstration sets that bring their own documents and questions."""

import json

import pytest

from agentic_r.config import FilesData, PassagesConfig
from agentic_r.corpus.check import check_data, examine_data
from agentic_r.corpus.demonstrations import locate_evidence, own_files, read_demonstrations, read_own_questions
from agentic_r.corpus.folder import write_folder
from agentic_r.corpus.passages import split_document
from agentic_r.corpus.readers import read_documents
from agentic_r.corpus.report import ReadingReport
from agentic_r.corpus.store import make_corpus
from agentic_r.errors import DataError
from agentic_r.types import Demonstration, DemonstrationStep, Document, Evidence, Question

DOCUMENT = Document("far", "Far", "one two three. four five six. seven eight nine.")
SHOWN = DemonstrationStep("what?", (Evidence("far", "four five six."),), "so")
DEMONSTRATION = Demonstration("m", "s", (SHOWN,), "six")
OWN = Question("s", "Set question?", ("six",), "train")


def write_set(folder, *, questions=(OWN,), demonstrations=(DEMONSTRATION,)):
    write_folder(folder, documents=[DOCUMENT], questions=questions, demonstrations=demonstrations)
    return folder


@pytest.fixture
def data(tmp_path):
    rows = [{"id": f"d{number}", "text": f"text {number}"} for number in range(25)]
    asked = [
        {"id": "t", "question": "t?", "answers": ["text 1"]},
        {"id": "h", "question": "h?", "answers": ["text 2"], "split": "dev"},
    ]
    asked[0]["split"] = "train"
    for name, group in (("d", rows), ("q", asked)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in group))
    return FilesData(
        kind="files",
        documents=tmp_path / "d.jsonl",
        questions=tmp_path / "q.jsonl",
        demonstrations=write_set(tmp_path / "set"),
    )


def corpus_of(*documents, max_words):
    passages = {piece.id: piece for item in documents for piece in split_document(item, max_words=max_words)}
    return make_corpus({item.id: item for item in documents}, passages, fingerprint="f")


def test_a_file_is_no_set_of_its_own(data, tmp_path):
    file = data.model_copy(update={"demonstrations": tmp_path / "set" / "demonstrations.jsonl"})
    assert own_files(file) is None
    assert own_files(data).documents == tmp_path / "set" / "documents.jsonl"


def test_questions_of_a_set_may_all_be_for_training(data):
    questions = read_own_questions(own_files(data), heldout=[])
    assert questions.train == (OWN,)
    assert read_demonstrations(own_files(data).demonstrations, questions).demonstrations == (DEMONSTRATION,)


def test_a_set_may_hold_heldout_questions_that_no_demonstration_is_of(tmp_path, data):
    measured = Question("x", "Measured?", ("y",), "heldout")
    write_set(tmp_path / "set", questions=(OWN, measured))
    questions = read_own_questions(own_files(data), heldout=[measured])
    assert questions.train == (OWN,)
    write_set(tmp_path / "set", questions=(OWN, measured), demonstrations=(Demonstration("m", "x", (), "y"),))
    with pytest.raises(DataError, match="demonstration of the held-out question 'x'"):
        read_demonstrations(own_files(data).demonstrations, questions)


def test_a_set_that_holds_a_measured_question_is_refused(data):
    measured = Question("h", "set  QUESTION?", ("y",), "heldout")
    with pytest.raises(DataError, match="'s' has the text of held-out question 'h'"):
        read_own_questions(own_files(data), heldout=[measured])


def test_evidence_is_located_in_the_passages_that_hold_it():
    corpus = corpus_of(DOCUMENT, max_words=3)
    assert locate_evidence([DEMONSTRATION], corpus) == {SHOWN.shows[0]: ("far#1",)}


@pytest.mark.parametrize(
    ("evidence", "text"),
    [
        (Evidence("gone"), "demonstration 'm': shows document 'gone', which is not in the corpus"),
        (Evidence("far", "ten"), "demonstration 'm': document 'far' does not contain 'ten'"),
    ],
)
def test_evidence_that_is_not_there_names_its_demonstration(evidence, text):
    wrong = Demonstration("m", "s", (DemonstrationStep("q", (evidence,), "t"),), "a")
    with pytest.raises(DataError, match=text):
        locate_evidence([wrong], corpus_of(DOCUMENT, max_words=3))


def test_check_counts_the_set_and_reports_what_is_wrong_with_it(data, tmp_path):
    found = examine_data(data, PassagesConfig())
    assert found.findings == ()
    assert (found.documents, found.train_questions, found.heldout_questions, found.demonstrations) == (25, 1, 1, 1)
    wrong = Demonstration("m", "s", (DemonstrationStep("q", (Evidence("gone"),), "t"),), "a")
    write_set(tmp_path / "set", demonstrations=(wrong,))
    assert check_data(data, PassagesConfig()) == [
        "error: demonstration 'm': shows document 'gone', which is not in the corpus; "
        "correct the id, or add the document"
    ]


def test_a_set_inside_the_documents_folder_is_not_read_as_documents(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("a")
    files = FilesData(
        kind="files",
        documents=tmp_path / "docs",
        questions=tmp_path / "q.jsonl",
        demonstrations=write_set(tmp_path / "docs" / "set"),
    )
    assert [item.document.id for item in read_documents(files, report=ReadingReport())] == ["a.txt"]
