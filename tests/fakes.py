"""Fakes of the seams, for tests of whatever sits on them."""

from collections.abc import Mapping, Sequence

from agentic_r.types import Generation, Passage, QueryText, Sampling, ScoredPassage, SearchResult

_TAGS = tuple(f"<{slash}{name}>" for name in ("think", "search", "information", "answer") for slash in ("", "/"))
END = 0
BEGIN = 1
_FIRST_TAG = 2
_FIRST_CHARACTER = 100


class ScriptedModel:
    """A language model that says what it was told to: one token a character, one a tag.

    ``scripts`` maps a piece of the prompt to the turns that are written after it, in order; ``prompts`` keeps every
    prompt that was continued. A reply longer than ``max_tokens`` is cut, one that holds a stop string ends there.
    """

    fingerprint = "scripted"

    def __init__(self, scripts: Mapping[str, Sequence[str]]) -> None:
        self.scripts = scripts
        self.prompts: list[list[int]] = []
        self._taken = dict.fromkeys(scripts, 0)

    def encode(
        self, text: str, *, control: bool = False, begins: bool = False, ends: bool = False, chat: bool = False
    ) -> list[int]:
        ids = [BEGIN] if begins else []
        place = 0
        while place < len(text):
            tag = next((tag for tag in _TAGS if control and text.startswith(tag, place)), None)
            ids.append(_FIRST_CHARACTER + ord(text[place]) if tag is None else _FIRST_TAG + _TAGS.index(tag))
            place += 1 if tag is None else len(tag)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(
            chr(token - _FIRST_CHARACTER) if token >= _FIRST_CHARACTER else _TAGS[token - _FIRST_TAG]
            for token in ids
            if token not in (END, BEGIN)
        )

    def generate(self, prompts: Sequence[Sequence[int]], *, sampling: Sampling) -> list[Generation]:
        self.prompts += [list(prompt) for prompt in prompts]
        return [self._reply(self.decode(prompt), sampling) for prompt in prompts]

    def _reply(self, prompt: str, sampling: Sampling) -> Generation:
        key = next(key for key in self.scripts if key in prompt)
        text = self.scripts[key][self._taken[key]]
        self._taken[key] += 1
        ends = [text.index(stop) + len(stop) for stop in sampling.stop if stop in text]
        ids = self.encode(text[: min(ends)] if ends else text, control=True)
        ids += [] if ends else [END]
        cut = tuple(ids[: sampling.max_tokens])
        return Generation(cut, (-0.5,) * len(cut), finish="stop" if len(cut) == len(ids) else "length")


class FakeRetriever:
    """Answers each query as told (ids of passages, or a whole result), every other one with ``otherwise``."""

    fingerprint = "fake"

    def __init__(
        self,
        answers: Mapping[str, Sequence[str] | SearchResult] | None = None,
        *,
        otherwise: Sequence[str] | SearchResult = (),
    ) -> None:
        self.answers = answers or {}
        self.otherwise = otherwise
        self.queries: list[QueryText] = []

    def search(self, queries: Sequence[QueryText], *, k: int) -> list[SearchResult]:
        self.queries += queries
        return [self._answer(query, k) for query in queries]

    def format_query(self, query: QueryText) -> str:
        return f"{query.question} [SEP] {query.query}"

    def _answer(self, query: QueryText, k: int) -> SearchResult:
        answer = self.answers.get(query.query, self.otherwise)
        if isinstance(answer, SearchResult):
            return answer
        found = tuple(ScoredPassage(key, 1.0 - 0.1 * rank) for rank, key in enumerate(answer[:k]))
        return SearchResult(found, "ok" if found else "empty")


def by_id(*passages: Passage) -> dict[str, Passage]:
    return {item.id: item for item in passages}
