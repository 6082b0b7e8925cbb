"""What text is given to the tokenizer: pure functions of strings and a token counter.

Owns the query formats (``question [SEP] query`` and its kin), its shortening and the passage format. How many tokens
a text has is asked of the caller; truncating a passage's tokens is the encoder's part.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from agentic_r.encoder.settings import EncoderSettings
from agentic_r.types import Passage, QueryText

__all__ = [
    "UNSPACED_CHARACTERS",
    "FormattedQuery",
    "fit_query",
    "passage_text",
    "query_text",
    "strip_control_tokens",
]

# Scripts written without spaces between words, for a character class: Han, kana, Hangul, Thai, Lao,
# Myanmar, Khmer. One character stands for one word wherever words are counted or cut.
UNSPACED_CHARACTERS = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORD = re.compile(f"[{UNSPACED_CHARACTERS}]|[^\\s{UNSPACED_CHARACTERS}]+")

TokenCounter = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class FormattedQuery:
    """The text to tokenise, prefix included, and which parts had to be shortened or left out."""

    text: str
    cut: frozenset[Literal["history", "question", "query"]] = frozenset()


def strip_control_tokens(text: str, control_tokens: Sequence[str]) -> str:
    """Replace a tokenizer's control tokens that stand in user text by a space, and strip the ends."""
    for token in control_tokens:
        if token in text:
            text = text.replace(token, " ")
    return text.strip()


def query_text(query: QueryText, settings: EncoderSettings) -> str:
    """Return ``prefix + question + " [SEP] " + query``, uncut; without the question, or with earlier queries between.

    Args:
        query: Texts without control tokens; empty ones are left out.
        settings: Prefix, format and separator.

    Source: Agentic-R, input of the trained retriever (1.9) and its ablation with history; the separator is the
    tokenizer's own token.
    """
    if settings.query_format == "query" or settings.separator is None:
        return settings.query_prefix + query.query
    history = query.history if settings.query_format == "history" else ()
    parts = [part for part in (query.question, *history) if part]
    return settings.query_prefix + f" {settings.separator} ".join([*parts, query.query])


def passage_text(passage: Passage, settings: EncoderSettings) -> str:
    """Return ``prefix + title + newline + text`` (the title line only where there is a title)."""
    return settings.passage_prefix + (f"{passage.title}\n{passage.text}" if passage.title else passage.text)


def fit_query(query: QueryText, settings: EncoderSettings, count_tokens: TokenCounter) -> FormattedQuery:
    """Format a query so that it has at most ``max_query_tokens`` tokens.

    Earlier queries are left out first, the oldest before the others; then the question is shortened, word by word
    from its end, down to nothing; the current query is cut, at its own end, only where it does not fit alone. The
    prefix always stays.

    Args:
        query: Texts without control tokens.
        settings: Prefix, format, separator and limit.
        count_tokens: Number of tokens of a whole text, special ones included.
    """

    def fits(candidate: QueryText) -> bool:
        return count_tokens(query_text(candidate, settings)) <= settings.max_query_tokens

    if fits(query):
        return FormattedQuery(query_text(query, settings))
    if settings.query_format == "history":
        for place in range(1, len(query.history) + 1):
            later = replace(query, history=query.history[place:])
            if fits(later):
                return FormattedQuery(query_text(later, settings), frozenset({"history"}))
    has_question = settings.query_format != "query" and settings.separator is not None
    has_history = settings.query_format == "history" and has_question and bool(query.history)
    left_out = frozenset[Literal["history", "question", "query"]](("history",) if has_history else ())
    alone = QueryText(query=query.query)
    if settings.query_format != "query" and fits(alone):
        question = _longest_start(query.question, lambda start: fits(QueryText(query.query, start)))
        return FormattedQuery(query_text(QueryText(query.query, question), settings), left_out | {"question"})
    if has_question and query.question:
        left_out |= {"question"}
    start = _longest_start(query.query, lambda text: fits(QueryText(text)))
    return FormattedQuery(query_text(QueryText(start), settings), left_out | {"query"})


def _longest_start(text: str, fits: Callable[[str], bool]) -> str:
    """Longest start of ``text`` ending at a word that fits; within the first word where none does."""
    ends = [0, *(match.end() for match in _WORD.finditer(text))]
    found = _last_fitting([text[:end] for end in ends], fits)
    if found or len(ends) == 1:
        return found
    return _last_fitting([text[:end] for end in range(ends[1])], fits)


def _last_fitting(candidates: Sequence[str], fits: Callable[[str], bool]) -> str:
    """Bisect growing candidates; the first (empty) one is taken to fit."""
    low, high = 0, len(candidates)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(candidates[middle]):
            low = middle
        else:
            high = middle
    return candidates[low]
