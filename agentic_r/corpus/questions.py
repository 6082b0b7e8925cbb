"""The user's questions: read, checked, split into training and held-out.

Owns the field names, what makes a question unusable, and that no question is on both sides. Which passages are gold
belongs to ``gold.py``.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from agentic_r.artifacts.fingerprint import same_text_key
from agentic_r.artifacts.jsonl import JsonObject
from agentic_r.config import FilesData
from agentic_r.corpus.report import Fault, Listed, ReadingReport
from agentic_r.corpus.rows import Number, Row, check_unicode, first_field, id_field, read_rows, text_field
from agentic_r.corpus.text import is_empty_text
from agentic_r.errors import DataError
from agentic_r.types import Evidence, Question, Split

__all__ = ["QuestionSet", "hash_share", "read_marked_questions", "read_questions"]

_ID_NAMES = ("id", "_id", "qid", "question_id", "query_id")
_TEXT_NAMES = ("question", "text", "query")
_ANSWER_NAMES = ("answers", "answer", "golden_answers")
_KIND_NAMES = ("type", "kind")
_SUPPORTING_NAMES = ("supporting", "supporting_ids", "gold_passages", "gold_documents")
_DOCUMENT_NAMES = ("document_id", "doc_id", "docid", "id")
_EVIDENCE_NAMES = frozenset((*_DOCUMENT_NAMES, "text", "line"))
_ALL_NAMES = frozenset(
    (*_ID_NAMES, *_TEXT_NAMES, *_ANSWER_NAMES, *_KIND_NAMES, *_SUPPORTING_NAMES, "evidence", "split")
)
_SPLITS: dict[str, Split] = {
    "train": "train",
    "training": "train",
    **dict.fromkeys(("heldout", "held-out", "dev", "development", "valid", "validation", "test", "eval"), "heldout"),
}
_OVER_LIMIT = "over the limit of questions"


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Training and held-out questions in file order.

    ``set_aside`` are the ids left out by ``max_train_questions`` and ``max_heldout_questions``; ``split_by`` says
    what decided the split.
    """

    train: tuple[Question, ...]
    heldout: tuple[Question, ...]
    set_aside: frozenset[str]
    split_by: str
    report: ReadingReport = field(compare=False)

    def to_json(self) -> JsonObject:
        """Return what was read, kept and left out."""
        counts = {"train": len(self.train), "heldout": len(self.heldout), "set_aside": len(self.set_aside)}
        summary = self.report.summary(len(self.train) + len(self.heldout))
        return {"summary": summary, **counts, "split_by": self.split_by, **self.report.to_json()}


@dataclass(frozen=True, slots=True)
class _Placed:
    question: Question
    place: str
    has_split: bool


def read_questions(data: FilesData) -> QuestionSet:
    """Read, check and split the questions of ``data``.

    With ``heldout_questions`` the files are the split; else the rows' own ``split`` where some are held-out; else
    ``heldout_share`` of them by hash of the id, questions of one text together. ``max_*`` keep those first by hash.

    Raises:
        DataError: a question cannot be used (with ``broken_lines`` "stop"), two have one id, training and held-out
            share an id or a text, or one of the two is empty.
    """
    report = ReadingReport(broken_lines=data.broken_lines)
    placed = _read_file(data.questions, report)
    if data.heldout_questions is not None:
        split_by = "file"
        heldout = _of_split(_read_file(data.heldout_questions, report), "heldout", data)
        train = _of_split(placed, "train", data)
    elif any(item.question.split == "heldout" for item in placed):
        split_by = "field"
        train, heldout = _split_by_field(placed)
    else:
        split_by = f"hash of the id, share {data.heldout_share:g}"
        train, heldout = _split_by_hash(placed, data.heldout_share)
    _refuse_overlap(train, heldout)
    _refuse_empty(train, heldout, data, report)
    kept_train = _limit(train, data.max_train_questions, report)
    kept_heldout = _limit(heldout, data.max_heldout_questions, report)
    kept = {item.question.id for item in (*kept_train, *kept_heldout)}
    return QuestionSet(
        train=tuple(item.question for item in kept_train),
        heldout=tuple(item.question for item in kept_heldout),
        set_aside=frozenset(item.question.id for item in (*train, *heldout)) - kept,
        split_by=split_by,
        report=report,
    )


