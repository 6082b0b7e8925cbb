from collections.abc import Callable

import pytest
from fakes import FakeRetriever, ScriptedModel, by_id

from agentic_r.agent.demonstrations import demonstration_trajectories
from agentic_r.config import AgentConfig
from agentic_r.errors import DataError
from agentic_r.types import (
    Demonstration,
    DemonstrationStep,
    Evidence,
    Passage,
    Question,
    SearchResult,
    Trajectory,
)

MakeConfig = Callable[..., AgentConfig]
FACT, OTHER_FACT = Evidence("d1", "Bo took first lessons with Cy ."), Evidence("d2", "Cy keeps bees .")
PASSAGES = by_id(
    Passage("gold", "d1", "Bo", FACT.text),
    Passage("gold2", "d2", "Cy", OTHER_FACT.text),
    *(Passage(f"n{number}", f"n{number}", "N", f"noise {number} .") for number in range(6)),
)
LOCATE = {FACT: ("gold",), OTHER_FACT: ("gold2",)}
QUESTION = Question("q", "What is the teacher of Bo ?", ("Cy",), "train", gold_passages=("gold", "gold2"))
HIT = DemonstrationStep("teacher of Bo", (FACT,), "teacher of Bo : Cy")
MISS = DemonstrationStep("teacher of Bo", (), "teacher of Bo : unknown")
NOISE = [f"n{number}" for number in range(6)]


def make(
    config: AgentConfig, retriever: FakeRetriever, *steps: DemonstrationStep, answer: str = "Cy", key: str = "d"
) -> Trajectory:
    (made,) = demonstration_trajectories(
        [Demonstration(key, "q", steps, answer)],
        questions={"q": QUESTION},
        locate=LOCATE,
        model=ScriptedModel({}),
        retriever=retriever,
        passages=PASSAGES,
        config=config,
        seed=0,
    )
    return made


def shown(trajectory: Trajectory, turn: int = 0) -> list[str]:
    return [item.passage_id for item in trajectory.turns[turn].passages]


def test_a_script_becomes_the_turns_that_the_agent_would_have_taken(make_config: MakeConfig) -> None:
    made = make(make_config(), FakeRetriever(otherwise=["gold", *NOISE]), HIT)
    assert [turn.text for turn in made.turns] == [
        "<search> teacher of Bo </search>",
        "<think> teacher of Bo : Cy </think> <answer> Cy </answer>",
    ]
    assert [turn.action for turn in made.turns] == ["search", "answer"]
    assert (made.status, made.answer, made.correct) == ("answered", "Cy", 1.0)
    assert made.turns[0].retriever_input == "What is the teacher of Bo ? [SEP] teacher of Bo"
    assert made.turns[0].logprobs == (0.0,) * len(made.turns[0].sampled_ids)


def test_evidence_that_the_retriever_missed_is_put_among_the_results_at_a_seeded_rank(make_config: MakeConfig) -> None:
    blocks = set()
    for number in range(60):
        made = shown(make(make_config(), FakeRetriever(otherwise=NOISE), HIT, key=f"d{number}"))
        assert [key for key in made if key != "gold"] == ["n0", "n1"][: len(made) - 1]
        blocks.add((len(made), made.index("gold")))
    assert blocks == {(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)}


def test_a_step_shows_from_one_passage_to_a_full_block(make_config: MakeConfig) -> None:
    found, missed = set(), set()
    for number in range(40):
        hit = make(make_config(), FakeRetriever(otherwise=["n0", "gold", *NOISE[1:]]), HIT, key=f"d{number}")
        miss = make(make_config(), FakeRetriever(otherwise=["gold", *NOISE]), MISS, answer="unknown", key=f"d{number}")
        found.add(tuple(shown(hit)))
        missed.add(tuple(shown(miss)))
    assert found == {("gold",), ("n0", "gold"), ("n0", "gold", "n1")}
    assert missed == {("n0",), ("n0", "n1"), ("n0", "n1", "n2")}


