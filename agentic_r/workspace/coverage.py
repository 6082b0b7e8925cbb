"""Coverage: how much of a question's gold a trace reached, counted at each stage.

A gold document is *in scope* when it is within the scope of at least one of the question's recorded queries, *matched*
when a scan found a line in it, *read* when lines of it were read (the probe reads nothing that the scan's excerpts have
already shown). A piece of evidence is *shown* when all of its text
(for evidence that names no text: all of its document) was in the output, however many calls that took.
A question without evidence, or without recorded queries, or with a failed call, has no coverage: it is listed
by its state, never counted as 0.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from agentic_r.types import Evidence, Question
from agentic_r.workspace.shown import ShownLines
from agentic_r.workspace.store import DocumentStore
from agentic_r.workspace.trace import Trace

__all__ = ["Coverage", "CoverageMeasure", "ProbeOutcome", "ProbeState", "by_state", "judge_trace", "values"]

ProbeState = Literal["ok", "no_queries", "no_evidence", "failed"]
CoverageMeasure = Literal["scope_coverage", "matched", "read", "evidence_shown"]


@dataclass(frozen=True, slots=True)
class Coverage:
    """What of a question's gold was reached; ids of documents, and places in ``Question.evidence``.

    ``not_stored`` and ``not_located`` could not be reached by any retriever: the corpus has no such document, or
    the document does not hold the text.
    """

    gold_documents: tuple[str, ...]
    in_scope: tuple[str, ...]
    documents_matched: tuple[str, ...]
    documents_read: tuple[str, ...]
    num_evidence: int
    evidence: tuple[int, ...]
    not_stored: tuple[str, ...] = ()
    not_located: tuple[int, ...] = ()

    @property
    def scope_coverage(self) -> float:
        """Share of gold documents in scope."""
        return len(self.in_scope) / len(self.gold_documents)

    @property
    def matched(self) -> float:
        """Share of gold documents matched."""
        return len(self.documents_matched) / len(self.gold_documents)

    @property
    def read(self) -> float:
        """Share of gold documents read."""
        return len(self.documents_read) / len(self.gold_documents)

    @property
    def evidence_shown(self) -> float:
        """Share of the pieces of evidence shown."""
        return len(self.evidence) / self.num_evidence


@dataclass(frozen=True, slots=True)
class ProbeOutcome:
    """One question with one retriever. ``coverage`` is None unless ``state`` is ok."""

    retriever: str
    question_id: str
    state: ProbeState
    coverage: Coverage | None = None
    num_calls: int = 0
    shown_characters: int = 0
    seconds: float = 0.0
    cause: str = ""


def judge_trace(trace: Trace, question: Question, store: DocumentStore) -> ProbeOutcome:
    """Compare a trace with the question's evidence."""
    state: ProbeState = "failed" if trace.failure else "ok" if question.evidence else "no_evidence"
    return ProbeOutcome(
        retriever=trace.retriever,
        question_id=question.id,
        state=state,
        coverage=_coverage(trace, question, store) if state == "ok" else None,
        num_calls=len(trace.calls),
        shown_characters=sum(len(call.output) for call in trace.calls),
        seconds=sum(call.seconds for call in trace.calls),
        cause=trace.failure,
    )


def values(outcomes: Iterable[ProbeOutcome], measure: CoverageMeasure) -> dict[str, dict[str, float]]:
    """Return retriever -> question id -> value, for the questions that have one."""
    table: dict[str, dict[str, float]] = {}
    for outcome in outcomes:
        row = table.setdefault(outcome.retriever, {})
        if outcome.coverage is not None:
            row[outcome.question_id] = _value(outcome.coverage, measure)
    return table


def by_state(outcomes: Iterable[ProbeOutcome]) -> dict[str, dict[ProbeState, list[str]]]:
    """Return retriever -> state -> question ids: who was counted, and who was not and why."""
    table: dict[str, dict[ProbeState, list[str]]] = {}
    for outcome in outcomes:
        table.setdefault(outcome.retriever, {}).setdefault(outcome.state, []).append(outcome.question_id)
    return table


def _value(coverage: Coverage, measure: CoverageMeasure) -> float:
    match measure:
        case "scope_coverage":
            return coverage.scope_coverage
        case "matched":
            return coverage.matched
        case "read":
            return coverage.read
        case "evidence_shown":
            return coverage.evidence_shown


def _coverage(trace: Trace, question: Question, store: DocumentStore) -> Coverage:
    gold = question.gold_documents
    scoped = {document.document_id for scope in trace.scopes for document in scope.documents}
    found: Mapping[str, set[str]] = {
        tool: {key for call in trace.calls if call.input.tool == tool for key in call.documents}
        for tool in ("scan", "read")
    }
    shown = ShownLines(span for call in trace.calls for span in call.shown)
    places = [list(_places(item, store)) for item in question.evidence]
    return Coverage(
        gold_documents=gold,
        in_scope=tuple(key for key in gold if key in scoped),
        documents_matched=tuple(key for key in gold if key in found["scan"]),
        documents_read=tuple(key for key in gold if key in found["read"]),
        num_evidence=len(places),
        evidence=tuple(
            number
            for number, (item, found_at) in enumerate(zip(question.evidence, places, strict=True))
            if any(_is_shown(place, item.document_id, shown) for place in found_at)
        ),
        not_stored=tuple(key for key in gold if key not in store),
        not_located=tuple(
            number
            for number, (item, found_at) in enumerate(zip(question.evidence, places, strict=True))
            if item.document_id in store and not found_at
        ),
    )


@dataclass(frozen=True, slots=True)
class _LinePart:
    number: int
    line: str
    start: int
    end: int


def _places(evidence: Evidence, store: DocumentStore) -> Iterator[list[_LinePart]]:
    """Yield each occurrence of the evidence in its document, as parts of lines."""
    if evidence.document_id not in store:
        return
    lines = store.lines(evidence.document_id)
    body = "\n".join(lines)
    wanted = evidence.text.strip() or body.strip()
    if not wanted:
        return
    start = body.find(wanted)
    while start >= 0:
        yield _line_parts(lines, start, start + len(wanted))
        start = body.find(wanted, start + 1)


def _line_parts(lines: list[str], start: int, end: int) -> list[_LinePart]:
    parts = []
    begin = 0
    for number, line in enumerate(lines, start=1):
        left, right = max(start - begin, 0), min(end - begin, len(line))
        if left < right:
            parts.append(_LinePart(number, line, left, right))
        begin += len(line) + 1
        if begin >= end:
            break
    return parts


def _is_shown(place: list[_LinePart], document_id: str, shown: ShownLines) -> bool:
    return all(shown.covers(document_id, part.number, part.line, start=part.start, end=part.end) for part in place)
