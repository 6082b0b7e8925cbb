"""A sentence-transformers checkpoint: loading it from disk, and making it agree with our settings.

Owns what of a checkpoint is accepted, changed (pooler, normalisation, prompts, lengths) or refused. What is
then done with it is ``bi_encoder.py``'s.
"""

import warnings
from pathlib import Path

import torch
from safetensors import SafetensorError
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.transformer import Transformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from transformers import PreTrainedTokenizerBase

from agentic_r.encoder.settings import EncoderSettings, WeightType
from agentic_r.errors import ConfigError
from agentic_r.quiet import quiet_transformers

__all__ = ["TORCH_TYPES", "fast_tokenizer", "fit_checkpoint", "load_sentence_transformer"]

# What the loaders of weights, tokenizer and modules raise, each in its own way, on files they did not write so.
_DAMAGES = (SafetensorError, OSError, ValueError, TypeError, KeyError, AttributeError, ImportError)
_MAX_CAUSE = 300  # characters

TORCH_TYPES: dict[WeightType, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def load_sentence_transformer(path: Path, *, dtype: WeightType, device: str | None = None) -> SentenceTransformer:
    """Load a sentence-transformers folder from disk only, quietly.

    Raises:
        ConfigError: the folder is damaged, or no folder of that kind.
    """
    with quiet_transformers(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # older pooling configs, read as they are
        try:
            return SentenceTransformer(
                str(path), local_files_only=True, device=device, model_kwargs={"dtype": TORCH_TYPES[dtype]}
            )
        except _DAMAGES as error:
            cause = " ".join(f"{type(error).__name__}: {error}".split())[:_MAX_CAUSE]
            raise ConfigError(f"{path}: cannot be loaded as an encoder ({cause}); save or export it again") from error


def fast_tokenizer(model: SentenceTransformer) -> PreTrainedTokenizerBase:
    """Return the model's tokenizer.

    Raises:
        ConfigError: it has none that tells what a text becomes, or none that can pad.
    """
    tokenizer = _transformer(model).tokenizer
    if tokenizer is None or not tokenizer.is_fast or tokenizer.pad_token_id is None:
        raise ConfigError("encoder: the checkpoint has no fast tokenizer with a padding token; add a tokenizer.json")
    return tokenizer


def fit_checkpoint(model: SentenceTransformer, settings: EncoderSettings) -> None:
    """Make ``model`` agree with ``settings``, in place.

    A pooler is removed, a missing normalisation appended; prompts and lengths are written where
    sentence-transformers looks for them, so that its ``encode_query`` and ``encode_document`` agree with us.

    Raises:
        ConfigError: the checkpoint does what this encoder cannot, or the lengths leave no room for text.
    """
    transformer, tokenizer = _transformer(model), fast_tokenizer(model)
    if model.truncate_dim is not None:
        raise ConfigError("encoder: the checkpoint cuts its vectors (truncate_dim); remove that from its config")
    if any(isinstance(module, Pooling) and not module.include_prompt for module in model):
        raise ConfigError("encoder: the checkpoint leaves its prefix out of pooling; set include_prompt in its config")
    _check_lengths(transformer, tokenizer, settings)
    if "pooler" in dict(transformer.model.named_children()):
        transformer.model.register_module("pooler", None)  # unused, and its missing gradients break DDP
    if not any(isinstance(module, Normalize) for module in model):
        model.append(Normalize())
    tokenizer.truncation_side = "right"  # what stands at the end is cut, never the prefix
    model.prompts = {
        "query": settings.query_prefix,
        "document": settings.passage_prefix,
        "passage": settings.passage_prefix,
    }
    model.default_prompt_name = None
    model.max_seq_length = max(settings.max_query_tokens, settings.max_passage_tokens)
    transformer.query_length = settings.max_query_tokens
    transformer.document_length = settings.max_passage_tokens


def _transformer(model: SentenceTransformer) -> Transformer:
    first, *_ = model.children()
    if isinstance(first, Transformer):
        transformer: Transformer = first
        return transformer
    raise ConfigError(
        f"encoder: the checkpoint's first module is a {type(first).__name__}, not a Transformer; "
        "use a sentence-transformers checkpoint of a transformer"
    )


def _check_lengths(transformer: Transformer, tokenizer: PreTrainedTokenizerBase, settings: EncoderSettings) -> None:
    if settings.query_format != "query" and settings.separator is None:
        raise ConfigError("encoder: its tokenizer has no separator token; set encoder.query_format: query")
    positions = transformer.config.to_dict().get("max_position_embeddings")
    for name, limit, prefix in (
        ("max_query_tokens", settings.max_query_tokens, settings.query_prefix),
        ("max_passage_tokens", settings.max_passage_tokens, settings.passage_prefix),
    ):
        if positions is not None and limit > positions:
            raise ConfigError(f"encoder.{name} {limit} is more than the model's {positions} positions; lower it")
        needed = len(tokenizer(prefix)["input_ids"]) + 1
        if limit < needed:
            raise ConfigError(f"encoder.{name} {limit} has no room after prefix {prefix!r}; give at least {needed}")
