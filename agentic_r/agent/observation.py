"""Evidence blocks as token ids, within a budget.

Owns what is shown of a search's passages: best first, whole, as many as the budget holds. Only where not even the first
fits is it shortened, at a word's end. What was left out or shortened is counted.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentic_r.agent.protocol import INFORMATION_CLOSE, INFORMATION_OPEN, show_passage
from agentic_r.metrics.scripts import UNSPACED
from agentic_r.protocols import LanguageModel
from agentic_r.types import Passage, ScoredPassage

__all__ = ["Observation", "show_evidence", "show_nothing"]

_WORD = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")  # where a script has no spaces, each character


@dataclass(frozen=True, slots=True)
class Observation:
    """Token ids of an evidence block, what it shows, and how many passages are not in it whole."""

    ids: tuple[int, ...]
    shown: tuple[ScoredPassage, ...]
    num_passages_cut: int


def show_evidence(
    found: Sequence[ScoredPassage], *, passages: Mapping[str, Passage], model: LanguageModel, max_tokens: int
) -> Observation:
    """Show passages, best first.

    Args:
        found: A search's passages.
        passages: Their texts, by id.
        model: Whose tokens the block is written in.
        max_tokens: Of the whole block, its tags included.

    Returns:
        The block. Passages that do not fit whole are left out from the first such one on; if that is the best one,
        it is shortened to the longest part that fits and ends with a word (where not even one word fits, with a
        character).
    """
    room = max_tokens - len(_block(model, []))
    lines: list[list[int]] = []
    num_whole = 0
    for rank, item in enumerate(found, start=1):
        text = show_passage(passages[item.passage_id], rank)
        ids = model.encode(text)
        if len(ids) > room:
            shortened = _shorten(text, model, room) if rank == 1 else []
            lines += [shortened] if shortened else []
            break
        lines.append(ids)
        room -= len(ids)
        num_whole += 1
    return Observation(_block(model, lines), tuple(found[: len(lines)]), num_passages_cut=len(found) - num_whole)


def show_nothing(text: str, *, model: LanguageModel) -> Observation:
    """Show the block of a search that ran and found nothing; ``text`` says so."""
    return Observation(_block(model, [model.encode(text)]), (), num_passages_cut=0)


def _block(model: LanguageModel, lines: Sequence[Sequence[int]]) -> tuple[int, ...]:
    opening = model.encode(INFORMATION_OPEN, control=True)
    closing = model.encode(INFORMATION_CLOSE, control=True)
    return (*opening, *(token for line in lines for token in line), *closing)


def _shorten(text: str, model: LanguageModel, max_tokens: int) -> list[int]:
    """Encode the longest beginning of ``text`` that fits and ends with a word, else with a character; else nothing."""
    for ends in ([found.end() for found in _WORD.finditer(text)], list(range(1, len(text)))):
        low, high = 0, len(ends)  # the first `low` ends fit, those after the first `high` do not
        while low < high:
            middle = (low + high + 1) // 2
            if len(model.encode(text[: ends[middle - 1]])) <= max_tokens:
                low = middle
            else:
                high = middle - 1
        if low:
            return model.encode(text[: ends[low - 1]])
    return []
