"""Documents cut into passages that know their place.

Owns where a passage may end: at a paragraph's end rather than a sentence's, a sentence's rather than a line's, a
line's rather than between any two words; never inside a word.
"""

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from agentic_r.corpus.text import iter_word_spans
from agentic_r.types import Document, Passage

__all__ = ["split_document"]

_PARAGRAPH = re.compile(r"\n[^\S\n]*\n|\u2029")
_LINE = re.compile(r"[\n\u2028\u0085]")
_STOPS, _CLOSERS = ".!?\u2026\u3002\uff01\uff1f\uff61\u0964\u06d4", "\"'\u2019\u201d\u300d\u300f)]"
_SENTENCE_END = re.compile(rf"[{re.escape(_STOPS)}][{re.escape(_CLOSERS)}]*$")
_SENTENCE_LAST = frozenset(_STOPS + _CLOSERS)


class _Border(IntEnum):
    """What ends after a word, the better the higher."""

    WORD = 0
    LINE = 1
    SENTENCE = 2
    PARAGRAPH = 3


class _Word(NamedTuple):  # a tuple, since one is made for each word of the corpus
    start: int
    end: int
    border: _Border


def split_document(document: Document, *, max_words: int) -> list[Passage]:
    """Cut a document into passages of at most ``max_words`` words.

    Every non-space character is in exactly one passage, ``document.text[p.start : p.start + len(p.text)] == p.text``,
    and passages follow one another. A passage ends at the best border between half and all of its words, the nearest
    to its ideal size among equals; the last two share what is left, so that no short tail remains. A document without
    words is one passage.

    Args:
        document: The text to cut.
        max_words: Limit; a character of an unspaced script counts as a word.

    Raises:
        ValueError: ``max_words`` is below 1.

    Source: about 100 words as in the published corpus; the borders are our choice.
    """
    if max_words < 1:
        raise ValueError(f"max_words is {max_words}; at least 1")
    spans = list(_cut(document.text, max_words)) or [(0, len(document.text))]
    return [
        Passage(f"{document.id}#{number}", document.id, document.title, document.text[start:end], start)
        for number, (start, end) in enumerate(spans)
    ]


def _cut(text: str, max_words: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each passage; holds two passages' words at a time."""
    words = _words(text)
    ahead: list[_Word] = []
    while True:
        while len(ahead) < 2 * max_words and (word := next(words, None)) is not None:
            ahead.append(word)
        if not ahead:
            return
        size = _size([word.border for word in ahead], max_words)
        yield ahead[0].start, ahead[size - 1].end
        del ahead[:size]


def _size(borders: list[_Border], max_words: int) -> int:
    """Return the next passage's number of words, given the borders after the words left (at most 2 * max_words)."""
    left = len(borders)
    if left <= max_words:
        return left
    ideal = max_words if left >= 2 * max_words else (left + 1) // 2
    sizes = range((ideal + 1) // 2, max_words + 1)
    return max(sizes, key=lambda size: (borders[size - 1], -abs(size - ideal)))


def _words(text: str) -> Iterator[_Word]:
    previous: tuple[int, int] | None = None
    for span in iter_word_spans(text):
        if previous is not None:
            yield _Word(*previous, _border(text, previous, span[0]))
        previous = span
    if previous is not None:
        yield _Word(*previous, _Border.PARAGRAPH)


def _border(text: str, word: tuple[int, int], next_start: int) -> _Border:
    gap = text[word[1] : next_start]
    if gap == " " and text[word[1] - 1] not in _SENTENCE_LAST:  # nearly all words
        return _Border.WORD
    if _PARAGRAPH.search(gap):
        return _Border.PARAGRAPH
    if _SENTENCE_END.search(text[word[0] : word[1]]):
        return _Border.SENTENCE
    return _Border.LINE if _LINE.search(gap) else _Border.WORD
