"""The judge's prompts: text files in ``prompts/``, filled in, and their hash.

What stands in a prompt is part of a label's identity. Texts are inserted in one pass: what looks like a
blank inside a passage stays as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template

from agentic_r.artifacts.fingerprint import fingerprint_strings
from agentic_r.types import Passage, RelevanceRequest, SubAnswerRequest, Turn

__all__ = ["JudgePrompts", "load_judge_prompts"]


@dataclass(frozen=True, slots=True)
class JudgePrompts:
    """Templates with ``$blanks``."""

    sub_answers: str
    relevance: str
    again: str

    @property
    def fingerprint(self) -> str:
        """Hash of the templates."""
        return fingerprint_strings([self.sub_answers, self.relevance, self.again])

    def ask_sub_answers(self, request: SubAnswerRequest) -> str:
        """Write the prompt for one trajectory: all its queries at once, with what each search showed."""
        return Template(self.sub_answers).substitute(
            question=request.question,
            answers=" | ".join(request.answers),
            record="\n".join(_show_turn(turn, request) for turn in request.trajectory.turns),
            queries="\n".join(f"{number}. {item.query}" for number, item in enumerate(request.queries, start=1)),
            count=len(request.queries),
        )

    def ask_relevance(self, request: RelevanceRequest) -> str:
        """Write the listwise prompt for one query: all its candidates at once, so that values compare."""
        answer = request.sub_answer.text
        return Template(self.relevance).substitute(
            query=request.query.query,
            reference="" if answer is None else f"Reference answer to the query: {answer}\n",
            passages="\n".join(_show_passages(request.passages)),
            count=len(request.passages),
        )

    def ask_again(self, prompt: str, *, reason: str, attempt: int) -> str:
        """Write the prompt after an unusable reply; every attempt is another text, so no cache repeats the reply."""
        return Template(self.again).substitute(prompt=prompt, reason=reason, attempt=attempt)


@cache
def load_judge_prompts() -> JudgePrompts:
    """Read the templates that come with this package."""
    folder = files(__package__) / "prompts"
    names = ("sub_answers", "relevance", "again")
    return JudgePrompts(*[(folder / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n") for name in names])


def _show_turn(turn: Turn, request: SubAnswerRequest) -> str:
    lines = [turn.text.strip()]
    if turn.tool_state == "ok":
        lines += _show_passages([request.passages[item.passage_id] for item in turn.passages])
    elif turn.tool_state == "empty":
        lines.append("[the search found nothing]")
    elif turn.tool_state == "failed":
        lines.append("[the search failed]")
    return "\n".join(lines)


def _show_passages(passages: Sequence[Passage]) -> list[str]:
    return [f"[{number}] {item.title}\n{item.text.strip()}" for number, item in enumerate(passages, start=1)]
