"""What counts as empty, and as a word.

Owned here so that the corpus, the questions and everything above agree on them.
"""

import re
import unicodedata
from collections.abc import Iterator

from agentic_r.metrics.scripts import UNSPACED

__all__ = ["count_words", "is_empty_text", "iter_word_spans"]

# A word: one character of an unspaced script with the marks that cling to it, or a run without white space.
_WORD = re.compile(rf"[^\w\s]*[{UNSPACED}][^\w\s]*|[^\s{UNSPACED}]+")
_INVISIBLE = frozenset(("Cc", "Cf", "Zs", "Zl", "Zp"))


def is_empty_text(text: str) -> bool:
    """Say whether a reader would see nothing: only white space, control and zero-width characters."""
    return all(character.isspace() or unicodedata.category(character) in _INVISIBLE for character in text)


def iter_word_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each word; together they cover every non-space character exactly once."""
    for found in _WORD.finditer(text):
        yield found.span()


def count_words(text: str) -> int:
    """Return the number of words."""
    return sum(1 for _ in iter_word_spans(text))
