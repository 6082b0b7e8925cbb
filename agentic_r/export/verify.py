"""The parity proof against a live service: whether it gives the vectors of the export that it was made from.

The export itself is the reference; that it gives the trained encoder's vectors was proved when it was written.
"""

from pathlib import Path

import httpx
from pydantic import ValidationError

from agentic_r.config import ExportConfig
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.settings import read_settings
from agentic_r.errors import ConfigError
from agentic_r.export.artefacts import FolderVectors
from agentic_r.export.checkpoint import ParityTexts
from agentic_r.export.comparison import compare_artefact
from agentic_r.export.diagnosis import explain_vectors
from agentic_r.export.differences import name_differences
from agentic_r.export.endpoints import Endpoint, EndpointVectors
from agentic_r.export.folder import check_folder
from agentic_r.export.parity_report import REPORT_FILE, ParityReport, Tolerance
from agentic_r.export.probes import collect_probes

__all__ = ["verify_endpoint"]


def verify_endpoint(
    folder: Path,
    endpoint: Endpoint,
    *,
    texts: ParityTexts,
    config: ExportConfig,
    transport: httpx.BaseTransport | None = None,
) -> ParityReport:
    """Compare a service with the export it serves.

    Args:
        folder: The export.
        endpoint: The service.
        texts: Real queries and passages; without them rankings are not compared.
        config: Tolerances (``endpoint_min_cosine``, ``endpoint_max_norm_error``, ``min_overlap``).
        transport: What carries requests; by default the network.

    Returns:
        The report of one artefact; ``equal`` says whether the service passes, ``differences`` why not.

    Raises:
        ConfigError: the service cannot be reached or used, or the folder is no export, or not as it was proved.
        ParityError: the folder is incomplete, or the service gives no vectors of texts.
    """
    encoder = _proved_encoder(folder)
    probes = collect_probes(encoder, queries=texts.queries, passages=texts.passages)
    tolerance = Tolerance(
        max_difference=None,
        min_cosine=config.endpoint_min_cosine,
        max_norm_error=config.endpoint_max_norm_error,
        min_overlap=config.min_overlap,
    )
    artefact = EndpointVectors(endpoint, encoder.settings, transport=transport)
    compared = compare_artefact(artefact, probes, tolerance)
    parity = compared.parity
    if compared.unequal:
        causes = explain_vectors(
            encoder, compared.unequal, compared.found, max_norm_error=config.endpoint_max_norm_error
        )
        parity = parity.model_copy(update={"differences": tuple(causes)})
    return ParityReport(
        equal=parity.equal,
        fingerprint=encoder.fingerprint,
        num_passages_left_out=probes.num_left_out,
        artefacts=(parity,),
    )


def _proved_encoder(folder: Path) -> BiEncoder:
    """Load the reference; refuse one that is not what was proved, for whoever serves it would pass with it."""
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder; give an export")
    read_settings(folder)  # says of what is no export at all that it is none
    check_folder(folder)
    file = folder / REPORT_FILE
    try:
        proved = ParityReport.model_validate_json(file.read_bytes()).fingerprint
    except FileNotFoundError:
        raise ConfigError(f"{folder}: no {REPORT_FILE}, so it was never proved; export again") from None
    except ValidationError:
        raise ConfigError(f"{file}: not a report of this version; export again") from None
    encoder = BiEncoder.load(folder, dtype="float32")
    as_others_load_it = FolderVectors(folder, device=str(encoder.model.device)).model
    differences = [*name_differences(encoder, as_others_load_it)]
    if encoder.fingerprint != proved:
        differences.append(f"the proof is of encoder {proved}, its files are now {encoder.fingerprint}")
    if differences:
        raise ConfigError(f"{folder}: changed since it was proved ({'; '.join(differences)}); export again")
    return encoder
