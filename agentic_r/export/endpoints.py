"""Live services as one more form of the encoder: the same texts over HTTP, the vectors as they come back.

Owns the five wires that are spoken and who writes the prefix: text-embeddings-inference and our own server add it by
name, the others take it in the text. A service that will not take a text is a recorded refusal; one that cannot be
reached, or has another address, key or model, is the user's to mend. Legend: N texts, D dimensions.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import httpx
import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from agentic_r.encoder.settings import EncoderSettings
from agentic_r.errors import ConfigError, ParityError, ToolFailure
from agentic_r.export.artefacts import Side
from agentic_r.protocols import Vectors

__all__ = ["KINDS", "Endpoint", "EndpointKind", "EndpointVectors", "endpoint_kind"]

EndpointKind = Literal["tei", "openai", "agentic-r", "elasticsearch", "opensearch"]
KINDS: tuple[EndpointKind, ...] = ("tei", "openai", "agentic-r", "elasticsearch", "opensearch")

_BATCH = 8
_ATTEMPTS = 4
_FIRST_WAIT_S = 0.5
_HINTS = {
    401: "the key was refused; check the environment variable named in --api-key-env",
    403: "access was refused; check the environment variable named in --api-key-env",
    404: "no such address or model; check --endpoint, --kind and --model",
    405: "no such address; check --endpoint and --kind",
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a service is. ``model`` is its name there (openai, elasticsearch, opensearch need one)."""

    kind: EndpointKind
    url: str
    model: str = ""
    api_key: str = ""
    timeout_s: float = 60.0


def endpoint_kind(name: str) -> EndpointKind:
    """Return the kind of that name.

    Raises:
        ConfigError: there is none; names those there are.
    """
    for kind in KINDS:
        if kind == name:
            return kind
    raise ConfigError(f"--kind {name}: no such kind of service; give one of {', '.join(KINDS)}")


