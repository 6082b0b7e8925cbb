"""The probe over many questions and several retrievers, resumable question by question.

A trace file that is there, was made from the same inputs and holds no failed call is finished work; everything
else is done again.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentic_r.artifacts.fingerprint import fingerprint_value
from agentic_r.config import WorkspaceConfig
from agentic_r.errors import DataError, ToolFailure
from agentic_r.types import QueryText, Question, RecordedQuery
from agentic_r.workspace.coverage import ProbeOutcome, judge_trace
from agentic_r.workspace.probe import Recall, ScriptedProbe
from agentic_r.workspace.ripgrep import Ripgrep, find_ripgrep
from agentic_r.workspace.scan import OrderedScanner
from agentic_r.workspace.scope import ScopeRanker, build_scope
from agentic_r.workspace.store import DocumentStore
from agentic_r.workspace.trace import Trace, read_trace, trace_path, write_trace

__all__ = ["run_probe"]

_SYSTEM = "probe"
_SCHEMA = 1  # of the script and the trace: a change of either makes old traces unfinished


def run_probe(
    folder: Path,
    *,
    questions: Sequence[Question],
    queries: Sequence[RecordedQuery],
    rankers: Mapping[str, ScopeRanker],
    store: DocumentStore,
    config: WorkspaceConfig,
    progress: Callable[[int, int], None],
) -> list[ProbeOutcome]:
    """Probe every question with every ranker.

    Args:
        folder: Traces are written to ``<folder>/probe/<ranker's name>/``; keep it apart from the store.
        questions: Their evidence is what coverage is measured on; it is never written here.
        queries: The recorded queries, the same for all rankers, in the order in which they were sent.
        rankers: By name, in the order of the outcomes.
        store: The documents.
        config: Budget and depth.
        progress: Called with (questions done, questions in all), rankers multiplied in.

    Returns:
        One outcome a ranker and question, in order.

    Raises:
        DataError: a recorded query belongs to none of the questions, or an id occurs twice.
        MissingPartError: ripgrep is not installed.
    """
    asked = _by_question(questions, queries)
    ripgrep = find_ripgrep()
    setting = _Setting(folder, store, ripgrep, config)
    outcomes: list[ProbeOutcome] = []
    total = len(rankers) * len(questions)
    for name, ranker in rankers.items():
        runner = _RankerRun(name, ranker, setting)
        for question in questions:
            progress(len(outcomes), total)
            outcomes.append(runner.run(question, asked[question.id]))
    progress(total, total)
    return outcomes


@dataclass(frozen=True, slots=True)
class _Setting:
    """What is the same for all rankers."""

    folder: Path
    store: DocumentStore
    ripgrep: Ripgrep
    config: WorkspaceConfig


class _RankerRun:
    """The probe with one ranker."""

    def __init__(self, name: str, ranker: ScopeRanker, setting: _Setting) -> None:
        self._name = name
        self._ranker = ranker
        self._setting = setting
        self._probe = ScriptedProbe(
            setting.store,
            OrderedScanner(setting.ripgrep, setting.store.documents_folder, timeout_s=setting.config.scan_timeout_s),
            setting.config,
        )

    def run(self, question: Question, queries: Sequence[QueryText]) -> ProbeOutcome:
        """Probe one question, or take its finished trace."""
        if not queries:
            return ProbeOutcome(self._name, question.id, "no_queries", cause="the agent recorded no query")
        trace = self._finished(question, queries) or self._probe_question(question, queries)
        return judge_trace(trace, question, self._setting.store)

    def _finished(self, question: Question, queries: Sequence[QueryText]) -> Trace | None:
        path = trace_path(self._setting.folder, system=_SYSTEM, retriever=self._name, question_id=question.id)
        if not path.exists():
            return None
        try:
            trace = read_trace(path)
        except DataError:  # of another schema: made again
            return None
        return trace if trace.identity == self._identity(question, queries) and not trace.failure else None

    def _recall(self, query: QueryText, number: int) -> Recall:
        k, store = self._setting.config.scope_documents, self._setting.store
        started = time.monotonic()
        try:
            scope = build_scope(self._ranker, query, k=k, store=store, number=number)
        except ToolFailure as error:
            return Recall(query, None, time.monotonic() - started, str(error) or "the ranker failed")
        return Recall(query, scope, time.monotonic() - started)

    def _probe_question(self, question: Question, queries: Sequence[QueryText]) -> Trace:
        recalls = [self._recall(query, number) for number, query in enumerate(queries, start=1)]
        trace = Trace(
            system=_SYSTEM,
            retriever=self._name,
            question_id=question.id,
            identity=self._identity(question, queries),
            ripgrep=self._setting.ripgrep.version,
            max_output_characters=self._setting.config.max_output_characters,
            scopes=tuple(recall.scope for recall in recalls if recall.scope is not None),
            calls=self._probe.run(recalls),
        )
        write_trace(self._setting.folder, trace)
        return trace

    def _identity(self, question: Question, queries: Sequence[QueryText]) -> str:
        return fingerprint_value(
            {
                "schema": _SCHEMA,
                "question": question.id,
                "queries": [[query.query, query.question] for query in queries],
                "ranker": self._ranker.fingerprint,
                "store": self._setting.store.fingerprint,
                "settings": self._setting.config.model_dump(),
                "ripgrep": self._setting.ripgrep.version,
            }
        )


def _by_question(questions: Sequence[Question], queries: Sequence[RecordedQuery]) -> dict[str, list[QueryText]]:
    texts = {question.id: question.text for question in questions}
    if len(texts) != len(questions):
        raise DataError("a question id occurs twice among the questions to probe; make ids unique")
    asked: dict[str, list[QueryText]] = defaultdict(list, {key: [] for key in texts})
    for query in queries:
        if query.question_id not in texts:
            raise DataError(f"recorded query {query.id!r} belongs to no question here ({query.question_id!r})")
        asked[query.question_id].append(QueryText(query.query, texts[query.question_id]))
    return dict(asked)
