"""What a training's settings ask for that cannot be had, told before any model or file is read; imports no torch.

What instances and encoder must be known for is ``fit.py``'s.
"""

from importlib.util import find_spec

from agentic_r.config import ContrastiveConfig
from agentic_r.errors import ConfigError, MissingPartError
from agentic_r.metrics.retrieval import cutoff_of

__all__ = ["DEV_DEPTH", "refuse_settings"]

DEV_DEPTH = 100  # passages ranked for each dev query; no usual measure looks deeper


def refuse_settings(config: ContrastiveConfig, *, has_dev: bool) -> None:
    """Check settings against each other and against what is installed.

    Args:
        config: The settings.
        has_dev: Whether dev queries are given beside them.

    Raises:
        ConfigError: patience without dev evaluation; a dev measure that is not known, or deeper than dev rankings; a
            tracker that transformers does not know.
        MissingPartError: peft or a tracker's package is not installed.
    """
    if config.patience is not None and not has_dev and not config.dev_share:
        raise ConfigError(
            f"contrastive.patience {config.patience}: there is no dev evaluation to wait for; "
            "set contrastive.dev_share above 0, give dev_instances, or set patience to null"
        )
    for name in config.dev_measures:
        cutoff = cutoff_of(name)
        if cutoff is not None and cutoff > DEV_DEPTH:
            raise ConfigError(
                f"contrastive.dev_measures {name!r}: dev rankings are cut at {DEV_DEPTH} passages; "
                "name a measure no deeper than that"
            )
    if config.lora is not None and find_spec("peft") is None:
        raise MissingPartError("contrastive.lora needs peft; run: pip install 'agentic-r[lora]'")
    if config.report_to:
        from agentic_r.contrastive.trackers import refuse_trackers  # transformers, for those who ask for it

        refuse_trackers(config.report_to)
