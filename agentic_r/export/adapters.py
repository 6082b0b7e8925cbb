"""LoRA adapters made part of the weights: what others load is a plain checkpoint.

A folder with an adapter names its base by a path of the machine it was trained on; no server could follow it.
"""

from importlib.util import find_spec
from pathlib import Path

from sentence_transformers.base.modules.transformer import Transformer

from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.errors import MissingPartError

__all__ = ["has_adapter", "merge_adapter"]

_ADAPTER_FILE = "adapter_config.json"


def has_adapter(folder: Path) -> bool:
    """Whether a saved encoder is an adapter on another checkpoint.

    Raises:
        MissingPartError: it is, and peft, which loads it, is not installed.
    """
    found = (folder / _ADAPTER_FILE).is_file()
    if found and find_spec("peft") is None:
        raise MissingPartError(f"{folder}: a LoRA adapter, which needs peft; run: pip install 'agentic-r[lora]'")
    return found


def merge_adapter(encoder: BiEncoder) -> None:
    """Add the adapter of an encoder to its weights, in place, and forget it."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    transformer, *_ = encoder.model.children()
    assert isinstance(transformer, Transformer)
    adapted, device = transformer.model, encoder.model.device
    for name, layer in [item for item in adapted.named_modules() if isinstance(item[1], BaseTunerLayer)]:
        layer.merge(safe_merge=True)
        parent, _, leaf = name.rpartition(".")
        setattr(adapted.get_submodule(parent), leaf, layer.get_base_layer())
    # A fresh model, since the adapted one remembers under which names it was loaded, and would save under these.
    plain = type(adapted)(adapted.config)
    for name in {name for name, _ in plain.named_children()} - {name for name, _ in adapted.named_children()}:
        plain.register_module(name, None)  # the pooler, which our encoders do without
    plain.load_state_dict(adapted.state_dict())
    transformer.model = plain
    encoder.model.to(device).eval()
