"""``report.html`` of a retriever that was trained alone: curves, dev measures, what was read, settings.

The page's look is that of a run's report (``report.py``); figures come from the training's own files.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from agentic_r.artifacts.jsonl import read_jsonl, write_text_atomic
from agentic_r.artifacts.records import from_json
from agentic_r.artifacts.stage import Manifest, read_manifest
from agentic_r.contrastive.dev import DevRecord
from agentic_r.errors import ConfigError
from agentic_r.evaluation.curves import RETRIEVER_CURVES, Curve, TrainingLog, dev_curves, training_charts
from agentic_r.evaluation.page import Figure, curve_figure, page_environment
from agentic_r.evaluation.wording import number_text

__all__ = ["write_training_report"]


@dataclass(frozen=True, slots=True)
class _DevRow:
    """Means over the dev queries, of the base and of the weights written."""

    measure: str
    base: float
    written: float


@dataclass(frozen=True, slots=True)
class _TrainingReport:
    name: str
    seed: object
    headline: str
    course: str
    dev: tuple[_DevRow, ...]
    counts: Mapping[str, int]
    skipped: Mapping[str, int]
    seconds: float
    python: str
    packages: Mapping[str, str]
    configuration: str


def write_training_report(folder: Path) -> Path:
    """Write the page of a finished training into its folder, and return its path.

    Args:
        folder: Of ``agentic-r train retriever``.

    Raises:
        ConfigError: there is no finished training in it.
        DataError: one of its files is broken.
    """
    manifest, summary = read_manifest(folder), folder / "summary.json"
    if manifest is None or not summary.exists():
        raise ConfigError(f"{folder}: no finished training; run agentic-r train retriever again")
    said = json.loads(summary.read_text(encoding="utf-8"))
    log = folder / "retriever" / "dev.jsonl"
    records = [
        from_json(DevRecord, line, where=f"{log}:{number}")
        for number, line in enumerate(read_jsonl(log) if log.exists() else (), start=1)
    ]
    dev = _dev_rows(records, said["dev"])
    report = _TrainingReport(
        name=folder.name,
        seed=manifest.identity["seed"],
        headline=_headline(dev, said),
        course=said["reason"],
        dev=dev,
        counts=manifest.counts,
        skipped=manifest.skipped,
        seconds=manifest.seconds,
        python=manifest.python,
        packages=manifest.packages,
        configuration=_configuration(manifest),
    )
    page = page_environment().get_template("training.html")
    path = folder / "report.html"
    html = page.render(
        report=report,
        figures=_figures(folder / "retriever" / "metrics.jsonl", RETRIEVER_CURVES),
        dev_figures=_figures(log, dev_curves([row.measure for row in dev])),
    )
    write_text_atomic(path, html)
    return path


def _dev_rows(records: Sequence[DevRecord], kept: Mapping[str, Mapping[str, float]] | None) -> tuple[_DevRow, ...]:
    if kept is None or not records:
        return ()
    base = records[0].values
    return tuple(_DevRow(measure, base[measure], value) for measure, value in kept["values"].items())


def _headline(dev: Sequence[_DevRow], summary: Mapping[str, object]) -> str:
    if not dev:
        return f"A retriever was trained on {summary['num_instances']} instances, without dev evaluation"
    first = dev[0]
    if first.written > first.base:
        base, written = number_text(first.base), number_text(first.written)
        return f"Training raises {first.measure} on the dev set from {base} to {written}"
    return f"Training does not raise {first.measure} on the dev set ({number_text(first.base)}): the base was written"


def _figures(log: Path, curves: Sequence[Curve]) -> list[Figure]:
    return [curve_figure(chart) for chart in training_charts([TrainingLog(0, log)], curves)]


def _configuration(manifest: Manifest) -> str:
    settings = {key.removeprefix("setting "): value for key, value in manifest.identity.items()}
    return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