def test_evidence_that_the_retriever_found_keeps_its_value(make_config: MakeConfig) -> None:
    made = make(make_config(passages_per_search=1), FakeRetriever(otherwise=["gold", *NOISE]), HIT)
    assert [(item.passage_id, item.value) for item in made.turns[0].passages] == [("gold", 1.0)]


def test_a_step_that_shows_two_pieces_shows_both_whatever_their_places(make_config: MakeConfig) -> None:
    both = DemonstrationStep("bees", (FACT, OTHER_FACT), "bees : Cy")
    for number in range(30):
        made = make(make_config(passages_per_search=2), FakeRetriever(otherwise=NOISE), both, key=f"d{number}")
        assert sorted(shown(made)) == ["gold", "gold2"]
    one_found = make(make_config(passages_per_search=2), FakeRetriever(otherwise=["n0", "gold2", *NOISE[1:]]), both)
    assert sorted(shown(one_found)) == ["gold", "gold2"]


def test_a_step_that_is_to_miss_shows_none_of_the_gold_passages(make_config: MakeConfig) -> None:
    made = make(make_config(), FakeRetriever(otherwise=["gold", "n0", "gold2", "n1", "n2"]), MISS, answer="unknown")
    assert not {"gold", "gold2"} & set(shown(made))
    assert made.correct == 0.0


def test_a_miss_with_nothing_else_to_show_is_an_empty_result(make_config: MakeConfig) -> None:
    made = make(make_config(), FakeRetriever(otherwise=["gold"]), MISS)
    assert (made.turns[0].tool_state, shown(made)) == ("empty", [])


def test_a_failed_search_ends_the_demonstration_and_is_no_miss(make_config: MakeConfig) -> None:
    retriever = FakeRetriever({"teacher of Bo": SearchResult((), "failed", "down")})
    made = make(make_config(), retriever, HIT)
    assert (made.status, made.turns[-1].cause) == ("tool_failed", "down")


def test_a_script_longer_than_the_turn_budget_ends_as_the_agent_would(make_config: MakeConfig) -> None:
    made = make(make_config(max_turns=2), FakeRetriever(otherwise=NOISE), MISS, MISS, HIT)
    assert (made.status, len(made.turns)) == ("turn_budget", 2)
    assert [turn.tool_state for turn in made.turns] == ["ok", "none"]


def test_a_script_without_a_search_only_answers(make_config: MakeConfig) -> None:
    made = make(make_config(), FakeRetriever(), answer="Cy")
    assert [turn.text for turn in made.turns] == ["<answer> Cy </answer>"]


def test_our_tags_in_a_script_are_defused(make_config: MakeConfig) -> None:
    step = DemonstrationStep("a </search> b", (), "c </think> <answer> d")
    made = make(make_config(), FakeRetriever(otherwise=NOISE), step, answer="Cy </answer>")
    assert [turn.content for turn in made.turns] == ["a ‹/search› b", "Cy ‹/answer›"]


def test_evidence_that_no_passage_holds_is_a_data_error_that_names_the_question(make_config: MakeConfig) -> None:
    step = DemonstrationStep("x", (Evidence("d9", "not there"),), "x : y")
    with pytest.raises(DataError, match="question 'q' must show 'not there' of document 'd9'"):
        make(make_config(), FakeRetriever(otherwise=NOISE), step)


def test_several_demonstrations_keep_their_own_results(make_config: MakeConfig) -> None:
    made = demonstration_trajectories(
        [
            Demonstration("a", "q", (HIT, MISS), "Cy"),
            Demonstration("b", "q", (), "Bo"),
            Demonstration("c", "q", (MISS,), "?"),
        ],
        questions={"q": QUESTION},
        locate=LOCATE,
        model=ScriptedModel({}),
        retriever=FakeRetriever(otherwise=["gold", *NOISE]),
        passages=PASSAGES,
        config=make_config(),
        seed=0,
    )
    assert [len(item.turns) for item in made] == [3, 1, 2]
    assert "gold" in shown(made[0])
    assert "gold" not in shown(made[0], 1) + shown(made[2])
