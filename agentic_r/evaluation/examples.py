"""Examples for the report: which held-out questions are shown, and a trajectory made readable.

The choice is by rule and seed, losses included, so that nobody picks what looks good.
"""

from collections.abc import Collection, Mapping

from agentic_r.artifacts.fingerprint import generator_seed
from agentic_r.evaluation.report_parts import Attempt, ExampleTurn, ShownPassage
from agentic_r.types import Passage, Trajectory, Turn

__all__ = ["EXAMPLE_CHOICE", "choose_examples", "readable_attempt"]

EXAMPLE_CHOICE = (
    "Chosen by seed, in turns from four groups: gained (wrong before, right after), lost, wrong both times, "
    "right both times."
)


def choose_examples(before: Mapping[str, float], after: Mapping[str, float], *, count: int, seed: int) -> list[str]:
    """Pick question ids in turns from the groups gained, lost, both wrong, both right.

    Args:
        before: Correctness of each question at the start (0 to 1), by question id.
        after: The same at the end; only questions in both are picked.
        count: How many at most.
        seed: Decides the order within a group.
    """
    groups: list[list[str]] = [[], [], [], []]
    for question in sorted(
        before.keys() & after.keys(), key=lambda item: (generator_seed(seed, "examples", item), item)
    ):
        change = after[question] - before[question]
        both = 3 if after[question] > 0 else 2
        groups[0 if change > 0 else 1 if change < 0 else both].append(question)
    longest = max(len(group) for group in groups)
    in_turns = [group[place] for place in range(longest) for group in groups if place < len(group)]
    return in_turns[:count]


def readable_attempt(
    trajectory: Trajectory, *, label: str, passages: Mapping[str, Passage], gold: Collection[str]
) -> Attempt:
    """Return a trajectory for reading; ``passages`` holds at least those that it was shown, by id."""
    return Attempt(
        label=label,
        turns=tuple(_readable_turn(turn, passages, gold) for turn in trajectory.turns),
        answer=trajectory.answer,
        is_correct=trajectory.correct > 0,
        status=trajectory.status,
    )


def _readable_turn(turn: Turn, passages: Mapping[str, Passage], gold: Collection[str]) -> ExampleTurn:
    found = [passages[hit.passage_id] for hit in turn.passages]
    return ExampleTurn(
        text=turn.text,
        query=turn.content if turn.action == "search" else None,
        passages=tuple(
            ShownPassage(id=passage.id, title=passage.title, text=passage.text, is_gold=passage.id in gold)
            for passage in found
        ),
        tool_state=turn.tool_state,
        num_passages_cut=turn.num_passages_cut,
    )
