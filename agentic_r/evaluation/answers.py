"""How well an agent answered: per-question values from its trajectories.

Owns what counts as measured: a trajectory that ended because a tool failed says nothing about the agent, so
it is left out and listed, never counted as wrong. An agent that ran out of turns or context did fail to
answer: that is wrong, and counted by status. How correctness is judged was decided when the trajectory was made.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentic_r.evaluation.recorded import mean_by_question
from agentic_r.types import Trajectory, TrajectoryStatus

__all__ = ["AnswerOutcome", "evaluate_answers"]


@dataclass(frozen=True, slots=True)
class AnswerOutcome:
    """Values by question id, averaged over a question's attempts.

    ``em`` is the share of correct answers, ``search_turns`` counts searches that reached the retriever,
    ``invalid_actions`` counts turns without a usable action (cut ones too),
    ``failed`` lists "question/sample" of the trajectories left out. ``not_measured`` are the questions of
    which nothing is left.
    """

    em: Mapping[str, float]
    f1: Mapping[str, float]
    search_turns: Mapping[str, float]
    invalid_actions: Mapping[str, float]
    statuses: Mapping[TrajectoryStatus, int]
    failed: tuple[str, ...]
    not_measured: tuple[str, ...]

    def per_question(self) -> dict[str, Mapping[str, float]]:
        """Return the values under the names that the summary uses."""
        return {
            "em": self.em,
            "f1": self.f1,
            "search_turns": self.search_turns,
            "invalid_actions": self.invalid_actions,
        }


def evaluate_answers(trajectories: Sequence[Trajectory]) -> AnswerOutcome:
    """Measure trajectories, one or several a question.

    Raises:
        ValueError: the same (question, sample) comes twice.
    """
    by_id = {_name(trajectory): trajectory for trajectory in trajectories}
    if len(by_id) != len(trajectories):
        raise ValueError("two trajectories have the same question and sample")
    measured = {name: item for name, item in by_id.items() if item.status != "tool_failed"}
    question_of = {name: item.question_id for name, item in by_id.items()}
    em = mean_by_question({name: item.correct for name, item in measured.items()}, question_of)
    return AnswerOutcome(
        em=em,
        f1=mean_by_question({name: item.f1 for name, item in measured.items()}, question_of),
        search_turns=mean_by_question({name: float(item.num_searches) for name, item in measured.items()}, question_of),
        invalid_actions=mean_by_question({name: _num_invalid(item) for name, item in measured.items()}, question_of),
        statuses=dict(Counter(item.status for item in trajectories)),
        failed=tuple(name for name in by_id if name not in measured),
        not_measured=tuple(dict.fromkeys(question for question in question_of.values() if question not in em)),
    )


def _name(trajectory: Trajectory) -> str:
    return f"{trajectory.question_id}/{trajectory.sample}"


def _num_invalid(trajectory: Trajectory) -> float:
    return float(sum(turn.action in ("invalid", "truncated") for turn in trajectory.turns))
