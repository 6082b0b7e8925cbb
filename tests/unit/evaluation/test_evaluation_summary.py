import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from agentic_r.errors import DataError
from agentic_r.evaluation.intervals import Bootstrap
from agentic_r.evaluation.measurements import (
    Measurements,
    RunCost,
    StageMeasurement,
    better_format,
    build_summary,
    correctness_rule,
)
from agentic_r.evaluation.summary import Estimate, Summary, read_summary, write_summary

GOLDEN = Path(__file__).parent / "golden"
COST = RunCost(seconds=1.0, peak_memory_bytes=None)
BOOTSTRAP = Bootstrap(seed=0, samples=50)


def build(*rows, **rest):
    return build_summary(Measurements(rows=rows, correctness="exact match", **rest), cost=COST, bootstrap=BOOTSTRAP)


def test_the_summary_of_the_made_up_run_is_as_agreed(summary):
    assert summary.to_json() == (GOLDEN / "summary.json").read_text(encoding="utf-8")


def test_the_file_has_the_agreed_shape(summary):
    tree = json.loads(summary.to_json())
    assert list(tree) == ["rows", "cross", "seconds", "peak_memory_bytes", "seed", "notes", "comparisons"]
    for row in tree["rows"]:
        assert list(row) == ["stage", "recall@5", "ndcg@10", "em", "search_turns", "scope_coverage"]
        assert all(value is None or list(value) == ["value", "low", "high"] for value in list(row.values())[1:])
    assert all(list(cell) == ["agent", "retriever", "em", "search_turns"] for cell in tree["cross"])
    assert [row["stage"] for row in tree["rows"]] == ["bm25", "base", "iter-1", "iter-2"]


def test_writing_and_reading_gives_the_same(summary, tmp_path):
    write_summary(tmp_path / "summary.json", summary)
    assert read_summary(tmp_path / "summary.json") == summary


def test_a_measure_that_was_not_taken_is_null_never_0(summary):
    assert summary.rows[0].em is None
    assert build(StageMeasurement("base", {"em": {}})).rows[0].em is None


def test_neighbouring_rows_and_the_last_with_all_before_are_compared(summary):
    pairs = list(dict.fromkeys((item.new, item.old) for item in summary.comparisons if "agent" not in item.new))
    assert pairs == [("base", "bm25"), ("iter-1", "base"), ("iter-2", "iter-1"), ("iter-2", "bm25"), ("iter-2", "base")]


def test_cells_are_compared_where_one_part_alone_differs(summary):
    pairs = {(item.new, item.old) for item in summary.comparisons if item.new.startswith("agent")}
    cells = {
        name: f"agent {name[0]}, retriever {name[1]}"
        for name in [(a, r) for a in ("warm", "iter-2") for r in ("base", "iter-2")]
    }
    assert pairs == {
        (cells["warm", "iter-2"], cells["warm", "base"]),
        (cells["iter-2", "base"], cells["warm", "base"]),
        (cells["iter-2", "iter-2"], cells["warm", "iter-2"]),
        (cells["iter-2", "iter-2"], cells["iter-2", "base"]),
    }


def test_a_comparison_is_over_common_questions_and_says_how_many_are_not():
    summary = build(
        StageMeasurement("base", {"em": {"a": 0.0, "b": 0.0, "c": 1.0}}),
        StageMeasurement("iter-1", {"em": {"a": 1.0, "b": 0.0}}),
    )
    found = summary.comparison(measure="em", new="iter-1", old="base")
    assert found is not None
    assert (found.difference, found.num_questions, found.num_unpaired) == (0.5, 2, 1)
    assert summary.notes.num_questions == {"base": {"em": 3}, "iter-1": {"em": 2}}


def test_other_measures_stand_in_the_notes(summary):
    f1 = summary.notes.other_measures["iter-1"]["f1"]
    assert f1 is not None
    assert f1.value == 0.5


def test_the_better_query_format_of_the_base_counts():
    worse, better = {"recall@5": {"a": 0.0, "b": 1.0}}, {"recall@5": {"a": 1.0, "b": 1.0}}
    assert better_format({"query": worse, "question_query": better}) == "question_query"
    assert better_format({"query": better, "question_query": worse}) == "query"
    tie = {"query": {**worse, "ndcg@10": {"a": 0.1}}, "question_query": {**worse, "ndcg@10": {"a": 0.2}}}
    assert better_format(tie) == "question_query"
    assert better_format({"query": worse, "question_query": worse}) == "query"
    assert better_format({"query": {}, "question_query": worse}) == "question_query"
    with pytest.raises(ValueError, match="no query format"):
        better_format({})


def test_how_correctness_is_judged_is_said_in_words():
    assert correctness_rule("em", correct_f1=0.5) == "exact match"
    assert correctness_rule("f1", correct_f1=0.5) == "token F1 >= 0.5"


def test_an_estimate_outside_its_interval_is_refused():
    with pytest.raises(ValidationError, match="low <= value <= high"):
        Estimate(value=0.5, low=0.6, high=0.7)


def test_a_broken_file_is_named_with_the_place(tmp_path):
    path = tmp_path / "summary.json"
    with pytest.raises(DataError, match="no summary; finish the run first"):
        read_summary(path)
    path.write_text('{"rows": [{"stage": 3}]}', encoding="utf-8")
    with pytest.raises(DataError, match=r"summary\.json: rows\.0\.stage"):
        read_summary(path)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["recall@5", "ndcg@10", "em", "search_turns", "scope_coverage", "f1"]),
            st.dictionaries(st.sampled_from("abcde"), st.floats(min_value=0, max_value=5)),
        ),
        max_size=4,
    )
)
def test_any_measurements_survive_the_round_trip(rows):
    summary = build(*(StageMeasurement(f"iter-{number}", values) for number, values in enumerate(rows)))
    assert Summary.model_validate_json(summary.to_json()) == summary
