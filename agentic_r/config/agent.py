"""The configuration of the search agent and its training: warm start, PPO, rollouts."""

from typing import Annotated, Literal

from pydantic import Field

from agentic_r.config.section import FilePath, PathText, Section

__all__ = [
    "AgentConfig",
    "LanguageModelConfig",
    "PpoConfig",
    "PretrainedLanguageModel",
    "RolloutConfig",
    "TinyLanguageModel",
    "WarmStartConfig",
]


class TinyLanguageModel(Section):
    """The small model in ``data/tiny`` that reads the tiny world's language, or one like it."""

    kind: Literal["tiny"]
    path: FilePath


class PretrainedLanguageModel(Section):
    """A Hugging Face folder, or ``package:<name>`` of one that ships weights."""

    kind: Literal["pretrained"]
    path: PathText
    dtype: Literal["float32", "bfloat16"] = "float32"


LanguageModelConfig = Annotated[TinyLanguageModel | PretrainedLanguageModel, Field(discriminator="kind")]


class AgentConfig(Section):
    """The search protocol's budgets. Turns and passages a search as published (1.2)."""

    model: LanguageModelConfig
    prompt: Literal["tiny", "search", "chat"] = "search"
    max_turns: int = Field(default=5, ge=1)
    passages_per_search: int = Field(default=3, ge=1)
    max_turn_tokens: int = Field(default=500, ge=1)
    max_observation_tokens: int = Field(default=800, ge=1)
    max_context_tokens: int = Field(default=4096, ge=16)
    batch_size: int = Field(default=64, ge=1)
    reward: Literal["em", "f1"] = "em"
    correct_f1: float = Field(default=0.5, gt=0, le=1)
    answer_mode: Literal["default", "squad"] = "default"


class WarmStartConfig(Section):
    """Supervised start on demonstration trajectories (TRL's SFT trainer); 0 steps skips it."""

    steps: int = Field(default=200, ge=0)
    batch_size: int = Field(default=32, ge=1)
    learning_rate: float = Field(default=1e-3, gt=0)
    max_demonstrations: int | None = Field(default=None, ge=1)


class PpoConfig(Section):
    """PPO on sampled tokens only. Clip, value clip, gamma, lambda as published (1.2); sizes are ours.

    ``agent.reward: f1`` rewards with token F1 itself. For ablation: ``constant_reward`` takes the reward's place,
    ``shuffle_rewards`` gives each attempt the reward of another of the same step.
    """

    steps: int = Field(default=40, ge=0)
    rollouts_per_step: int = Field(default=64, ge=1)
    minibatch_size: int = Field(default=32, ge=1)
    epochs: int = Field(default=1, ge=1)
    learning_rate: float = Field(default=2e-4, gt=0)
    critic: Literal["shared", "separate"] = "separate"
    critic_learning_rate: float = Field(default=5e-4, gt=0)
    value_weight: float = Field(default=0.5, ge=0)
    warmup_steps: int = Field(default=2, ge=0)
    clip: float = Field(default=0.2, gt=0)
    value_clip: float = Field(default=0.5, gt=0)
    entropy: float = Field(default=0.001, ge=0)
    kl: float = Field(default=0.001, ge=0)
    gamma: float = Field(default=1.0, ge=0, le=1)
    lam: float = Field(default=1.0, ge=0, le=1)
    temperature: float = Field(default=1.0, gt=0)
    max_grad_norm: float = Field(default=1.0, gt=0)
    whiten: bool = True
    save_every: int = Field(default=10, ge=1)
    constant_reward: float | None = None
    shuffle_rewards: bool = False


class RolloutConfig(Section):
    """Trajectories over the training questions: one greedy attempt each, as published (1.3)."""

    samples: int = Field(default=1, ge=1)
    temperature: float = Field(default=0.0, ge=0)
