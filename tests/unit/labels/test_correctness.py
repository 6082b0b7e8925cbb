from labels_fakes import ScriptedAgent, answer, attempt, candidates, question, search

from agentic_r.artifacts.records import read_records
from agentic_r.config import CorrectnessConfig
from agentic_r.labels.correctness import correctness_of, count_continuations, run_correctness
from agentic_r.types import Continuation, Trajectory

QUESTIONS = {"q1": question("The question?", "x")}
TRAJECTORY = attempt(search("one", "p1", "p2"), search("two", "p3"), answer("y"), correct=0.0)


def ending(*turns, status="answered", correct=0.0):
    return Trajectory("", 0, (0,), turns, status, turns[-1].content if turns else None, correct, correct)


OUTCOMES = {
    "right": ending(search("more", "p9"), answer("x"), correct=1.0),
    "wrong": ending(answer("z")),
    "broken": ending(search("more", state="failed"), status="tool_failed"),
    "late": ending(status="turn_budget"),
    "lost": ending(search("more", "p9"), status="turn_budget"),
}


def run(queries, path, agent=None, batch_size=2, relevant=None):
    agent = agent or ScriptedAgent(OUTCOMES.__getitem__)
    all_of_them = {item.query_id: frozenset(one.passage_id for one in item.candidates) for item in queries}
    return run_correctness(
        queries,
        [TRAJECTORY],
        QUESTIONS,
        agent=agent,
        relevant=all_of_them if relevant is None else relevant,
        config=CorrectnessConfig(batch_size=batch_size),
        seed=0,
        output=path / "continuations.jsonl",
        progress=lambda *_: None,
    )


def test_correctness_is_0_or_1_and_none_where_nothing_was_measured(tmp_path):
    made = run([candidates("two", *OUTCOMES, turn=1)], tmp_path)
    assert [correctness_of(item).value for item in made] == [1.0, 0.0, None, None, 0.0]
    assert count_continuations(made) == {"answered": 2, "tool_failed": 1, "no turn left": 1, "turn_budget": 1}
    assert made[0] == Continuation("q1/0/1", "right", "x", 1.0, 3, 2, "answered")


def test_the_agent_goes_on_from_the_query_with_the_candidate_alone(tmp_path):
    agent = ScriptedAgent(OUTCOMES.__getitem__)
    run([candidates("two", "right", turn=1)], tmp_path, agent)
    (start,) = agent.batches[0]
    assert start.question == QUESTIONS["q1"]
    assert start.turns[0] == TRAJECTORY.turns[0]
    assert [item.passage_id for item in start.turns[1].passages] == ["right"]
    assert len(start.turns) == 2


def test_continuations_run_in_chunks_and_are_written_in_order(tmp_path):
    agent = ScriptedAgent(OUTCOMES.__getitem__)
    made = run([candidates("one", "right", "wrong"), candidates("two", "wrong", turn=1)], tmp_path, agent)
    assert [len(batch) for batch in agent.batches] == [2, 1]
    assert list(read_records(tmp_path / "continuations.jsonl", Continuation)) == made
    assert [(item.query_id, item.passage_id) for item in made] == [
        ("q1/0/0", "right"),
        ("q1/0/0", "wrong"),
        ("q1/0/1", "wrong"),
    ]


def test_the_other_candidates_are_tried_only_where_a_relevant_one_leads_to_a_correct_answer(tmp_path):
    agent = ScriptedAgent(OUTCOMES.__getitem__)
    queries = [candidates("one", "wrong", "right", "lost"), candidates("two", "lost", "wrong", "right", turn=1)]
    relevant = {"q1/0/0": frozenset({"right"}), "q1/0/1": frozenset({"wrong"})}
    made = run(queries, tmp_path, agent, relevant=relevant)
    assert [(item.query_id, item.passage_id) for item in made] == [
        ("q1/0/0", "wrong"),
        ("q1/0/0", "right"),
        ("q1/0/0", "lost"),
        ("q1/0/1", "wrong"),
    ]
    assert list(read_records(tmp_path / "continuations.jsonl", Continuation)) == made
    assert sum(len(batch) for batch in agent.batches) == 4
    assert run(queries, tmp_path, agent, relevant=relevant) == made
    assert sum(len(batch) for batch in agent.batches) == 4


def test_without_a_relevant_candidate_nothing_is_tried(tmp_path):
    agent = ScriptedAgent(OUTCOMES.__getitem__)
    assert run([candidates("one", "right", "wrong")], tmp_path, agent, relevant={}) == []
    assert agent.batches == []
