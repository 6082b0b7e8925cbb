import pytest

from agentic_r.evaluation.answers import evaluate_answers
from agentic_r.types import Trajectory, Turn


def turn(action, *, tool_state="none"):
    return Turn(text="", action=action, content="", sampled_ids=(1,), logprobs=(0.0,), tool_state=tool_state)


def attempt(question, *actions, sample=0, status="answered", correct=0.0, f1=0.0):
    turns = tuple(turn(action, tool_state="ok" if action == "search" else "none") for action in actions)
    return Trajectory(question, sample, (1,), turns, status, "x" if status == "answered" else None, correct, f1)


def test_each_question_gets_its_values():
    outcome = evaluate_answers(
        [
            attempt("q1", "search", "search", "answer", correct=1.0, f1=1.0),
            attempt("q2", "invalid", "search", "truncated", status="turn_budget"),
        ]
    )
    assert outcome.per_question() == {
        "em": {"q1": 1.0, "q2": 0.0},
        "f1": {"q1": 1.0, "q2": 0.0},
        "search_turns": {"q1": 2.0, "q2": 1.0},
        "invalid_actions": {"q1": 0.0, "q2": 2.0},
    }
    assert outcome.statuses == {"answered": 1, "turn_budget": 1}
    assert (outcome.failed, outcome.not_measured) == ((), ())


def test_a_failed_tool_is_left_out_and_listed_never_wrong():
    outcome = evaluate_answers([attempt("q1", "answer", correct=1.0), attempt("q2", "search", status="tool_failed")])
    assert outcome.em == {"q1": 1.0}
    assert outcome.failed == ("q2/0",)
    assert outcome.not_measured == ("q2",)
    assert outcome.statuses == {"answered": 1, "tool_failed": 1}


def test_attempts_at_a_question_are_averaged_without_the_failed_ones():
    outcome = evaluate_answers(
        [
            attempt("q", "answer", sample=0, correct=1.0),
            attempt("q", "search", "answer", sample=1),
            attempt("q", "search", sample=2, status="tool_failed"),
        ]
    )
    assert outcome.em == {"q": 0.5}
    assert outcome.search_turns == {"q": 0.5}
    assert outcome.failed == ("q/2",)
    assert outcome.not_measured == ()


def test_running_out_of_turns_or_context_is_wrong():
    outcome = evaluate_answers([attempt("a", status="turn_budget"), attempt("b", status="context_budget")])
    assert outcome.em == {"a": 0.0, "b": 0.0}


def test_no_trajectory_is_no_value():
    assert evaluate_answers([]).em == {}


def test_the_same_attempt_twice_is_a_bug():
    with pytest.raises(ValueError, match="same question and sample"):
        evaluate_answers([attempt("q"), attempt("q")])