def read_marked_questions(path: Path, *, broken_lines: Literal["stop", "skip"]) -> QuestionSet:
    """Read a file whose rows say themselves which are held-out; the others are for training, and may be all.

    Raises:
        DataError: a question cannot be used (with ``broken_lines`` "stop"), two have one id, or none is for training.
    """
    report = ReadingReport(broken_lines=broken_lines)
    questions = [item.question for item in _read_file(path, report)]
    train = tuple(question for question in questions if question.split == "train")
    if not train:
        raise DataError(f"{path}: no usable training question ({report.reasons()}); give some")
    heldout = tuple(question for question in questions if question.split == "heldout")
    return QuestionSet(train=train, heldout=heldout, set_aside=frozenset(), split_by="field", report=report)


def hash_share(identifier: str) -> float:
    """Return a number in [0, 1) that depends on the id alone."""
    return int.from_bytes(hashlib.sha256(identifier.encode()).digest()[:6], "big") / 2**48


def _read_file(path: Path, report: ReadingReport) -> list[_Placed]:
    placed: dict[str, _Placed] = {}
    for row in read_rows(path, report=report, columns=(_ID_NAMES, _TEXT_NAMES, _ANSWER_NAMES)):
        try:
            item = _question(row)
        except Fault as fault:
            _, identifier = first_field(row.values, _ID_NAMES)
            report.reject(fault, place=row.place, identifier=str(identifier or ""))
            continue
        report.count_unused_fields(row.values, used=_ALL_NAMES)
        earlier = placed.setdefault(item.question.id, item)
        if earlier is not item:
            raise DataError(
                f"{row.place}: question id {item.question.id!r} was used at {earlier.place}; make question ids unique"
            )
    return list(placed.values())


def _question(row: Row) -> _Placed:
    identifier = id_field(row.values, _ID_NAMES)
    _, text = text_field(row.values, _TEXT_NAMES, reason="no question")
    if is_empty_text(text):
        raise Fault("empty question")
    split = row.values.get("split")
    if split is not None and (not isinstance(split, str) or split.lower() not in _SPLITS):
        raise Fault("unknown split", f"{split!r}; expected one of {', '.join(_SPLITS)}")
    _, kind = first_field(row.values, _KIND_NAMES)
    question = Question(
        id=identifier,
        text=text,
        answers=_answers(row),
        split=_SPLITS[split.lower()] if split is not None else "train",
        kind=str(kind or ""),
        evidence=_evidence(row),
    )
    check_unicode(identifier, text, *question.answers, *(item.text for item in question.evidence))
    return _Placed(question, row.place, has_split=split is not None)


def _answers(row: Row) -> tuple[str, ...]:
    name, value = first_field(row.values, _ANSWER_NAMES)
    answers = value if isinstance(value, list) else [value]
    if not name or not answers:
        raise Fault("no answers", f"expected at least one in {', '.join(_ANSWER_NAMES)}")
    for answer in answers:
        if not isinstance(answer, str):
            raise Fault("answer is not text", f"{answer!r} in {name!r}; write it as a string")
        if is_empty_text(answer):
            raise Fault("empty answer", f"in {name!r}")
    return tuple(dict.fromkeys(str(answer) for answer in answers))


def _evidence(row: Row) -> tuple[Evidence, ...]:
    """Return the row's evidence, then its supporting ids (documents or passages) that no evidence names."""
    items = row.values.get("evidence")
    evidence = [_one_evidence(item) for item in _as_list(items, "evidence")]
    name, supporting = first_field(row.values, _SUPPORTING_NAMES)
    named = {item.document_id for item in evidence}
    for identifier in _as_list(supporting, name):
        if not isinstance(identifier, str) or not identifier.strip():
            raise Fault("supporting id is not an id", f"{identifier!r} in {name!r}")
        if identifier not in named:
            evidence.append(Evidence(str(identifier)))
    return tuple(dict.fromkeys(evidence))


def _as_list(value: object, name: str) -> list[object]:
    if value is None:
        return []
    if isinstance(value, list):
        return value
    if isinstance(value, str):
        return [value]
    raise Fault(f"{name} is not a list", f"found a {type(value).__name__}")


