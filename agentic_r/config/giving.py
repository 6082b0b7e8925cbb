"""The configuration of exports and of the server."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from agentic_r.config.section import Section

__all__ = [
    "ExportConfig",
    "OnnxPrecision",
    "ServeConfig",
]

OnnxPrecision = Literal["fp32", "fp16", "int8"]


class ExportConfig(Section):
    """What an export holds beside the checkpoint, and the tolerances that fail it.

    ``onnx`` names the graphs to write (they need the packages of the extra ``export``), ``dimensions`` the shorter
    vectors that a graph also gives. Differences are of one vector component, ``overlap`` is the share of the first ten
    passages that stay among the first ten. The limits for int8 are ours: what dynamic quantisation of MiniLM and E5
    kept, with room below. Those of ``endpoint`` leave room for a service that computes in half precision.
    """

    onnx: tuple[OnnxPrecision, ...] = ()
    dimensions: tuple[Annotated[int, Field(ge=1)], ...] = ()
    max_difference: float = Field(default=1e-5, ge=0)
    max_norm_error: float = Field(default=1e-5, ge=0)
    onnx_max_difference: float = Field(default=1e-4, ge=0)
    fp16_min_cosine: float = Field(default=0.999, ge=-1, le=1)
    int8_min_cosine: float = Field(default=0.95, ge=-1, le=1)
    min_overlap: float = Field(default=0.98, ge=0, le=1)
    int8_min_overlap: float = Field(default=0.8, ge=0, le=1)
    endpoint_min_cosine: float = Field(default=0.999, ge=-1, le=1)
    endpoint_max_norm_error: float = Field(default=0.01, ge=0)


class ServeConfig(Section):
    """What a server takes in, and how much of it may wait. Sizes are ours.

    The whole batch of a published agent (512 queries, 1.2) is one request, and asks for 3 passages a query.
    ``dtype`` null encodes in the type that the export names. ``max_connections`` requests are in progress at most; as
    many connections again may be open beside them, idle ones for example.
    """

    dtype: Literal["float32", "bfloat16"] | None = None
    threads: int = Field(default=1, ge=1)
    default_k: int = Field(default=3, ge=1)
    max_k: int = Field(default=1000, ge=1)
    max_texts: int = Field(default=1024, ge=1)
    max_text_characters: int = Field(default=8192, ge=1)
    max_body_bytes: int = Field(default=2_000_000, ge=1)
    body_timeout_s: float = Field(default=10.0, gt=0)
    max_waiting_texts: int = Field(default=4096, ge=1)
    max_batch_texts: int = Field(default=64, ge=1)
    max_connections: int = Field(default=1024, ge=1)
    stop_timeout_s: float = Field(default=30.0, gt=0)

    @model_validator(mode="after")
    def _a_request_can_be_admitted(self) -> "ServeConfig":
        if self.max_texts > self.max_waiting_texts:
            raise ValueError(
                f"max_texts {self.max_texts} is more than max_waiting_texts {self.max_waiting_texts}: "
                "such a request could never be admitted; lower the one or raise the other"
            )
        if self.default_k > self.max_k:
            raise ValueError(f"default_k {self.default_k} is more than max_k {self.max_k}; lower it")
        return self
