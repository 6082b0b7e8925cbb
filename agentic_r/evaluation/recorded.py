"""The frozen query set: which passages each recorded query should find.

Retrievers are compared on queries that an agent really sent, the same for all. The rule:

- a recorded query that names the title of one of its question's gold documents is judged on that
  document's gold passages (a title inside a longer named one does not count);
- any other recorded query is judged on all gold passages of its question;
- a question without gold passages is judged on the answer-bearing passages that the caller gives;
- a question with neither is not judged: it is listed, never scored 0.

Values are averaged over a question's queries first, then over questions, which are the unit of the bootstrap.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agentic_r.errors import DataError
from agentic_r.metrics.scripts import UNSPACED
from agentic_r.types import Passage, Question, RecordedQuery

__all__ = ["JUDGING_RULE", "GoldKind", "JudgedQueries", "judge_queries", "mean_by_question", "names_title"]

GoldKind = Literal["gold", "answer-bearing", "mixed"]

JUDGING_RULE = (
    "a query that names the title of one of its question's gold documents is judged on that document's gold passages, "
    "any other on all gold passages of its question; queries are averaged within a question first"
)

# A token is a run of letters and digits, or one character of a script without spaces. Unlike in an answer's
# normal form, an apostrophe is a border: a query names "Ed Wood" where it asks for "Ed Wood's nationality".
_TOKEN = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+")


@dataclass(frozen=True, slots=True)
class JudgedQueries:
    """Recorded queries with their qrels, by query id, and the questions' texts that retrievers are given.

    ``not_judged`` are the ids of the queries that were left out since nothing says what they should find.
    """

    queries: tuple[RecordedQuery, ...]
    question_texts: Mapping[str, str]
    qrels: Mapping[str, Mapping[str, int]]
    kind: GoldKind
    not_judged: tuple[str, ...]


def judge_queries(
    queries: Sequence[RecordedQuery],
    questions: Iterable[Question],
    *,
    passages: Mapping[str, Passage],
    answer_bearing: Mapping[str, Sequence[str]] | None = None,
) -> JudgedQueries:
    """Apply the rule above.

    Args:
        queries: The recorded queries.
        questions: Their questions (others are ignored).
        passages: At least the gold passages of these questions, by id.
        answer_bearing: Passage ids that hold an answer, by question id, for questions without gold.

    Returns:
        The judged queries, in order.

    Raises:
        DataError: a query's question is missing, a query id is used twice, or a gold passage is not among the passages.
    """
    by_id = {question.id: question for question in questions}
    judged: list[RecordedQuery] = []
    qrels: dict[str, Mapping[str, int]] = {}
    kinds: set[GoldKind] = set()
    for query in queries:
        if query.question_id not in by_id:
            raise DataError(
                f"recorded query {query.id}: question {query.question_id} is unknown; give its questions too"
            )
        if query.id in qrels:
            raise DataError(f"recorded query {query.id}: the id is used twice; give every query its own")
        question = by_id[query.question_id]
        relevant = _gold_of(query, question, passages)
        kind: GoldKind = "gold" if relevant else "answer-bearing"
        relevant = relevant or tuple((answer_bearing or {}).get(question.id, ()))
        if relevant:
            judged.append(query)
            qrels[query.id] = dict.fromkeys(relevant, 1)
            kinds.add(kind)
    return JudgedQueries(
        queries=tuple(judged),
        question_texts={query.question_id: by_id[query.question_id].text for query in judged},
        qrels=qrels,
        kind="mixed" if len(kinds) > 1 else next(iter(kinds), "gold"),
        not_judged=tuple(query.id for query in queries if query.id not in qrels),
    )


def mean_by_question(values: Mapping[str, float], question_of: Mapping[str, str]) -> dict[str, float]:
    """Average the values of each question's items (queries, attempts); ``question_of`` maps item to question."""
    groups: dict[str, list[float]] = {}
    for item, value in values.items():
        groups.setdefault(question_of[item], []).append(value)
    return {question: sum(sorted(group)) / len(group) for question, group in groups.items()}


def names_title(text: str, title: str) -> bool:
    """Say whether ``text`` contains ``title``, both normalised, from token border to token border."""
    return bool(_mentions(_tokens(text), _tokens(title)))


def _gold_of(query: RecordedQuery, question: Question, passages: Mapping[str, Passage]) -> tuple[str, ...]:
    for passage_id in question.gold_passages:
        if passage_id not in passages:
            raise DataError(f"question {question.id}: gold passage {passage_id} is not in the corpus; check its id")
    gold = [passages[passage_id] for passage_id in question.gold_passages]
    named = _named_titles(query.query, {passage.title for passage in gold})
    chosen = [passage.id for passage in gold if passage.title in named]
    return tuple(chosen) or question.gold_passages


def _named_titles(text: str, titles: Iterable[str]) -> set[str]:
    """Titles that ``text`` names, except where each mention lies inside that of a longer one."""
    tokens = _tokens(text)
    spans = {title: _mentions(tokens, _tokens(title)) for title in titles}
    every = {span for found in spans.values() for span in found}
    outer = {span for span in every if not any(_is_inside(span, other) for other in every)}
    return {title for title, found in spans.items() if found & outer}


def _mentions(tokens: Sequence[str], title: Sequence[str]) -> set[tuple[int, int]]:
    size = len(title)
    if not size:
        return set()
    starts = range(len(tokens) - size + 1)
    return {(start, start + size) for start in starts if tokens[start : start + size] == title}


def _is_inside(span: tuple[int, int], other: tuple[int, int]) -> bool:
    return span != other and other[0] <= span[0] and span[1] <= other[1]


def _tokens(text: str) -> list[str]:
    """Tokens of ``text`` after NFKC and case folding (which may undo a composed form: NFKC again)."""
    return _TOKEN.findall(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()))
