"""The HTTP routes over a ``RetrievalService``: what is accepted, what is answered.

Every answer that is not 2xx has one shape, OpenAI's ``{"error": ...}``; a search that failed is never an empty list.
"""

import base64
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import numpy as np
import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from agentic_r import __version__
from agentic_r.config import ServeConfig
from agentic_r.export.server.batching import QueueFull
from agentic_r.export.server.counters import Counters
from agentic_r.export.server.guards import Guard, error_body
from agentic_r.export.server.served import SearchedIndex, Served
from agentic_r.export.server.service import EmbeddedText, FoundPassages, RetrievalService
from agentic_r.export.server.shapes import EmbeddingsBody, RetrieveBody, SearchBody
from agentic_r.export.server.texts import read_passage, read_query, show_contents
from agentic_r.types import Passage, QueryText

__all__ = ["build_app"]

_log = logging.getLogger(__name__)
_ROUTES = ("/retrieve", "/v1/embeddings", "/v1/models", "/search", "/health", "/metrics", "/openapi.json")
_KINDS = ("query", "passage", "plain")


class _BadRequest(Exception):
    """The client's mistake; ``param`` is the field."""

    def __init__(self, text: str, *, param: str | None = None, status: int = 400) -> None:
        super().__init__(text)
        self.param = param
        self.status = status


def build_app(served: Served, config: ServeConfig, *, token: str | None = None) -> FastAPI:
    """Make the application.

    Args:
        served: Encoder and, where searches are to be answered, its index.
        config: Limits.
        token: What clients must send as bearer token; None lets everybody in.
    """
    counters = Counters()
    service = RetrievalService(served, config, counters)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with service.running():
            yield

    app = FastAPI(title="agentic-r", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan)
    app.add_middleware(Guard, config=config, counters=counters, routes=_ROUTES, token=token)
    _answer_errors(app, counters)
    _add_searches(app, service, config)
    _add_embeddings(app, service, config)
    _add_state(app, served, config, counters)
    return app


def _add_searches(app: FastAPI, service: RetrievalService, config: ServeConfig) -> None:
    served = service.served

    @app.post("/retrieve")
    async def retrieve(body: RetrieveBody) -> Response:
        searched, k = _searched(served), _depth(body.topk, config, param="topk")
        _check_texts(body.queries, config, param="queries")
        found = await service.search([read_query(text, served.encoder.settings) for text in body.queries], k=k)
        shown = [_published(item, searched.passages, return_scores=body.return_scores) for item in found]
        return _json({"result": shown}, cut=sum(item.is_cut for item in found))

    @app.post("/search")
    async def search(body: SearchBody) -> Response:
        searched, k = _searched(served), _depth(body.k, config, param="k")
        _check_texts(
            ["".join((item.query, item.question, *item.history)) for item in body.queries], config, param="queries"
        )
        found = await service.search(
            [QueryText(item.query, item.question, tuple(item.history)) for item in body.queries], k=k
        )
        shown = [_own(item, searched.passages) for item in found]
        return _json({"results": shown}, cut=sum(item.is_cut for item in found))


def _add_embeddings(app: FastAPI, service: RetrievalService, config: ServeConfig) -> None:
    served = service.served
    models = {f"{served.name}:{kind}": kind for kind in _KINDS}

    @app.get("/v1/models")
    async def list_models() -> Response:
        names = (served.name, *models)
        return _json({"object": "list", "data": [_model(name) for name in names]})

    @app.post("/v1/embeddings")
    async def embeddings(body: EmbeddingsBody) -> Response:
        model = served.name if body.model is None else body.model
        if model not in (served.name, *models):
            raise _BadRequest(
                f"model {model!r} is not served here; the models are {served.name}, {', '.join(models)}",
                param="model",
                status=404,
            )
        if body.dimensions not in (None, served.encoder.dimension):
            raise _BadRequest(
                f"this encoder has {served.encoder.dimension} dimensions and is not made to be cut", param="dimensions"
            )
        kind = _input_kind(body.input_type, models.get(model), served.name)
        _check_texts(body.input, config, param="input")
        embedded = await service.embed([_read(text, kind, served) for text in body.input])
        num_tokens = sum(item.num_tokens for item in embedded)
        return _json(
            {
                "object": "list",
                "data": [_embedding(number, item, body.encoding_format) for number, item in enumerate(embedded)],
                "model": model,
                "usage": {"prompt_tokens": num_tokens, "total_tokens": num_tokens},
            },
            cut=sum(item.is_cut for item in embedded),
        )


def _add_state(app: FastAPI, served: Served, config: ServeConfig, counters: Counters) -> None:
    searched = served.searched
    state = {
        "status": "ok",
        "name": served.name,
        "version": __version__,
        "encoder": {
            "fingerprint": served.fingerprint,
            "dimension": served.encoder.dimension,
            "dtype": served.dtype,
            **served.encoder.settings.model_dump(exclude={"dtype"}),
        },
        "index": None
        if searched is None
        else {
            "fingerprint": searched.dense.fingerprint,
            "corpus": searched.dense.description.corpus,
            "passages": len(searched.dense),
        },
        "limits": config.model_dump(include={"default_k", "max_k", "max_texts", "max_text_characters"}),
    }

    @app.get("/health")
    async def health() -> Response:
        return _json(state)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(counters.page(), media_type=CONTENT_TYPE_LATEST)


