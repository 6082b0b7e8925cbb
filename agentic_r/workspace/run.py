"""The probe over many questions, in several systems with several retrievers, resumable question by question.

A trace file that is there, was made from the same inputs and holds no failed call is finished work; everything
else is done again.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentic_r.artifacts.fingerprint import fingerprint_value
from agentic_r.config import SystemName, WorkspaceConfig
from agentic_r.errors import DataError
from agentic_r.types import QueryText, Question, RecordedQuery
from agentic_r.workspace.coverage import ProbeOutcome, judge_trace
from agentic_r.workspace.probe import ScriptedProbe
from agentic_r.workspace.ripgrep import Ripgrep, find_ripgrep
from agentic_r.workspace.scan import OrderedScanner
from agentic_r.workspace.scope import ScopeRanker
from agentic_r.workspace.session import Session, Tools
from agentic_r.workspace.similarity import TextSimilarity
from agentic_r.workspace.store import DocumentStore
from agentic_r.workspace.trace import RankedScope, Trace, read_trace, trace_path, write_trace

__all__ = ["Contender", "needs_encoder", "queries_by_question", "run_probe"]

_SCHEMA = 3  # of the script and the trace: a change of either makes old traces unfinished


@dataclass(frozen=True, slots=True)
class Contender:
    """A system with the retriever that decides its order; ``similarity`` for the systems that need an encoder."""

    system: SystemName
    retriever: str
    ranker: ScopeRanker
    similarity: TextSimilarity | None = None


def needs_encoder(system: SystemName) -> bool:
    """Whether a system shows opening paragraphs or reranks matches."""
    return system in ("rarg+", "rarg++")


def run_probe(
    folder: Path,
    *,
    questions: Sequence[Question],
    queries: Sequence[RecordedQuery],
    contenders: Sequence[Contender],
    store: DocumentStore,
    config: WorkspaceConfig,
    progress: Callable[[int, int], None],
) -> list[ProbeOutcome]:
    """Probe every question with every contender.

    Args:
        folder: Traces are written to ``<folder>/<system>/<retriever>/``; keep it apart from the store.
        questions: Their evidence is what coverage is measured on; it is never written here.
        queries: The recorded queries, the same for all contenders, in the order in which they were sent.
        contenders: In the order of the outcomes; no system and retriever twice.
        store: The documents.
        config: Budget and depths.
        progress: Called with (questions done, questions in all), contenders multiplied in.

    Returns:
        One outcome a contender and question, in order.

    Raises:
        DataError: a recorded query belongs to none of the questions, or an id occurs twice.
        MissingPartError: ripgrep is not installed.
    """
    asked = queries_by_question(questions, queries)
    setting = _Setting(folder, store, find_ripgrep(), config)
    outcomes: list[ProbeOutcome] = []
    total = len(contenders) * len(questions)
    for contender in contenders:
        runner = _ContenderRun(contender, setting)
        for question in questions:
            progress(len(outcomes), total)
            outcomes.append(runner.run(question, asked[question.id]))
    progress(total, total)
    return outcomes


def queries_by_question(questions: Sequence[Question], queries: Sequence[RecordedQuery]) -> dict[str, list[QueryText]]:
    """Return each question's queries with its text, in order.

    Raises:
        DataError: a query belongs to none of the questions, or an id occurs twice.
    """
    texts = {question.id: question.text for question in questions}
    if len(texts) != len(questions):
        raise DataError("a question id occurs twice among the questions to probe; make ids unique")
    asked: dict[str, list[QueryText]] = defaultdict(list, {key: [] for key in texts})
    for query in queries:
        if query.question_id not in texts:
            raise DataError(f"recorded query {query.id!r} belongs to no question here ({query.question_id!r})")
        asked[query.question_id].append(QueryText(query.query, texts[query.question_id], query.history))
    return dict(asked)


@dataclass(frozen=True, slots=True)
class _Setting:
    """What is the same for all contenders."""

    folder: Path
    store: DocumentStore
    ripgrep: Ripgrep
    config: WorkspaceConfig


class _ContenderRun:
    """The probe with one contender."""

    def __init__(self, contender: Contender, setting: _Setting) -> None:
        self._contender = contender
        self._setting = setting
        self._ranker = contender.ranker.fingerprint
        self._similarity = contender.similarity.fingerprint if contender.similarity else ""
        scanner = OrderedScanner(
            setting.ripgrep, setting.store.documents_folder, timeout_s=setting.config.scan_timeout_s
        )
        self._tools = Tools(setting.store, scanner, contender.ranker, setting.config, contender.similarity)
        self._probe = ScriptedProbe(setting.store, setting.config, system=contender.system)

    def run(self, question: Question, queries: Sequence[QueryText]) -> ProbeOutcome:
        """Probe one question, or take its finished trace."""
        system, retriever = self._contender.system, self._contender.retriever
        if not queries:
            return ProbeOutcome(system, retriever, question.id, "no_queries", cause="the agent recorded no query")
        trace = self._finished(question, queries) or self._probe_question(question, queries)
        return judge_trace(trace, question, self._setting.store)

    def _finished(self, question: Question, queries: Sequence[QueryText]) -> Trace | None:
        path = trace_path(
            self._setting.folder,
            system=self._contender.system,
            retriever=self._contender.retriever,
            question_id=question.id,
        )
        if not path.exists():
            return None
        try:
            trace = read_trace(path)
        except DataError:  # of another schema: made again
            return None
        return trace if trace.identity == self._identity(question, queries) and not trace.failure else None

    def _probe_question(self, question: Question, queries: Sequence[QueryText]) -> Trace:
        session = Session(self._tools, is_confined=self._contender.system == "rise")
        self._probe.run(session, queries)
        trace = Trace(
            system=self._contender.system,
            retriever=self._contender.retriever,
            question_id=question.id,
            identity=self._identity(question, queries),
            ranker=self._ranker,
            similarity=self._similarity,
            ripgrep=self._setting.ripgrep.version,
            max_output_characters=self._setting.config.max_output_characters,
            scopes=tuple(RankedScope.of(scope) for scope in session.scopes),
            calls=session.calls,
        )
        write_trace(self._setting.folder, trace)
        return trace

    def _identity(self, question: Question, queries: Sequence[QueryText]) -> str:
        reported = {"systems", "scope_depths", "budgets"}  # decide what is shown of traces, not what is in them
        return fingerprint_value(
            {
                "schema": _SCHEMA,
                "system": self._contender.system,
                "question": question.id,
                "queries": [[query.query, query.question, list(query.history)] for query in queries],
                "ranker": self._ranker,
                "similarity": self._similarity,
                "store": self._setting.store.fingerprint,
                "settings": self._setting.config.model_dump(exclude=reported),
                "ripgrep": self._setting.ripgrep.version,
            }
        )
