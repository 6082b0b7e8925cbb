"""The content terms of a query, and the pattern that finds any of them.

Terms are words longer than three characters that are not function words, and anything with a digit. Scripts written
without spaces have no words to cut at: their runs become overlapping pairs of characters.
"""

import re

from agentic_r.metrics.scripts import UNSPACED

__all__ = ["any_of", "content_terms"]

_TOKEN = re.compile(rf"[{UNSPACED}]+|[^\W_{UNSPACED}]+")
_UNSPACED_START = re.compile(f"[{UNSPACED}]")
_META = re.compile(r"[\\.+*?()|\[\]{}^$#&\-~]")  # what has a meaning in a Rust regex
_LONG = 4  # characters: shorter words are searched as whole words only

_WORDS = """
a about after also although am among an and any are as at be because been before being between both but by can
could did do does doing done during each either else ever every for from further had has have having he her here
hers him his how i if in into is it its itself just me might more most much must my neither no nor not of off on
once only or other our ours out over own per shall she should since so some such than that the their theirs them
then there these they this those though through thus to too under until up upon us very was we were what when
where whether which while who whom whose why will with within without would yet you your yours
"""
_FUNCTION_WORDS = frozenset(_WORDS.split())


def content_terms(query: str) -> tuple[str, ...]:
    """Return the query's terms in order, as written, once each whatever their case.

    Where a query has no long word ("Li Bo"), its short ones that are not function words count; a query
    of function words alone has no terms.
    """
    tokens = [token for run in _TOKEN.findall(query) for token in _split(run)]
    kept = [token for token in tokens if token.lower() not in _FUNCTION_WORDS]
    strong = [token for token in kept if len(token) >= _LONG or _is_number(token) or _is_unspaced(token)]
    terms: dict[str, str] = {}
    for token in strong or kept:
        terms.setdefault(token.lower(), token)
    return tuple(terms.values())


def any_of(terms: tuple[str, ...]) -> str:
    """Return a regex for lines that hold one of the terms; short ones as whole words, since "7" is in "1987"."""
    return "|".join(_pattern(term) for term in terms)


def _split(run: str) -> list[str]:
    if not _is_unspaced(run) or len(run) < 3:
        return [run]
    return [run[place : place + 2] for place in range(len(run) - 1)]


def _is_unspaced(token: str) -> bool:
    return _UNSPACED_START.match(token) is not None


def _is_number(token: str) -> bool:
    return any(character.isdigit() for character in token)


def _pattern(term: str) -> str:
    literal = _META.sub(r"\\\g<0>", term)
    return literal if len(term) >= _LONG or _is_unspaced(term) else rf"\b{literal}\b"
