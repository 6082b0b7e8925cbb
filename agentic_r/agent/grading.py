"""How a final answer is graded: correct or not (0 or 1), and its token F1.

Owns the rule behind ``Trajectory.correct``, which labels and evaluation read. What the policy is rewarded with is
derived from both parts by ``ppo``.
"""

from dataclasses import dataclass

from agentic_r.config import AgentConfig
from agentic_r.metrics.answers import exact_match, token_f1
from agentic_r.types import Question

__all__ = ["Grade", "grade_answer"]


@dataclass(frozen=True, slots=True)
class Grade:
    """``correct`` is 0 or 1 by the configured rule, ``f1`` in [0, 1] always."""

    correct: float
    f1: float


def grade_answer(answer: str | None, question: Question, config: AgentConfig) -> Grade:
    """Grade a final answer.

    ``reward: em`` counts an exact match as correct; ``reward: f1`` an answer whose token F1 reaches ``correct_f1``.
    No answer is 0 in both.
    """
    if answer is None:
        return Grade(correct=0.0, f1=0.0)
    f1 = token_f1(answer, question.answers, mode=config.answer_mode)
    if config.reward == "f1":
        return Grade(correct=float(f1 >= config.correct_f1), f1=f1)
    return Grade(correct=float(exact_match(answer, question.answers, mode=config.answer_mode)), f1=f1)
