"""Reading a judge's reply: values only where the reply is complete and unambiguous.

Owns the scale's bounds (0-100 exists here and in the prompts, 0-1 everywhere else). Nothing turns into a
value by failing: what cannot be read is ``unparsed``, what lies outside the scale is ``out_of_range``, and both keep
the raw reply and say why. Pure functions of the reply.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["ParsedScores", "ParsedSubAnswers", "parse_scores", "parse_sub_answers"]

_KEYS = ("scores", "score")
_NUMBER = re.compile(r"[+-]?\d{1,9}(?:\.\d{1,9})?", re.ASCII)
_ROW = re.compile(rf"(?:{_NUMBER.pattern})(?:\s+{_NUMBER.pattern}|\s*,\s+{_NUMBER.pattern})*", re.ASCII)
_FENCE = re.compile(r"```[a-z]*\s*(.*?)\s*```", re.DOTALL)
_TAG = re.compile(r"<(/?)sub-answer>", re.IGNORECASE)
_NOT_SURE = re.compile(r"\W*not\s+sure\W*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ParsedScores:
    """``values`` (on the judge's scale, one a passage) is None unless ``state`` is ok; ``cause`` says why."""

    state: Literal["ok", "unparsed", "out_of_range"]
    values: tuple[float, ...] | None
    raw: str
    cause: str = ""


@dataclass(frozen=True, slots=True)
class ParsedSubAnswers:
    """``texts`` (None in it is "not sure") is None unless ``state`` is ok."""

    state: Literal["ok", "unparsed"]
    texts: tuple[str | None, ...] | None
    raw: str
    cause: str = ""


class _Unreadable(Exception):
    """Why a reply gives no values."""


def parse_scores(reply: str, *, count: int, low: float = 0, high: float = 100) -> ParsedScores:
    """Read ``count`` values from a reply.

    Accepted: one JSON object with ``scores`` (a list) or, for one passage, ``score``, whatever stands around it;
    a bare JSON list; numbers alone, set apart by spaces or by commas and spaces. Numbers may be strings. A reply with
    two different answers, a missing or extra number, or a broken object beside a whole one is unparsed.
    """
    try:
        values = _read_values(_after_thinking(reply), count)
    except _Unreadable as problem:
        return ParsedScores("unparsed", None, reply, str(problem))
    outside = [value for value in values if not low <= value <= high]
    if outside:
        return ParsedScores("out_of_range", None, reply, f"{outside[0]:g} is not within {low:g}-{high:g}")
    if high > 1 and all(value <= 1 for value in values) and any(value % 1 for value in values):
        return ParsedScores("unparsed", None, reply, f"values look like a scale of 0-1, not {low:g}-{high:g}")
    return ParsedScores("ok", values, reply)


def parse_sub_answers(reply: str, *, count: int) -> ParsedSubAnswers:
    """Read ``count`` pairs of ``<sub-answer>`` tags, in order; any other number of them is unparsed."""
    try:
        texts = _read_tags(_after_thinking(reply))
    except _Unreadable as problem:
        return ParsedSubAnswers("unparsed", None, reply, str(problem))
    if len(texts) != count:
        return ParsedSubAnswers("unparsed", None, reply, f"{len(texts)} sub-answers for {count} queries")
    return ParsedSubAnswers("ok", tuple(None if _NOT_SURE.fullmatch(text) else text for text in texts), reply)


def _after_thinking(reply: str) -> str:
    """Return the reply without a leading block of thought."""
    if not reply.lstrip().startswith("<think>"):
        return reply
    _, closed, rest = reply.partition("</think>")
    if not closed:
        raise _Unreadable("the reply ends inside its thinking")
    return rest


def _read_values(text: str, count: int) -> tuple[float, ...]:
    if not text.strip():
        raise _Unreadable("the reply is empty")
    answers = list(_answers_in_objects(text))
    values = _only(answers) if answers else _bare_numbers(text)
    if len(values) != count:
        raise _Unreadable(f"{len(values)} numbers for {count} passages")
    return values


def _only(answers: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    if len(set(answers)) > 1:
        raise _Unreadable(f"{len(answers)} different answers in one reply")
    return answers[0]


def _answers_in_objects(text: str) -> Iterator[tuple[float, ...]]:
    """Yield the answer of every whole JSON object that has one; prose in braces is passed over.

    A brace that never closes means a cut reply: nothing inside it is taken for an answer.
    """
    decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant)
    outside: list[str] = []
    place = 0
    while (start := text.find("{", place)) >= 0:
        outside.append(text[place:start])
        try:
            value, place = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            place = _closing(text, start)
            outside.append(text[start:place])
            continue
        keys = [key for key in _KEYS if key in value]
        if len(keys) > 1:
            raise _Unreadable("both scores and score in one object")
        if keys:
            yield _numbers(value[keys[0]])
    outside.append(text[place:])
    if any(f'"{key}"' in part for part in outside for key in _KEYS):
        raise _Unreadable("an answer outside a whole JSON object")


def _closing(text: str, start: int) -> int:
    """Place after the brace that closes the one at ``start``; braces inside quotes do not count."""
    depth, quoted, place = 0, False, start
    while place < len(text):
        sign = text[place]
        if quoted and sign == "\\":
            place += 1
        elif sign == '"':
            quoted = not quoted
        elif not quoted and sign in "{}":
            depth += 1 if sign == "{" else -1
            if depth == 0:
                return place + 1
        place += 1
    raise _Unreadable("the reply is cut, or is not whole JSON")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Unreadable("a key comes twice in one object")
    return found


def _refuse_constant(name: str) -> object:
    raise _Unreadable(f"{name} is not a number")


def _numbers(value: object) -> tuple[float, ...]:
    return tuple(_number(item) for item in value) if isinstance(value, list) else (_number(value),)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _Unreadable(f"{value!r:.40} is not a number")
    text = str(value).strip()
    if isinstance(value, str) and not _NUMBER.fullmatch(text):
        raise _Unreadable(f"{value!r:.40} is not a number")
    try:
        return float(value)
    except OverflowError:
        raise _Unreadable("a number too large to be meant") from None


def _bare_numbers(text: str) -> tuple[float, ...]:
    fenced = _FENCE.fullmatch(text.strip())
    inner = fenced[1] if fenced else text.strip()
    if inner.startswith("["):
        decoder = json.JSONDecoder(parse_constant=_refuse_constant)
        try:
            return _numbers(decoder.decode(inner))
        except (ValueError, RecursionError):
            raise _Unreadable("neither a JSON object with scores nor a list of numbers") from None
    if not _ROW.fullmatch(inner):
        raise _Unreadable("neither a JSON object with scores nor numbers alone")
    return tuple(float(number) for number in _NUMBER.findall(inner))


def _read_tags(text: str) -> list[str]:
    texts: list[str] = []
    opened: int | None = None
    for tag in _TAG.finditer(text):
        closes = bool(tag[1])
        if closes != (opened is not None):
            raise _Unreadable("sub-answer tags do not pair")
        if opened is not None:
            texts.append(" ".join(text[opened : tag.start()].split()))
        opened = None if closes else tag.end()
    if opened is not None:
        raise _Unreadable("the last sub-answer is not closed")
    if "" in texts:
        raise _Unreadable("an empty sub-answer")
    return texts
