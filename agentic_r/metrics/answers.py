"""When an answer is right: exact match and token F1.

Owns normalisation. ``default`` is ours: no rule may empty an answer, an empty prediction is never right, marks that
carry meaning stay (1.5 is not 15, C++ is not C, 1990-1995 is not 19901995), and every script is treated alike.
``squad`` is the published one (English only, may empty an answer), for comparison with papers.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Literal, assert_never

from agentic_r.metrics.scripts import UNSPACED, UNSPACED_CHARACTER

__all__ = [
    "AnswerMode",
    "answer_tokens",
    "contains_answer",
    "contains_tokens",
    "exact_match",
    "normalise_answer",
    "token_f1",
]

AnswerMode = Literal["default", "squad"]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)
_RAISED = re.compile(r"(?<=\d)(?=[\u00b2\u00b3\u00b9\u2070-\u207b])")  # 10² must not become 102
_DASHES = re.compile(r"[\u2010-\u2015\u2212\u301c\ufe58\ufe63\uff0d]")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_MARK = re.compile(r"[^\w\s]|_")
_GAP_BETWEEN_UNSPACED = re.compile(rf"(?<=[{UNSPACED}])\s+(?=[{UNSPACED}])")
_TOKEN_BORDER = re.compile(r"\s+|(?<=\d)-(?=\d)")
_KEPT_MARKS = frozenset("%#&@")
_JOINING_MARKS = frozenset(".'\u2019\u02bc`´")


def exact_match(prediction: str, answers: Sequence[str], *, mode: AnswerMode = "default") -> bool:
    """Say whether ``prediction`` equals one of ``answers`` after normalisation.

    Raises:
        ValueError: ``answers`` is empty.

    Source: our choice (default); SQuAD, as used by Agentic-R and Search-R1 (squad).
    """
    _require(answers)
    predicted = normalise_answer(prediction, mode=mode)
    if mode == "default" and not predicted:
        return False
    return any(predicted == normalise_answer(answer, mode=mode) for answer in answers)


def token_f1(prediction: str, answers: Sequence[str], *, mode: AnswerMode = "default") -> float:
    """Return the best harmonic mean of token precision and recall over ``answers``, in [0, 1].

    Tokens are words; where a script has no spaces, ``default`` takes each character as one. Two texts
    without tokens agree in ``squad`` mode only.

    Raises:
        ValueError: ``answers`` is empty.
    """
    _require(answers)
    predicted = answer_tokens(prediction, mode=mode)
    return max(_f1(predicted, answer_tokens(answer, mode=mode), mode=mode) for answer in answers)


def contains_answer(text: str, answers: Sequence[str], *, mode: AnswerMode = "default") -> bool:
    """Say whether one of ``answers`` stands in ``text`` as whole tokens, after normalisation.

    Articles inside stay on both sides; leading ones of the answer are left out. An answer without tokens is in no text.

    Raises:
        ValueError: ``answers`` is empty.
    """
    _require(answers)
    tokens = contains_tokens(text, mode=mode)
    wanted = [contains_tokens(normalise_answer(answer, mode=mode), mode=mode) for answer in answers]
    return any(_stands_in(answer, tokens) for answer in wanted)


def answer_tokens(text: str, *, mode: AnswerMode = "default") -> list[str]:
    """Return the tokens of the normalised text, as token F1 counts them."""
    return _split(normalise_answer(text, mode=mode), mode=mode)


def contains_tokens(text: str, *, mode: AnswerMode = "default") -> list[str]:
    """Return the tokens of ``text`` in which an answer is looked for; in ``default`` mode articles stay."""
    return _split(_plain(text) if mode == "default" else normalise_answer(text, mode=mode), mode=mode)


def normalise_answer(text: str, *, mode: AnswerMode = "default") -> str:
    """Return ``text`` in the form in which answers are compared.

    ``default``: compatibility composition and case folding; dashes are one dash; marks go (full stops and apostrophes
    without a space), but for those between two digits, a sign before a number, symbols and ``% # & @``; commas
    between thousands go; "the", and "a" and "an" before another word, go; spaces between characters of unspaced
    scripts go. A step that would leave nothing is not taken.
    ``squad``: lower case; ASCII marks go; whole words a, an, the go; white space is collapsed.
    """
    match mode:
        case "default":
            plain = _plain(text)
            return _without_articles(plain) or plain
        case "squad":
            bare = text.lower().translate(_ASCII_PUNCTUATION)
            return " ".join(_ARTICLES.sub(" ", bare).split())
        case _:
            assert_never(mode)


def _require(answers: Sequence[str]) -> None:
    if isinstance(answers, str):
        raise ValueError("answers is one string; give a list of answers")
    if not answers:
        raise ValueError("no answer to compare with: the list of answers is empty")


def _plain(text: str) -> str:
    folded = _fold(text)
    bare = _THOUSANDS.sub("", _DASHES.sub("-", folded))
    bare = " ".join(_MARK.sub(_replace_mark, bare).split())
    return _GAP_BETWEEN_UNSPACED.sub("", bare or " ".join(folded.split()))


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    raised = _RAISED.sub("^", text)
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", raised).casefold())
    return "".join(character for character in folded if unicodedata.category(character) != "Cf")


def _replace_mark(found: re.Match[str]) -> str:
    mark, text = found.group(), found.string
    before = text[found.start() - 1 : found.start()]
    after = text[found.end() : found.end() + 1]
    if after.isdigit() and before.isdigit():
        return "-" if mark == "~" else mark
    if mark == "-" and after.isdigit() and not before.isalnum():
        return mark
    if mark in _JOINING_MARKS:
        return ""
    category = unicodedata.category(mark)
    kept = mark in _KEPT_MARKS or category[0] == "M" or (category[0] == "S" and category != "Sk")
    return mark if kept else " "


def _without_articles(plain: str) -> str:
    words = plain.split()
    kept = [word for place, word in enumerate(words) if not _is_article(word, is_last=place == len(words) - 1)]
    return " ".join(kept)


def _is_article(word: str, *, is_last: bool) -> bool:
    # a last "a" or "an" belongs to a name: Vitamin A, Plan A
    return word == "the" or (word in ("a", "an") and not is_last)


def _split(normalised: str, *, mode: AnswerMode) -> list[str]:
    if mode == "squad":
        return normalised.split()
    spaced = UNSPACED_CHARACTER.sub(r" \g<0> ", normalised)
    return [token for token in _TOKEN_BORDER.split(spaced) if token]


def _f1(predicted: list[str], gold: list[str], *, mode: AnswerMode) -> float:
    if not predicted or not gold:
        return float(mode == "squad" and predicted == gold)
    shared = sum((Counter(predicted) & Counter(gold)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(gold)
    return 2 * precision * recall / (precision + recall)


def _stands_in(answer: list[str], tokens: list[str]) -> bool:
    size = len(answer)
    return size > 0 and any(tokens[start : start + size] == answer for start in range(len(tokens) - size + 1))
