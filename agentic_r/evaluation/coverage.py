"""How far gold evidence came in the workspace, from the probe's outcomes: values, differences, costs, tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

from agentic_r.evaluation.intervals import Bootstrap, mean_interval, paired_difference
from agentic_r.evaluation.report_parts import CoverageStep, ToolUse, WorkspaceCoverage
from agentic_r.evaluation.summary import Comparison, Estimate, LeftOut
from agentic_r.workspace.coverage import ProbeOutcome, ProbeState
from agentic_r.workspace.measures import SystemRun, by_state, tool_costs, values

__all__ = [
    "SYSTEM_NAMES",
    "CoverageTable",
    "coverage_comparisons",
    "coverage_left_out",
    "coverage_tables",
    "run_name",
    "workspace_coverage",
]

SYSTEM_NAMES = {"rise": "RISE", "rarg": "RARG", "rarg+": "RARG+", "rarg++": "RARG++"}

_REASONS: dict[ProbeState, str] = {
    "no_queries": "workspace: the question has no recorded query",
    "no_evidence": "workspace: the question has no evidence",
    "failed": "workspace: a call failed",
}


@dataclass(frozen=True, slots=True)
class CoverageTable:
    """One system: the measures, and a row a retriever."""

    system: str
    measures: tuple[str, ...]
    rows: tuple[WorkspaceCoverage, ...]


def workspace_coverage(
    outcomes: Sequence[ProbeOutcome], *, measures: Sequence[str], bootstrap: Bootstrap
) -> tuple[WorkspaceCoverage, ...]:
    """Return one coverage a system and retriever, in the order in which they come."""
    tables = {measure: values(outcomes, measure) for measure in measures}
    costs = tool_costs(outcomes)
    made = []
    for run in _runs(outcomes):
        found = {measure: mean_interval(tables[measure][run], bootstrap=bootstrap) for measure in measures}
        steps = [
            CoverageStep(name, None if item is None else Estimate(value=item.value, low=item.low, high=item.high))
            for name, item in found.items()
        ]
        uses = [
            ToolUse(tool, *(_mean(cell[key]) for key in ("calls", "characters", "seconds")))
            for tool, cell in costs[run].items()
        ]
        num_questions = len(next(iter(tables.values()))[run]) if tables else 0
        made.append(WorkspaceCoverage(run.system, run.retriever, tuple(steps), num_questions, tuple(uses)))
    return tuple(made)


def coverage_comparisons(
    outcomes: Sequence[ProbeOutcome], *, measures: Sequence[str], bootstrap: Bootstrap
) -> tuple[Comparison, ...]:
    """Compare, over the same questions: in each system the last retriever with the others, and neighbouring systems.

    Neighbouring systems (RARG+ against RARG ...) are compared with the last retriever that both have.
    """
    runs = _runs(outcomes)
    made = []
    for measure in measures:
        table = values(outcomes, measure)
        for new, old in _pairs(runs):
            test = paired_difference(table[new], table[old], bootstrap=bootstrap)
            if test is not None:
                made.append(
                    Comparison.model_validate(
                        {"measure": measure, "new": run_name(new), "old": run_name(old), **asdict(test)}
                    )
                )
    return tuple(made)


def coverage_left_out(outcomes: Sequence[ProbeOutcome]) -> tuple[LeftOut, ...]:
    """Return the questions that have no coverage, by system with retriever and reason.

    What is true of every system with every retriever (no queries, no evidence) is said once a retriever.
    """
    listed: dict[tuple[str, ProbeState], dict[str, None]] = {}
    for run, states in by_state(outcomes).items():
        for state, ids in states.items():
            if state != "ok":
                stage = run_name(run) if state == "failed" else run.retriever
                listed.setdefault((stage, state), {}).update(dict.fromkeys(ids))
    return tuple(LeftOut(stage=stage, reason=_REASONS[state], ids=tuple(ids)) for (stage, state), ids in listed.items())


def coverage_tables(coverage: Sequence[WorkspaceCoverage]) -> list[CoverageTable]:
    """Return one table a system, in the order in which systems come."""
    groups: dict[str, list[WorkspaceCoverage]] = {}
    for item in coverage:
        groups.setdefault(item.system, []).append(item)
    return [
        CoverageTable(SYSTEM_NAMES.get(system, system), tuple(step.name for step in rows[0].steps), tuple(rows))
        for system, rows in groups.items()
    ]


def run_name(run: SystemRun) -> str:
    """Return ``RARG+ with iter-2``."""
    return f"{SYSTEM_NAMES.get(run.system, run.system)} with {run.retriever}"


def _runs(outcomes: Sequence[ProbeOutcome]) -> list[SystemRun]:
    return list(dict.fromkeys(SystemRun(item.system, item.retriever) for item in outcomes))


def _pairs(runs: Sequence[SystemRun]) -> Iterator[tuple[SystemRun, SystemRun]]:
    by_system: dict[str, list[SystemRun]] = {}
    for run in runs:
        by_system.setdefault(run.system, []).append(run)
    for group in by_system.values():
        yield from ((group[-1], other) for other in group[:-1])
    for before, after in pairwise(by_system.values()):
        both = {run.retriever for run in before} & {run.retriever for run in after}
        common = [run.retriever for run in after if run.retriever in both]
        if common:
            yield SystemRun(after[0].system, common[-1]), SystemRun(before[0].system, common[-1])


def _mean(cell: Mapping[str, float]) -> float:
    return sum(cell.values()) / len(cell)
