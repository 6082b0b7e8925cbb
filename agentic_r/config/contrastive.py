"""The configuration of the retriever's training and of mined negatives."""

from typing import Literal

from pydantic import Field, model_validator

from agentic_r.config.section import Section

__all__ = [
    "ContrastiveConfig",
    "LoraConfig",
    "MiningConfig",
]


class LoraConfig(Section):
    """Low-rank adapters, merged into the encoder when training ends. peft's defaults; no modules: its choice."""

    rank: int = Field(default=8, ge=1)
    alpha: int = Field(default=8, ge=1)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    modules: tuple[str, ...] = ()


class ContrastiveConfig(Section):
    """InfoNCE at temperature 0.01 with in-batch negatives (1.9); batch and steps are ours.

    ``query_format`` is what the trained retriever reads; null leaves it as the base encoder has it (``question_query``,
    as published, unless the encoder's section says otherwise).

    ``batch_size`` counts queries over all processes. ``dev_share`` of the questions are held out, measured every
    ``dev_every`` steps by ``dev_measures`` (the first decides); the best weights are kept, and after ``patience``
    evaluations without a better one training ends. 0: no dev evaluation, the last weights are kept.
    """

    query_format: Literal["question_query", "query", "history"] | None = None
    batch_size: int = Field(default=16, ge=1)
    epochs: int = Field(default=2, ge=1)
    learning_rate: float = Field(default=2e-5, gt=0)
    warmup_ratio: float = Field(default=0.1, ge=0, le=1)
    temperature: float = Field(default=0.01, gt=0)
    min_instances: int = Field(default=16, ge=1)
    save_every: int = Field(default=50, ge=1)
    mini_batch_size: int = Field(default=16, ge=1)  # measured: on CPU larger passes are slower
    activation_bytes: int = Field(default=2**28, ge=0)
    unpadded: bool = True
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    gradient_checkpointing: bool = False
    lora: LoraConfig | None = None
    matryoshka_dims: tuple[int, ...] = ()
    false_negative_margin: float | None = None
    mask_identities: bool = True  # false shows what masking is worth
    soft_target_weight: float = Field(default=0.0, ge=0, le=1)
    soft_target_temperature: float = Field(default=0.25, gt=0)  # of relevance 0-1: 1 against 0.5 is about 7 to 1
    dev_share: float = Field(default=0.0, ge=0, lt=1)
    dev_every: int = Field(default=50, ge=1)
    dev_measures: tuple[str, ...] = Field(default=("nDCG@10",), min_length=1)
    patience: int | None = Field(default=None, ge=1)
    report_to: tuple[str, ...] = ()


class MiningConfig(Section):
    """Hard negatives from a retriever's ranks, as FlagEmbedding's miner draws them (10-210, 15).

    ``relative_margin`` 0.05 leaves out hits of more than 95 % of the positive's score (NV-Retriever); null none.
    """

    retriever: Literal["encoder", "bm25"] = "encoder"
    negatives: int = Field(default=15, ge=1)
    first_rank: int = Field(default=10, ge=1)
    last_rank: int = Field(default=210, ge=1)
    relative_margin: float | None = Field(default=None, ge=0, lt=1)

    @model_validator(mode="after")
    def _ranks_are_a_range(self) -> "MiningConfig":
        if self.last_rank < self.first_rank:
            raise ValueError(
                f"mining.last_rank {self.last_rank} is before mining.first_rank {self.first_rank}; raise it"
            )
        return self
