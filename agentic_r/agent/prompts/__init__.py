"""Prompts as text files, one folder a kind: the question, and the replies to what went wrong."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from agentic_r.artifacts.fingerprint import fingerprint_strings

__all__ = ["PromptSet", "load_prompts"]


@dataclass(frozen=True, slots=True)
class PromptSet:
    """``question`` holds ``{question}``; ``invalid`` and ``empty`` are shown by the environment.

    ``chat`` says that the question goes through the model's chat template.
    """

    question: str
    invalid: str
    empty: str
    chat: bool

    @property
    def fingerprint(self) -> str:
        """Hash of the texts: part of the identity of whatever was made with them."""
        return fingerprint_strings([self.question, self.invalid, self.empty, str(self.chat)])


@cache
def load_prompts(kind: Literal["tiny", "search", "chat"]) -> PromptSet:
    """Read a prompt set from the package; ``chat`` is ``search`` through the chat template."""
    folder = "tiny" if kind == "tiny" else "search"
    return PromptSet(
        question=_read(folder, "question"),
        invalid=_read(folder, "invalid"),
        empty=_read(folder, "empty"),
        chat=kind == "chat",
    )


def _read(folder: str, name: str) -> str:
    return (files(__package__) / folder / f"{name}.txt").read_text(encoding="utf-8")
