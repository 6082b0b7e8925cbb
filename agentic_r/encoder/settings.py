"""What an encoder does to text before its weights see it, as a value that travels with the weights.

Owns the file ``agentic_r.json`` inside a sentence-transformers folder. Pooling and normalisation are
modules of that folder; the weights are the folder's too.
"""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentic_r.artifacts.jsonl import write_text_atomic
from agentic_r.errors import ConfigError

__all__ = ["SETTINGS_FILE", "EncoderSettings", "QueryFormat", "WeightType", "read_settings", "write_settings"]

SETTINGS_FILE = "agentic_r.json"

QueryFormat = Literal["question_query", "query", "history"]
WeightType = Literal["float32", "bfloat16"]


class EncoderSettings(BaseModel):
    """Prefixes, query format, lengths (tokens, special ones included) and the type to encode in.

    Formats: ``question [SEP] query``; the query alone; ``history``, with the queries sent before between the two.

    ``separator`` is the text of the tokenizer's own separator token; None where it has none, which
    only ``query_format: query`` can live with.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    query_prefix: str
    passage_prefix: str
    query_format: QueryFormat
    max_query_tokens: int = Field(ge=4)
    max_passage_tokens: int = Field(ge=4)
    separator: str | None
    dtype: WeightType


def write_settings(folder: Path, settings: EncoderSettings) -> None:
    """Write ``agentic_r.json``, atomically; written last, it says that the folder is complete."""
    write_text_atomic(folder / SETTINGS_FILE, settings.model_dump_json(indent=2) + "\n")


def read_settings(folder: Path) -> EncoderSettings:
    """Read ``agentic_r.json``.

    Raises:
        ConfigError: the file is missing, or does not say what it must; names the file and the field.
    """
    file = folder / SETTINGS_FILE
    try:
        return EncoderSettings.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        raise ConfigError(
            f"{folder}: no {SETTINGS_FILE} in this folder, so it is no encoder of agentic-r; "
            "give an export (agentic-r export), or in a configuration `encoder: {kind: pretrained, path: ...}`"
        ) from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(step) for step in first["loc"]) or "file"
        raise ConfigError(f"{file}: {place}: {first['msg']}; save the encoder again") from None
