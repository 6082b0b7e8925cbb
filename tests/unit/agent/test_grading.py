import pytest

from agentic_r.agent.grading import Grade, grade_answer
from agentic_r.config import AgentConfig
from agentic_r.types import Question


def config(**settings: object) -> AgentConfig:
    return AgentConfig.model_validate({"model": {"kind": "tiny", "path": "x"}, **settings})


QUESTION = Question("q", "?", ("Ada Byron Lovelace", "Lovelace"), "train")


@pytest.mark.parametrize(
    ("answer", "em", "by_f1", "f1"),
    [
        ("lovelace", 1.0, 1.0, 1.0),
        ("Ada Byron", 0.0, 1.0, 0.8),  # 2 of 2 and 2 of 3 tokens: 2 * 1 * 2/3 / (5/3)
        ("Ada Smith Jones", 0.0, 0.0, 1 / 3),  # 1 of 3 and 1 of 3
        ("nobody", 0.0, 0.0, 0.0),
        (None, 0.0, 0.0, 0.0),
    ],
)
def test_an_answer_is_correct_by_exact_match_or_from_an_f1_of_one_half(
    answer: str | None, em: float, by_f1: float, f1: float
) -> None:
    assert grade_answer(answer, QUESTION, config()) == Grade(em, pytest.approx(f1))
    assert grade_answer(answer, QUESTION, config(reward="f1")) == Grade(by_f1, pytest.approx(f1))


def test_the_threshold_itself_counts() -> None:
    question = Question("q", "?", ("a1 b1",), "train")  # "a1 c1": 1 of 2 and 1 of 2, F1 one half
    assert grade_answer("a1 c1", question, config(reward="f1")).correct == 1.0
    assert grade_answer("a1 c1", question, config(reward="f1", correct_f1=0.51)).correct == 0.0
