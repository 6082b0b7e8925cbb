"""The configuration of candidates, their two signals and what they become."""

from typing import Annotated, Literal

from pydantic import Field

from agentic_r.config.section import Section

__all__ = [
    "CorrectnessConfig",
    "EndpointJudge",
    "JudgeConfig",
    "LabelsConfig",
    "RuleJudge",
    "SelectionConfig",
]


class RuleJudge(Section):
    """A judge that needs no model: reads the trajectory and the passages, never gold."""

    kind: Literal["rule"]


class EndpointJudge(Section):
    """Any OpenAI-compatible chat endpoint. The key is read from the environment variable named here."""

    kind: Literal["endpoint"]
    base_url: str
    model: str
    api_key_env: str | None = None
    temperature: float = Field(default=0.0, ge=0)
    max_tokens: int = Field(default=1000, ge=1)
    timeout_s: float = Field(default=60.0, gt=0)
    max_retries: int = Field(default=3, ge=0)
    concurrency: int = Field(default=8, ge=1)


JudgeConfig = Annotated[RuleJudge | EndpointJudge, Field(discriminator="kind")]


class CorrectnessConfig(Section):
    """Continuing the agent from each candidate: greedy, one passage alone in its block (1.7).

    ``batch_size`` continuations are kept together: a kill loses at most so many.
    """

    batch_size: int = Field(default=512, ge=1)


class SelectionConfig(Section):
    """Which candidates become positives and negatives.

    ``paper`` as published (1.8); ``strict`` (our default) never uses an answer-correct passage, or one
    with a positive's text, as a negative.
    """

    rule: Literal["paper", "strict"] = "strict"
    min_relevance: float = Field(default=0.6, ge=0, le=1)
    passages_per_query: int = Field(default=16, ge=2)
    max_positives: int = Field(default=3, ge=1)
    shuffle_labels: bool = False


class LabelsConfig(Section):
    """Candidates and their two signals."""

    candidates: int = Field(default=20, ge=2)
    judge: JudgeConfig = RuleJudge(kind="rule")
    correctness: CorrectnessConfig = CorrectnessConfig()
    selection: SelectionConfig = SelectionConfig()
