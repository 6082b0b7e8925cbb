"""From per-question values to the summary.

Owns what is compared: intervals for every row and cell; paired tests between rows that follow one another, between
the last row and every earlier one, and between cells that differ in the agent alone or in the retriever alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Literal

from agentic_r.evaluation.intervals import Bootstrap, mean_interval, paired_difference
from agentic_r.evaluation.recorded import GoldKind
from agentic_r.evaluation.summary import (
    CROSS_MEASURES,
    MEASURES,
    Comparison,
    CrossCell,
    Estimate,
    LeftOut,
    Notes,
    Summary,
    SummaryRow,
)

__all__ = [
    "CrossMeasurement",
    "Measurements",
    "PerQuestion",
    "RunCost",
    "StageMeasurement",
    "better_format",
    "build_summary",
    "cell_name",
    "correctness_rule",
]

PerQuestion = Mapping[str, Mapping[str, float]]  # measure -> question id -> value
Side = tuple[str, PerQuestion]
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class StageMeasurement:
    """What one row is made from: values by measure and question; a measure left out was not taken."""

    stage: str
    per_question: PerQuestion


@dataclass(frozen=True, slots=True)
class CrossMeasurement:
    """What one cell of agent x retriever is made from: ``em`` and ``search_turns`` by question."""

    agent: str
    retriever: str
    per_question: PerQuestion


@dataclass(frozen=True, slots=True)
class RunCost:
    """What the run took; None where the memory could not be read."""

    seconds: float
    peak_memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class Measurements:
    """Everything measured in a run, rows in the order of the loop (bm25, base, iter-1 ...).

    ``base_formats`` holds the base retriever's values under each query format that was tried; the row ``base``
    is expected to be that of ``better_format``.
    """

    rows: Sequence[StageMeasurement]
    correctness: str
    cross: Sequence[CrossMeasurement] = ()
    gold: GoldKind = "gold"
    answer_mode: Literal["default", "squad"] = "default"
    query_id_hits: Literal["kept", "dropped"] = "kept"
    base_formats: Mapping[str, PerQuestion] = field(default_factory=dict)
    left_out: Sequence[LeftOut] = ()


def correctness_rule(reward: Literal["em", "f1"], *, correct_f1: float) -> str:
    """Say in words when an answer counts as correct."""
    return "exact match" if reward == "em" else f"token F1 >= {correct_f1:g}"


def better_format(formats: Mapping[str, PerQuestion]) -> str:
    """Return the query format with the higher mean recall@5, then nDCG@10; equal ones: the first given.

    Raises:
        ValueError: no format was given.
    """
    if not formats:
        raise ValueError("no query format was measured")

    def quality(name: str) -> tuple[float, float]:
        values = [formats[name].get(measure, {}).values() for measure in ("recall@5", "ndcg@10")]
        recall, ndcg = (sum(sorted(group)) / len(group) if group else float("-inf") for group in values)
        return recall, ndcg

    return max(formats, key=quality)  # max keeps the first of equals


def build_summary(measurements: Measurements, *, cost: RunCost, bootstrap: Bootstrap) -> Summary:
    """Turn per-question values into the summary; the bootstrap's seed is the run's."""
    rows = [
        SummaryRow.model_validate({"stage": row.stage, **_estimates(row.per_question, MEASURES, bootstrap)})
        for row in measurements.rows
    ]
    cells = [
        CrossCell.model_validate(
            {"agent": c.agent, "retriever": c.retriever, **_estimates(c.per_question, CROSS_MEASURES, bootstrap)}
        )
        for c in measurements.cross
    ]
    comparisons = [_compare(*pair, bootstrap) for pair in _row_pairs(measurements.rows)]
    comparisons += [_compare(*pair, bootstrap) for pair in _cross_pairs(measurements.cross)]
    return Summary(
        rows=tuple(rows),
        cross=tuple(cells),
        seconds=round(cost.seconds, 1),
        peak_memory_bytes=cost.peak_memory_bytes,
        seed=bootstrap.seed,
        notes=_notes(measurements, bootstrap),
        comparisons=tuple(comparison for made in comparisons for comparison in made),
    )


def _estimates(values: PerQuestion, measures: Sequence[str], bootstrap: Bootstrap) -> dict[str, Estimate | None]:
    return {measure: _estimate(values.get(measure, {}), bootstrap) for measure in measures}


def _estimate(values: Mapping[str, float], bootstrap: Bootstrap) -> Estimate | None:
    interval = mean_interval(values, bootstrap=bootstrap)
    if interval is None:
        return None
    return Estimate(
        value=round(interval.value, _DIGITS), low=round(interval.low, _DIGITS), high=round(interval.high, _DIGITS)
    )


def _notes(measurements: Measurements, bootstrap: Bootstrap) -> Notes:
    formats, rows = measurements.base_formats, measurements.rows
    return Notes(
        gold=measurements.gold,
        correctness=measurements.correctness,
        answer_mode=measurements.answer_mode,
        query_id_hits=measurements.query_id_hits,
        base_query_format=better_format(formats) if formats else None,
        base_query_formats={name: _estimates(values, MEASURES[:2], bootstrap) for name, values in formats.items()},
        confidence=bootstrap.confidence,
        bootstrap_samples=bootstrap.samples,
        num_questions={row.stage: _sizes(row.per_question) for row in rows},
        other_measures={row.stage: _others(row.per_question, bootstrap) for row in rows},
        left_out=tuple(measurements.left_out),
    )


def _sizes(values: PerQuestion) -> dict[str, int]:
    return {measure: len(group) for measure, group in values.items()}


def _others(values: PerQuestion, bootstrap: Bootstrap) -> dict[str, Estimate | None]:
    return _estimates(values, [name for name in values if name not in MEASURES], bootstrap)


def _row_pairs(rows: Sequence[StageMeasurement]) -> Iterator[tuple[Side, Side]]:
    """Each row against the one before it, and the last against every one before those."""
    sides = [(row.stage, row.per_question) for row in rows]
    for old, new in pairwise(sides):
        yield new, old
    for old in sides[:-2]:
        yield sides[-1], old


def _cross_pairs(cells: Sequence[CrossMeasurement]) -> Iterator[tuple[Side, Side]]:
    """Cells that differ in one part alone, the later against the earlier."""
    for place, new in enumerate(cells):
        for old in cells[:place]:
            if (new.agent == old.agent) != (new.retriever == old.retriever):
                yield (
                    (cell_name(agent=new.agent, retriever=new.retriever), new.per_question),
                    (cell_name(agent=old.agent, retriever=old.retriever), old.per_question),
                )


def cell_name(*, agent: str, retriever: str) -> str:
    """Return the name under which a cell of agent x retriever is compared."""
    return f"agent {agent}, retriever {retriever}"


def _compare(new: Side, old: Side, bootstrap: Bootstrap) -> list[Comparison]:
    made = []
    for measure in MEASURES:
        test = paired_difference(new[1].get(measure, {}), old[1].get(measure, {}), bootstrap=bootstrap)
        if test is not None:
            rounded = {
                key: round(value, _DIGITS) if isinstance(value, float) else value for key, value in asdict(test).items()
            }
            made.append(Comparison.model_validate({"measure": measure, "new": new[0], "old": old[0], **rounded}))
    return made
