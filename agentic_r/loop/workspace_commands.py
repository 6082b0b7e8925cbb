"""What ``agentic-r workspace`` does with a finished run: show its coverage, run a preset, replay recorded traces.

Works on the run's own questions, queries and retrievers; trains nothing and changes no stage. New traces are kept in
``<run>/workspace_runs/<name>/``.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from agentic_r.artifacts.jsonl import write_json
from agentic_r.artifacts.lock import locked
from agentic_r.artifacts.records import read_records
from agentic_r.config import SYSTEMS, RunConfig, SystemName, WorkspaceConfig
from agentic_r.errors import ConfigError, DataError
from agentic_r.evaluation.coverage import coverage_comparisons, workspace_coverage
from agentic_r.evaluation.intervals import Bootstrap
from agentic_r.evaluation.report_parts import WorkspaceCoverage
from agentic_r.evaluation.summary import Comparison
from agentic_r.loop.layout import plan_stages, refuse_stale
from agentic_r.loop.parts import Parts
from agentic_r.loop.probing import Contenders, questions_with_evidence
from agentic_r.workspace.coverage import ProbeOutcome, judge_trace
from agentic_r.workspace.measures import measure_names
from agentic_r.workspace.replay import ORDERS, Change, Order, RecordedRanker, replay_trace
from agentic_r.workspace.ripgrep import find_ripgrep
from agentic_r.workspace.run import needs_encoder, run_probe
from agentic_r.workspace.scan import OrderedScanner
from agentic_r.workspace.session import Tools
from agentic_r.workspace.store import DocumentStore, open_store
from agentic_r.workspace.trace import Trace, read_trace, trace_path, write_trace

__all__ = [
    "ReplayRequest",
    "WorkspaceReport",
    "read_order",
    "read_system",
    "replay_traces",
    "replayed_name",
    "run_preset",
    "show_coverage",
]

Progress = Callable[[int, int], None]

_RUNS, _PRESET = "workspace_runs", "preset.json"


@dataclass(frozen=True, slots=True)
class WorkspaceReport:
    """What was measured, ready to be printed."""

    coverage: tuple[WorkspaceCoverage, ...]
    comparisons: tuple[Comparison, ...]
    num_failed: int

    def to_json(self) -> dict[str, object]:
        """Return one JSON object."""
        rows = [
            {
                "system": item.system,
                "retriever": item.retriever,
                "questions": item.num_questions,
                "coverage": {step.name: step.share and step.share.model_dump() for step in item.steps},
                "costs": {use.tool: {k: v for k, v in asdict(use).items() if k != "tool"} for use in item.costs},
            }
            for item in self.coverage
        ]
        return {
            "rows": rows,
            "comparisons": [item.model_dump(mode="json") for item in self.comparisons],
            "failed": self.num_failed,
        }


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Which recorded traces, and what to do otherwise; ``retriever`` None keeps the recorded rankings."""

    system: SystemName
    recorded: str
    retriever: str | None = None
    order: Order = "ranked"
    budget: int | None = None


def read_system(text: str) -> SystemName:
    """Return the system of that name. Raises ConfigError where there is none."""
    for name in SYSTEMS:
        if text == name:
            return name
    raise ConfigError(f"system {text}: expected one of {', '.join(SYSTEMS)}")


def read_order(text: str) -> Order:
    """Return the order of that name. Raises ConfigError where there is none."""
    for name in ORDERS:
        if text == name:
            return name
    raise ConfigError(f"order {text}: expected one of {', '.join(ORDERS)}")


def show_coverage(config: RunConfig) -> WorkspaceReport:
    """Return what the run's workspace stage found.

    Raises:
        ConfigError: the run has not come that far.
        StaleError: it was made with other settings or documents.
    """
    _refuse_unfit(config)
    return _report(config, config.workspace, _outcomes(config))


def _outcomes(config: RunConfig) -> list[ProbeOutcome]:
    path = config.folder / "workspace" / "outcomes.jsonl"
    if not path.exists():
        raise ConfigError(f"{path.parent}: no finished workspace stage; finish the run first (agentic-r run CONFIG)")
    return list(read_records(path, ProbeOutcome))


def run_preset(
    config: RunConfig, preset: WorkspaceConfig, *, name: str, retrievers: Iterable[str], progress: Progress
) -> WorkspaceReport:
    """Run the preset's systems with some of the run's retrievers, over its recorded queries.

    Args:
        config: A run whose workspace stage is finished.
        preset: Systems and settings.
        name: Traces are kept under it; the same name goes on where a killed call stopped.
        retrievers: ``bm25``, ``iter-2``, ``bm25+iter-2`` ...
        progress: Called with (questions done, questions in all).

    Raises:
        ConfigError: the run is not finished, has no such retriever, a system needs an encoder, the name stands for
            another preset, or another process works there.
        StaleError: the run was made with other settings or documents.
    """
    _refuse_unfit(config)
    parts = Parts(config)
    contenders = Contenders(parts)
    chosen = [contenders.make(system, retriever) for system in preset.systems for retriever in retrievers]
    folder = config.folder / _RUNS / name
    with locked(folder.parent):
        _keep_preset(folder, preset)
        outcomes = run_probe(
            folder,
            questions=questions_with_evidence(parts),
            queries=parts.recorded_queries,
            contenders=chosen,
            store=_store(config),
            config=preset,
            progress=progress,
        )
    return _report(config, preset, outcomes)


