"""The configuration of the base encoder and the indexes."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from agentic_r.config.section import PathText, Section

__all__ = [
    "Bm25Config",
    "EncoderConfig",
    "IndexConfig",
    "PretrainedEncoder",
    "ScratchEncoder",
]


class ScratchEncoder(Section):
    """A small BERT trained from scratch on the corpus alone (no question is ever seen)."""

    kind: Literal["scratch"]
    layers: int = Field(default=2, ge=1)
    width: int = Field(default=128, ge=1)
    heads: int = Field(default=4, ge=1)
    vocabulary: int = Field(default=4000, ge=1)
    steps: int = Field(default=100, ge=0)
    batch_size: int = Field(default=64, ge=1)
    learning_rate: float = Field(default=5e-5, gt=0)
    max_query_tokens: int = Field(default=48, ge=1)
    max_passage_tokens: int = Field(default=64, ge=1)
    query_format: Literal["question_query", "query", "history"] = "question_query"

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> "ScratchEncoder":
        if self.width % self.heads:
            raise ValueError(f"encoder.width {self.width} is not a multiple of encoder.heads {self.heads}; make it one")
        return self


class PretrainedEncoder(Section):
    """A sentence-transformers folder, or ``package:<name>`` of one that ships weights.

    Prefixes, pooling and normalisation come from the checkpoint unless given here.
    """

    kind: Literal["pretrained"]
    path: PathText
    query_prefix: str | None = None
    passage_prefix: str | None = None
    max_query_tokens: int = Field(default=128, ge=1)
    max_passage_tokens: int = Field(default=256, ge=1)
    query_format: Literal["question_query", "query", "history"] = "question_query"
    dtype: Literal["float32", "bfloat16"] = "float32"


EncoderConfig = Annotated[ScratchEncoder | PretrainedEncoder, Field(discriminator="kind")]


class Bm25Config(Section):
    """BM25 by bm25s; its library's defaults. ``k1`` and ``b`` are part of the fingerprint."""

    k1: float = Field(default=1.5, ge=0)
    b: float = Field(default=0.75, ge=0, le=1)


class IndexConfig(Section):
    """The dense index: exact inner product (faiss flat)."""

    batch_size: int = Field(default=128, ge=1)
    shard_passages: int = Field(default=20000, ge=1)
    bm25: Bm25Config = Bm25Config()
