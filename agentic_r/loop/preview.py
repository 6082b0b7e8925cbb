"""A dry run: the stages with what is done, and the resolved settings. Loads no model and imports no torch."""

from dataclasses import dataclass
from typing import Literal

import yaml

from agentic_r.artifacts.jsonl import JsonObject
from agentic_r.artifacts.stage import read_manifest
from agentic_r.config import RunConfig
from agentic_r.loop.layout import plan_stages, require_reuse, stages_until

__all__ = ["Preview", "StagePreview", "preview"]

State = Literal["done", "stale", "reusable", "to do"]


@dataclass(frozen=True, slots=True)
class StagePreview:
    """A stage and where it stands."""

    name: str
    state: State


@dataclass(frozen=True, slots=True)
class Preview:
    """What a run would do."""

    stages: tuple[StagePreview, ...]
    settings: JsonObject

    def text(self) -> str:
        """For reading: settings, then stages."""
        lines = [yaml.safe_dump(self.settings, sort_keys=False), "stages:"]
        return "\n".join([*lines, *(f"  {item.state:<9} {item.name}" for item in self.stages)])

    def to_json(self) -> JsonObject:
        """For programs."""
        return {"stages": {item.name: item.state for item in self.stages}, "settings": self.settings}


def preview(config: RunConfig, *, until: str | None = None) -> Preview:
    """Look at the run's folder, and at those named in ``reuse``.

    Raises:
        ConfigError: ``until`` is no stage, or a folder in ``reuse`` does not exist.
    """
    require_reuse(config)
    stages = []
    for plan in stages_until(plan_stages(config), until):
        state: State = "to do"
        manifest = read_manifest(plan.folder(config.folder))
        if manifest is not None:
            state = "done" if manifest.fingerprint == plan.identity.fingerprint else "stale"
        elif any(
            found.fingerprint == plan.identity.fingerprint
            for other in config.reuse
            if (found := read_manifest(plan.folder(other))) is not None
        ):
            state = "reusable"
        stages.append(StagePreview(plan.name, state))
    return Preview(tuple(stages), config.model_dump(mode="json"))
