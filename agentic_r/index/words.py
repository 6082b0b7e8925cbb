"""Words for BM25, in any script.

Owns what a term is: scripts with spaces give stemmed words (one-character words and digits included), scripts
without give single characters and pairs of neighbours. Nothing is left out as a stop word: rarity weighs.
"""

import re
import unicodedata

from Stemmer import Stemmer

from agentic_r.encoder.text import UNSPACED_CHARACTERS

__all__ = ["TERMS_SCHEMA", "TermSplitter"]

TERMS_SCHEMA = 1

# Letters and digits with their marks: combining accents and the vowel signs of Indic scripts belong to words.
_SPACED = f"(?:(?![{UNSPACED_CHARACTERS}_])[\\w\u0300-\u036f\u0900-\u0963\u0966-\u0dff])+"
_RUN = re.compile(f"(?P<unspaced>[{UNSPACED_CHARACTERS}]+)|(?P<word>{_SPACED}(?:'{_SPACED})*)")


class TermSplitter:
    """Splits texts into terms; the same for passages and queries."""

    def __init__(self) -> None:
        self._stemmer = Stemmer("english")

    def terms(self, text: str) -> list[str]:
        """Return the terms of ``text``, in order, repeats included."""
        plain = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")
        terms: list[str] = []
        for match in _RUN.finditer(plain):
            run = match.group()
            if match.lastgroup == "word":
                terms.append(self._stemmer.stemWord(run))
            else:
                terms.extend(run)
                terms.extend(run[start : start + 2] for start in range(len(run) - 1))
        return terms
