"""The ONNX graphs of an export: text ids in, unit vectors out, nothing left for the caller to do.

Owns the graph (the model with its pooling and normalisation, batch and length dynamic, shorter vectors as further
outputs) and its smaller forms: float16, and int8 weights with activations quantised as they come. Running one is
``onnx_vectors.py``'s. Legend: B texts, T tokens, D dimensions.
"""

import copy
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from agentic_r.config import OnnxPrecision
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.errors import ConfigError, MissingPartError

__all__ = ["ONNX_FILES", "SENTENCES", "TOKENS", "check_onnx_wishes", "require_onnx", "sentences_output", "write_onnx"]

ONNX_FILES: dict[OnnxPrecision, str] = {
    "fp32": "onnx/model.onnx",
    "fp16": "onnx/model_fp16.onnx",
    "int8": "onnx/model_int8.onnx",
}

# As sentence-transformers and text-embeddings-inference look for them.
TOKENS, SENTENCES = "token_embeddings", "sentence_embedding"

_PACKAGES = ("onnx", "onnxruntime", "onnxscript")
_OPSET = 20


class _Graph(torch.nn.Module):
    """A sentence-transformers model as a function of tensors; pooling and what follows compute in float32."""

    def __init__(self, model: SentenceTransformer, dimensions: Sequence[int]) -> None:
        super().__init__()
        self.transformer, *rest = model.children()
        self.rest = torch.nn.ModuleList(rest)
        self.dimensions = tuple(dimensions)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        """(B, T) ids and mask to (B, T, D) token vectors, (B, D) unit vectors, and (B, d) ones for each dimension."""
        features = self.transformer({"input_ids": input_ids, "attention_mask": attention_mask})
        features[TOKENS] = features[TOKENS].float()
        for module in self.rest:
            features = module(features)
        whole_BD = features[SENTENCES]
        shorter = [torch.nn.functional.normalize(whole_BD[:, :size], dim=-1) for size in self.dimensions]
        return (features[TOKENS], whole_BD, *shorter)


def require_onnx() -> None:
    """Refuse early where the packages are missing.

    Raises:
        MissingPartError: names them and the command that installs them.
    """
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise MissingPartError(
            f"export: ONNX needs {', '.join(missing)}; run: pip install 'agentic-r[export]', or leave ONNX out"
        )


def check_onnx_wishes(encoder: BiEncoder, precisions: Sequence[OnnxPrecision], dimensions: Sequence[int]) -> None:
    """Refuse early what cannot be written.

    Raises:
        ConfigError: a shorter dimension is not shorter, or is asked for without a graph that could give it.
        MissingPartError: the packages are missing.
    """
    for size in dimensions:
        if size >= encoder.dimension:
            raise ConfigError(f"export.dimensions: {size} is not shorter than the encoder's {encoder.dimension}")
    if dimensions and not precisions:
        raise ConfigError("export.dimensions: shorter vectors are outputs of an ONNX graph; name one in export.onnx")
    if precisions:
        require_onnx()


def sentences_output(dimension: int | None) -> str:
    """Return the output's name for whole vectors (None) or for those cut to ``dimension`` and normalised again."""
    return SENTENCES if dimension is None else f"{SENTENCES}_{dimension}"


def write_onnx(
    encoder: BiEncoder, folder: Path, *, precisions: Sequence[OnnxPrecision], dimensions: Sequence[int] = ()
) -> None:
    """Write the graphs below ``folder``.

    Args:
        encoder: With float32 weights; on any device.
        folder: An export folder.
        precisions: Which graphs. In the float16 one pooling and normalisation stay float32: a half has three decimals,
            and norms would be off by 4e-4.
        dimensions: Lengths of shorter vectors, as further outputs of every graph.

    Raises:
        ConfigError: a dimension cannot be had.
        MissingPartError: a package is missing.
    """
    check_onnx_wishes(encoder, precisions, dimensions)
    if not precisions:
        return
    (folder / "onnx").mkdir(exist_ok=True)
    whole = folder / ONNX_FILES["fp32"]
    if "fp32" in precisions or "int8" in precisions:
        _trace(_Graph(encoder.model, dimensions), whole, device=encoder.model.device)
    if "fp16" in precisions:
        halved = _Graph(copy.deepcopy(encoder.model), dimensions)
        halved.transformer.half()
        _trace(halved, folder / ONNX_FILES["fp16"], device=encoder.model.device)
    if "int8" in precisions:
        _quantise(whole, folder / ONNX_FILES["int8"])
    if "fp32" not in precisions:
        whole.unlink(missing_ok=True)


def _trace(graph: _Graph, target: Path, *, device: torch.device) -> None:
    ids_BT = torch.ones((2, 5), dtype=torch.long, device=device)
    mask_BT = torch.ones_like(ids_BT)
    mask_BT[1, 3:] = 0
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")}
    with _quiet(), torch.no_grad():
        torch.onnx.export(
            graph.eval(),
            (ids_BT, mask_BT),
            target,
            dynamo=True,
            opset_version=_OPSET,
            input_names=["input_ids", "attention_mask"],
            output_names=[TOKENS, SENTENCES, *(sentences_output(size) for size in graph.dimensions)],
            dynamic_shapes={"input_ids": axes, "attention_mask": axes},
            external_data=False,
            verbose=False,
        )


def _quantise(source: Path, target: Path) -> None:
    """Write weights as int8 with one scale a channel; activations are quantised at run time."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with _quiet():
        quantize_dynamic(source, target, per_channel=True, weight_type=QuantType.QInt8)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporters' warnings, which are for their own developers, from the user."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
