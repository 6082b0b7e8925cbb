"""A chat model behind any OpenAI-compatible endpoint.

Owns the wire: requests, bounded concurrency behind a synchronous call, waiting and trying again, tokens used. A prompt
that finally got no reply is a ``Reply`` without text and with a cause; what only the user can mend (a refused key,
an unknown model, nobody listening) is a ``ConfigError``. What a reply means belongs to the caller.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass

import httpx
from pydantic import BaseModel, ConfigDict, ValidationError

from agentic_r.config import EndpointJudge
from agentic_r.errors import ConfigError, ToolFailure
from agentic_r.types import Reply

__all__ = ["EndpointChat", "Usage"]

_LONGEST_WAIT_S = 60.0
_CHECK_TIMEOUT_S = 10.0
_AGAIN = frozenset({408, 409, 425, 429})  # and every 5xx
_HINTS = {
    401: "the key was refused; check the environment variable named in api_key_env",
    403: "access was refused; check the environment variable named in api_key_env",
    404: "no such address or model; check base_url and model",
}


@dataclass(frozen=True, slots=True)
class Usage:
    """What the endpoint was asked for so far; ``num_uncounted`` replies came without token numbers."""

    num_requests: int = 0
    num_replies: int = 0
    num_failed: int = 0
    num_uncounted: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Unreachable(ToolFailure):
    """Nobody answered at the address, at any attempt."""


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")  # endpoints add fields of their own


class _Message(_Wire):
    content: str | None = None


class _Choice(_Wire):
    message: _Message
    finish_reason: str | None = None


class _Tokens(_Wire):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Completion(_Wire):
    choices: list[_Choice]
    usage: _Tokens | None = None


class _Model(_Wire):
    id: str


class _Models(_Wire):
    data: list[_Model]


class EndpointChat:
    """``ChatModel`` over ``POST <base_url>/chat/completions`` (``/v1`` is added where base_url lacks it)."""

    def __init__(
        self,
        config: EndpointJudge,
        *,
        environment: Mapping[str, str] | None = None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Prepare the client; nothing is sent yet.

        Args:
            config: Address, model, limits.
            environment: Where the key is looked up; the process's own by default.
            transport: What carries requests; the network by default.
            sleep: How to wait between attempts.

        Raises:
            ConfigError: the variable that should hold the key is not set, or the address is no http(s) URL.
        """
        base = config.base_url.rstrip("/")
        if not base.startswith(("http://", "https://")):
            raise ConfigError(f"base_url {config.base_url!r}: expected an address that begins with http:// or https://")
        self._base = base if base.endswith("/v1") else f"{base}/v1"
        self._config = config
        self._sleep = sleep
        self._usage = Usage()
        self._lock = threading.Lock()
        self._client = httpx.Client(
            transport=transport,
            timeout=config.timeout_s,
            headers=_headers(config, os.environ if environment is None else environment),
            limits=httpx.Limits(max_connections=config.concurrency),
        )

    @property
    def name(self) -> str:
        """Model, address and sampling: whatever may change a reply."""
        config = self._config
        return f"{config.model} at {self._base} temperature={config.temperature:g} max_tokens={config.max_tokens}"

    @property
    def usage(self) -> Usage:
        """Requests and tokens so far."""
        return self._usage

    def complete(self, prompts: Sequence[str], *, arrived: Callable[[int, Reply], None] | None = None) -> list[Reply]:
        """One reply a prompt, in order, at most ``concurrency`` in flight.

        ``arrived`` is called, in this thread, as each reply comes: what it has kept a kill cannot take.

        Raises:
            ConfigError: the endpoint refuses the key or does not know the model, or nobody listens at the address.
        """
        replies: dict[int, Reply] = {}
        num_unreachable = 0
        with ThreadPoolExecutor(max_workers=self._config.concurrency) as pool:
            rows: dict[Future[Reply], int] = {pool.submit(self._ask, text): row for row, text in enumerate(prompts)}
            try:
                for future in as_completed(rows):
                    row = rows[future]
                    try:
                        replies[row] = future.result()
                    except ToolFailure as failure:
                        num_unreachable += isinstance(failure, _Unreachable)
                        replies[row] = Reply(text=None, finish="none", cause=str(failure))
                    self._count(replies[row])
                    if arrived is not None:
                        arrived(row, replies[row])
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        if prompts and num_unreachable == len(prompts):
            raise ConfigError(
                f"{self._base}: {replies[0].cause}; start the endpoint or correct base_url, then run again"
            )
        return [replies[row] for row in range(len(prompts))]

    def check(self) -> str:
        """Say in one line that the endpoint is there and whether it lists the model.

        Raises:
            ConfigError: it is not reachable, or refuses the key.
        """
        try:
            response = self._client.get(f"{self._base}/models", timeout=_CHECK_TIMEOUT_S)
        except httpx.TransportError as error:
            raise ConfigError(
                f"{self._base}: not reachable ({_describe(error)}); start the endpoint or correct base_url"
            ) from None
        if response.status_code in (401, 403):
            raise ConfigError(f"{self._base}: {_HINTS[response.status_code]}")
        try:
            listed = [model.id for model in _Models.model_validate_json(response.content).data]
        except ValidationError:
            return f"{self._base}: reachable; it does not list its models (HTTP {response.status_code})"
        known = "serves" if self._config.model in listed else "does not list"
        return f"{self._base}: reachable; {known} {self._config.model}"

    def _ask(self, prompt: str) -> Reply:
        """One prompt, with retries. Raises ToolFailure when it finally got no reply."""
        attempts = self._config.max_retries + 1
        failure = ToolFailure("never asked")
        for attempt in range(attempts):
            with self._lock:
                self._usage = _add(self._usage, Usage(num_requests=1))
            try:
                response = self._client.post(f"{self._base}/chat/completions", json=self._body(prompt))
            except httpx.ConnectError as error:
                failure, wait = _Unreachable(f"not reachable ({_describe(error)})"), None
            except httpx.TransportError as error:
                failure, wait = ToolFailure(_describe(error)), None
            else:
                outcome = self._read(response)
                if isinstance(outcome, Reply):
                    return outcome
                failure, wait = outcome, _asked_wait(response)
            if attempt + 1 < attempts:
                self._sleep(min(2.0**attempt if wait is None else wait, _LONGEST_WAIT_S))
        kind = _Unreachable if isinstance(failure, _Unreachable) else ToolFailure
        raise kind(f"no reply after {attempts} attempts: {failure}")

    def _read(self, response: httpx.Response) -> Reply | ToolFailure:
        """Return the reply, or the failure after which to try again. Raises where trying again is useless."""
        code = response.status_code
        if code in _HINTS:
            raise ConfigError(f"{self._base}: HTTP {code}, {_HINTS[code]}")
        if code in _AGAIN or code >= 500:
            return ToolFailure(f"HTTP {code}")
        if code != 200:
            raise ToolFailure(f"HTTP {code}: {_one_line(response)}")
        try:
            completion = _Completion.model_validate_json(response.content)
        except ValidationError:
            return ToolFailure(f"not a chat completion: {_one_line(response)}")
        if not completion.choices or completion.choices[0].message.content is None:
            return ToolFailure("a completion without text")
        choice, tokens = completion.choices[0], completion.usage or _Tokens()
        return Reply(
            text=choice.message.content,
            finish="length" if choice.finish_reason == "length" else "stop",
            prompt_tokens=tokens.prompt_tokens,
            completion_tokens=tokens.completion_tokens,
        )

    def _body(self, prompt: str) -> dict[str, object]:
        return {
            "model": self._config.model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": self._config.temperature,
            "max_tokens": self._config.max_tokens,
        }

    def _count(self, reply: Reply) -> None:
        counted = reply.prompt_tokens is not None and reply.completion_tokens is not None
        made = Usage(
            num_replies=int(reply.text is not None),
            num_failed=int(reply.text is None),
            num_uncounted=int(reply.text is not None and not counted),
            prompt_tokens=reply.prompt_tokens or 0,
            completion_tokens=reply.completion_tokens or 0,
        )
        with self._lock:
            self._usage = _add(self._usage, made)


def _headers(config: EndpointJudge, environment: Mapping[str, str]) -> dict[str, str]:
    if config.api_key_env is None:
        return {}
    key = environment.get(config.api_key_env, "").strip()
    if not key:
        raise ConfigError(
            f"api_key_env: the environment variable {config.api_key_env} is not set; "
            f"set it to the key of {config.base_url}, or leave api_key_env out"
        )
    return {"Authorization": f"Bearer {key}"}


def _add(one: Usage, other: Usage) -> Usage:
    return Usage(
        num_requests=one.num_requests + other.num_requests,
        num_replies=one.num_replies + other.num_replies,
        num_failed=one.num_failed + other.num_failed,
        num_uncounted=one.num_uncounted + other.num_uncounted,
        prompt_tokens=one.prompt_tokens + other.prompt_tokens,
        completion_tokens=one.completion_tokens + other.completion_tokens,
    )


def _asked_wait(response: httpx.Response) -> float | None:
    """Seconds from Retry-After, where it names seconds."""
    value = response.headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdigit() else None


def _describe(error: httpx.TransportError) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _one_line(response: httpx.Response) -> str:
    return " ".join(response.text.split())[:200]
