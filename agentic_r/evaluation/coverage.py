"""How far gold evidence came in the workspace, from the probe's outcomes."""

from collections.abc import Sequence

from agentic_r.evaluation.intervals import Bootstrap, mean_interval
from agentic_r.evaluation.report_parts import CoverageStep, WorkspaceCoverage
from agentic_r.evaluation.summary import Estimate, LeftOut
from agentic_r.workspace.coverage import CoverageMeasure, ProbeOutcome, ProbeState, by_state, values

__all__ = ["coverage_left_out", "workspace_coverage"]

_STEPS: tuple[tuple[CoverageMeasure, str], ...] = (
    ("scope_coverage", "in scope"),
    ("matched", "matched"),
    ("read", "read"),
    ("evidence_shown", "evidence shown"),
)
_REASONS: dict[ProbeState, str] = {
    "no_queries": "workspace: the question has no recorded query",
    "no_evidence": "workspace: the question has no evidence",
    "failed": "workspace: a call failed",
}


def workspace_coverage(outcomes: Sequence[ProbeOutcome], *, bootstrap: Bootstrap) -> tuple[WorkspaceCoverage, ...]:
    """Return one coverage a retriever, in the order in which retrievers come."""
    tables = {measure: values(outcomes, measure) for measure, _ in _STEPS}
    made = []
    for retriever in dict.fromkeys(outcome.retriever for outcome in outcomes):
        intervals = [(name, mean_interval(tables[measure][retriever], bootstrap=bootstrap)) for measure, name in _STEPS]
        steps = [
            CoverageStep(name, None if found is None else Estimate(value=found.value, low=found.low, high=found.high))
            for name, found in intervals
        ]
        made.append(WorkspaceCoverage(retriever, tuple(steps), len(tables["scope_coverage"][retriever])))
    return tuple(made)


def coverage_left_out(outcomes: Sequence[ProbeOutcome]) -> tuple[LeftOut, ...]:
    """Return the questions that have no coverage, by retriever and reason."""
    return tuple(
        LeftOut(stage=retriever, reason=_REASONS[state], ids=tuple(ids))
        for retriever, states in by_state(outcomes).items()
        for state, ids in states.items()
        if state != "ok"
    )
