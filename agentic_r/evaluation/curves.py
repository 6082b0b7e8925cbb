"""Training curves from ``metrics.jsonl`` files.

Owns which values of a step are drawn and under which name. A step without a value is a gap in its line.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentic_r.artifacts.jsonl import JsonObject, read_jsonl
from agentic_r.errors import DataError
from agentic_r.evaluation.svg import Line, Point

__all__ = [
    "AGENT_CURVES",
    "RETRIEVER_CURVES",
    "Chart",
    "Curve",
    "TrainingLog",
    "dev_curves",
    "read_points",
    "training_charts",
]


@dataclass(frozen=True, slots=True)
class Curve:
    """One key of a step's record; curves with the same ``chart`` are drawn together, the second one dashed.

    ``within`` names the object in the record that holds the key; the record itself where it is empty.
    """

    key: str
    chart: str
    name: str = ""
    within: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """Series under one title; none, or none with a value, means that it was not measured."""

    title: str
    lines: tuple[Line, ...]
    x_label: str = "step"

    @property
    def is_measured(self) -> bool:
        """Say whether any series has a value."""
        return any(point.y is not None for line in self.lines for point in line.points)

    @property
    def num_gaps(self) -> int:
        """Steps whose value is missing."""
        return sum(point.y is None for line in self.lines for point in line.points)


@dataclass(frozen=True, slots=True)
class TrainingLog:
    """The file of one training run; ``iteration`` counts from 1, and is 0 for a training that stands alone."""

    iteration: int
    path: Path


AGENT_CURVES = (
    Curve("em", "answers correct, share"),
    Curve("f1", "token F1"),
    Curve("kl", "KL to the reference"),
    Curve("entropy", "entropy"),
    Curve("invalid_share", "invalid actions, share"),
    Curve("searches", "searches an attempt"),
)
RETRIEVER_CURVES = (
    Curve("loss", "contrastive loss"),
    Curve("positive_similarity", "similarity", "positives"),
    Curve("negative_similarity", "similarity", "negatives"),
    Curve("grad_norm", "gradient norm"),
)


def dev_curves(measures: Sequence[str]) -> tuple[Curve, ...]:
    """Return the curves of ``dev.jsonl``: a chart for each measure of the dev evaluation."""
    return tuple(Curve(measure, f"dev {measure}", within="values") for measure in measures)


def training_charts(logs: Sequence[TrainingLog], curves: Sequence[Curve]) -> tuple[Chart, ...]:
    """Return one chart a title, one line an iteration and curve.

    Raises:
        DataError: a file is broken or holds something else than numbers; names the line.
    """
    records = {log: list(read_jsonl(log.path)) if log.path.exists() else [] for log in logs}
    charts = []
    for title in dict.fromkeys(curve.chart for curve in curves):
        members = [curve for curve in curves if curve.chart == title]
        lines = [
            Line(
                name=" ".join(
                    part for part in (f"iteration {log.iteration}" * bool(log.iteration), curve.name) if part
                ),
                points=_points(records[log], curve.key, path=log.path, within=curve.within),
                colour=max(log.iteration - 1, 0),
                is_dashed=place > 0,
            )
            for log in logs
            for place, curve in enumerate(members)
        ]
        charts.append(Chart(title=title, lines=tuple(line for line in lines if line.points)))
    return tuple(charts)


def read_points(path: Path, key: str) -> tuple[Point, ...]:
    """Return the values of ``key`` over ``step``; lines without the key are about something else.

    Raises:
        DataError: a line is broken, or holds something else than a number or null.
    """
    return _points(list(read_jsonl(path)), key, path=path)


def _points(records: Sequence[JsonObject], key: str, *, path: Path, within: str = "") -> tuple[Point, ...]:
    points = []
    for number, record in enumerate(records, start=1):
        place = f"{path}, record {number}"
        values = record.get(within) if within else record
        if not isinstance(values, dict):
            raise DataError(f"{place}: {within} is {values!r}; expected an object of numbers")
        if key in values:
            points.append(Point(x=_number(record, "step", place), y=_number_or_gap(values, key, place)))
    return tuple(points)


def _number_or_gap(record: JsonObject, key: str, where: str) -> float | None:
    if record[key] is None:
        return None
    value = _number(record, key, where)
    return value if math.isfinite(value) else None


def _number(record: JsonObject, key: str, where: str) -> float:
    value = record.get(key)
    if not isinstance(value, int | float):
        raise DataError(f"{where}: {key!r} is {value!r}, expected a number; delete the stage's folder and run again")
    return float(value)
