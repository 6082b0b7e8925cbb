"""The tools at work on one question: what is called, in order, changes its scopes and its workspace.

``search`` and ``embed_recall`` decide which documents there are and in which order, ``rg`` and ``read`` look into them.
A session runs inputs (``calls.py``) and keeps the calls they became; who chooses them (the scripted probe, a recorded
trace, a model) is others' business. Systems differ in their tools alone: in RISE, ``rg`` and ``read`` see the
workspace; in RARG, ``rg`` sees a scope and ``read`` every document.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from agentic_r.config import WorkspaceConfig
from agentic_r.errors import ToolFailure
from agentic_r.types import QueryText, Scope
from agentic_r.workspace.calls import CallState, ReadInput, RecallInput, ScanInput, SearchInput, ToolCall, ToolInput
from agentic_r.workspace.excerpts import show_matches
from agentic_r.workspace.flags import FlagError, parse_flags
from agentic_r.workspace.members import Workspace
from agentic_r.workspace.opening import show_opening
from agentic_r.workspace.read import ReadRequest, read_lines
from agentic_r.workspace.rerank import rerank_matches
from agentic_r.workspace.scan import OrderedScanner, ScanRequest, ScanResult
from agentic_r.workspace.scope import ScopeRanker, build_scope
from agentic_r.workspace.search import show_search
from agentic_r.workspace.shown import Shown, ShownSpan
from agentic_r.workspace.similarity import TextSimilarity
from agentic_r.workspace.store import DocumentStore

__all__ = ["Session", "Tools"]


@dataclass(frozen=True, slots=True)
class Tools:
    """What is the same for all questions. ``similarity`` is needed for opening paragraphs and reranking alone."""

    store: DocumentStore
    scanner: OrderedScanner
    ranker: ScopeRanker
    config: WorkspaceConfig
    similarity: TextSimilarity | None = None


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a tool found, before it is timed and recorded."""

    state: CallState
    text: str = ""
    documents: tuple[str, ...] = ()
    shown: tuple[ShownSpan, ...] = ()
    cause: str = ""
    lines: tuple[int, ...] = ()


