"""LoRA: small trained matrices beside frozen ones, merged into plain weights when training is over.

By ``peft``, which is imported here only. The trained encoder is saved merged, so that everything that loads an encoder
loads it.
"""

from collections.abc import Callable

import torch

from agentic_r.config import LoraConfig
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.errors import ConfigError, MissingPartError

__all__ = ["add_lora"]


def add_lora(encoder: BiEncoder, config: LoraConfig, *, seed: int) -> Callable[[], None]:
    """Freeze an encoder, put adapters into it, and return what merges them.

    Raises:
        MissingPartError: peft is not installed.
        ConfigError: the model has no modules of the names given.
    """
    try:
        import peft
    except ImportError:
        raise MissingPartError("contrastive.lora needs peft; run: pip install 'agentic-r[lora]'") from None
    backbone = encoder.model.transformers_model
    assert backbone is not None, "the encoder's first module is a Transformer"
    torch.manual_seed(seed)
    settings = peft.LoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules=list(config.modules) or None,
    )
    for weight in encoder.model.parameters():
        weight.requires_grad_(False)
    try:
        adapted = peft.get_peft_model(backbone, settings)  # changes the backbone's modules in place
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"contrastive.lora.modules {list(config.modules)}: {reason}") from None

    def merge() -> None:
        adapted.merge_and_unload()
        for weight in encoder.model.parameters():
            weight.requires_grad_(True)

    return merge