def _one_evidence(item: object) -> Evidence:
    if isinstance(item, str):
        return Evidence(str(item))
    if not isinstance(item, dict) or not item.keys() <= _EVIDENCE_NAMES:
        raise Fault("unknown shape of evidence", f"{item!r}; expected document_id with text or line")
    text, line = item.get("text"), item.get("line")
    if text is not None and (not isinstance(text, str) or isinstance(text, Number)):
        raise Fault("text of evidence is not a string", f"{text!r}")
    if line is not None and not (isinstance(line, str) and line.isdecimal() and int(line) > 0):
        raise Fault("line of evidence is not a line number", f"{line!r}; lines count from 1")
    return Evidence(id_field(item, _DOCUMENT_NAMES), text or "", int(line) if line is not None and not text else 0)


def _of_split(placed: list[_Placed], split: Split, data: FilesData) -> list[_Placed]:
    """Give all questions of a file its split, refusing rows that say otherwise."""
    for item in placed:
        if item.has_split and item.question.split != split:
            raise DataError(
                f"{item.place}: question {item.question.id!r} says split {item.question.split}, but stands in the "
                f"{split} file; move it, or remove data.heldout_questions ({data.heldout_questions}) to use "
                "the rows' splits"
            )
    return [replace(item, question=replace(item.question, split=split)) for item in placed]


def _split_by_field(placed: list[_Placed]) -> tuple[list[_Placed], list[_Placed]]:
    for item in placed:
        if not item.has_split:
            raise DataError(
                f"{item.place}: question {item.question.id!r} has no split while others are held-out; give it one"
            )
    train = [item for item in placed if item.question.split == "train"]
    return train, [item for item in placed if item.question.split == "heldout"]


def _split_by_hash(placed: list[_Placed], share: float) -> tuple[list[_Placed], list[_Placed]]:
    first_id: dict[str, str] = {}
    for item in placed:
        first_id.setdefault(same_text_key(item.question.text), item.question.id)

    def is_heldout(item: _Placed) -> bool:
        return hash_share(first_id[same_text_key(item.question.text)]) < share

    train = [item for item in placed if not is_heldout(item)]
    heldout = [replace(item, question=replace(item.question, split="heldout")) for item in placed if is_heldout(item)]
    return train, heldout


def _refuse_overlap(train: Sequence[_Placed], heldout: Sequence[_Placed]) -> None:
    by_id = {item.question.id: item for item in train}
    by_text = {same_text_key(item.question.text): item for item in train}
    for item in heldout:
        question = item.question
        other = by_id.get(question.id)
        if other is not None:
            raise DataError(
                f"{item.place}: held-out question {question.id!r} is a training question too ({other.place}); "
                "remove it from one side"
            )
        other = by_text.get(same_text_key(question.text))
        if other is not None:
            raise DataError(
                f"{item.place}: held-out question {question.id!r} has the same text as training question "
                f"{other.question.id!r} ({other.place}); remove one of them"
            )


def _refuse_empty(train: Sequence[_Placed], heldout: Sequence[_Placed], data: FilesData, report: ReadingReport) -> None:
    found = len(train) + len(heldout)
    if not found:
        raise DataError(f"{data.questions}: no usable question ({report.reasons()}); give questions with answers")
    if not train or not heldout:
        missing = "training" if not train else "held-out"
        raise DataError(
            f"{data.questions}: all {found} usable questions are on one side, no {missing} question is left; "
            "give more questions, or name a file in data.heldout_questions"
        )


def _limit(placed: list[_Placed], maximum: int | None, report: ReadingReport) -> list[_Placed]:
    """Keep the first ``maximum`` by hash, in file order."""
    if maximum is None or len(placed) <= maximum:
        return placed
    order = sorted(placed, key=lambda item: (hash_share(item.question.id), item.question.id))
    for item in order[maximum:]:
        report.ignore(_OVER_LIMIT, Listed(item.place, item.question.id))
    kept = _ids(order[:maximum])
    return [item for item in placed if item.question.id in kept]


def _ids(placed: Iterable[_Placed]) -> set[str]:
    return {item.question.id for item in placed}
