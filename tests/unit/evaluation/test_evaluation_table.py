import io
from pathlib import Path

import pytest
from rich.console import Console

from agentic_r.evaluation.findings import find, headline
from agentic_r.evaluation.intervals import Bootstrap
from agentic_r.evaluation.measurements import Measurements, RunCost, StageMeasurement, build_summary
from agentic_r.evaluation.table import markdown_table, measure_header, reading_notes, result_grid, terminal_table
from agentic_r.evaluation.wording import bytes_text, duration_text, estimate_text, number_text, p_text, stage_text

GOLDEN = Path(__file__).parent / "golden"
COUNT = 30


def ones(count):
    return {f"q{number}": float(number < count) for number in range(COUNT)}


def build(base, trained, *, measure="recall@5", **rest):
    rows = (StageMeasurement("base", {measure: base}), StageMeasurement("iter-1", {measure: trained}))
    return build_summary(
        Measurements(rows=rows, **{"correctness": "exact match", **rest}),
        cost=RunCost(seconds=1, peak_memory_bytes=None),
        bootstrap=Bootstrap(samples=200),
    )


def printed(summary, width=100):
    file = io.StringIO()
    Console(file=file, width=width, color_system=None).print(terminal_table(summary))
    return "".join(line.rstrip() + "\n" for line in file.getvalue().splitlines())


def test_the_table_in_the_terminal_is_as_agreed(summary):
    assert printed(summary) == (GOLDEN / "table.txt").read_text(encoding="utf-8")


def test_the_table_as_markdown_is_as_agreed(summary):
    assert markdown_table(summary) == (GOLDEN / "table.md").read_text(encoding="utf-8")


def test_the_table_fits_100_columns_with_every_interval_on_one_line(summary):
    lines = printed(summary).splitlines()
    assert max(len(line) for line in lines) <= 100
    for row in result_grid(summary).rows:
        assert any(all(cell in line for cell in row) for line in lines)


def test_answer_bearing_passages_are_named_in_the_table():
    summary = build(ones(3), ones(9), gold="answer-bearing")
    assert measure_header("recall@5", summary) == "recall@5 (answer-bearing)"
    assert any("No gold passages are known" in note for note in reading_notes(summary))
    assert max(len(line) for line in printed(summary).splitlines()) <= 100
    assert "answer-bearing passages than base" in headline(summary)


def test_correctness_by_f1_is_named_in_the_table():
    summary = build(ones(3), ones(9), correctness="token F1 >= 0.5")
    assert measure_header("em", summary) == "correct (F1 >= 0.5)"
    assert any("correct by token F1 >= 0.5." in note for note in reading_notes(summary))


def test_h17_squad_mode_is_said():
    assert any("squad mode" in note for note in reading_notes(build(ones(3), ones(9), answer_mode="squad")))


def test_h18_the_rule_for_hits_with_the_querys_own_id_is_said():
    for rule in ("kept", "dropped"):
        notes = reading_notes(build(ones(3), ones(9), query_id_hits=rule))
        assert any(f"hits with the query's own id are {rule}." in note for note in notes)


def test_how_recorded_queries_are_judged_is_said():
    notes = " ".join(reading_notes(build(ones(3), ones(9))))
    assert "names the title of one of its question's gold documents is judged on that document's gold passages" in notes
    assert "names the title" not in " ".join(reading_notes(build(ones(3), ones(9), gold="answer-bearing")))


def test_few_questions_are_warned_about():
    notes = reading_notes(build({"a": 1.0, "b": 0.0}, {"a": 1.0, "b": 1.0}))
    assert any("2 questions; with fewer than 10 questions these intervals are too narrow." in note for note in notes)


def test_no_question_at_all_is_said():
    assert any("no question was measured" in note for note in reading_notes(build({}, {})))


def test_a_shown_gain_is_the_headline():
    # 3 of 30 before, 18 of 30 after, the same three among them: 15 wins, no loss.
    text = headline(build(ones(3), ones(18)))
    assert text.startswith(
        "Iteration 1 finds more of the gold passages than base: recall@5 0.10 → 0.60, difference +0.50 ["
    )
    assert text.endswith("], p < 0.001, 30 questions.")


def test_a_shown_loss_is_the_headline_too():
    finding = find(build(ones(18), ones(3)))[0]
    assert finding.claim == "Iteration 1 finds fewer of the gold passages than base"
    assert finding.direction == "less"


def test_an_interval_without_0_alone_shows_nothing():
    # 4 wins and no loss of 30: the interval may leave out 0, but exact McNemar gives p = 2 / 2**4 = 0.125.
    finding = find(build(ones(10), ones(14)))[0]
    assert finding.claim == "No difference shown between iteration 1 and base"
    assert "p = 0.12" in finding.numbers
    assert finding.direction == "none"


def test_what_was_not_measured_is_not_claimed():
    findings = {finding.claim: finding for finding in find(build(ones(3), ones(18)))}
    missing = findings["Share correct was not measured for both iteration 1 and base"]
    assert (missing.numbers, missing.direction) == ("", "not measured")


def test_a_run_without_a_trained_retriever_claims_nothing():
    rows = (StageMeasurement("base", {"recall@5": ones(3)}),)
    summary = build_summary(
        Measurements(rows=rows, correctness="exact match"),
        cost=RunCost(seconds=1, peak_memory_bytes=None),
        bootstrap=Bootstrap(samples=20),
    )
    assert headline(summary) == "No trained retriever was measured, so nothing is claimed."


def test_what_agent_and_retriever_contributed_is_told_apart(summary):
    claims = [finding.claim for finding in find(summary)][-2:]
    verb = "leads to more correct answers than that of"
    assert claims == [
        f"With the same agent (iteration 2), the retriever of iteration 2 {verb} base",
        f"With the same retriever (iteration 2), the agent of iteration 2 {verb} warm start",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0.0 s"), (8.26, "8.3 s"), (59.97, "60.0 s"), (725, "12 min 5 s"), (7620, "2 h 7 min")]
)
def test_durations_read_well(seconds, text):
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(None, "not measured"), (0, "0 bytes"), (1_400_000_000, "1.4 GB"), (2_500, "2.5 kB")]
)
def test_sizes_read_well(size, text):
    assert bytes_text(size) == text


def test_values_read_well():
    assert number_text(-0.001) == "0.00"
    assert estimate_text(None) == "not measured"
    assert (p_text(0.1796), p_text(0.0004)) == ("p = 0.18", "p < 0.001")
    assert [stage_text(name) for name in ("bm25", "base", "warm", "iter-12")] == [
        "BM25",
        "base",
        "warm start",
        "iteration 12",
    ]
