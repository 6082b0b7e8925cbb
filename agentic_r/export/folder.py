"""The export folder: what sentence-transformers loads from a local path, whole or not there at all.

Owns its completeness (every module listed has its folder and configuration, prompts, lengths) and the
card's place in it. That it gives the right vectors is ``parity.py``'s to prove.
"""

import json
import shutil
from pathlib import Path

from agentic_r.artifacts.jsonl import write_json, write_text_atomic
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.settings import SETTINGS_FILE
from agentic_r.errors import ConfigError, ParityError
from agentic_r.export.card import Card, render_card

__all__ = ["check_folder", "export_encoder"]

_TRANSFORMER_FILE = "sentence_bert_config.json"


def export_encoder(encoder_path: Path, folder: Path, *, card: Card) -> Path:
    """Write an encoder as a folder for others; an earlier export in its place is replaced.

    Args:
        encoder_path: A folder that ``BiEncoder.save`` wrote.
        folder: The export; written beside and renamed.
        card: What its README says beyond what the encoder knows.

    Returns:
        ``folder``.

    Raises:
        ConfigError: ``encoder_path`` is no saved encoder, or ``folder`` holds files that are not an export.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / SETTINGS_FILE).exists():
        raise ConfigError(f"{folder}: holds files that are not an export; give another folder, or empty this one")
    encoder = BiEncoder.load(encoder_path, dtype="float32")
    part = folder.with_name(folder.name + ".part")
    if part.exists():
        shutil.rmtree(part)
    encoder.save(part)
    _state_max_length(part, encoder)
    write_text_atomic(part / "README.md", render_card(card, encoder))
    check_folder(part)
    if folder.exists():
        shutil.rmtree(folder)
    part.replace(folder)
    return folder


def check_folder(folder: Path) -> None:
    """Check that every module that ``modules.json`` lists is there with its configuration.

    Raises:
        ParityError: naming what is missing.
    """
    modules = _read_json(folder / "modules.json")
    if not isinstance(modules, list) or not modules:
        raise ParityError(f"{folder}: modules.json lists no module; export again")
    for module in modules:
        place, kind = str(module["path"]), str(module["type"]).rpartition(".")[2]
        config = folder / place / ("config.json" if place else _TRANSFORMER_FILE)
        if not config.exists():
            raise ParityError(f"{folder}: modules.json lists {kind}, but {config} is missing; export again")
    for name in ("config.json", "tokenizer.json", "config_sentence_transformers.json", SETTINGS_FILE):
        if not (folder / name).exists():
            raise ParityError(f"{folder}: {name} is missing; export again")
    if not any(folder.glob("*.safetensors")):
        raise ParityError(f"{folder}: there are no weights (*.safetensors); export again")


def _state_max_length(folder: Path, encoder: BiEncoder) -> None:
    """Write the limit where servers look for it and sentence-transformers itself no longer puts it."""
    settings = _read_json(folder / _TRANSFORMER_FILE)
    if not isinstance(settings, dict):
        raise ParityError(f"{folder}: {_TRANSFORMER_FILE} is not a mapping; save the encoder again")
    write_json(folder / _TRANSFORMER_FILE, settings | {"max_seq_length": encoder.model.max_seq_length})


def _read_json(path: Path) -> object:
    try:
        value: object = json.loads(path.read_bytes())
        return value
    except FileNotFoundError:
        raise ParityError(f"{path.parent}: {path.name} is missing; export again") from None
    except ValueError as error:
        raise ParityError(f"{path}: not JSON ({error}); export again") from None
