"""What a stage's report says of its trajectories."""

import pytest

from agentic_r.artifacts.stage import StageFolder, StageIdentity, open_stage
from agentic_r.loop.learning import count_trajectories
from agentic_r.types import Trajectory, Turn


@pytest.fixture
def stage(tmp_path) -> StageFolder:
    return open_stage(tmp_path / "stage", StageIdentity(name="s", schema=1, inputs={}, settings={}, seed=0))


def searched(num_cut: int, *, tool_state: str = "ok") -> Turn:
    return Turn("t", "search", "q", (1,), (0.0,), tool_state=tool_state, num_passages_cut=num_cut)


def ended(status: str, *turns: Turn, correct: float = 0.0) -> Trajectory:
    return Trajectory("q", 0, (1,), turns, status, "x" if status == "answered" else None, correct, correct)


def test_means_are_over_attempts_whose_tools_worked_and_the_others_are_failures(stage):
    one = ended("answered", searched(0), searched(0), correct=1.0)
    two = ended("turn_budget", searched(0))
    count_trajectories(stage, [one, two, ended("tool_failed", searched(0, tool_state="failed"))])
    assert stage.counts == {"trajectories": 3, "answered": 1, "turn_budget": 1, "tool_failed": 1}
    assert stage.metrics == {"correct": 0.5, "searches": 1.5}
    assert stage.failed == {"tool failed": 1}


def test_passages_that_the_agent_did_not_see_whole_are_counted(stage):
    count_trajectories(stage, [ended("answered", searched(2), searched(1)), ended("answered", searched(0))])
    assert stage.skipped == {"passages over the observation budget": 3}


def test_nothing_is_said_of_passages_where_all_were_shown(stage):
    count_trajectories(stage, [ended("answered", searched(0))])
    assert stage.skipped == {}
