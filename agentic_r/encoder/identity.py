"""What makes two encoders the same encoder: one hash over everything that decides a vector.

Owns the list of what counts (weights, architecture, modules, tokenizer, settings) and of what does not
(names of folders, versions of libraries, the tokenizer's transient padding and truncation).
"""

import hashlib
import json
from collections.abc import Iterator, Mapping

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.base.modules.module import Module
from transformers import PreTrainedTokenizerBase

from agentic_r.artifacts.fingerprint import fingerprint_strings, fingerprint_value

__all__ = ["model_fingerprint"]

_NOT_ARCHITECTURE = ("_name_or_path", "architectures", "transformers_version", "dtype", "torch_dtype", "use_cache")


def model_fingerprint(
    model: SentenceTransformer, tokenizer: PreTrainedTokenizerBase, settings: Mapping[str, object]
) -> str:
    """Hash a model as it is now.

    Args:
        model: Its weights (names, types, shapes, bytes), modules and their configuration count.
        tokenizer: Its vocabulary, normalisation and special tokens count.
        settings: Prefixes, format, lengths.
    """
    return fingerprint_strings(
        [
            _weights(model),
            fingerprint_value([*_modules(model)]),
            _tokenizer(tokenizer),
            fingerprint_value(dict(settings)),
        ]
    )


def _weights(model: SentenceTransformer) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        plain = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {plain.dtype} {tuple(plain.shape)}".encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _modules(model: SentenceTransformer) -> Iterator[object]:
    for module in model:
        if isinstance(module, Transformer):
            config = module.config.to_dict()
            yield ["Transformer", {key: value for key, value in config.items() if key not in _NOT_ARCHITECTURE}]
        elif isinstance(module, Module):
            yield [type(module).__name__, module.get_config_dict()]
        else:
            yield [type(module).__name__]


def _tokenizer(tokenizer: PreTrainedTokenizerBase) -> str:
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    state["truncation"] = state["padding"] = None
    return fingerprint_value(state)
