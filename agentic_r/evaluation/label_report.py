"""The labels of an iteration, as the report shows them."""

from collections.abc import Sequence

from agentic_r.evaluation.report_parts import AuditFinding, LabelReport
from agentic_r.evaluation.svg import Bar
from agentic_r.labels.audit import Audit

__all__ = ["label_report", "relevance_bars"]

_NUM_BARS = 5


def label_report(iteration: int, audit: Audit, relevances: Sequence[float]) -> LabelReport:
    """Return counts, shares, the spread of relevance and the audit's findings.

    Args:
        iteration: From 1.
        audit: Of the iteration's instances.
        relevances: Of the candidates that have one, in [0, 1].
    """
    numbers = audit.statistics
    has_relevance = numbers.num_labels > numbers.num_without_relevance
    has_correctness = numbers.num_labels > numbers.num_without_correctness
    return LabelReport(
        iteration=iteration,
        counts={
            "queries": numbers.num_queries,
            "labels": numbers.num_labels,
            "without relevance": numbers.num_without_relevance,
            "without correctness": numbers.num_without_correctness,
            "queries with a correct candidate": numbers.num_some_correct,
            "queries with every candidate correct": numbers.num_all_correct,
            "instances": audit.num_instances,
            "negatives": audit.num_negatives,
        },
        shares={
            "mean relevance": numbers.mean_relevance if has_relevance else None,
            "share relevant": numbers.share_relevant if has_relevance else None,
            "share leading to a correct answer": numbers.share_correct if has_correctness else None,
        },
        relevance=relevance_bars(relevances),
        audit=tuple(AuditFinding(item.instance_id, item.passage_id, item.reason) for item in audit.suspicions),
    )


def relevance_bars(relevances: Sequence[float]) -> tuple[Bar, ...]:
    """Count relevances in five equal ranges of [0, 1]; the last one includes 1. Empty without any."""
    if not relevances:
        return ()
    counts = [0] * _NUM_BARS
    for value in relevances:
        if not 0 <= value <= 1:
            raise ValueError(f"relevance {value} is outside [0, 1]")
        counts[min(int(value * _NUM_BARS), _NUM_BARS - 1)] += 1
    width = 100 // _NUM_BARS
    return tuple(Bar(f"{place * width}-{(place + 1) * width}", count) for place, count in enumerate(counts))
