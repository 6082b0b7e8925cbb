"""The judge behind a chat model: prompts, replies, asking again, and what is recorded when that fails.

A reply that cannot be read is asked again, with the reason, within ``max_retries``; then it is recorded with its
state, its cause and the hash under which the raw reply is kept. It never becomes a value.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from agentic_r.artifacts.fingerprint import fingerprint_strings
from agentic_r.labels.parse import ParsedScores, ParsedSubAnswers, parse_scores, parse_sub_answers
from agentic_r.labels.prompting import JudgePrompts
from agentic_r.protocols import ChatModel
from agentic_r.types import Relevance, RelevanceRequest, Reply, SubAnswer, SubAnswerRequest

__all__ = ["ChatJudge"]

State = Literal["ok", "unparsed", "out_of_range"]
_SCALE = 100.0
_EXCERPT = 120  # characters of a raw reply in a cause; the whole of it stays in the cache


class _Parsed(Protocol):
    """What every parsed reply says of itself."""

    @property
    def state(self) -> State: ...
    @property
    def cause(self) -> str: ...


P = TypeVar("P", bound=_Parsed)


@dataclass(frozen=True, slots=True)
class _Asked(Generic[P]):
    """The last outcome of one prompt: ``parsed`` is None where no reply came at all."""

    parsed: P | None
    cause: str = ""


@dataclass(frozen=True, slots=True)
class ChatJudge:
    """Labels from a chat model; ``max_retries`` bounds how often an unreadable reply is asked again."""

    chat: ChatModel
    prompts: JudgePrompts
    max_retries: int

    @property
    def name(self) -> str:
        """The chat model's identity (a cached one names the templates too)."""
        return self.chat.name

    def sub_answers(self, requests: Sequence[SubAnswerRequest]) -> list[list[SubAnswer]]:
        """One prompt a trajectory, given its evidence and the accepted answers."""
        prompts = [self.prompts.ask_sub_answers(request) for request in requests]
        counts = [len(request.queries) for request in requests]
        outcomes = self._ask(prompts, [_SubAnswerParser(count) for count in counts])
        return [self._sub_answers(request, outcome) for request, outcome in zip(requests, outcomes, strict=True)]

    def relevance(self, requests: Sequence[RelevanceRequest]) -> list[list[Relevance]]:
        """One listwise prompt a query; values are the judge's numbers divided by 100."""
        prompts = [self.prompts.ask_relevance(request) for request in requests]
        outcomes = self._ask(prompts, [_ScoreParser(len(request.passages)) for request in requests])
        return [self._relevance(request, outcome) for request, outcome in zip(requests, outcomes, strict=True)]

    def _sub_answers(self, request: SubAnswerRequest, outcome: _Asked[ParsedSubAnswers]) -> list[SubAnswer]:
        ids = [query.query_id for query in request.queries]
        if outcome.parsed is None:
            return [SubAnswer(key, None, self.name, "failed", outcome.cause) for key in ids]
        if outcome.parsed.texts is None:
            return [SubAnswer(key, None, self.name, "unparsed", outcome.cause) for key in ids]
        return [SubAnswer(key, text, self.name) for key, text in zip(ids, outcome.parsed.texts, strict=True)]

    def _relevance(self, request: RelevanceRequest, outcome: _Asked[ParsedScores]) -> list[Relevance]:
        query_id, ids = request.query.query_id, [passage.id for passage in request.passages]
        if outcome.parsed is None:
            return [Relevance(query_id, key, None, self.name, "failed", outcome.cause) for key in ids]
        state, values = outcome.parsed.state, outcome.parsed.values
        if values is None:
            return [Relevance(query_id, key, None, self.name, state, outcome.cause) for key in ids]
        return [Relevance(query_id, key, value / _SCALE, self.name) for key, value in zip(ids, values, strict=True)]

    def _ask(self, prompts: Sequence[str], parsers: Sequence[Callable[[Reply], P]]) -> list[_Asked[P]]:
        outcomes: dict[int, _Asked[P]] = {}
        texts = dict(enumerate(prompts))
        for attempt in range(1, self.max_retries + 2):
            rows = list(texts)
            replies = self.chat.complete([texts[row] for row in rows])
            for row, reply in zip(rows, replies, strict=True):
                outcomes[row] = _outcome(texts[row], reply, parsers[row])
                parsed = outcomes[row].parsed
                if parsed is None or parsed.state == "ok":
                    del texts[row]
                else:
                    texts[row] = self.prompts.ask_again(prompts[row], reason=parsed.cause, attempt=attempt + 1)
            if not texts:
                break
        return [outcomes[row] for row in range(len(prompts))]


@dataclass(frozen=True, slots=True)
class _SubAnswerParser:
    count: int

    def __call__(self, reply: Reply) -> ParsedSubAnswers:
        text = reply.text or ""
        if reply.finish == "length":
            return ParsedSubAnswers("unparsed", None, text, "the reply was cut at the token limit")
        return parse_sub_answers(text, count=self.count)


@dataclass(frozen=True, slots=True)
class _ScoreParser:
    count: int

    def __call__(self, reply: Reply) -> ParsedScores:
        text = reply.text or ""
        if reply.finish == "length":
            return ParsedScores("unparsed", None, text, "the reply was cut at the token limit")
        return parse_scores(text, count=self.count, high=_SCALE)


def _outcome(prompt: str, reply: Reply, parse: Callable[[Reply], P]) -> _Asked[P]:
    if reply.text is None:
        return _Asked(None, reply.cause)
    parsed = parse(reply)
    if parsed.state == "ok":
        return _Asked(parsed)
    shown = reply.text if len(reply.text) <= _EXCERPT else f"{reply.text[:_EXCERPT]}..."
    return _Asked(parsed, f"{parsed.cause}; reply {fingerprint_strings([prompt])}: {shown!r}")