class _Reply(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")  # services add fields of their own


class _Embedding(_Reply):
    index: int
    embedding: list[float]


class _OpenAiReply(_Reply):
    data: list[_Embedding]


class _TeiReply(_Reply):
    rows: list[list[float]]


class _Prediction(_Reply):
    predicted_value: list[float]


class _ElasticsearchReply(_Reply):
    inference_results: list[_Prediction]


class _Output(_Reply):
    name: str
    data: list[float]


class _Outputs(_Reply):
    output: list[_Output]


class _OpenSearchReply(_Reply):
    inference_results: list[_Outputs]


class EndpointVectors:
    """A service asked for vectors."""

    def __init__(
        self,
        endpoint: Endpoint,
        settings: EncoderSettings,
        *,
        transport: httpx.BaseTransport | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """Take an address; nothing is sent yet.

        Args:
            endpoint: The service.
            settings: Of the encoder that it should serve.
            transport: What carries requests; by default the network.
            wait: How to wait before asking again.

        Raises:
            ConfigError: this kind of service needs the model's name, or the key or the address cannot be sent.
        """
        if not endpoint.api_key.isascii() or not endpoint.api_key.isprintable():
            raise ConfigError("--api-key-env: the key has characters that no header may hold; set it to the key alone")
        if endpoint.kind in ("openai", "elasticsearch", "opensearch") and not endpoint.model:
            raise ConfigError(f"--model: a service of kind {endpoint.kind} needs the name that the model has there")
        self.name = f"{endpoint.kind} at {endpoint.url}"
        self._endpoint = endpoint
        self._prefix: Mapping[Side, str] = {
            "query": settings.query_prefix,
            "passage": settings.passage_prefix,
            "plain": "",
        }
        self._wait = wait
        headers = {"Authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}
        try:
            self._client = httpx.Client(
                base_url=endpoint.url.rstrip("/").removesuffix("/v1") + "/",  # OpenAI's clients want that, we add it
                headers=headers,
                timeout=endpoint.timeout_s,
                transport=transport,
            )
        except httpx.InvalidURL as error:
            raise ConfigError(_no_address(endpoint.url, error)) from None

    def encode(self, texts: Sequence[str], side: Side) -> Vectors:
        """Return (N, D) float32 rows, as the service gives them.

        Raises:
            ToolFailure: it refused the texts, or failed again and again; with its words.
            ConfigError: it cannot be reached or used; says what to check.
            ParityError: its reply holds no vectors of one text each.
        """
        rows = []
        for start in range(0, len(texts), _BATCH):
            batch = texts[start : start + _BATCH]
            path, body = self._request(batch, side)
            rows += self._vectors(self._ask(path, body), len(batch))
        if len({len(row) for row in rows}) != 1:
            raise ParityError(f"{self.name}: vectors of different lengths; it is no encoder of ours")
        return np.array(rows, dtype=np.float32)

    def _request(self, texts: Sequence[str], side: Side) -> tuple[str, dict[str, object]]:
        written = [self._prefix[side] + text for text in texts]
        model = self._endpoint.model
        match self._endpoint.kind:
            case "tei":
                names = {"query": {"prompt_name": "query"}, "passage": {"prompt_name": "passage"}, "plain": {}}
                return "embed", {"inputs": list(texts), "truncate": True, **names[side]}
            case "agentic-r":
                named = {"model": model} if model else {}
                return "v1/embeddings", {"input": list(texts), "input_type": side, **named}
            case "openai":
                return "v1/embeddings", {"model": model, "input": written, "encoding_format": "float"}
            case "elasticsearch":
                return f"_ml/trained_models/{model}/_infer", {"docs": [{"text_field": text} for text in written]}
            case "opensearch":
                wanted = {"return_number": True, "target_response": ["sentence_embedding"]}
                return f"_plugins/_ml/_predict/text_embedding/{model}", {"text_docs": written, **wanted}

    def _ask(self, path: str, body: Mapping[str, object]) -> bytes:
        cause = ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._wait(_FIRST_WAIT_S * 2**attempt)
            try:
                reply = self._client.post(path, json=dict(body))
            except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
                raise ConfigError(_no_address(self._endpoint.url, error)) from None
            except httpx.TransportError as error:
                cause = f"{type(error).__name__}: {error}"
                continue
            except httpx.HTTPError as error:
                raise ConfigError(
                    f"{self._endpoint.url}: no usable answer ({type(error).__name__}: {error}); check --endpoint"
                ) from None
            if reply.is_success:
                return reply.content
            cause = f"{reply.status_code}: {' '.join(reply.text.split())[:200]}"
            if reply.status_code in _HINTS:
                raise ConfigError(f"{reply.request.url}: {_HINTS[reply.status_code]} ({cause})")
            if reply.status_code < 500 and reply.status_code != 429:
                raise ToolFailure(cause)
        if not cause[:1].isdigit():
            raise ConfigError(
                f"{self._endpoint.url}: nobody answers ({cause}); start the service, or correct --endpoint"
            )
        raise ToolFailure(cause)

    def _vectors(self, content: bytes, number: int) -> list[list[float]]:
        try:
            rows = self._parse(content)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(step) for step in first["loc"])
            if first["type"] == "json_invalid":
                raise ConfigError(f"{self.name}: the reply is no JSON; check --endpoint and --kind") from None
            raise ParityError(
                f"{self.name}: the reply holds no vector a text ({place}: {first['msg']}); a vector a token means that "
                "the service cuts the model before pooling"
            ) from None
        if len(rows) != number:
            raise ParityError(f"{self.name}: {len(rows)} vectors for {number} texts; it is no service of this kind")
        return rows

    def _parse(self, content: bytes) -> list[list[float]]:
        match self._endpoint.kind:
            case "tei":
                return _TeiReply.model_validate_json(b'{"rows":' + content + b"}").rows
            case "openai" | "agentic-r":
                data = _OpenAiReply.model_validate_json(content).data
                return [item.embedding for item in sorted(data, key=lambda item: item.index)]
            case "elasticsearch":
                return [
                    item.predicted_value for item in _ElasticsearchReply.model_validate_json(content).inference_results
                ]
            case "opensearch":
                results = _OpenSearchReply.model_validate_json(content).inference_results
                return [item.output[0].data for item in results if item.output]


def _no_address(url: str, error: Exception) -> str:
    return f"--endpoint {url}: no address of a service ({error}); give one such as http://127.0.0.1:8080"
