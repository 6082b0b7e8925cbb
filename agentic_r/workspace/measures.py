"""The workspace's measures by name, and the tables of values that are averaged and compared.

Names: ``scope@5`` (share of gold documents among the first five of a scope), ``imported`` (ranked at all),
``previewed``, ``matched``, ``read``, ``evidence@1000`` (share of evidence within the first thousand characters of
output), ``evidence`` (within all of it). Costs are no measures of coverage: they are ``tool_costs``.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from agentic_r.config import WorkspaceConfig
from agentic_r.workspace.calls import Tool
from agentic_r.workspace.coverage import SCOPE_DEPTH, Coverage, ProbeOutcome, ProbeState

__all__ = ["SCOPE_COVERAGE", "SystemRun", "by_state", "measure_names", "tool_costs", "values"]

SCOPE_COVERAGE = f"scope@{SCOPE_DEPTH}"
Values = dict[str, float]


@dataclass(frozen=True, slots=True, order=True)
class SystemRun:
    """A system with the retriever that decides its order."""

    system: str
    retriever: str


def measure_names(config: WorkspaceConfig) -> tuple[str, ...]:
    """Return the names of the measures, in the order in which evidence comes nearer to the reader."""
    scopes = (f"scope@{depth}" for depth in config.scope_depths)
    within = (f"evidence@{budget}" for budget in config.budgets)
    return (*scopes, "imported", "previewed", "matched", "read", *within, "evidence")


def values(outcomes: Iterable[ProbeOutcome], measure: str) -> dict[SystemRun, Values]:
    """Return system and retriever -> question id -> value, for the questions that have one."""
    table: dict[SystemRun, Values] = {}
    for outcome in outcomes:
        row = table.setdefault(SystemRun(outcome.system, outcome.retriever), {})
        if outcome.coverage is not None:
            row[outcome.question_id] = _value(outcome.coverage, measure)
    return table


def tool_costs(outcomes: Iterable[ProbeOutcome]) -> dict[SystemRun, dict[Tool, dict[str, Values]]]:
    """Return system and retriever -> tool -> ``calls``, ``characters`` or ``seconds`` -> question id -> value."""
    table: dict[SystemRun, dict[Tool, dict[str, Values]]] = {}
    for outcome in outcomes:
        row = table.setdefault(SystemRun(outcome.system, outcome.retriever), {})
        for cost in outcome.costs:
            cell = row.setdefault(cost.tool, {"calls": {}, "characters": {}, "seconds": {}})
            cell["calls"][outcome.question_id] = float(cost.num_calls)
            cell["characters"][outcome.question_id] = float(cost.characters)
            cell["seconds"][outcome.question_id] = cost.seconds
    return table


def by_state(outcomes: Iterable[ProbeOutcome]) -> dict[SystemRun, dict[ProbeState, list[str]]]:
    """Return system and retriever -> state -> question ids: who was counted, and who was not and why."""
    table: dict[SystemRun, dict[ProbeState, list[str]]] = {}
    for outcome in outcomes:
        states = table.setdefault(SystemRun(outcome.system, outcome.retriever), {})
        states.setdefault(outcome.state, []).append(outcome.question_id)
    return table


def _value(coverage: Coverage, measure: str) -> float:
    name, at, number = measure.partition("@")
    limit = int(number) if at else None
    match name:
        case "scope":
            return coverage.in_scope(limit)
        case "imported":
            return coverage.in_scope()
        case "previewed":
            return coverage.previewed
        case "matched":
            return coverage.matched
        case "read":
            return coverage.read
        case "evidence":
            return coverage.evidence_shown(limit)
        case _:
            raise ValueError(f"{measure}: no measure of the workspace")
