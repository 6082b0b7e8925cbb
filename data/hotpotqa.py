"""HotpotQA as data of a run: documents, and two-hop questions with answers and gold evidence.

Reads either a folder with ``passages.jsonl`` {id, title, text} and ``questions.train.jsonl``, ``questions.dev.jsonl``
{id, question, answers, type, supporting}, or two files of the official distractor setting (JSON, with ``context`` and
``supporting_facts``). Their paragraphs are pooled: each question is asked over all of them. Dev questions become the
held-out ones.

Official files: a paragraph is one document, named by the hash of its title and text; evidence is the supporting
sentence. A supporting fact whose sentence is not in its paragraph (there are some) is counted, and the whole paragraph
is its evidence.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from agentic_r.config import FilesData
from agentic_r.corpus.folder import write_folder
from agentic_r.corpus.questions import hash_share, read_questions
from agentic_r.corpus.readers import read_documents
from agentic_r.corpus.report import ReadingReport
from agentic_r.errors import AgenticRError, DataError
from agentic_r.types import Document, Evidence, Question, Skipped, Split

_Title = Annotated[str, Field(min_length=1)]


class _Official(BaseModel):
    """One question of the official distractor files."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    id: str = Field(alias="_id", min_length=1)
    question: str = Field(min_length=1)
    answer: str = Field(min_length=1)
    type: str = ""
    supporting_facts: tuple[tuple[_Title, int], ...]
    context: tuple[tuple[_Title, tuple[str, ...]], ...]


@dataclass(slots=True)
class HotpotData:
    """What goes into the folder; documents by id."""

    documents: dict[str, Document] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)


def read_folder(source: Path) -> HotpotData:
    """Read a folder of passages and questions.

    Raises:
        DataError: a file is missing or a row cannot be used; names file and line.
    """
    files = FilesData(
        kind="files",
        documents=source / "passages.jsonl",
        questions=source / "questions.train.jsonl",
        heldout_questions=source / "questions.dev.jsonl",
    )
    documents = {item.document.id: item.document for item in read_documents(files, report=ReadingReport())}
    found = read_questions(files)
    return HotpotData(documents, [*found.train, *found.heldout])


def read_official(train: Path, dev: Path) -> HotpotData:
    """Read two files of the official distractor setting.

    Raises:
        DataError: a file is missing or is not such a file.
    """
    data = HotpotData()
    splits: tuple[tuple[Path, Split], ...] = ((train, "train"), (dev, "heldout"))
    for path, split in splits:
        for row in _read_official(path):
            _add(row, split, data)
    return data


def _read_official(path: Path) -> Iterator[_Official]:
    try:
        rows = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; give a HotpotQA distractor file") from None
    except (ValueError, IsADirectoryError) as error:
        raise DataError(f"{path}: not JSON ({error}); give a HotpotQA distractor file") from None
    if not isinstance(rows, list):
        raise DataError(f"{path}: expected a list of questions, found a {type(rows).__name__}")
    adapter = TypeAdapter(_Official)
    for number, row in enumerate(rows):
        try:
            yield adapter.validate_python(row)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise DataError(
                f"{path}: question {number} (from 0): {place}: {first['msg']}; give an unchanged file"
            ) from None


def _add(row: _Official, split: Split, data: HotpotData) -> None:
    paragraphs: dict[str, tuple[Document, tuple[str, ...]]] = {}
    for title, sentences in row.context:
        text = "".join(sentences).strip()
        if text:
            document = Document(_document_id(title, text), title, text)
            paragraphs[title] = (data.documents.setdefault(document.id, document), sentences)
    evidence: list[Evidence] = []
    for title, number in row.supporting_facts:
        if title not in paragraphs:
            data.skipped.append(Skipped(f"{row.id}: {title}", "supporting paragraph is not in the context"))
            continue
        document, sentences = paragraphs[title]
        sentence = sentences[number].strip() if 0 <= number < len(sentences) else ""
        if not sentence:
            data.skipped.append(Skipped(f"{row.id}: {title} {number}", "supporting sentence is not in its paragraph"))
        evidence.append(Evidence(document.id, sentence))
    if evidence:
        data.questions.append(
            Question(row.id, row.question, (row.answer,), split, row.type, tuple(dict.fromkeys(evidence)))
        )
    else:
        data.skipped.append(Skipped(row.id, "question without supporting facts"))


def _document_id(title: str, text: str) -> str:
    return "hotpotqa-" + hashlib.sha256(f"{title}\0{text}".encode()).hexdigest()[:12]


def limit(
    data: HotpotData, *, train: int | None = None, heldout: int | None = None, documents: int | None = None
) -> HotpotData:
    """Keep so many questions of each split, and so many documents: the gold ones first. Chosen by hash of the id.

    Raises:
        DataError: the kept questions have more gold documents than ``documents``.
    """
    limits: dict[Split, int | None] = {"train": train, "heldout": heldout}
    kept = {key for split, count in limits.items() for key in _first(data.questions, split, count)}
    questions = [question for question in data.questions if question.id in kept]
    left_out = [Skipped(item.id, "over the limit of questions") for item in data.questions if item.id not in kept]
    smaller = replace(data, questions=questions, skipped=[*data.skipped, *left_out])
    if documents is None or documents >= len(data.documents):
        return smaller
    gold = {key for question in questions for key in question.gold_documents}
    if len(gold) > documents:
        raise DataError(f"--documents {documents}: the questions have {len(gold)} gold ones; ask for more")
    order = sorted(data.documents, key=lambda key: (key not in gold, hash_share(key), key))
    chosen = set(order[:documents])
    return replace(smaller, documents={key: item for key, item in data.documents.items() if key in chosen})


def _first(questions: Iterable[Question], split: Split, count: int | None) -> Sequence[str]:
    ids = sorted((item.id for item in questions if item.split == split), key=lambda key: (hash_share(key), key))
    return ids[:count]


def main() -> int:
    """Read the command line, convert, say what became of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, nargs="+", help="the folder; or the official train file and the dev file")
    parser.add_argument("out", type=Path, help="folder to write")
    parser.add_argument("--train", type=int, help="keep so many training questions")
    parser.add_argument("--heldout", type=int, help="keep so many held-out questions")
    parser.add_argument("--documents", type=int, help="keep so many documents, gold ones first")
    options = parser.parse_args()
    if len(options.source) > 2:
        parser.error("give one folder, or the train file and the dev file, then the folder to write")
    try:
        read = read_folder(*options.source) if len(options.source) == 1 else read_official(*options.source)
        made = limit(read, train=options.train, heldout=options.heldout, documents=options.documents)
        counts = write_folder(
            options.out, documents=made.documents.values(), questions=made.questions, skipped=made.skipped
        )
    except AgenticRError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{options.out}: {counts.line()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
