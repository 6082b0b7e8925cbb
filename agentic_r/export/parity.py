"""The proof that an export gives the vectors of the trained encoder, or the reason why it does not.

Loads the folder as anybody would (plain sentence-transformers, local path, no network), compares it with
the encoder on every kind of text of ``probes.py``, and looks for what differs between the two when vectors do.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict

from agentic_r.artifacts.jsonl import write_text_atomic
from agentic_r.config import ExportConfig
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.checkpoint import load_sentence_transformer
from agentic_r.errors import ParityError
from agentic_r.export.differences import name_differences
from agentic_r.export.folder import check_folder
from agentic_r.export.probes import Probe, collect_probes
from agentic_r.types import Passage, QueryText

__all__ = ["KindParity", "ParityReport", "parity_report"]


class KindParity(BaseModel):
    """How one kind of text compares: largest difference of a component, smallest cosine, norms of the export."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    num_texts: int
    max_difference: float | None
    min_cosine: float | None
    min_norm: float
    max_norm: float
    equal: bool


class ParityReport(BaseModel):
    """The whole comparison, as ``parity.json`` holds it; ``differences`` is empty where all is equal."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    equal: bool
    fingerprint: str
    tolerance: float
    max_difference: float | None
    min_cosine: float | None
    kinds: tuple[KindParity, ...]
    differences: tuple[str, ...]


def parity_report(
    encoder: BiEncoder,
    exported: Path,
    *,
    queries: Sequence[QueryText],
    passages: Sequence[Passage],
    config: ExportConfig,
) -> ParityReport:
    """Compare an export with its encoder and write ``parity.json`` into its folder, passed or not.

    Args:
        encoder: What was trained, with float32 weights (``BiEncoder.load(path, dtype="float32")``).
        exported: The folder of ``export_encoder``.
        queries: Some real queries of the run.
        passages: Some real passages of the run.
        config: The tolerance, for components and for norms.

    Raises:
        ParityError: the folder is incomplete, or vectors differ by more than the tolerance; names the cause.
        ValueError: the encoder's weights are not float32, so that rounding would look like a difference.
    """
    if any(weight.dtype != torch.float32 for weight in encoder.model.parameters()):
        raise ValueError("parity is measured in float32: load the encoder with dtype='float32'")
    check_folder(exported)
    model = load_sentence_transformer(exported, dtype="float32", device=str(encoder.model.device))
    probes = collect_probes(encoder, model, queries=queries, passages=passages)
    kinds = tuple(_compare(probe, config.max_difference) for probe in probes)
    report = ParityReport(
        equal=all(kind.equal for kind in kinds),
        fingerprint=encoder.fingerprint,
        tolerance=config.max_difference,
        max_difference=_extreme([kind.max_difference for kind in kinds], max),
        min_cosine=_extreme([kind.min_cosine for kind in kinds], min),
        kinds=kinds,
        differences=() if all(kind.equal for kind in kinds) else tuple(name_differences(encoder, model)),
    )
    write_text_atomic(exported / "parity.json", report.model_dump_json(indent=2) + "\n")
    if not report.equal:
        raise ParityError(_sentence(exported, report))
    return report


def _compare(probe: Probe, tolerance: float) -> KindParity:
    norms_N = np.linalg.norm(probe.found, axis=1)
    difference = cosine = None
    if probe.found.shape == probe.expected.shape and bool(np.isfinite(probe.found).all()):
        difference = float(np.abs(probe.found - probe.expected).max())
        lengths_N = norms_N * np.linalg.norm(probe.expected, axis=1)
        cosine = float(((probe.found * probe.expected).sum(1) / np.maximum(lengths_N, 1e-12)).min())
    norms_are_one = bool((np.abs(norms_N - 1) <= tolerance).all())
    return KindParity(
        kind=probe.kind,
        num_texts=len(probe.found),
        max_difference=difference,
        min_cosine=cosine,
        min_norm=float(norms_N.min()),
        max_norm=float(norms_N.max()),
        equal=difference is not None and difference <= tolerance and norms_are_one,
    )


def _extreme(values: Sequence[float | None], choose: Callable[[list[float]], float]) -> float | None:
    """Return the worst of them; None where one could not be computed."""
    known = [value for value in values if value is not None]
    return choose(known) if len(known) == len(values) else None


def _sentence(exported: Path, report: ParityReport) -> str:
    unequal = [kind for kind in report.kinds if not kind.equal]
    worst = max(unequal, key=lambda kind: float("inf") if kind.max_difference is None else kind.max_difference)
    size = (
        "vectors of another length" if worst.max_difference is None else f"a difference of {worst.max_difference:.2g}"
    )
    norms = f", norms {worst.min_norm:.4g} to {worst.max_norm:.4g}"
    causes = (
        "; ".join(report.differences) or "no difference in modules, prompts, lengths, tokenizer or weights explains it"
    )
    return (
        f"{exported}: {len(unequal)} of {len(report.kinds)} kinds of text do not give the encoder's vectors "
        f"(worst: {worst.kind}, {size}{norms}, tolerance {report.tolerance:g}): {causes}; export again"
    )
