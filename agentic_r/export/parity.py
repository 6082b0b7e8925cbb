"""The proof that each form of an export gives the vectors of the trained encoder, or the reason why it does not.

Compares the folder as anybody loads it (plain sentence-transformers, local path, no network) and each ONNX graph with
the encoder, on every kind of text of ``probes.py`` and in how they rank, and looks for what differs where they do.
Legend: N texts, Q queries, P passages, D dimensions.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from agentic_r.artifacts.jsonl import write_text_atomic
from agentic_r.config import ExportConfig, OnnxPrecision
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.errors import ParityError
from agentic_r.export.artefacts import FolderVectors
from agentic_r.export.comparison import Compared, compare_artefact
from agentic_r.export.diagnosis import UNEXPLAINED, explain_vectors
from agentic_r.export.differences import name_differences
from agentic_r.export.folder import check_folder
from agentic_r.export.onnx_graph import ONNX_FILES
from agentic_r.export.onnx_vectors import OnnxVectors
from agentic_r.export.parity_report import PAGE_FILE, REPORT_FILE, ArtefactParity, ParityReport, Tolerance, render_page
from agentic_r.export.probes import Probe, Probes, collect_probes
from agentic_r.types import Passage, QueryText

__all__ = ["parity_report", "write_report"]


def parity_report(
    encoder: BiEncoder,
    exported: Path,
    *,
    queries: Sequence[QueryText],
    passages: Sequence[Passage],
    config: ExportConfig,
) -> ParityReport:
    """Compare an export with its encoder and write ``parity.json`` and ``parity.html`` into it, passed or not.

    Args:
        encoder: What was trained, with float32 weights (``BiEncoder.load(path, dtype="float32")``).
        exported: The folder of ``export_encoder``, with the graphs that ``config.onnx`` names.
        queries: Some real queries of the run.
        passages: Some real passages of the run; how they are ranked is compared for these queries.
        config: Which graphs there are, and the tolerances.

    Raises:
        ParityError: the folder is incomplete, or vectors differ by more than the tolerance; names the cause.
        ValueError: the encoder's weights are not float32, so that rounding would look like a difference.
    """
    if any(weight.dtype != torch.float32 for weight in encoder.model.parameters()):
        raise ValueError("parity is measured in float32: load the encoder with dtype='float32'")
    check_folder(exported)
    probes = collect_probes(encoder, queries=queries, passages=passages)
    artefacts = (
        _folder_parity(encoder, exported, probes, config),
        *_graph_parities(encoder, exported, probes, config),
    )
    report = ParityReport(
        equal=all(item.equal for item in artefacts),
        fingerprint=encoder.fingerprint,
        num_passages_left_out=probes.num_left_out,
        artefacts=artefacts,
    )
    write_report(exported, report)
    if not report.equal:
        raise ParityError(_sentence(exported, report))
    return report


def write_report(folder: Path, report: ParityReport) -> None:
    """Write a report as JSON and as a page."""
    write_text_atomic(folder / REPORT_FILE, report.model_dump_json(indent=2) + "\n")
    write_text_atomic(folder / PAGE_FILE, render_page(report))


def _folder_parity(encoder: BiEncoder, exported: Path, probes: Probes, config: ExportConfig) -> ArtefactParity:
    artefact = FolderVectors(exported, device=str(encoder.model.device))
    tolerance = Tolerance(
        max_difference=config.max_difference,
        max_norm_error=config.max_norm_error,
        min_cosine=None,
        min_overlap=config.min_overlap,
    )
    compared = compare_artefact(artefact, probes, tolerance)
    if not compared.unequal:
        return compared.parity
    causes = tuple(name_differences(encoder, artefact.model))
    if not causes:
        causes = tuple(explain_vectors(encoder, compared.unequal, compared.found, max_norm_error=config.max_norm_error))
    return compared.parity.model_copy(update={"differences": causes})


def _graph_parities(
    encoder: BiEncoder, exported: Path, probes: Probes, config: ExportConfig
) -> Iterator[ArtefactParity]:
    for precision in config.onnx:
        file, tolerance = ONNX_FILES[precision], _graph_tolerance(precision, config)
        for dimension in (None, *config.dimensions):
            name = f"onnx {precision}" + (f", {dimension} dimensions" if dimension else "")
            artefact = OnnxVectors(exported, file, name=name, threads=torch.get_num_threads(), dimension=dimension)
            if dimension is None:
                compared = compare_artefact(artefact, probes, tolerance)
            else:
                judged = tolerance.model_copy(update={"min_overlap": None})
                compared = compare_artefact(artefact, _shortened(probes, dimension), judged, ranked_as=probes)
            yield compared.parity.model_copy(
                update={"differences": tuple(_graph_causes(encoder, compared, config, shorter=dimension is not None))}
            )


def _graph_tolerance(precision: OnnxPrecision, config: ExportConfig) -> Tolerance:
    difference: float | None = None
    cosine: float | None = None
    overlap = config.min_overlap
    match precision:
        case "fp32":
            difference = config.onnx_max_difference
        case "fp16":
            cosine = config.fp16_min_cosine
        case "int8":
            cosine, overlap = config.int8_min_cosine, config.int8_min_overlap
    return Tolerance(
        max_difference=difference,
        min_cosine=cosine,
        max_norm_error=config.max_norm_error,
        min_overlap=overlap,
    )


def _graph_causes(encoder: BiEncoder, compared: Compared, config: ExportConfig, *, shorter: bool) -> Iterable[str]:
    """Say why a graph's vectors differ; of shorter ones no more is said than of the whole ones beside them."""
    if not compared.unequal:
        return ()
    if shorter:
        return (UNEXPLAINED,)
    return explain_vectors(encoder, compared.unequal, compared.found, max_norm_error=config.max_norm_error)


def _shortened(probes: Probes, dimension: int | None) -> Probes:
    """Return probes whose vectors are cut to ``dimension`` and normalised again; None changes nothing."""
    if dimension is None:
        return probes
    cut = []
    for probe in probes.all:
        start_ND = probe.expected[:, :dimension]
        unit_ND = start_ND / np.maximum(np.linalg.norm(start_ND, axis=1, keepdims=True), 1e-12)
        cut.append(Probe(probe.kind, probe.side, probe.texts, unit_ND, probe.may_be_refused))
    return Probes(tuple(cut), probes.num_left_out)


def _sentence(exported: Path, report: ParityReport) -> str:
    first = next(item for item in report.artefacts if not item.equal)
    return f"{exported}: {first.sentence()}; export again"
