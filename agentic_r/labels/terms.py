"""The words of a text, for labels that are decided by reading: content terms, names, containment.

Owns what counts as a word here (letters and digits; each character of an unspaced script is one), which words carry no
content, and which are name-like. Answer matching (EM, F1) is ``metrics``' business.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentic_r.metrics.scripts import UNSPACED

__all__ = ["STOPWORDS", "Token", "contains", "content_terms", "split_tokens", "words"]

_TOKEN = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+")

_STOPWORDS = """
a about after all also an and any are as at be been being before both but by can could did do does for from
had has have he her hers him his how i if in into is it its many me more most much my no not of on one or our s
she so some such than that the their them then there these they this those to under until up us was we were what
when where which while who whom whose why will with would you your
"""
STOPWORDS = frozenset(_STOPWORDS.split())


@dataclass(frozen=True, slots=True)
class Token:
    """A word as spelled, with its place in the (NFKC) text.

    ``is_name`` is True for a capitalised word or a number; the first word of a text counts only where
    the next one is name-like too, or no other is: it may be capitalised for its place alone.
    """

    spelled: str
    start: int
    end: int
    is_name: bool

    @property
    def word(self) -> str:
        """The word without regard to case."""
        return self.spelled.casefold()


def split_tokens(text: str) -> list[Token]:
    """Return the words of ``text`` (taken in its NFKC form) in order."""
    matches = list(_TOKEN.finditer(unicodedata.normalize("NFKC", text)))
    flags = [_looks_like_name(match[0]) for match in matches]
    if flags and flags[0] and any(flags[1:]):
        flags[0] = flags[1]
    return [Token(match[0], match.start(), match.end(), flag) for match, flag in zip(matches, flags, strict=True)]


def _looks_like_name(spelled: str) -> bool:
    return (spelled[0].isupper() or spelled[0].isdigit()) and spelled.casefold() not in STOPWORDS


def words(text: str) -> list[str]:
    """Return the words of ``text`` in order, without regard to case."""
    return [match[0].casefold() for match in _TOKEN.finditer(unicodedata.normalize("NFKC", text))]


def content_terms(text: str) -> tuple[str, ...]:
    """Return the different words that carry content, in order; all words where none does."""
    found = dict.fromkeys(words(text))
    return tuple(word for word in found if word not in STOPWORDS) or tuple(found)


def contains(text: Sequence[str], part: Sequence[str]) -> bool:
    """Whether the words ``part`` stand in ``text`` one after another; nothing is contained nowhere."""
    if not part:
        return False
    size = len(part)
    wanted = list(part)
    return any(list(text[start : start + size]) == wanted for start in _places(text, wanted[0]))


def _places(text: Sequence[str], word: str) -> Iterable[int]:
    return (place for place, found in enumerate(text) if found == word)
