"""Demonstrations for the warm start: scripted attempts at training questions, as JSON Lines.

They are of the run's own training questions (a file), or a set of their own (a folder with questions and documents),
from which the search protocol is learned over another corpus. Owns their check against the questions, never one of a
held-out question, and against the corpus.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentic_r.artifacts.fingerprint import same_text_key
from agentic_r.artifacts.jsonl import JsonObject
from agentic_r.artifacts.records import from_json, write_records
from agentic_r.config import FilesData
from agentic_r.corpus.folder import DEMONSTRATIONS, DOCUMENTS, QUESTIONS
from agentic_r.corpus.gold import complete_evidence, evidence_passages
from agentic_r.corpus.questions import QuestionSet, read_marked_questions
from agentic_r.corpus.report import Fault, Listed, ReadingReport
from agentic_r.corpus.rows import Number, check_unicode, read_rows
from agentic_r.corpus.store import Corpus
from agentic_r.errors import DataError
from agentic_r.types import Demonstration, Evidence, Question

__all__ = [
    "DemonstrationSet",
    "locate_evidence",
    "own_files",
    "read_demonstrations",
    "read_own_questions",
    "write_demonstrations",
]

_QUESTION_SET_ASIDE = "its question is over the limit of questions"


@dataclass(frozen=True, slots=True)
class DemonstrationSet:
    """Demonstrations in file order, and what was left out of the file."""

    demonstrations: tuple[Demonstration, ...]
    report: ReadingReport


def write_demonstrations(path: Path, demonstrations: Iterable[Demonstration]) -> int:
    """Write them atomically; return how many."""
    return write_records(path, demonstrations)


def own_files(data: FilesData) -> FilesData | None:
    """Return the files of a demonstration set that stands on its own; None where there is no such set."""
    folder = data.demonstrations
    if folder is None or not folder.is_dir():
        return None
    return FilesData(
        kind="files",
        documents=folder / DOCUMENTS,
        questions=folder / QUESTIONS,
        demonstrations=folder / DEMONSTRATIONS,
        broken_lines=data.broken_lines,
        conflicting_ids=data.conflicting_ids,
    )


def read_own_questions(own: FilesData, *, heldout: Sequence[Question]) -> QuestionSet:
    """Read the questions of a demonstration set that stands on its own.

    Raises:
        DataError: a question cannot be used, or one for training has the text of one in ``heldout`` (the run's).
    """
    questions = read_marked_questions(own.questions, broken_lines=own.broken_lines)
    measured = {same_text_key(question.text): question.id for question in heldout}
    for question in questions.train:
        same = measured.get(same_text_key(question.text))
        if same is not None:
            raise DataError(
                f"{own.questions}: demonstration question {question.id!r} has the text of held-out question {same!r}; "
                "remove one of them"
            )
    return questions


def locate_evidence(demonstrations: Iterable[Demonstration], corpus: Corpus) -> dict[Evidence, tuple[str, ...]]:
    """Return the ids of the passages that hold each piece of evidence the demonstrations show.

    Raises:
        DataError: a demonstration shows what is not in the corpus; names it.
    """
    located: dict[Evidence, tuple[str, ...]] = {}
    for demonstration in demonstrations:
        for evidence in (item for step in demonstration.steps for item in step.shows):
            if evidence not in located:
                located[evidence] = _locate(evidence, demonstration, corpus)
    return located


def _locate(evidence: Evidence, demonstration: Demonstration, corpus: Corpus) -> tuple[str, ...]:
    document = corpus.documents.get(evidence.document_id)
    if document is None:
        raise DataError(
            f"demonstration {demonstration.id!r}: shows document {evidence.document_id!r}, which is not in the corpus; "
            "correct the id, or add the document"
        )
    try:
        completed = complete_evidence(evidence, document)
    except Fault as fault:
        raise DataError(f"demonstration {demonstration.id!r}: {fault}; correct what it shows") from None
    return tuple(item.id for item in evidence_passages(completed, document, corpus.passages_of(document.id)))


def read_demonstrations(path: Path, questions: QuestionSet) -> DemonstrationSet:
    """Read demonstrations of the training questions in ``questions``.

    Those of questions that a limit left out are counted and left out too.

    Raises:
        DataError: a line is broken (unless the questions were read with "skip"), an id comes twice, or a
            demonstration is of an unknown or a held-out question.
    """
    report = ReadingReport(broken_lines=questions.report.broken_lines)
    train = {question.id for question in questions.train}
    heldout = {question.id for question in questions.heldout}
    found: dict[str, tuple[Demonstration, str]] = {}
    for row in read_rows(path, report=report):
        try:
            demonstration = from_json(Demonstration, _with_numbers(row.values), where=row.place)
            check_unicode(*_texts(demonstration))
        except DataError as error:
            report.reject(Fault("not a demonstration", str(error).removeprefix(f"{row.place}: ")), place=row.place)
            continue
        except Fault as fault:
            report.reject(fault, place=row.place)
            continue
        asked = demonstration.question_id
        if asked in questions.set_aside:
            report.ignore(_QUESTION_SET_ASIDE, Listed(row.place, demonstration.id, asked))
        elif asked in heldout:
            raise DataError(f"{row.place}: demonstration of the held-out question {asked!r}; remove it")
        elif asked not in train:
            raise DataError(f"{row.place}: demonstration of the unknown question {asked!r}; correct its question_id")
        elif demonstration.id in found:
            earlier = found[demonstration.id][1]
            raise DataError(
                f"{row.place}: demonstration id {demonstration.id!r} was used at {earlier}; make ids unique"
            )
        else:
            found[demonstration.id] = (demonstration, row.place)
    return DemonstrationSet(tuple(item for item, _ in found.values()), report)


def _with_numbers(values: JsonObject) -> JsonObject:
    """Undo the reader's keeping of numbers as they are written: a demonstration's own fields say what is a number."""

    def plain(value: object) -> object:
        if isinstance(value, Number):
            return json.loads(value)
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        return [plain(item) for item in value] if isinstance(value, list) else value

    return {key: plain(value) for key, value in values.items()}


def _texts(demonstration: Demonstration) -> list[str]:
    steps = [text for step in demonstration.steps for text in (step.query, step.thought)]
    shown = [item.text for step in demonstration.steps for item in step.shows]
    return [demonstration.id, demonstration.question_id, demonstration.answer, *steps, *shown]
