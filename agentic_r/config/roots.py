"""The two whole configurations: a run of the loop, and the training of a retriever alone."""

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from agentic_r.config.agent import AgentConfig, PpoConfig, RolloutConfig, WarmStartConfig
from agentic_r.config.contrastive import ContrastiveConfig, MiningConfig
from agentic_r.config.data import DataConfig, PassagesConfig
from agentic_r.config.encoder import EncoderConfig, IndexConfig, PretrainedEncoder
from agentic_r.config.evaluation import EvaluationConfig, WorkspaceConfig
from agentic_r.config.giving import ExportConfig
from agentic_r.config.labels import LabelsConfig
from agentic_r.config.section import FilePath, Section

__all__ = [
    "RetrieverConfig",
    "RunConfig",
]


class RunConfig(Section):
    """One run of the loop. ``reuse`` names folders of other runs whose finished stages serve, by fingerprint."""

    name: str
    seed: int = 0
    runs: FilePath = Path("runs")
    reuse: tuple[FilePath, ...] = ()
    threads: int = Field(default=2, ge=1)
    iterations: int = Field(default=2, ge=1)
    restart: Literal["base", "previous"] = "base"
    data: DataConfig
    passages: PassagesConfig = PassagesConfig()
    encoder: EncoderConfig
    index: IndexConfig = IndexConfig()
    agent: AgentConfig
    warm_start: WarmStartConfig = WarmStartConfig()
    ppo: PpoConfig = PpoConfig()
    rollout: RolloutConfig = RolloutConfig()
    labels: LabelsConfig = LabelsConfig()
    contrastive: ContrastiveConfig = ContrastiveConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    workspace: WorkspaceConfig = WorkspaceConfig()
    export: ExportConfig = ExportConfig()

    @field_validator("name")
    @classmethod
    def _name_is_a_folder_below_runs(cls, name: str) -> str:
        if not set(name.split("/")).isdisjoint(("", ".", "..")):
            raise ValueError("expected the name of a folder below runs, such as first_try")
        return name

    @model_validator(mode="after")
    def _sizes_agree(self) -> "RunConfig":
        if self.ppo.rollouts_per_step % self.ppo.minibatch_size:
            raise ValueError(
                f"ppo.rollouts_per_step {self.ppo.rollouts_per_step} is not a multiple of "
                f"ppo.minibatch_size {self.ppo.minibatch_size}; make it one"
            )
        if self.contrastive.batch_size == 1 and self.labels.selection.passages_per_query < 2:
            raise ValueError(
                "contrastive.batch_size 1 with labels.selection.passages_per_query below 2 leaves no negatives"
            )
        return self

    @property
    def folder(self) -> Path:
        """Where this run's files are."""
        return self.runs / self.name


class RetrieverConfig(Section):
    """Training of a retriever alone, on instances that exist: ``agentic-r train retriever``."""

    name: str
    seed: int = 0
    runs: FilePath = Path("runs")
    threads: int = Field(default=2, ge=1)
    instances: FilePath
    corpus: FilePath | None = None
    dev_instances: FilePath | None = None
    encoder: PretrainedEncoder
    mining: MiningConfig | None = None
    contrastive: ContrastiveConfig = ContrastiveConfig()

    @property
    def folder(self) -> Path:
        """Where this training's files are."""
        return self.runs / self.name
