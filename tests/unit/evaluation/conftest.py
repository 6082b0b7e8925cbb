"""A made-up run: 40 questions, four rows, two agents with two retrievers."""

import pytest

from agentic_r.evaluation.curves import Chart
from agentic_r.evaluation.intervals import Bootstrap
from agentic_r.evaluation.measurements import (
    CrossMeasurement,
    Measurements,
    RunCost,
    StageMeasurement,
    build_summary,
)
from agentic_r.evaluation.report_parts import (
    Attempt,
    AuditFinding,
    CoverageStep,
    Example,
    ExampleTurn,
    LabelReport,
    ReportInput,
    ShownPassage,
    StageRecord,
    WorkspaceCoverage,
)
from agentic_r.evaluation.summary import Estimate, LeftOut, Summary
from agentic_r.evaluation.svg import Bar, Line, Point

QUESTIONS = 40


def first_ones(ones: int, *, count: int = QUESTIONS) -> dict[str, float]:
    """1 for the first ``ones`` questions, 0 for the others."""
    return {f"q{number}": float(number < ones) for number in range(count)}


def alternating(low: float, high: float, *, count: int = QUESTIONS) -> dict[str, float]:
    return {f"q{number}": high if number % 2 else low for number in range(count)}


def _row(stage: str, recall: int, em: int, turns: tuple[float, float]) -> StageMeasurement:
    found = first_ones(recall)
    return StageMeasurement(
        stage=stage,
        per_question={
            "recall@5": found,
            "ndcg@10": {question: value * 0.5 for question, value in found.items()},
            "em": first_ones(em),
            "search_turns": alternating(*turns),
            "scope_coverage": first_ones(recall + 4),
            "f1": alternating(0.25, 0.75),
        },
    )


@pytest.fixture(scope="session")
def measurements() -> Measurements:
    bm25 = StageMeasurement(
        "bm25", {"recall@5": first_ones(16), "ndcg@10": alternating(0.2, 0.4), "scope_coverage": first_ones(20)}
    )
    return Measurements(
        rows=(
            bm25,
            _row("base", 12, 8, (2.0, 3.0)),
            _row("iter-1", 26, 16, (2.0, 2.0)),
            _row("iter-2", 31, 20, (1.0, 2.0)),
        ),
        cross=tuple(
            CrossMeasurement(agent, retriever, {"em": first_ones(em), "search_turns": alternating(1.0, turns)})
            for agent, retriever, em, turns in (
                ("warm", "base", 8, 3.0),
                ("warm", "iter-2", 13, 3.0),
                ("iter-2", "base", 12, 2.0),
                ("iter-2", "iter-2", 20, 2.0),
            )
        ),
        correctness="exact match",
        base_formats={
            "query": {"recall@5": first_ones(10), "ndcg@10": first_ones(5)},
            "question_query": {"recall@5": first_ones(12), "ndcg@10": first_ones(6)},
        },
        left_out=(LeftOut(stage="iter-1", reason="the agent's tool failed", ids=("q40/0", "q41/0")),),
    )


@pytest.fixture(scope="session")
def summary(measurements: Measurements) -> Summary:
    cost = RunCost(seconds=725.04, peak_memory_bytes=1_400_000_000)
    return build_summary(measurements, cost=cost, bootstrap=Bootstrap(seed=7, samples=200))


@pytest.fixture(scope="session")
def full_report(summary: Summary) -> ReportInput:
    return ReportInput(
        name="quickstart",
        summary=summary,
        stages=_stages(),
        agent_charts=(_chart("reward", 0.2, 0.6), _chart("entropy", 2.1, 0.9), Chart("KL to the reference", ())),
        retriever_charts=(_chart("contrastive loss", 2.4, 0.3),),
        labels=_labels(),
        coverage=(_coverage("base", 0.3), _coverage("iter-2", 0.7)),
        examples=(_example(),),
        example_choice="Chosen by seed.",
        configuration="name: quickstart\nseed: 7\n",
        packages={"torch": "2.13.0", "faiss-cpu": "absent"},
        python="3.11.2",
        machine="2 cores, 8 GB",
    )


def _stages() -> tuple[StageRecord, ...]:
    return (
        StageRecord("corpus", {"documents": 1200, "passages": 3456}, {"empty text": 3}, {}, 4.2),
        StageRecord("iter-1/agent", {"steps": 40, "rollouts": 2560}, {}, {}, 260.0),
        StageRecord("iter-1/relevance", {"labels": 6120}, {}, {"unparsed reply": 4}, 31.4),
    )


def _chart(title: str, start: float, end: float) -> Chart:
    points = [
        [
            Point(step, None if (step, run) == (9, 0) else start + (end - start) * (step + 5 * run) / 45)
            for step in range(40)
        ]
        for run in range(2)
    ]
    return Chart(title, tuple(Line(f"iteration {run + 1}", tuple(line), run) for run, line in enumerate(points)))


def _labels() -> tuple[LabelReport, ...]:
    bars = tuple(
        Bar(f"{low}-{low + 20}", count)
        for low, count in zip(range(0, 100, 20), (3100, 800, 420, 900, 900), strict=True)
    )
    counts = {"queries": 306, "candidates": 6120, "instances": 212, "skipped: no positive": 94}
    finding = AuditFinding("q1/0/0 <b>", "d17#2", "holds the answer")
    shares = {"mean relevance": 0.31, "share relevant": None}
    return (LabelReport(1, counts, shares, bars, (finding,)), LabelReport(2, counts, audit=()))


def _coverage(retriever: str, share: float) -> WorkspaceCoverage:
    steps = [
        CoverageStep(name, Estimate(value=v, low=v - 0.1, high=v + 0.1))
        for name, v in (("imported", share), ("read", share - 0.1))
    ]
    return WorkspaceCoverage("rarg", retriever, (*steps, CoverageStep("cited", None)), QUESTIONS)


def _example() -> Example:
    gold = ShownPassage("d1#0", "Alderford", "Alderford is a town <script>alert(1)</script> & more.", is_gold=True)
    other = ShownPassage("d2#0", "Alderford (ship)", "A ship.\nTwo lines.", is_gold=False)
    found = ExampleTurn("<think>I need the town.</think>", "Alderford mayor", (gold, other), "ok", num_passages_cut=1)
    nothing = ExampleTurn("<search>zzz</search>", "zzz", (), "empty")
    end = ExampleTurn("<answer>Mara Quill</answer>", None, (), "none")
    return Example(
        question="Who is the mayor of <b>Alderford</b>?",
        answers=("Mara Quill",),
        attempts=(
            Attempt("warm start with base", (nothing,), None, False, "turn_budget"),
            Attempt("iteration 2 with iteration 2", (found, end), "Mara Quill", True, "answered"),
        ),
    )
