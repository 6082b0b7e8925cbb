"""What a configuration asks for and encoder, instances or machine cannot give: refused before the first step."""

from collections.abc import Sequence

from agentic_r.config import ContrastiveConfig
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.errors import ConfigError, DataError
from agentic_r.types import TrainingInstance

__all__ = ["refuse_unfit"]


def refuse_unfit(config: ContrastiveConfig, encoder: BiEncoder, instances: Sequence[TrainingInstance]) -> None:
    """Check settings against what they will meet.

    Raises:
        ConfigError: float16 without a GPU, dimensions that the vectors do not have, or soft targets without relevance.
        DataError: an instance's relevance does not fit its passages.
    """
    if config.precision == "float16" and encoder.model.device.type == "cpu":
        raise ConfigError("contrastive.precision float16 needs a GPU; use bfloat16 or float32")
    unfit = [width for width in config.matryoshka_dims if not 0 < width < encoder.dimension]
    if unfit:
        raise ConfigError(
            f"contrastive.matryoshka_dims {unfit}: vectors have {encoder.dimension} components; "
            "name smaller numbers of them"
        )
    for item in instances:
        if item.relevance and len(item.relevance) != 1 + len(item.negatives):
            raise DataError(
                f"instance {item.id}: {len(item.relevance)} values of relevance for "
                f"{1 + len(item.negatives)} passages; give the positive's, then each negative's, or none"
            )
    if config.soft_target_weight and not any(item.relevance for item in instances):
        raise ConfigError(
            "contrastive.soft_target_weight is above 0 but no instance has relevance; set it to 0, or give relevance"
        )
