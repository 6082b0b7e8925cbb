import json
import subprocess
import sys

from agentic_r.config import FilesData, PassagesConfig
from agentic_r.corpus.check import check_data


def write(path, rows):
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def check(folder, documents, questions, *, heldout=None, max_words=100, **settings):
    heldout = heldout or [{"id": "h", "question": "held?", "answers": ["word"]}]
    data = FilesData(
        kind="files",
        documents=write(folder / "docs.jsonl", documents),
        questions=write(folder / "questions.jsonl", questions),
        heldout_questions=write(folder / "heldout.jsonl", heldout),
        **settings,
    )
    return check_data(data, PassagesConfig(max_words=max_words))


DOCUMENTS = [{"id": f"d{number}", "text": f"word number {number}"} for number in range(25)]
QUESTION = {"id": "q", "question": "which?", "answers": ["number 7"]}


def test_usable_files_give_no_finding(tmp_path):
    assert check(tmp_path, DOCUMENTS, [QUESTION]) == []


def test_missing_files_are_errors_each(tmp_path):
    data = FilesData(kind="files", documents=tmp_path / "docs", questions=tmp_path / "q.jsonl")
    found = check_data(data, PassagesConfig())
    assert [line.split(":")[0] for line in found] == ["error", "error"]
    assert "q.jsonl: no such file" in found[0]
    assert "docs: no such file or folder" in found[1]


def test_all_faults_are_listed_errors_first(tmp_path):
    documents = [
        *DOCUMENTS,
        "{",
        {"id": "d1", "text": "another"},
        {"id": "e", "text": " "},
        {"id": "f", "text": "Word number 2"},
    ]
    questions = [QUESTION, {"id": "r", "question": "r?", "answers": []}]
    found = check(tmp_path, documents, questions)
    assert [line.split(":")[0] for line in found] == ["error"] * 3 + ["warning"] * 2
    assert "1 questions cannot be used (no answers; expected at least one in answers, " in found[0]
    assert f": r at {tmp_path}/questions.jsonl:2; correct them, or set data.broken_lines to skip" in found[0]
    assert "1 documents cannot be used (not JSON; Expecting property name" in found[1]
    assert f"): {tmp_path}/docs.jsonl:26; correct them" in found[1]
    assert "1 rows use an id again with another text: d1 at" in found[2]
    assert "1 documents are empty: e at" in found[3]
    assert "1 documents repeat a text: f at" in found[4]


def test_faults_that_the_configuration_tolerates_are_warnings(tmp_path):
    documents = [*DOCUMENTS, "{", {"id": "d1", "text": "another"}]
    found = check(tmp_path, documents, [QUESTION], broken_lines="skip", conflicting_ids="first")
    assert [line.split(":")[0] for line in found] == ["warning", "warning"]


def test_evidence_that_is_absent_or_wrong_is_an_error(tmp_path):
    questions = [
        {**QUESTION, "id": "a", "question": "a?", "supporting": ["d1", "nowhere"]},
        {**QUESTION, "id": "b", "question": "b?", "evidence": [{"document_id": "d2", "text": "absent"}]},
        {**QUESTION, "id": "c", "question": "c?", "supporting": ["d3#0", "d3#1"]},
    ]
    found = check(tmp_path, DOCUMENTS, questions)
    errors = "\n".join(found)
    assert "error: 2 evidence ids are not in the corpus: a names nowhere, c names d3#1; correct them" in errors
    assert "error: 1 pieces of evidence are wrong: question b: document 'd2' does not contain 'absent'; cor" in errors
    assert any(line.startswith("warning: 1 of 4 questions name no evidence: h") for line in found)


def test_questions_without_an_answer_bearing_passage_are_a_warning(tmp_path):
    [line] = check(tmp_path, DOCUMENTS, [{**QUESTION, "answers": ["yes"]}])
    assert line.startswith("warning: 1 of 2 questions without evidence have no passage that holds an answer")


def test_a_small_corpus_and_long_documents_are_warnings(tmp_path):
    found = check(tmp_path, [{"id": "d", "text": "word number 7 is here"}], [QUESTION], max_words=5)
    assert len(found) == 1
    assert "only 1 passages" in found[0]
    found = check(tmp_path, [*DOCUMENTS, {"id": "d", "text": "word " * 9}], [QUESTION], max_words=5)
    assert len(found) == 1
    assert "1 of 26 documents have more than 5 words" in found[0]


def test_a_corpus_without_documents_is_an_error(tmp_path):
    assert any("no usable document among 1 read" in line for line in check(tmp_path, ["{"], [QUESTION]))


def test_checking_imports_no_torch():
    code = (
        "import sys, agentic_r.corpus.check; sys.exit(any(m in sys.modules for m in ('torch', 'datasets', 'pyarrow')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
