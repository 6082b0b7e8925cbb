"""FSDP2 and ZeRO: every process keeps a part of the optimizer, of gradients, of weights; accelerate cuts and gathers.

What this training needs besides: that the launcher's wish is one that is met (on CPU accelerate ignores it without a
word), gradient norms of parts, and under FSDP the whole weights back in the encoder wherever they are measured or
written. Weights stay float32 and autocast does the rest, as in one process: what both do in bfloat16 by themselves
gives vectors in bfloat16, too coarse for a temperature of 0.01 (and ZeRO's weights would be written so).
"""

import os
from collections.abc import Iterable

import torch
from accelerate import Accelerator, PartialState  # type: ignore[import-untyped]  # it has no types
from accelerate.utils import DistributedType  # type: ignore[import-untyped]
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy
from torch.distributed.tensor import DTensor
from transformers import TrainingArguments

from agentic_r.config import ContrastiveConfig
from agentic_r.errors import ConfigError

__all__ = [
    "bring_weights",
    "fit_deepspeed",
    "gather_in_float32",
    "is_sharding_asked",
    "launch_cuts_by",
    "refuse_unfit_launch",
    "refuse_unfit_precision",
    "total_norm",
]

_LAUNCH_FILE = "configs/launch/fsdp2.yaml"
_LAUNCHER_NAMES = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}


def is_sharding_asked() -> bool:
    """Say whether the launcher asks for FSDP."""
    return _is_set("ACCELERATE_USE_FSDP")


def launch_cuts_by() -> str:
    """Return what the launcher asks to cut a training into parts, or nothing; checkpoints are in its format."""
    return "FSDP" if is_sharding_asked() else "DeepSpeed" if _is_set("ACCELERATE_USE_DEEPSPEED") else ""


def refuse_unfit_precision(config: ContrastiveConfig) -> None:
    """Check that the launcher does not say otherwise than the settings, and that ZeRO can do what they say.

    Raises:
        ConfigError: ``mixed_precision`` of the launch file is another; float16 under DeepSpeed, where autocast has no
            loss scale.
    """
    said = os.environ.get("ACCELERATE_MIXED_PRECISION", "no")
    if said not in ("no", _LAUNCHER_NAMES[config.precision]):
        raise ConfigError(
            f"the launcher says mixed_precision {said}, contrastive.precision says {config.precision}; "
            'set mixed_precision: "no" where you launch: the configuration decides'
        )
    if config.precision == "float16" and launch_cuts_by() == "DeepSpeed":
        raise ConfigError("contrastive.precision float16 cannot be used with DeepSpeed; use bfloat16 or float32")


def fit_deepspeed(arguments: TrainingArguments, config: ContrastiveConfig) -> None:
    """Let DeepSpeed's engine, where the launcher asks for it, call the module under autocast.

    Raises:
        ConfigError: ZeRO-3, under which no process has weights to measure or write.
    """
    plugin = arguments.deepspeed_plugin
    if plugin is None:
        return
    if plugin.zero_stage == 3:
        raise ConfigError(
            f"the launcher asks for ZeRO-3, under which the encoder cannot be measured; use {_LAUNCH_FILE} instead"
        )
    plugin.deepspeed_config["torch_autocast"] = {
        "enabled": config.precision == "bfloat16",
        "dtype": "bfloat16",
        "lower_precision_safe_modules": [],  # all gradients are summed in float32
    }


def refuse_unfit_launch() -> None:
    """Check what the launcher asks for.

    Raises:
        ConfigError: FSDP or DeepSpeed on CPU, where accelerate leaves it off; FSDP1; or loading by the first process
            alone, which leaves the others without weights.
    """
    if launch_cuts_by() and PartialState().distributed_type in (DistributedType.NO, DistributedType.MULTI_CPU):
        raise ConfigError(
            f"the launcher asks for {launch_cuts_by()}, which accelerate does on GPUs only; "
            "start with torchrun instead, and with ACCELERATE_USE_CPU=true"
        )
    if not is_sharding_asked():
        return
    if os.environ.get("FSDP_VERSION", "1") != "2":
        raise ConfigError(f"the launcher asks for FSDP1; set fsdp_version: 2, as in {_LAUNCH_FILE}")
    if _is_set("FSDP_CPU_RAM_EFFICIENT_LOADING"):
        raise ConfigError(
            "the launcher lets the first process alone load weights, but each needs the whole encoder to measure it; "
            f"set fsdp_cpu_ram_efficient_loading: false, as in {_LAUNCH_FILE}"
        )


def gather_in_float32(accelerator: Accelerator) -> None:
    """Set the types in which FSDP gathers weights and sums gradients; to be called before it wraps the module."""
    accelerator.state.fsdp_plugin.mixed_precision_policy = MixedPrecisionPolicy(
        param_dtype=torch.float32, reduce_dtype=torch.float32
    )


def total_norm(gradients: Iterable[Tensor]) -> float:
    """Return the norm of all gradients together, of whole ones or of parts, the same on every process."""
    norm = torch.nn.utils.get_total_norm(gradients)
    return (norm.full_tensor() if isinstance(norm, DTensor) else norm).item()


def bring_weights(trained: nn.Module | None, encoder: nn.Module) -> None:
    """Put the weights of a sharded module into the whole one that stands beside it; all processes come here.

    Args:
        trained: What is trained; nothing happens unless FSDP has cut it.
        encoder: The module whose copy it holds as ``model``.
    """
    if isinstance(trained, FSDPModule):
        whole = get_model_state_dict(trained, options=StateDictOptions(full_state_dict=True))
        encoder.load_state_dict({name.removeprefix("model."): weight for name, weight in whole.items()})


def _is_set(name: str) -> bool:
    return os.environ.get(name, "").lower() in ("1", "true")