def replay_traces(config: RunConfig, request: ReplayRequest, *, progress: Progress) -> WorkspaceReport:
    """Replay the traces of one system and retriever, and set the outcome beside the recorded one.

    Raises:
        ConfigError: there are no such traces, or no such retriever.
        DataError: a trace that the run's outcomes count is missing or damaged.
        StaleError: the run was made with other settings or documents.
    """
    _refuse_unfit(config)
    with locked(config.folder / _RUNS):
        return _replay(config, request, progress)


def _replay(config: RunConfig, request: ReplayRequest, progress: Progress) -> WorkspaceReport:
    parts = Parts(config)
    store = _store(config)
    questions = questions_with_evidence(parts)
    traces = _recorded(config, request)
    contenders = Contenders(parts)
    named = request.retriever or request.recorded
    similarity = contenders.make(request.system, named).similarity if needs_encoder(request.system) else None
    ranker = contenders.make("rarg", request.retriever).ranker if request.retriever else None
    scanner = OrderedScanner(find_ripgrep(), store.documents_folder, timeout_s=config.workspace.scan_timeout_s)
    change = Change(replayed_name(request, seed=config.seed), request.order, request.budget, config.seed)
    outcomes: list[ProbeOutcome] = []
    for number, question in enumerate(questions):
        progress(number, len(questions))
        if question.id not in traces:
            continue
        trace = _read_recorded(traces[question.id], config)
        tools = Tools(store, scanner, ranker or RecordedRanker(trace), config.workspace, similarity)
        made = replay_trace(trace, tools, change=change)
        write_trace(config.folder / _RUNS / "replays", made)
        outcomes += [judge_trace(trace, question, store), judge_trace(made, question, store)]
    progress(len(questions), len(questions))
    outcomes.sort(key=lambda item: item.retriever != request.recorded)
    return _report(config, config.workspace, outcomes)


def _recorded(config: RunConfig, request: ReplayRequest) -> dict[str, Path]:
    """Return where the traces are that the run's outcomes count, by question."""
    folder = config.folder / "workspace" / "traces"
    system, retriever = request.system, request.recorded
    found = {
        item.question_id: trace_path(folder, system=system, retriever=retriever, question_id=item.question_id)
        for item in _outcomes(config)
        if (item.system, item.retriever) == (system, retriever) and item.state != "no_queries"
    }
    if not found:
        raise ConfigError(f"{folder}: no traces of {system} with {retriever}; see the folders there")
    return found


def _read_recorded(path: Path, config: RunConfig) -> Trace:
    manifest = config.folder / "workspace" / "manifest.json"
    remedy = f"delete {manifest} and finish the run again, which makes such traces and keeps the others"
    try:
        return read_trace(path)
    except FileNotFoundError:
        raise DataError(f"{path}: a trace that the run counts is missing; {remedy}") from None
    except DataError as error:
        raise DataError(f"{error}; {remedy}") from None


def replayed_name(request: ReplayRequest, *, seed: int) -> str:
    """Return the name under which a replay's traces are kept: another for whatever else is asked."""
    parts = [request.retriever or request.recorded, "replayed"]
    parts += [f"from {request.recorded}"] if request.retriever is not None else []
    parts += [f"by {request.order}"] if request.order != "ranked" else []
    parts += [f"of seed {seed}"] if request.order == "random" else []
    parts += [f"within {request.budget}"] if request.budget is not None else []
    return " ".join(parts)


def _store(config: RunConfig) -> DocumentStore:
    folder = config.folder / "workspace" / "store"
    if not (folder / "map.jsonl").exists():
        raise ConfigError(f"{folder}: no document store; finish the run first (agentic-r run CONFIG)")
    store = open_store(folder)
    for document in store:
        path = store.documents_folder / document.name
        if not path.is_file() or path.stat().st_size != document.num_bytes:
            raise DataError(
                f"{path}: missing, or not as long as the store's map says; "
                f"delete {folder.parent} and finish the run again, which makes it anew"
            )
    return store


def _refuse_unfit(config: RunConfig) -> None:
    """Check that what the run has finished is what the configuration says."""
    refuse_stale(plan_stages(config), config.folder)


def _keep_preset(folder: Path, preset: WorkspaceConfig) -> None:
    """Write beside a preset's traces what it was; traces of another preset are not written over."""
    file, asked = folder / _PRESET, preset.model_dump(mode="json")
    if not file.exists():
        write_json(file, asked)
    elif json.loads(file.read_text(encoding="utf-8")) != asked:
        raise ConfigError(
            f"{folder}: holds the traces of a preset of this file name with other settings (in {_PRESET}); "
            "rename the file, or delete the folder"
        )


def _report(config: RunConfig, settings: WorkspaceConfig, outcomes: list[ProbeOutcome]) -> WorkspaceReport:
    bootstrap = Bootstrap(seed=config.seed, samples=config.evaluation.bootstrap_samples)
    measures = measure_names(settings)
    return WorkspaceReport(
        coverage=workspace_coverage(outcomes, measures=measures, bootstrap=bootstrap),
        comparisons=coverage_comparisons(outcomes, measures=measures, bootstrap=bootstrap),
        num_failed=sum(item.state == "failed" for item in outcomes),
    )
