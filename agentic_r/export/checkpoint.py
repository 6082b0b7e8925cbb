"""From a checkpoint to a proved export: folder, graphs and parity, in place only when all of it holds.

Owns the order. The parts are ``folder.py``'s, ``onnx_graph.py``'s and ``parity.py``'s.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentic_r.config import ExportConfig
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.export.adapters import has_adapter, merge_adapter
from agentic_r.export.card import Card
from agentic_r.export.folder import check_place, part_folder, put_in_place, write_folder
from agentic_r.export.onnx_graph import check_onnx_wishes, write_onnx
from agentic_r.export.parity import parity_report
from agentic_r.export.parity_report import ParityReport
from agentic_r.types import Passage, QueryText

__all__ = ["ParityTexts", "export_checkpoint"]

_STEPS = 3  # folder, graphs, proof


@dataclass(frozen=True, slots=True)
class ParityTexts:
    """Real texts for the proof; without them rankings are not compared."""

    queries: Sequence[QueryText] = ()
    passages: Sequence[Passage] = ()


def export_checkpoint(
    encoder_path: Path,
    folder: Path,
    *,
    card: Card,
    texts: ParityTexts,
    config: ExportConfig,
    progress: Callable[[int, int], None],
) -> ParityReport:
    """Write an encoder as a folder for others and prove it; an earlier, proved export in its place is replaced.

    Args:
        encoder_path: A folder that ``BiEncoder.save`` wrote; a LoRA adapter in it is merged.
        folder: The export. It is written beside, and takes its place once it is proved.
        card: What its README says beyond what the encoder knows.
        texts: Real queries and passages.
        config: Graphs, shorter vectors, tolerances.
        progress: Called with (steps done, steps in all).

    Returns:
        The parity report, which is also in the folder.

    Raises:
        ParityError: the export does not give the encoder's vectors; what was written stays beside, for looking at.
        ConfigError: ``encoder_path`` is no saved encoder, ``folder`` may not be replaced (``check_place``), or a wish
            cannot be met.
        MissingPartError: a package for ONNX is missing.
    """
    progress(0, _STEPS)
    place = check_place(folder, source=encoder_path)
    adapted = has_adapter(encoder_path)
    encoder = BiEncoder.load(encoder_path, dtype="float32")
    check_onnx_wishes(encoder, config.onnx, config.dimensions)
    part, plain = part_folder(place), encoder
    if adapted:
        plain = BiEncoder.load(encoder_path, dtype="float32")
        merge_adapter(plain)
    write_folder(plain, part, card=card, config=config)
    progress(1, _STEPS)
    write_onnx(plain, part, precisions=config.onnx, dimensions=config.dimensions)
    progress(2, _STEPS)
    report = parity_report(encoder, part, queries=texts.queries, passages=texts.passages, config=config)
    put_in_place(place)
    progress(_STEPS, _STEPS)
    return report