class Session:
    """One question. ``is_confined``: ``read`` sees the workspace's documents alone."""

    def __init__(self, tools: Tools, *, is_confined: bool) -> None:
        """Begin without scopes and with an empty workspace."""
        self._tools = tools
        self._is_confined = is_confined
        self._scopes: dict[int, Scope] = {}
        self._calls: list[ToolCall] = []
        self.workspace = Workspace(tools.store, max_documents=tools.config.search.max_members)

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """All rankings so far, by number."""
        return tuple(self._scopes[number] for number in sorted(self._scopes))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """All calls so far, in order."""
        return tuple(self._calls)

    def run(self, made: ToolInput) -> ToolCall:
        """Run one call and keep it. What goes wrong in a tool is its state and cause, not an exception.

        Raises:
            FingerprintError: the ranker knows a document that the store does not have.
        """
        started = time.monotonic()
        try:
            answer = self._answer(made)
        except ToolFailure as error:
            answer = _Answer("failed", cause=str(error) or "the tool failed without a word")
        except OSError as error:
            answer = _Answer("failed", cause=f"{error.filename or made.tool}: {error.strerror}")
        call = ToolCall(
            input=made,
            state=answer.state,
            output=answer.text,
            documents=answer.documents,
            shown=answer.shown,
            seconds=time.monotonic() - started,
            cause=answer.cause,
            lines=answer.lines,
        )
        self._calls.append(call)
        return call

    def _answer(self, made: ToolInput) -> _Answer:
        match made:
            case SearchInput():
                return self._search(made)
            case RecallInput():
                return self._recall(made)
            case ScanInput():
                return self._scan(made)
            case ReadInput():
                return self._read(made)
            case _:
                assert_never(made)

    def _search(self, made: SearchInput) -> _Answer:
        if not made.queries:
            return _Answer("refused", cause="search needs at least one query.")
        queries = [QueryText(query, made.question, made.history) for query in made.queries]
        scopes = [
            build_scope(self._tools.ranker, query, k=made.k, store=self._tools.store, number=made.scope + place)
            for place, query in enumerate(queries)
        ]
        self._scopes.update({scope.number: scope for scope in scopes})
        shown = show_search(
            self._tools.store,
            self.workspace,
            scopes,
            num_previewed=made.num_previewed,
            preview_characters=self._tools.config.search.preview_characters,
            max_characters=made.max_characters,
        )
        previewed = tuple(dict.fromkeys(span.document_id for span in shown.spans))
        found = any(scope.documents for scope in scopes)
        return _Answer("ok" if found else "empty", shown.text, previewed, shown.spans)

    def _recall(self, made: RecallInput) -> _Answer:
        tools = self._tools
        query = QueryText(made.query, made.question, made.history)
        scope = build_scope(tools.ranker, query, k=made.k, store=tools.store, number=made.scope)
        self._scopes[made.scope] = scope
        head = f"scope {made.scope}: {len(scope.documents)} documents"[: made.max_characters]
        state: CallState = "ok" if scope.documents else "empty"
        if not made.num_paragraphs or not scope.documents:
            return _Answer(state, head)
        if tools.similarity is None:
            return _Answer("refused", cause="opening paragraphs need an encoder, and this retriever has none.")
        opening = show_opening(
            tools.store,
            tools.similarity,
            query,
            [document.document_id for document in scope.documents[: made.num_opened]],
            config=tools.config.opening,
            num_paragraphs=made.num_paragraphs,
            max_characters=max(0, made.max_characters - len(head) - 1),
        )
        return _with_head(state, head, opening)

    def _scan(self, made: ScanInput) -> _Answer:
        names = self._names(made.scope)
        if names is None:
            return _Answer("refused", cause=f"there is no scope {made.scope}; recall one first.")
        if not made.pattern:
            return _Answer("skipped", cause="the query has no word to scan for")
        is_reranked = made.pool > 0 and _can_be_reranked(made.flags)
        wanted = max(made.pool, made.max_matches) if is_reranked else made.max_matches
        request = ScanRequest(made.pattern, made.flags, wanted, made.max_matches_per_document)
        result = self._tools.scanner.scan(names, request)
        if is_reranked:
            result = self._ranked(made, result)
        shown = show_matches(
            result,
            document_id=self._id,
            excerpt_characters=self._tools.config.excerpt_characters,
            max_characters=made.max_characters,
        )
        firsts: dict[str, int] = {}
        for match in result.matches:
            firsts.setdefault(self._id(match.name), match.line_number)
        return _Answer(result.state, shown.text, tuple(firsts), shown.spans, result.cause, tuple(firsts.values()))

    def _ranked(self, made: ScanInput, result: ScanResult) -> ScanResult:
        if self._tools.similarity is None:
            raise ToolFailure("reranking needs an encoder, and this retriever has none.")
        if not result.lines:  # of a workspace that nothing was searched for, there is no query either
            return result
        return rerank_matches(
            result,
            similarity=self._tools.similarity,
            store=self._tools.store,
            document_id=self._id,
            query=self._query(made.scope),
            pattern=made.pattern,
            excerpt_characters=self._tools.config.excerpt_characters,
            max_matches=made.max_matches,
        )

    def _read(self, made: ReadInput) -> _Answer:
        store = self._tools.store
        if self._is_confined and self.workspace.find(made.path) is None:
            return _Answer("refused", cause=f"{made.path!r} is not a document of this workspace.")
        result = read_lines(
            store, ReadRequest(made.path, made.first_line, made.num_lines), max_characters=made.max_characters
        )
        documents = (result.document_id,) if result.document_id else ()
        return _Answer(result.state, result.shown.text, documents, result.shown.spans, result.cause)

    def _names(self, number: int) -> Sequence[str] | None:
        if number == 0:
            return self.workspace.names()
        scope = self._scopes.get(number)
        return None if scope is None else [self._tools.store.name(item.document_id) for item in scope.documents]

    def _query(self, number: int) -> QueryText:
        """The query of a scope; of the workspace, that of the last search."""
        return self._scopes[number if number else max(self._scopes)].query

    def _id(self, name: str) -> str:
        document_id = self._tools.store.find(name)
        assert document_id is not None, name  # every name came from the store
        return document_id


def _can_be_reranked(flags: Sequence[str]) -> bool:
    """Whether a scan gives matching lines alone: lines around a match stay beside it, and documents have no excerpt."""
    try:
        parsed = parse_flags(flags)
    except FlagError:  # the scan says so
        return False
    return parsed.form == "lines" and not parsed.has_context


def _with_head(state: CallState, head: str, shown: Shown) -> _Answer:
    by = len(head) + 1
    spans = tuple(ShownSpan(s.document_id, s.line, s.start, s.end, s.until + by) for s in shown.spans)
    return _Answer(state, f"{head}\n{shown.text}", tuple(dict.fromkeys(s.document_id for s in spans)), spans)
