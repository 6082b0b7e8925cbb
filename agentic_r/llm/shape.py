"""What a language model's folder says of its size, read without loading a weight; imports no torch.

Owns the counting: from ``config.json`` and the headers of the weight files. What the numbers cost is ``needs.py``'s.
"""

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from agentic_r.errors import ConfigError

__all__ = ["ModelShape", "count_parameters", "read_shape"]

_MAX_HEADER_BYTES = 100_000_000  # more is no safetensors file


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of a causal language model; ``max_tokens`` is the longest context it was made for, None where unlimited."""

    parameters: int
    width: int
    layers: int
    feed_forward: int
    key_value_width: int
    vocabulary: int
    max_tokens: int | None


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    hidden_size: int
    num_hidden_layers: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    vocab_size: int
    max_position_embeddings: int | None = None


def read_shape(folder: Path) -> ModelShape:
    """Read the shape of the model in a Hugging Face folder.

    Raises:
        ConfigError: its files do not tell; names what is missing.
    """
    try:
        config = _Config.model_validate_json((folder / "config.json").read_bytes())
    except FileNotFoundError:
        raise ConfigError(f"{folder}: no config.json there; give the folder of a Hugging Face model") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "file"
        raise ConfigError(f"{folder / 'config.json'}: {place}: {first['msg']}; its size cannot be told") from None
    heads = config.num_key_value_heads or config.num_attention_heads
    return ModelShape(
        parameters=count_parameters(folder),
        width=config.hidden_size,
        layers=config.num_hidden_layers,
        feed_forward=config.intermediate_size,
        key_value_width=heads * (config.head_dim or config.hidden_size // config.num_attention_heads),
        vocabulary=config.vocab_size,
        max_tokens=config.max_position_embeddings,
    )


def count_parameters(folder: Path) -> int:
    """Count the weights in a folder's safetensors files (tied ones once).

    Raises:
        ConfigError: there are no such files, or one is broken.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ConfigError(f"{folder}: no .safetensors weights there; save the model in that format")
    return sum(_count_in(file) for file in files)


def _count_in(file: Path) -> int:
    try:
        with file.open("rb") as opened:
            (length,) = struct.unpack("<Q", opened.read(8))
            header = json.loads(opened.read(min(length, _MAX_HEADER_BYTES)))
        return sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
    except (struct.error, ValueError, AttributeError, KeyError, TypeError):
        raise ConfigError(
            f"{file}: not a safetensors file; copy it again (is it a pointer to large storage?)"
        ) from None
