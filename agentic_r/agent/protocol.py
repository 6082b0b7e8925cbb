"""The search protocol: tags, what a turn means, and how evidence is shown.

A turn ends at the first closing action tag. Text that we insert can neither close the evidence block
nor forge an action: our tags in it are defused before it is shown.
"""

import re
from dataclasses import dataclass

from agentic_r.types import Action, Passage

__all__ = [
    "INFORMATION_CLOSE",
    "INFORMATION_OPEN",
    "STOPS",
    "TAGS",
    "ParsedTurn",
    "defuse",
    "parse_turn",
    "show_passage",
]

TAGS = ("think", "search", "information", "answer")
STOPS = ("</search>", "</answer>")
INFORMATION_OPEN = "\n\n<information>"
INFORMATION_CLOSE = "</information>\n\n"

_TAG = re.compile(r"<\s*(/?)\s*(" + "|".join(TAGS) + r")\s*>", re.IGNORECASE)
_CLOSE = re.compile(r"</(search|answer)>")


@dataclass(frozen=True, slots=True)
class ParsedTurn:
    """``content`` is the query or the answer, in single spaces; empty for the other actions."""

    action: Action
    content: str


def parse_turn(text: str, *, cut: bool) -> ParsedTurn:
    """Read one model turn.

    Args:
        text: What the model wrote in this turn.
        cut: It ran into its token limit.

    Returns:
        ``search`` or ``answer`` with the text between the first closing tag and the last opening tag of
        its kind before it; ``truncated`` where the limit came first; otherwise ``invalid`` (no action, no
        opening tag, or nothing between).
    """
    close = _CLOSE.search(text)
    if close is None:
        return ParsedTurn("truncated" if cut else "invalid", "")
    opening = f"<{close[1]}>"
    start = text.rfind(opening, 0, close.start())
    if start < 0:
        return ParsedTurn("invalid", "")
    content = " ".join(_TAG.sub(" ", text[start + len(opening) : close.start()]).split())
    if not content:
        return ParsedTurn("invalid", "")
    return ParsedTurn("search" if close[1] == "search" else "answer", content)


def defuse(text: str) -> str:
    """Return ``text`` with our tags made harmless: their angle brackets become single guillemets."""
    return _TAG.sub(lambda match: f"‹{match[1]}{match[2]}›", text)


def show_passage(passage: Passage, rank: int) -> str:
    """Return one passage as the agent sees it (published layout: rank, title, text)."""
    return f"Doc {rank}(Title: {defuse(passage.title)}) {defuse(passage.text)}\n"
