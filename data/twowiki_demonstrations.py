"""Demonstrations from questions whose steps are known, such as those of 2WikiMultihopQA with sub-questions and answers.

Reads a folder with ``passages.jsonl`` {id, title, text} and ``questions.train.jsonl`` {id, question, answers, type,
supporting, steps: [{query, answer}]}. Writes a demonstration set that stands on its own (documents.jsonl,
questions.jsonl, demonstrations.jsonl), for ``data.demonstrations`` of a run over this corpus or any other.

A step's query is its sub-question, its thought the sub-answer. Which supporting passage it shows is not in the data:
each step gets another one, so that titles named in the query and words shared with query and sub-answer are most.
"""

import argparse
import itertools
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from agentic_r.config import FilesData
from agentic_r.corpus.folder import write_folder
from agentic_r.corpus.readers import read_documents
from agentic_r.corpus.report import ReadingReport
from agentic_r.corpus.rows import Row, read_rows
from agentic_r.errors import AgenticRError, DataError
from agentic_r.types import Demonstration, DemonstrationStep, Document, Evidence, Question, Skipped

_LABEL = re.compile(r"^(?:sub-?)?(?:question|answer)\s*\d*\s*:\s*", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_WORD = re.compile(r"\w+")


class _Step(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    query: str = Field(min_length=1)
    answer: str = Field(min_length=1)


class _Asked(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str = Field(min_length=1)
    question: str = Field(min_length=1)
    answers: tuple[str, ...] = Field(min_length=1)
    type: str = ""
    supporting: tuple[str, ...] = ()
    steps: tuple[_Step, ...] = ()
    split: str = "train"


@dataclass(frozen=True, slots=True)
class DemonstrationData:
    """What goes into the folder."""

    documents: tuple[Document, ...]
    questions: tuple[Question, ...]
    demonstrations: tuple[Demonstration, ...]
    skipped: tuple[Skipped, ...]


def convert(source: Path, *, max_steps: int | None = None, limit: int | None = None) -> DemonstrationData:
    """Script one good attempt for each training question with steps.

    Args:
        source: The folder.
        max_steps: Leave out questions with more steps.
        limit: Stop after so many demonstrations.

    Raises:
        DataError: a file is missing or a row cannot be used; names file and line.
    """
    asked_file = source / "questions.train.jsonl"
    files = FilesData(kind="files", documents=source / "passages.jsonl", questions=asked_file)
    documents = {item.document.id: item.document for item in read_documents(files, report=ReadingReport())}
    questions: list[Question] = []
    demonstrations: list[Demonstration] = []
    skipped: list[Skipped] = []
    for row in read_rows(asked_file, report=ReadingReport()):
        asked = _asked(row)
        reason = _unusable(asked, documents, max_steps)
        if limit is not None and len(demonstrations) >= limit:
            reason = f"over the limit of {limit} demonstrations"
        if reason:
            skipped.append(Skipped(asked.id, reason))
            continue
        shown = choose_passages(asked.steps, [documents[key] for key in asked.supporting])
        steps = tuple(_step(step, document) for step, document in zip(asked.steps, shown, strict=True))
        evidence = tuple(Evidence(key) for key in asked.supporting)
        questions.append(Question(asked.id, asked.question, asked.answers, "train", asked.type, evidence))
        demonstrations.append(Demonstration(f"demonstration-{asked.id}", asked.id, steps, asked.answers[0]))
    return DemonstrationData(tuple(documents.values()), tuple(questions), tuple(demonstrations), tuple(skipped))


def choose_passages(steps: Sequence[_Step], supporting: Sequence[Document]) -> list[Document]:
    """Return the passage that each step shows; all different where there are enough."""
    fit = [[_fit(step, document) for document in supporting] for step in steps]
    if len(steps) > len(supporting):
        return [supporting[row.index(max(row))] for row in fit]
    orders = itertools.permutations(range(len(supporting)), len(steps))
    best = max(orders, key=lambda order: sum(row[column] for row, column in zip(fit, order, strict=True)))
    return [supporting[column] for column in best]


def _fit(step: _Step, document: Document) -> float:
    """Share of the title's words that the query names, plus share of the step's words that the passage holds."""
    title, said = _words(document.title), _words(f"{step.query} {step.answer}")
    named = len(title & _words(step.query)) / max(len(title), 1)
    return named + len(said & (title | _words(document.text))) / max(len(said), 1)


def _step(step: _Step, document: Document) -> DemonstrationStep:
    """One search; its evidence is the sentence with most words of the step, since passages may be cut into pieces."""
    query, thought = _LABEL.sub("", step.query), _LABEL.sub("", step.answer)
    said = _words(f"{query} {thought}")
    sentence = max(_SENTENCE_END.split(document.text.strip()), key=lambda text: len(_words(text) & said))
    return DemonstrationStep(query=query, shows=(Evidence(document.id, sentence),), thought=thought)


def _unusable(asked: _Asked, documents: Mapping[str, Document], max_steps: int | None) -> str:
    if not asked.steps:
        return "no steps"
    if not asked.supporting:
        return "no supporting passages"
    if not all(key in documents for key in asked.supporting):
        return "a supporting passage is not among the passages"
    if max_steps is not None and len(asked.steps) > max_steps:
        return f"more than {max_steps} steps"
    return ""


def _asked(row: Row) -> _Asked:
    try:
        asked = _Asked.model_validate(row.values)
    except ValueError as error:
        raise DataError(f"{row.place}: {' '.join(str(error).split())}; correct the row") from None
    if asked.split != "train":
        raise DataError(f"{row.place}: question {asked.id!r} is of split {asked.split!r}; demonstrations need train")
    return asked


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def main() -> int:
    """Read the command line, convert, say what became of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="folder with passages.jsonl and questions.train.jsonl")
    parser.add_argument("out", type=Path, help="folder to write")
    parser.add_argument("--max-steps", type=int, help="leave out questions with more steps")
    parser.add_argument("--limit", type=int, help="stop after so many demonstrations")
    options = parser.parse_args()
    try:
        made = convert(options.source, max_steps=options.max_steps, limit=options.limit)
        counts = write_folder(
            options.out,
            documents=made.documents,
            questions=made.questions,
            demonstrations=made.demonstrations,
            skipped=made.skipped,
        )
    except AgenticRError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{options.out}: {counts.line()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
