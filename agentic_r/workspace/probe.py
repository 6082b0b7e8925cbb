"""The scripted probe: an agent without a model, the same for every retriever.

For each query that a real agent recorded: its recall gives a scope; the scope is scanned for the query's content
terms; then lines around the first match are read in the best matching documents. Which actions are taken follows
from the queries and from what the retriever put first, by fixed rules; so two retrievers differ by order alone.
The output of one question, all calls together, stays within the budget.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from agentic_r.config import WorkspaceConfig
from agentic_r.types import QueryText, Scope
from agentic_r.workspace.calls import ReadInput, RecallInput, ScanInput, ToolCall
from agentic_r.workspace.excerpts import show_matches
from agentic_r.workspace.read import ReadRequest, read_lines
from agentic_r.workspace.scan import OrderedScanner, ScanLine, ScanRequest, ScanResult
from agentic_r.workspace.shown import ShownLines
from agentic_r.workspace.store import DocumentStore
from agentic_r.workspace.terms import any_of, content_terms

__all__ = ["Recall", "ScriptedProbe"]

_SCAN_SHARE = 0.6  # of a query's part of the budget (our choice); what it leaves goes to reading
_LINES_BEFORE = 1  # read before the matching line


@dataclass(frozen=True, slots=True)
class Recall:
    """A query with the scope that a ranker gave it, or why it gave none."""

    query: QueryText
    scope: Scope | None
    seconds: float
    cause: str = ""


class ScriptedProbe:
    """Runs the script over one store."""

    def __init__(self, store: DocumentStore, scanner: OrderedScanner, config: WorkspaceConfig) -> None:
        """Use these tools within the budget of ``config``."""
        self._store = store
        self._scanner = scanner
        self._config = config

    def run(self, recalls: Sequence[Recall]) -> tuple[ToolCall, ...]:
        """Run the script for one question.

        Each query gets an equal part of what is left of the budget, so that what one does not use goes to the next.
        """
        calls: list[ToolCall] = []
        left = self._config.max_output_characters
        shown = ShownLines()
        for number, recall in enumerate(recalls):
            part = left // (len(recalls) - number)
            made = self._run_query(recall, number + 1, part, shown)
            left -= sum(len(call.output) for call in made)
            calls += made
        return tuple(calls)

    def _run_query(self, recall: Recall, number: int, budget: int, shown: ShownLines) -> list[ToolCall]:
        calls = [self._recall(recall, number, budget)]
        if recall.scope is None:
            return calls
        left = budget - len(calls[0].output)
        scan, result = self._scan(recall.scope, recall.query, int(left * _SCAN_SHARE))
        shown.add(scan.shown)
        calls.append(scan)
        return calls + self._read(result, left - len(scan.output), shown)

    def _recall(self, recall: Recall, number: int, budget: int) -> ToolCall:
        made = RecallInput(number, recall.query.query, recall.query.question, self._config.scope_documents)
        if recall.scope is None:
            return ToolCall(made, "failed", "", (), (), recall.seconds, recall.cause)
        output = f"scope {number}: {len(recall.scope.documents)} documents"[:budget]
        return ToolCall(made, "ok" if recall.scope.documents else "empty", output, (), (), recall.seconds)

    def _scan(self, scope: Scope, query: QueryText, budget: int) -> tuple[ToolCall, ScanResult]:
        started = time.monotonic()
        config = self._config
        terms = content_terms(query.query)
        request = ScanRequest(any_of(terms), ("-i",), config.max_matches, config.max_matches_per_document)
        made = ScanInput(
            scope.number, request.pattern, request.flags, config.max_matches, config.max_matches_per_document, budget
        )
        if not terms:
            cause = "the query has no word to scan for"
            return ToolCall(made, "skipped", "", (), (), 0.0, cause), ScanResult("skipped", cause=cause)
        names = [self._store.name(document.document_id) for document in scope.documents]
        result = self._scanner.scan(names, request)
        shown = show_matches(
            result, document_id=self._id, excerpt_characters=config.excerpt_characters, max_characters=budget
        )
        found = tuple(dict.fromkeys(self._id(match.name) for match in result.matches))
        seconds = time.monotonic() - started
        return ToolCall(made, result.state, shown.text, found, shown.spans, seconds, result.cause), result

    def _read(self, result: ScanResult, budget: int, shown: ShownLines) -> list[ToolCall]:
        calls: list[ToolCall] = []
        firsts = {match.name: match for match in reversed(result.matches)}
        for name in dict.fromkeys(match.name for match in result.matches):
            if len(calls) == self._config.documents_read:
                break
            made = self._window(firsts[name], budget // (self._config.documents_read - len(calls)))
            if self._is_shown(made, shown):
                continue
            call = self._read_window(made)
            budget -= len(call.output)
            shown.add(call.shown)
            calls.append(call)
        return calls

    def _window(self, match: ScanLine, budget: int) -> ReadInput:
        return ReadInput(match.name, max(1, match.line_number - _LINES_BEFORE), self._config.read_lines, budget)

    def _is_shown(self, window: ReadInput, shown: ShownLines) -> bool:
        document_id = self._id(window.path)
        lines = self._store.lines(document_id)[window.first_line - 1 :][: window.num_lines]
        return all(
            shown.covers(document_id, number, line) for number, line in enumerate(lines, start=window.first_line)
        )

    def _read_window(self, made: ReadInput) -> ToolCall:
        started = time.monotonic()
        request = ReadRequest(made.path, made.first_line, made.num_lines)
        result = read_lines(self._store, request, max_characters=made.max_characters)
        documents = (result.document_id,) if result.document_id else ()
        seconds = time.monotonic() - started
        return ToolCall(made, result.state, result.shown.text, documents, result.shown.spans, seconds, result.cause)

    def _id(self, name: str) -> str:
        document_id = self._store.find(name)
        assert document_id is not None, name  # every name came from the store
        return document_id
