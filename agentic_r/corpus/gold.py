"""Which passages a question should find.

Owns how evidence becomes gold passages, and the weaker stand-in where the data names no evidence: passages that hold
an answer (and so may hold it by chance; whoever reports them says which kind it is).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from agentic_r.corpus.report import Fault
from agentic_r.corpus.store import Corpus
from agentic_r.errors import DataError
from agentic_r.metrics.answers import contains_tokens, normalise_answer
from agentic_r.types import Document, Evidence, Passage, Question

__all__ = [
    "AnswerTable",
    "GoldKind",
    "answer_bearing",
    "complete_evidence",
    "evidence_passages",
    "gold_kind",
    "resolve_gold",
]

GoldKind = Literal["gold", "answer-bearing", "mixed"]

_NEVER_EVIDENCE = frozenset(("yes", "no"))


def resolve_gold(questions: Iterable[Question], corpus: Corpus) -> list[Question]:
    """Fill ``gold_passages`` from the evidence; without evidence they stay empty.

    Evidence without text means all passages of its document; with text, the passages that contain it or, where it
    spans a border, those that it overlaps. Evidence may name a passage id. In the result every evidence names a
    document, and the text in place of a line.

    Raises:
        DataError: a document is not in the corpus, or the evidence is not in the document; names question and id.
    """
    return [_resolve(question, corpus) for question in questions]


def gold_kind(questions: Sequence[Question]) -> GoldKind:
    """Say what retrieval of these questions is measured against: gold passages, answer-bearing ones, or both."""
    num_gold = sum(bool(question.gold_passages) for question in questions)
    if not num_gold:
        return "answer-bearing"
    return "gold" if num_gold == len(questions) else "mixed"


def answer_bearing(questions: Iterable[Question], passages: Iterable[Passage]) -> dict[str, tuple[str, ...]]:
    """Return, for each question id, the ids of the passages whose text holds one of its answers.

    One pass over the passages for all questions. Answers are compared as whole normalised tokens; "yes" and "no"
    never count.
    """
    wanted = AnswerTable(questions)
    found: dict[str, list[str]] = {question_id: [] for question_id in wanted.question_ids}
    for passage in passages:
        for question_id in wanted.find(passage.text):
            found[question_id].append(passage.id)
    return {question_id: tuple(ids) for question_id, ids in found.items()}


def complete_evidence(evidence: Evidence, document: Document) -> Evidence:
    """Return the evidence with its text as it stands in ``document``, a line's text in place of the line.

    Raises:
        Fault: the document has no such line, or does not contain the text.
    """
    if evidence.line:
        lines = document.text.split("\n")
        text = lines[evidence.line - 1].strip() if evidence.line <= len(lines) else ""
        if not text:
            reason = "is blank" if evidence.line <= len(lines) else f"is past its end ({len(lines)} lines)"
            raise Fault(f"line {evidence.line} of document {document.id!r} {reason}")
        return Evidence(document.id, text)
    if not evidence.text.strip():
        return Evidence(document.id)
    if not _occurrences(evidence.text, document.text):
        raise Fault(f"document {document.id!r} does not contain {_shown(evidence.text)}")
    return Evidence(document.id, evidence.text)


def evidence_passages(evidence: Evidence, document: Document, passages: Sequence[Passage]) -> list[Passage]:
    """Return those of the document's ``passages`` that its completed ``evidence`` makes gold, in order."""
    if not evidence.text:
        return list(passages)
    gold: set[str] = set()
    for start, end in _occurrences(evidence.text, document.text):
        overlapping = [item for item in passages if item.start < end and start < item.start + len(item.text)]
        whole = [item for item in overlapping if item.start <= start and end <= item.start + len(item.text)]
        gold.update(item.id for item in whole or overlapping)
    return [item for item in passages if item.id in gold]


def _resolve(question: Question, corpus: Corpus) -> Question:
    completed: list[Evidence] = []
    gold: list[str] = []
    for evidence in question.evidence:
        named = evidence.document_id
        passage = corpus.passages.get(named)
        if named in corpus.documents:
            document = corpus.documents[named]
            try:
                completed.append(complete_evidence(evidence, document))
            except Fault as fault:
                raise DataError(f"question {question.id!r}: {fault}; correct its evidence") from None
            gold += [item.id for item in evidence_passages(completed[-1], document, corpus.passages_of(named))]
        elif passage is not None:
            completed.append(Evidence(passage.document_id, evidence.text or passage.text))
            gold.append(passage.id)
        else:
            raise DataError(
                f"question {question.id!r}: its evidence names {named!r}, which is neither a document nor a passage of "
                "the corpus; correct the id, or add the document"
            )
    return replace(question, evidence=tuple(dict.fromkeys(completed)), gold_passages=tuple(dict.fromkeys(gold)))


def _occurrences(wanted: str, text: str) -> list[tuple[int, int]]:
    """All (start, end) of ``wanted`` in ``text``: as written, else with any white space for white space."""
    exact = [found.span() for found in re.finditer(re.escape(wanted.strip()), text)]
    if exact:
        return exact
    loose = r"\s+".join(re.escape(word) for word in wanted.split())
    return [found.span() for found in re.finditer(loose, text)]


def _shown(text: str) -> str:
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= 60 else flat[:60] + "...")


class AnswerTable:
    """Answers of many questions by their first token, so that a passage is read once for all."""

    def __init__(self, questions: Iterable[Question]) -> None:
        self.question_ids: list[str] = []
        self._by_first: dict[str, list[tuple[list[str], str]]] = {}
        for question in questions:
            self.question_ids.append(question.id)
            for answer in question.answers:
                normalised = normalise_answer(answer)
                tokens = contains_tokens(normalised)
                if tokens and normalised not in _NEVER_EVIDENCE:
                    self._by_first.setdefault(tokens[0], []).append((tokens, question.id))

    def find(self, text: str) -> Iterator[str]:
        """Yield each question of which an answer stands in ``text``, once."""
        tokens = contains_tokens(text)
        seen: set[str] = set()
        for place, token in enumerate(tokens):
            for answer, question_id in self._by_first.get(token, ()):
                if question_id not in seen and tokens[place : place + len(answer)] == answer:
                    seen.add(question_id)
                    yield question_id