def _answer_errors(app: FastAPI, counters: Counters) -> None:
    async def bad(_: Request, error: _BadRequest) -> Response:
        counters.refused.labels("bad request").inc()
        return _error(error.status, str(error), param=error.param)

    async def invalid(request: Request, error: RequestValidationError) -> Response:
        counters.refused.labels("bad request").inc()
        if "json" not in request.headers.get("content-type", ""):
            return _error(400, "send the body as JSON, with the header content-type: application/json")
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return _error(400, f"the body is no JSON: {first.get('ctx', {}).get('error', first['msg'])}")
        place = ".".join(str(step) for step in first["loc"] if step != "body")
        return _error(400, f"{place}: {first['msg']}" if place else first["msg"], param=place or None)

    async def full(_: Request, __: QueueFull) -> Response:
        counters.refused.labels("queue full").inc()
        answer = _error(429, "too many texts are waiting; come again in a second", kind="rate_limit_error")
        answer.headers["retry-after"] = "1"
        return answer

    async def http(_: Request, error: HTTPException) -> Response:
        return _error(error.status_code, str(error.detail))

    async def failed(request: Request, error: Exception) -> Response:
        _log.error("%s failed: %s: %s", request.url.path, type(error).__name__, error)
        return _error(500, f"the work failed ({type(error).__name__}); the server's log has more", kind="server_error")

    app.exception_handler(_BadRequest)(bad)
    app.exception_handler(RequestValidationError)(invalid)
    app.exception_handler(QueueFull)(full)
    app.exception_handler(HTTPException)(http)
    app.exception_handler(Exception)(failed)


def _searched(served: Served) -> SearchedIndex:
    if served.searched is None:
        raise _BadRequest("no index is served here, only vectors; start the server with an index", status=404)
    return served.searched


def _depth(given: int | None, config: ServeConfig, *, param: str) -> int:
    k = config.default_k if given is None else given
    if not 1 <= k <= config.max_k:
        raise _BadRequest(f"{param} is {k}; expected 1 to {config.max_k}", param=param)
    return k


def _check_texts(texts: Sequence[str], config: ServeConfig, *, param: str) -> None:
    if len(texts) > config.max_texts:
        raise _BadRequest(f"{len(texts)} texts; send at most {config.max_texts} at once", param=param)
    for number, text in enumerate(texts):
        if len(text) > config.max_text_characters:
            raise _BadRequest(
                f"{param}.{number} has {len(text)} characters; send at most {config.max_text_characters}", param=param
            )


def _input_kind(given: str | None, of_model: str | None, name: str) -> str:
    kind = "passage" if given == "document" else given
    if kind is None and of_model is None:
        raise _BadRequest(
            f"queries and passages have different vectors here: send input_type query or passage (plain for a text "
            f"that has its prefix already), or name the model {', '.join(f'{name}:{kind}' for kind in _KINDS)}",
            param="input_type",
        )
    if kind is not None and of_model is not None and kind != of_model:
        raise _BadRequest(f"input_type {given} contradicts the model's name; send one of them", param="input_type")
    return kind or of_model or ""


def _read(text: str, kind: str, served: Served) -> QueryText | Passage | str:
    if kind == "query":
        return read_query(text, served.encoder.settings)
    return read_passage(text) if kind == "passage" else text


def _published(found: FoundPassages, passages: Mapping[str, Passage], *, return_scores: bool) -> list[object]:
    documents = [
        {"id": hit.passage_id, "contents": show_contents(passages[hit.passage_id])} for hit in found.result.passages
    ]
    if not return_scores:
        return list(documents)
    return [
        {"document": document, "score": hit.value}
        for document, hit in zip(documents, found.result.passages, strict=True)
    ]


def _own(found: FoundPassages, passages: Mapping[str, Passage]) -> dict[str, object]:
    hits = [
        {
            "rank": rank,
            "score": hit.value,
            "passage_id": hit.passage_id,
            "document_id": passages[hit.passage_id].document_id,
            "title": passages[hit.passage_id].title,
            "text": passages[hit.passage_id].text,
        }
        for rank, hit in enumerate(found.result.passages, start=1)
    ]
    return {"state": found.result.state, "cut": found.is_cut, "hits": hits}


def _embedding(number: int, item: EmbeddedText, encoding_format: str) -> dict[str, object]:
    vector_D = item.vector_D
    coded = base64.b64encode(np.ascontiguousarray(vector_D, dtype="<f4").tobytes()).decode()
    return {"object": "embedding", "index": number, "embedding": coded if encoding_format == "base64" else vector_D}


def _model(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "agentic-r"}


def _json(value: object, *, cut: int = 0) -> Response:
    """Answer 200; where texts were longer than the encoder's limit, a header says how many."""
    headers = {"x-texts-cut": str(cut)} if cut else None
    content = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(content, media_type="application/json", headers=headers)


def _error(status: int, text: str, *, kind: str = "invalid_request_error", param: str | None = None) -> Response:
    return Response(error_body(text, kind=kind, param=param), status, media_type="application/json")
