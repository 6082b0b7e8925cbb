"""An ONNX graph of an export at work: the folder's tokenizer, prefixes and limit, onnxruntime, and no more.

What stands here is all that a user of the graph has to do; the card says the same. Legend: N texts, T tokens,
D dimensions.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from tokenizers import Tokenizer

from agentic_r.errors import ParityError
from agentic_r.export.artefacts import Side
from agentic_r.export.layout import TRANSFORMER_FILE, read_json
from agentic_r.export.onnx_graph import require_onnx, sentences_output
from agentic_r.protocols import Vectors

__all__ = ["OnnxVectors"]

_BATCH = 16

Kind = TypeVar("Kind", bound=BaseModel)


class _Prompts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    prompts: dict[str, str]


class _TokenizerSettings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    pad_token: str
    padding_side: str = "right"


class _Limit(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    max_seq_length: int


class OnnxVectors:
    """One graph of a folder, and one of its outputs."""

    def __init__(
        self, folder: Path, file: str, *, name: str, threads: int | None = None, dimension: int | None = None
    ) -> None:
        """Open a graph.

        Args:
            folder: The export.
            file: The graph's path below it.
            name: How the report calls it.
            threads: Of onnxruntime; by default its own choice.
            dimension: Of a shorter output; None for whole vectors.

        Raises:
            ParityError: the graph has no such output; says what it has.
            MissingPartError: onnxruntime is not installed.
        """
        require_onnx()
        import onnxruntime
        from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph, InvalidProtobuf

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or 0
        options.log_severity_level = 3  # errors only
        self.name = name
        self._where = f"{folder / file}"
        if not (folder / file).is_file():
            raise ParityError(f"{folder}: {file} is missing; export again")
        try:
            self._session = onnxruntime.InferenceSession(folder / file, options, providers=["CPUExecutionProvider"])
        except (Fail, InvalidGraph, InvalidProtobuf) as error:
            raise ParityError(f"{self._where}: not a graph that onnxruntime runs ({error}); export again") from None
        self._output = sentences_output(dimension)
        self._check_outputs()
        self._tokenizer = _open_tokenizer(folder)
        prompts = _read(folder / "config_sentence_transformers.json", _Prompts).prompts
        self._prefix: dict[Side, str] = {
            "query": prompts.get("query", ""),
            "passage": prompts.get("document", ""),
            "plain": "",
        }

    @property
    def outputs(self) -> list[str]:
        """Names of what the graph gives."""
        return [output.name for output in self._session.get_outputs()]

    def encode(self, texts: Sequence[str], side: Side) -> Vectors:
        """Return (N, D) float32 rows, as the graph gives them."""
        encodings = [self._tokenizer.encode(self._prefix[side] + text) for text in texts]
        order = sorted(range(len(texts)), key=lambda number: len(encodings[number].ids))
        rows: dict[int, Vectors] = {}
        for start in range(0, len(order), _BATCH):
            numbers = order[start : start + _BATCH]
            batch = self._tokenizer.encode_batch([self._prefix[side] + texts[number] for number in numbers])
            feed = {
                "input_ids": np.array([item.ids for item in batch], dtype=np.int64),
                "attention_mask": np.array([item.attention_mask for item in batch], dtype=np.int64),
            }
            found_ND = self._session.run([self._output], feed)[0]
            rows.update(zip(numbers, np.asarray(found_ND, dtype=np.float32), strict=True))
        return np.stack([rows[number] for number in range(len(texts))])

    def _check_outputs(self) -> None:
        shapes = {output.name: output.shape for output in self._session.get_outputs()}
        shape = shapes.get(self._output)
        listed = ", ".join(f"{name} of rank {len(found)}" for name, found in shapes.items())
        if shape is None:
            raise ParityError(
                f"{self._where}: the graph ends before pooling: it gives {listed}, and no {self._output}; export again"
            )
        if len(shape) != 2:
            raise ParityError(
                f"{self._where}: the graph ends before pooling: its {self._output} has rank {len(shape)} (a vector a "
                f"token, not one a text); export again"
            )


def _open_tokenizer(folder: Path) -> Tokenizer:
    settings = _read(folder / "tokenizer_config.json", _TokenizerSettings)
    limit = _read(folder / TRANSFORMER_FILE, _Limit).max_seq_length
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    pad_id = tokenizer.token_to_id(settings.pad_token)
    if pad_id is None:
        raise ParityError(f"{folder}: the tokenizer does not know its padding token {settings.pad_token!r}")
    tokenizer.enable_truncation(limit)
    tokenizer.enable_padding(direction=settings.padding_side, pad_id=pad_id, pad_token=settings.pad_token)
    return tokenizer


def _read(path: Path, kind: type[Kind]) -> Kind:
    try:
        return kind.model_validate_json(json.dumps(read_json(path)))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        raise ParityError(f"{path}: {place}: {first['msg']}; export again") from None
