"""The files of the export folder, written so that every known reader understands them.

sentence-transformers 5.4 renamed its modules and rewrote the pooling configuration. Readers of the older names
(sentence-transformers before 5.4, text-embeddings-inference, vLLM before it learned the new form) fail on the new ones
or, worse, pool by guess; readers of the new ones read the older too. So the older form is what an export holds.
It knows one limit for all texts: the longer of the encoder's two.
"""

import json
from pathlib import Path

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.transformer import Transformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling

from agentic_r.artifacts.jsonl import write_json
from agentic_r.errors import ConfigError, ParityError

__all__ = ["POOLING_FLAGS", "TRANSFORMER_FILE", "read_json", "write_portable_layout"]

TRANSFORMER_FILE = "sentence_bert_config.json"

POOLING_FLAGS = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
_OLD_NAMES = "sentence_transformers.models."
_NEW_TOKENIZER, _OLD_TOKENIZER = "TokenizersBackend", "PreTrainedTokenizerFast"  # transformers 5, and all of them
_OF_ONE_LOAD = ("is_local", "local_files_only", "backend")  # how this tokenizer was loaded, not what it is


def write_portable_layout(folder: Path, model: SentenceTransformer) -> None:
    """Rewrite the configuration of a folder that sentence-transformers saved.

    Args:
        folder: The saved folder.
        model: The model it was saved from.

    Raises:
        ConfigError: the model has a module that the older form has no name for.
    """
    modules = read_json(folder / "modules.json")
    if not isinstance(modules, list) or len(modules) != len(list(model.children())):
        raise ParityError(f"{folder}: modules.json does not list the model's modules; save the encoder again")
    for entry, module in zip(modules, model.children(), strict=True):
        if not isinstance(module, Transformer | Pooling | Normalize | Dense):
            raise ConfigError(
                f"export: the encoder has a {type(module).__name__} module, which the folder that all engines read "
                "has no form for; train from a checkpoint of a Transformer with Pooling, Dense and Normalize"
            )
        entry["type"] = _OLD_NAMES + type(module).__name__
        _write_module(folder, str(entry["path"]), module, max_tokens=model.max_seq_length)
    write_json(folder / "modules.json", modules)
    _write_tokenizer_settings(folder)


def read_json(path: Path) -> object:
    """Read a JSON file of an export.

    Raises:
        ParityError: it is missing, or not JSON.
    """
    try:
        value: object = json.loads(path.read_bytes())
        return value
    except FileNotFoundError:
        raise ParityError(f"{path.parent}: {path.name} is missing; export again") from None
    except ValueError as error:
        raise ParityError(f"{path}: not JSON ({error}); export again") from None


def _write_module(
    folder: Path, place: str, module: Transformer | Pooling | Normalize | Dense, *, max_tokens: int | None
) -> None:
    match module:
        case Transformer():
            # An unknown key here is an error for older versions; lower-casing is the tokenizer's own business.
            write_json(folder / place / TRANSFORMER_FILE, {"max_seq_length": max_tokens, "do_lower_case": False})
        case Pooling(pooling_mode=mode):
            modes = (mode,) if isinstance(mode, str) else mode
            flags = {flag: name in modes for name, flag in POOLING_FLAGS.items()}
            size = {"word_embedding_dimension": module.embedding_dimension}
            write_json(folder / place / "config.json", {**size, **flags, "include_prompt": module.include_prompt})
        case Normalize():
            write_json(folder / place / "config.json", {})
        case Dense():
            pass  # its configuration kept its form


def _write_tokenizer_settings(folder: Path) -> None:
    path = folder / "tokenizer_config.json"
    settings = read_json(path)
    if not isinstance(settings, dict):
        raise ParityError(f"{path}: not a mapping; save the encoder again")
    kept = {key: value for key, value in settings.items() if key not in _OF_ONE_LOAD}
    if kept.get("tokenizer_class") == _NEW_TOKENIZER:
        kept["tokenizer_class"] = _OLD_TOKENIZER
    write_json(path, kept)
