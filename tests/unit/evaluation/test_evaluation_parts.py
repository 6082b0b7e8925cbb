import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_r.evaluation.coverage import (
    coverage_comparisons,
    coverage_left_out,
    coverage_tables,
    workspace_coverage,
)
from agentic_r.evaluation.examples import choose_examples, readable_attempt
from agentic_r.evaluation.intervals import Bootstrap
from agentic_r.evaluation.label_report import label_report, relevance_bars
from agentic_r.evaluation.report_parts import ToolUse
from agentic_r.evaluation.summary import LeftOut
from agentic_r.labels.audit import Audit, LabelStatistics, Suspicion
from agentic_r.types import Passage, ScoredPassage, Trajectory, Turn
from agentic_r.workspace.coverage import Coverage, ProbeOutcome, ToolCost

BEFORE = {"gained": 0.0, "lost": 1.0, "wrong": 0.0, "right": 1.0}
AFTER = {"gained": 1.0, "lost": 0.0, "wrong": 0.0, "right": 1.0}


def test_examples_come_in_turns_from_gained_lost_wrong_and_right():
    assert choose_examples(BEFORE, AFTER, count=4, seed=0) == ["gained", "lost", "wrong", "right"]
    assert choose_examples(BEFORE, AFTER, count=2, seed=9) == ["gained", "lost"]


def test_questions_of_one_side_only_are_no_examples():
    assert choose_examples({"a": 1.0}, {"b": 1.0}, count=5, seed=0) == []


@settings(deadline=None, max_examples=40)
@given(st.dictionaries(st.text(max_size=3), st.sampled_from([0.0, 0.5, 1.0])), st.integers(0, 8), st.integers(0, 3))
def test_the_choice_depends_on_the_seed_and_not_on_the_order(values, count, seed):
    after = dict.fromkeys(values, 1.0)
    chosen = choose_examples(values, after, count=count, seed=seed)
    assert chosen == choose_examples(dict(reversed(values.items())), after, count=count, seed=seed)
    assert len(chosen) == len(set(chosen)) == min(count, len(values))


def test_an_attempt_shows_what_the_agent_was_shown():
    passage = Passage("p1", "d1", "Title", "Text.")
    search = Turn(
        "<search>x</search>", "search", "x", (1,), (0.0,), passages=(ScoredPassage("p1", 1.0),), tool_state="ok"
    )
    answer = Turn("<answer>y</answer>", "answer", "y", (1,), (0.0,))
    trajectory = Trajectory("q", 0, (1,), (search, answer), "answered", "y", 1.0, 1.0)
    attempt = readable_attempt(trajectory, label="base", passages={"p1": passage}, gold={"p1"})
    assert [turn.query for turn in attempt.turns] == ["x", None]
    assert (attempt.turns[0].passages[0].text, attempt.turns[0].passages[0].is_gold) == ("Text.", True)
    assert (attempt.answer, attempt.is_correct) == ("y", True)


def test_relevance_is_counted_in_five_ranges():
    assert [bar.count for bar in relevance_bars([0.0, 0.19, 0.2, 0.6, 0.99, 1.0])] == [2, 1, 0, 1, 2]
    assert relevance_bars([]) == ()
    with pytest.raises(ValueError, match=r"relevance 60"):
        relevance_bars([60])


def statistics(*, without):
    return LabelStatistics(
        num_queries=2,
        num_labels=10,
        num_without_relevance=without,
        num_without_correctness=0,
        mean_relevance=0.0,
        share_relevant=0.0,
        share_correct=0.25,
        num_some_correct=1,
        num_all_correct=0,
    )


def test_a_share_of_no_label_is_not_0():
    audit = Audit(3, 6, (Suspicion("i1", "p1", "leads to a correct answer"),), statistics(without=10))
    report = label_report(1, audit, [])
    assert report.shares == {
        "mean relevance": None,
        "share relevant": None,
        "share leading to a correct answer": 0.25,
    }
    assert report.audit is not None
    assert [item.instance_id for item in report.audit] == ["i1"]
    measured = label_report(1, Audit(3, 6, (), statistics(without=9)), [0.0])
    assert measured.shares["mean relevance"] == 0.0
    assert measured.audit == ()


MEASURES = ("scope@1", "scope@5", "previewed", "evidence@500", "evidence")


def outcome(question, *, retriever="base", system="rarg", state="ok", ranks=(None, None), evidence=(None,)):
    coverage = Coverage(("a", "b"), ranks, (), (), (), evidence) if state == "ok" else None
    costs = (ToolCost("rg", 2, 100, 0.25),) if state == "ok" else ()
    return ProbeOutcome(system, retriever, question, state, coverage, costs)


def test_coverage_is_a_mean_over_the_questions_that_have_one():
    outcomes = [
        outcome("q1", ranks=(1, 4), evidence=(500,)),
        outcome("q2", ranks=(None, 1), evidence=(501,)),
        outcome("q3", state="failed"),
    ]
    (coverage,) = workspace_coverage(outcomes, measures=MEASURES, bootstrap=Bootstrap(samples=50))
    assert (coverage.system, coverage.retriever, coverage.num_questions) == ("rarg", "base", 2)
    # q1 has one gold document of two at rank 1, q2 one; within 5 they have 2 and 1 of two
    assert {step.name: step.share.value for step in coverage.steps} == {
        "scope@1": 0.5,
        "scope@5": 0.75,
        "previewed": 0.0,
        "evidence@500": 0.5,
        "evidence": 1.0,
    }
    assert coverage.costs == (ToolUse("rg", 2.0, 100.0, 0.25),)
    assert coverage_left_out(outcomes) == (
        LeftOut(stage="RARG with base", reason="workspace: a call failed", ids=("q3",)),
    )


def test_coverage_without_a_measured_question_is_none():
    (coverage,) = workspace_coverage(
        [outcome("q1", state="no_evidence")], measures=MEASURES, bootstrap=Bootstrap(samples=50)
    )
    assert [step.share for step in coverage.steps] == [None] * 5


def test_what_every_system_leaves_out_is_said_once_a_retriever():
    outcomes = [outcome("q1", system=system, state="no_queries") for system in ("rise", "rarg")]
    assert coverage_left_out(outcomes) == (
        LeftOut(stage="base", reason="workspace: the question has no recorded query", ids=("q1",)),
    )


def test_the_last_retriever_is_compared_with_the_others_and_each_system_with_the_one_before():
    def both(system, retriever, ranks):
        return [outcome(f"q{n}", system=system, retriever=retriever, ranks=(rank, 1)) for n, rank in enumerate(ranks)]

    outcomes = [
        *both("rarg", "bm25", (9, 9)),
        *both("rarg", "iter-1", (1, 9)),
        *both("rarg+", "iter-1", (1, 1)),
    ]
    found = coverage_comparisons(outcomes, measures=["scope@5"], bootstrap=Bootstrap(samples=50))
    # differences a question: iter-1 against bm25 0.5 and 0; RARG+ against RARG 0 and 0.5
    assert [(item.new, item.old, item.difference) for item in found] == [
        ("RARG with iter-1", "RARG with bm25", 0.25),
        ("RARG+ with iter-1", "RARG with iter-1", 0.25),
    ]


def test_there_is_a_table_a_system():
    outcomes = [outcome("q1", system=system) for system in ("rise", "rarg++")]
    tables = coverage_tables(workspace_coverage(outcomes, measures=MEASURES, bootstrap=Bootstrap(samples=50)))
    assert [(table.system, table.measures, len(table.rows)) for table in tables] == [
        ("RISE", MEASURES, 1),
        ("RARG++", MEASURES, 1),
    ]
