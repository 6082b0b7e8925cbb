"""The judge that needs no model: it reads the agent's own trajectory and the passages, never gold.

Sub-answer of a query: what the agent took from it. That is the term that is new in the trajectory's next
query and stands in a passage shown for this one, or, for the last query, the final answer of a correct
trajectory. Relevance: does a passage hold the sub-answer and speak of what the query names?

All thresholds are our choice; they keep a passage about another entity that merely mentions the
sub-answer below 0.6, and a paraphrase (the name, none of the relation's words) at or above it.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from agentic_r.labels.terms import STOPWORDS, Token, contains, content_terms, split_tokens, words
from agentic_r.metrics.answers import contains_answer
from agentic_r.types import Passage, Relevance, RelevanceRequest, SubAnswer, SubAnswerRequest, Trajectory

__all__ = ["RuleBasedJudge", "new_term"]

_HELD = 0.6  # an answering passage: 0.6 + 0.4 x coverage
_UNSURE = 0.5  # no sub-answer to look for: 0.5 x coverage
_OTHER = 0.4  # not an answering passage: 0.4 x coverage
_NAME_SHARE = 2 / 3  # of the query's name-like terms that the passage must hold
_TERM_SHARE = 1 / 2  # of all content terms, where nothing in the query is name-like
_VERDICTS = frozenset({"yes", "no", "true", "false"})


@dataclass(frozen=True, slots=True)
class RuleBasedJudge:
    """Labels by rule; same input, same labels."""

    @property
    def name(self) -> str:
        """The rule and its version."""
        return "rule 1"

    def sub_answers(self, requests: Sequence[SubAnswerRequest]) -> list[list[SubAnswer]]:
        """For each trajectory one sub-answer a query: a term with its case kept, or None ("not sure")."""
        return [
            [SubAnswer(query.query_id, self._sub_answer(request, query.turn), self.name) for query in request.queries]
            for request in requests
        ]

    def relevance(self, requests: Sequence[RelevanceRequest]) -> list[list[Relevance]]:
        """For each query the relevance of its candidates.

        With c the share of the query's content terms in title and text: 0.6 + 0.4 c where the passage holds
        the sub-answer and at least 2/3 of the query's names (capitalised words and numbers; in a query
        without capitals the terms that stand in a candidate's title; where there are none, half of all
        content terms); otherwise 0.4 c. With no sub-answer 0.5 c: never a positive.
        """
        return [self._relevance(request) for request in requests]

    def _sub_answer(self, request: SubAnswerRequest, turn: int) -> str | None:
        turns = request.trajectory.turns
        asked = [item.content for item in turns[: turn + 1] if item.action == "search"]
        following = next((item.content for item in turns[turn + 1 :] if item.action == "search"), None)
        if following is None:
            return _final_answer(request.trajectory, (request.question, asked[-1]))
        shown = [request.passages[item.passage_id] for item in turns[turn].passages]
        return new_term(following, question=request.question, asked=asked, evidence=shown)

    def _relevance(self, request: RelevanceRequest) -> list[Relevance]:
        terms = content_terms(request.query.query)
        needed = _needed(request.query.query, request.passages)
        return [
            Relevance(
                query_id=request.query.query_id,
                passage_id=passage.id,
                value=_value(passage, terms=terms, needed=needed, answer=request.sub_answer.text),
                judge=self.name,
            )
            for passage in request.passages
        ]


def new_term(following: str, *, question: str, asked: Sequence[str], evidence: Sequence[Passage]) -> str | None:
    """Return the term that the next query took over from the evidence, or None where that is not sure.

    Args:
        following: The next query.
        question: The user's question.
        asked: The queries so far; the last is the one whose sub-answer is wanted.
        evidence: The passages shown for that last one.

    Returns:
        The one contiguous run of words that are neither stopwords nor in the question or an earlier query, and
        that stands in a passage of the evidence about what the last query names, drawn out to the whole name as
        it is spelled there; in a query with names, the one such run that is a name. None where there are several or
        none, or where the next query still asks about the same names (a rewording).
    """
    about = _needed(asked[-1], evidence)
    texts = [text for text in map(_read, evidence) if about.is_met(text)]
    tokens = split_tokens(following)
    if _is_rewording(asked[-1], tokens, evidence):
        return None
    known = STOPWORDS.union(words(question), *(words(query) for query in asked))
    spans = {_draw_out(span, tokens, texts) for span in _new_spans(tokens, known) if _is_shown(span, tokens, texts)}
    if any(token.is_name for token in tokens):
        spans = {span for span in spans if tokens[span.start].is_name and tokens[span.stop - 1].is_name}
    if len({tuple(token.word for token in tokens[span.start : span.stop]) for span in spans}) != 1:
        return None
    span = min(spans, key=lambda item: item.start)
    return unicodedata.normalize("NFKC", following)[tokens[span.start].start : tokens[span.stop - 1].end]


@dataclass(frozen=True, slots=True)
class _Span:
    """Tokens ``start`` to ``stop`` (exclusive) of a query."""

    start: int
    stop: int


def _is_rewording(query: str, following: Sequence[Token], evidence: Sequence[Passage]) -> bool:
    """Whether ``following`` repeats more than 2/3 of the names of ``query``, or two of its content words in a row."""
    later = [token.word for token in following]
    before = split_tokens(query)
    names = {token.word for token in before if token.is_name}
    if names:
        return len(names & set(later)) > _NAME_SHARE * len(names)
    titled = {token.word for token in before} & {word for passage in evidence for word in words(passage.title)}
    titled -= STOPWORDS
    pairs = [(a.word, b.word) for a, b in pairwise(before)]
    repeated = any(contains(later, pair) for pair in pairs if not STOPWORDS.intersection(pair))
    return repeated or len(titled & set(later)) > _NAME_SHARE * len(titled)


def _new_spans(tokens: Sequence[Token], known: frozenset[str]) -> list[_Span]:
    spans: list[_Span] = []
    for place, token in enumerate(tokens):
        if token.word in known:
            continue
        if spans and spans[-1].stop == place:
            spans[-1] = _Span(spans[-1].start, place + 1)
        else:
            spans.append(_Span(place, place + 1))
    return spans


def _draw_out(span: _Span, tokens: Sequence[Token], texts: Sequence[Sequence[str]]) -> _Span:
    """Widen a span while its ends stay content words and the evidence holds it word for word ("Bank of Yol")."""
    widest = span
    for start in range(span.start, -1, -1):
        for stop in range(span.stop, len(tokens) + 1):
            wider = _Span(start, stop)
            ends = {tokens[start].word, tokens[stop - 1].word}
            longer = stop - start > widest.stop - widest.start
            if longer and not ends & STOPWORDS and _is_shown(wider, tokens, texts):
                widest = wider
    return widest


def _is_shown(span: _Span, tokens: Sequence[Token], texts: Iterable[Sequence[str]]) -> bool:
    wanted = [token.word for token in tokens[span.start : span.stop]]
    return any(contains(text, wanted) for text in texts)


def _final_answer(trajectory: Trajectory, asked: tuple[str, str]) -> str | None:
    """Return a right final answer that was found: no verdict, nothing that question or query already said."""
    answer = trajectory.answer
    if answer is None or trajectory.status != "answered" or trajectory.correct < 1:
        return None
    found = set(words(answer))
    if found <= _VERDICTS or found <= {word for text in asked for word in words(text)}:
        return None
    return answer


def _read(passage: Passage) -> list[str]:
    return words(f"{passage.title}\n{passage.text}")


@dataclass(frozen=True, slots=True)
class _Needed:
    """The terms a passage must share with the query, and how many of them, to be about the same thing."""

    terms: frozenset[str]
    count: float

    def is_met(self, text: Iterable[str]) -> bool:
        return len(self.terms.intersection(text)) >= self.count


def _needed(query: str, passages: Sequence[Passage]) -> _Needed:
    terms = content_terms(query)
    names = frozenset(token.word for token in split_tokens(query) if token.is_name)
    if not names:
        names = frozenset(terms) & {word for passage in passages for word in words(passage.title)}
    if names:
        return _Needed(names, _NAME_SHARE * len(names))
    return _Needed(frozenset(terms), _TERM_SHARE * len(terms))


def _value(passage: Passage, *, terms: Sequence[str], needed: _Needed, answer: str | None) -> float:
    held = set(_read(passage))
    coverage = len(held.intersection(terms)) / len(terms) if terms else 0.0
    if answer is None:
        return _UNSURE * coverage
    if needed.is_met(held) and contains_answer(f"{passage.title}\n{passage.text}", [answer]):
        return _HELD + (1 - _HELD) * coverage
    return _OTHER * coverage
