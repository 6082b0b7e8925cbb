"""What a report is made from: typed values, nothing read from disk here.

A part that a run did not produce stays empty or None and is shown as "not measured".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentic_r.artifacts.stage import Manifest
from agentic_r.evaluation.curves import Chart
from agentic_r.evaluation.summary import Comparison, Estimate, Summary
from agentic_r.evaluation.svg import Bar
from agentic_r.types import ToolState, TrajectoryStatus

__all__ = [
    "Attempt",
    "AuditFinding",
    "CoverageStep",
    "Example",
    "ExampleTurn",
    "LabelReport",
    "ReportInput",
    "ShownPassage",
    "StageRecord",
    "ToolUse",
    "WorkspaceCoverage",
    "stage_record",
]


@dataclass(frozen=True, slots=True)
class StageRecord:
    """One stage: what went through it, what it left out and why, how long it took."""

    name: str
    counts: Mapping[str, int]
    skipped: Mapping[str, int]
    failed: Mapping[str, int]
    seconds: float


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One suspicious negative that the audit named."""

    instance_id: str
    passage_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class LabelReport:
    """The labels of one iteration: counts and shares by name, relevance by range, the audit's findings.

    A share is None where nothing had it. ``audit`` is None where no audit ran; an empty one ran and found nothing.
    """

    iteration: int
    counts: Mapping[str, int]
    shares: Mapping[str, float | None] = field(default_factory=dict)
    relevance: tuple[Bar, ...] = ()
    audit: tuple[AuditFinding, ...] | None = None


@dataclass(frozen=True, slots=True)
class CoverageStep:
    """Share of gold evidence that got as far as ``name`` (in scope, matched, read, shown ...)."""

    name: str
    share: Estimate | None


@dataclass(frozen=True, slots=True)
class ToolUse:
    """What one tool cost a question, in the mean over the questions that used it."""

    tool: str
    num_calls: float
    characters: float
    seconds: float


@dataclass(frozen=True, slots=True)
class WorkspaceCoverage:
    """How far gold evidence came in one system of the workspace with one retriever as scope ranker."""

    system: str
    retriever: str
    steps: tuple[CoverageStep, ...]
    num_questions: int
    costs: tuple[ToolUse, ...] = ()


@dataclass(frozen=True, slots=True)
class ShownPassage:
    """A passage as the agent saw it."""

    id: str
    title: str
    text: str
    is_gold: bool


@dataclass(frozen=True, slots=True)
class ExampleTurn:
    """One turn, for reading: what the model wrote, its query if any, what it was shown."""

    text: str
    query: str | None
    passages: tuple[ShownPassage, ...]
    tool_state: ToolState
    num_passages_cut: int = 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One agent with one retriever at a question."""

    label: str
    turns: tuple[ExampleTurn, ...]
    answer: str | None
    is_correct: bool
    status: TrajectoryStatus


@dataclass(frozen=True, slots=True)
class Example:
    """A held-out question with its right answers and one or several attempts."""

    question: str
    answers: tuple[str, ...]
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True)
class ReportInput:
    """Everything the page shows. ``example_choice`` says how the examples were picked."""

    name: str
    summary: Summary
    stages: tuple[StageRecord, ...] = ()
    agent_charts: tuple[Chart, ...] = ()
    retriever_charts: tuple[Chart, ...] = ()
    labels: tuple[LabelReport, ...] = ()
    coverage: tuple[WorkspaceCoverage, ...] = ()
    coverage_comparisons: tuple[Comparison, ...] = ()
    examples: tuple[Example, ...] = ()
    example_choice: str = ""
    configuration: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    python: str = ""
    machine: str = ""


def stage_record(name: str, manifest: Manifest) -> StageRecord:
    """Return a finished stage's manifest as the report shows it."""
    return StageRecord(
        name=name,
        counts=manifest.counts,
        skipped=manifest.skipped,
        failed=manifest.failed,
        seconds=manifest.seconds,
    )
