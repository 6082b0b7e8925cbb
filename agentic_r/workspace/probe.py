"""The scripted probe: an agent without a model, the same for every retriever.

For each query that a real agent recorded: the system's first tool brings documents (RISE: a search; RARG: a recall,
from ``+`` on with opening paragraphs); then they are scanned for the query's content terms; then lines around the first
match are read in the best matching documents. Which actions are taken follows from the queries and from what the
retriever put first, by fixed rules. The output of one question, all calls together, stays within the budget.
"""

from collections.abc import Sequence
from dataclasses import replace

from agentic_r.config import SystemName, WorkspaceConfig
from agentic_r.types import QueryText
from agentic_r.workspace.calls import ReadInput, RecallInput, ScanInput, SearchInput, ToolCall
from agentic_r.workspace.session import Session
from agentic_r.workspace.shown import ShownLines
from agentic_r.workspace.store import DocumentStore
from agentic_r.workspace.terms import any_of, content_terms

__all__ = ["ScriptedProbe"]

_LINES_BEFORE = 1  # read before the matching line


class ScriptedProbe:
    """Plays the script of one system in sessions over one store."""

    def __init__(self, store: DocumentStore, config: WorkspaceConfig, *, system: SystemName) -> None:
        """Play within the budget of ``config``."""
        self._store = store
        self._config = config
        self._system: SystemName = system

    def run(self, session: Session, queries: Sequence[QueryText]) -> None:
        """Play one question's part in a fresh session.

        Each query gets an equal part of what is left of the budget, so that what one does not use goes to the next.
        """
        left = self._config.max_output_characters
        shown = ShownLines()
        for number, query in enumerate(queries):
            before = len(session.calls)
            self._run_query(session, query, number + 1, left // (len(queries) - number), shown)
            left -= sum(len(call.output) for call in session.calls[before:])

    def _run_query(self, session: Session, query: QueryText, number: int, budget: int, shown: ShownLines) -> None:
        entry = session.run(self._entry(query, number, budget))
        if entry.has_failed:
            return
        shown.add(entry.shown)
        left = budget - len(entry.output)
        scan = session.run(self._scan(query, number, int(left * self._config.scan_share)))
        shown.add(scan.shown)
        self._read(session, scan, left - len(scan.output), shown)

    def _entry(self, query: QueryText, number: int, budget: int) -> SearchInput | RecallInput:
        config = self._config
        asked: SearchInput | RecallInput
        share = int(budget * config.entry_share)
        match self._system:
            case "rise":
                search = config.search
                asked = SearchInput(number, (query.query,), query.question, search.depth, search.previews, share)
            case "rarg":
                asked = RecallInput(number, query.query, query.question, config.scope_documents, budget)
            case "rarg+" | "rarg++":
                opening = config.opening
                sizes = (opening.opened_documents, opening.paragraphs)
                asked = RecallInput(number, query.query, query.question, config.scope_documents, share, *sizes)
        return replace(asked, history=query.history)

    def _scan(self, query: QueryText, number: int, budget: int) -> ScanInput:
        config = self._config
        return ScanInput(
            scope=0 if self._system == "rise" else number,
            pattern=any_of(content_terms(query.query)),
            flags=("-i",),
            max_matches=config.max_matches,
            max_matches_per_document=config.max_matches_per_document,
            max_characters=budget,
            pool=config.pool_matches if self._system == "rarg++" else 0,
        )

    def _read(self, session: Session, scan: ToolCall, budget: int, shown: ShownLines) -> None:
        num_read = 0
        for document_id, line in zip(scan.documents, scan.lines, strict=True):
            if num_read == self._config.documents_read:
                break
            made = ReadInput(
                self._store.name(document_id),
                max(1, line - _LINES_BEFORE),
                self._config.read_lines,
                budget // (self._config.documents_read - num_read),
            )
            if self._is_shown(document_id, made, shown):
                continue
            call = session.run(made)
            budget -= len(call.output)
            shown.add(call.shown)
            num_read += 1

    def _is_shown(self, document_id: str, window: ReadInput, shown: ShownLines) -> bool:
        lines = self._store.lines(document_id)[window.first_line - 1 :][: window.num_lines]
        return all(
            shown.covers(document_id, number, line) for number, line in enumerate(lines, start=window.first_line)
        )
