"""Coverage: how much of a question's gold a trace reached, counted at each stage.

A gold document's *rank* is its best place in the rankings of the question's calls; it is *in scope* at depth n when
that is at most n. It is *previewed* when a search or an opening showed a part of it, *matched* when a scan kept a line
of it, *read* when lines of it were read (the probe reads nothing that was already shown). A piece of evidence
is *shown* when all of its text (for evidence that names no text: all of its document) was in the output, however many
calls that took; within a budget when it was in the output's first so many characters. A question without evidence, or
without recorded queries, or with a failed call, has no coverage: it is listed by its state, never counted as 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agentic_r.types import Evidence, Question
from agentic_r.workspace.calls import Tool
from agentic_r.workspace.shown import ShownLines, ShownSpan
from agentic_r.workspace.store import DocumentStore
from agentic_r.workspace.trace import Trace

__all__ = ["SCOPE_DEPTH", "Coverage", "ProbeOutcome", "ProbeState", "ToolCost", "judge_trace"]

ProbeState = Literal["ok", "no_queries", "no_evidence", "failed"]
SCOPE_DEPTH = 20  # documents: the depth of ``scope_coverage``

_TOOLS: tuple[Tool, ...] = ("search", "embed_recall", "rg", "read")


@dataclass(frozen=True, slots=True)
class Coverage:
    """What of a question's gold was reached.

    ``ranks`` (from 1; None for never ranked) belong to ``gold_documents``; ``evidence`` holds, for each piece, how many
    characters of output had to be read until it was shown, or None. ``not_stored`` and ``not_located`` (places in
    ``evidence``) could not be reached by any retriever: the corpus has no such document, or the document does not
    hold the text.
    """

    gold_documents: tuple[str, ...]
    ranks: tuple[int | None, ...]
    documents_previewed: tuple[str, ...]
    documents_matched: tuple[str, ...]
    documents_read: tuple[str, ...]
    evidence: tuple[int | None, ...]
    not_stored: tuple[str, ...] = ()
    not_located: tuple[int, ...] = ()

    def in_scope(self, depth: int | None = None) -> float:
        """Share of gold documents ranked within ``depth``; None: ranked at all."""
        return sum(rank is not None and (depth is None or rank <= depth) for rank in self.ranks) / len(self.ranks)

    @property
    def scope_coverage(self) -> float:
        """Share of gold documents among the first 20 of a scope."""
        return self.in_scope(SCOPE_DEPTH)

    @property
    def previewed(self) -> float:
        """Share of gold documents previewed."""
        return len(self.documents_previewed) / len(self.gold_documents)

    @property
    def matched(self) -> float:
        """Share of gold documents matched."""
        return len(self.documents_matched) / len(self.gold_documents)

    @property
    def read(self) -> float:
        """Share of gold documents read."""
        return len(self.documents_read) / len(self.gold_documents)

    def evidence_shown(self, budget: int | None = None) -> float:
        """Share of the pieces of evidence shown within ``budget`` characters of output; None: at all."""
        return sum(at is not None and (budget is None or at <= budget) for at in self.evidence) / len(self.evidence)


@dataclass(frozen=True, slots=True)
class ToolCost:
    """What one tool cost in one question."""

    tool: Tool
    num_calls: int
    characters: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ProbeOutcome:
    """One question in one system with one retriever. ``coverage`` is None unless ``state`` is ok."""

    system: str
    retriever: str
    question_id: str
    state: ProbeState
    coverage: Coverage | None = None
    costs: tuple[ToolCost, ...] = ()
    cause: str = ""


def judge_trace(trace: Trace, question: Question, store: DocumentStore) -> ProbeOutcome:
    """Compare a trace with the question's evidence."""
    state: ProbeState = "failed" if trace.failure else "ok" if question.evidence else "no_evidence"
    return ProbeOutcome(
        system=trace.system,
        retriever=trace.retriever,
        question_id=question.id,
        state=state,
        coverage=_coverage(trace, question, store) if state == "ok" else None,
        costs=tuple(_costs(trace)),
        cause=trace.failure,
    )


def _costs(trace: Trace) -> Iterator[ToolCost]:
    for tool in _TOOLS:
        calls = [call for call in trace.calls if call.input.tool == tool]
        if calls:
            characters, seconds = sum(len(call.output) for call in calls), sum(call.seconds for call in calls)
            yield ToolCost(tool, len(calls), characters, seconds)


def _coverage(trace: Trace, question: Question, store: DocumentStore) -> Coverage:
    gold = question.gold_documents
    ranks = _best_ranks(trace)
    found = {
        tool: {key for call in trace.calls if call.input.tool == tool for key in call.documents} for tool in _TOOLS
    }
    previewed = found["search"] | found["embed_recall"]
    spans = _spans_by_document(trace)
    places = [list(_places(item, store)) for item in question.evidence]
    pairs = list(zip(question.evidence, places, strict=True))
    return Coverage(
        gold_documents=gold,
        ranks=tuple(ranks.get(key) for key in gold),
        documents_previewed=tuple(key for key in gold if key in previewed),
        documents_matched=tuple(key for key in gold if key in found["rg"]),
        documents_read=tuple(key for key in gold if key in found["read"]),
        evidence=tuple(
            _shown_at(found_at, item.document_id, spans.get(item.document_id, ())) for item, found_at in pairs
        ),
        not_stored=tuple(key for key in gold if key not in store),
        not_located=tuple(
            number for number, (item, found_at) in enumerate(pairs) if item.document_id in store and not found_at
        ),
    )


def _best_ranks(trace: Trace) -> dict[str, int]:
    best: dict[str, int] = {}
    for scope in trace.scopes:
        for rank, document_id in enumerate(scope.document_ids, start=1):
            best[document_id] = min(rank, best.get(document_id, rank))
    return best


def _spans_by_document(trace: Trace) -> Mapping[str, Sequence[ShownSpan]]:
    """Return each document's spans, ``until`` counted over the output of all calls, in order."""
    spans: dict[str, list[ShownSpan]] = {}
    before = 0
    for call in trace.calls:
        for span in call.shown:
            moved = ShownSpan(span.document_id, span.line, span.start, span.end, before + span.until)
            spans.setdefault(span.document_id, []).append(moved)
        before += len(call.output)
    return spans


def _shown_at(places: Sequence[Sequence["_LinePart"]], document_id: str, spans: Sequence[ShownSpan]) -> int | None:
    """Return after how many characters of output one of the places had been shown whole, or None."""
    shown = ShownLines()
    for span in spans:
        shown.add([span])
        if any(_is_shown(place, document_id, shown) for place in places):
            return span.until
    return None


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


def _is_shown(place: Sequence[_LinePart], document_id: str, shown: ShownLines) -> bool:
    return all(shown.covers(document_id, part.number, part.line, start=part.start, end=part.end) for part in place)
