import math

import ir_measures
import pytest

from agentic_r.errors import ConfigError
from agentic_r.metrics.retrieval import TIE_RULE, evaluate_run, rank_hits, same_text_name


def test_values_equal_those_worked_out_by_hand():
    # ranking b, a, c; relevant a and d. R@2 = 1/2. RR = 1/2.
    # nDCG@3: gain at rank 2 = 1/log2(3); ideal (2 relevant) = 1 + 1/log2(3).
    result = evaluate_run({"q": [("a", 0.5), ("b", 0.9), ("c", 0.1)]}, {"q": {"a": 1, "d": 1}}, ["R@2", "RR", "nDCG@3"])
    assert result.values["R@2"] == {"q": 0.5}
    assert result.values["RR"] == {"q": 0.5}
    second = 1 / math.log2(3)
    assert result.values["nDCG@3"]["q"] == pytest.approx(second / (1 + second))


def test_values_equal_those_of_ir_measures_where_no_scores_are_equal():
    run = {f"q{n}": {f"p{m}": float((n * 7 + m * 5) % 11) for m in range(11)} for n in range(4)}
    qrels = {f"q{n}": {f"p{(n + m) % 11}": m % 3 for m in range(6)} for n in range(4)}
    names = ["R@5", "nDCG@10", "RR", "AP", "P@3", "Success@1"]
    result = evaluate_run({query: list(hits.items()) for query, hits in run.items()}, qrels, names)
    for item in ir_measures.iter_calc([ir_measures.parse_measure(name) for name in names], qrels, run):
        assert result.values[str(item.measure)][item.query_id] == pytest.approx(item.value)


def test_equal_scores_are_ordered_by_passage_id():
    assert rank_hits([("b", 1.0), ("a", 1.0), ("c", 2.0)]) == ["c", "a", "b"]
    result = evaluate_run({"q": [("b", 1.0), ("a", 1.0)]}, {"q": {"a": 1}}, ["RR"])
    assert result.values["RR"]["q"] == 1.0
    assert TIE_RULE in result.rules


def test_scores_that_differ_below_single_precision_are_still_ordered():
    result = evaluate_run({"q": [("a", 1.0), ("b", 1.0 + 1e-12)]}, {"q": {"b": 1}}, ["RR"])
    assert result.values["RR"]["q"] == 1.0


def test_missing_queries_count_as_zero_and_are_named():
    result = evaluate_run(
        {"q1": [("a", 1.0)], "q2": []}, {"q1": {"a": 1}, "q2": {"a": 1}, "q3": {"a": 1}}, ["R@5", "RR"]
    )
    assert result.values["R@5"] == {"q1": 1.0, "q2": 0.0, "q3": 0.0}
    assert result.missing == ("q2", "q3")
    assert "2 queries without any hit, counted as 0: q2, q3" in result.warnings


def test_queries_without_qrels_are_left_out_and_named():
    result = evaluate_run({"q": [("a", 1.0)], "x": [("a", 1.0)]}, {"q": {"a": 1}}, ["RR"])
    assert result.values["RR"] == {"q": 1.0}
    assert result.not_judged == ("x",)


def test_queries_with_nothing_relevant_are_zero_and_named():
    result = evaluate_run({"q": [("a", 1.0)], "r": [("a", 1.0)]}, {"q": {"a": 0}, "r": {}}, ["RR"])
    assert result.values["RR"] == {"q": 0.0, "r": 0.0}
    assert result.without_relevant == ("q", "r")


def test_an_empty_run_and_empty_qrels_are_measured():
    assert evaluate_run({}, {"q": {"a": 1}}, ["RR"]).values["RR"] == {"q": 0.0}
    assert evaluate_run({"q": [("a", 1.0)]}, {}, ["RR"]).values["RR"] == {}


@pytest.mark.parametrize("name", ["foo@3", "R", "R@0", "R@-1", "R@x", "", "recall@5", "RBP", "alpha_nDCG@5", "f('x')"])
def test_a_measure_that_cannot_be_computed_is_named(name):
    with pytest.raises(ConfigError, match="measure"):
        evaluate_run({"q": [("a", 1.0)]}, {"q": {"a": 1}}, [name])


def test_a_passage_listed_twice_is_an_error():
    with pytest.raises(ValueError, match="twice"):
        evaluate_run({"q": [("a", 1.0), ("a", 0.5)]}, {"q": {"a": 1}}, ["RR"])


def test_a_score_that_is_no_number_is_an_error():
    with pytest.raises(ValueError, match="not a number"):
        evaluate_run({"q": [("a", float("nan"))]}, {"q": {"a": 1}}, ["RR"])


def test_h18_hits_with_the_query_id_are_kept_by_default():
    run, qrels = {"q1": [("q1", 0.9), ("d2", 0.8)]}, {"q1": {"d2": 1}}
    result = evaluate_run(run, qrels, ["RR", "nDCG@10"])
    assert result.values["RR"]["q1"] == 0.5
    assert result.values["nDCG@10"]["q1"] == pytest.approx(0.6309, abs=5e-5)
    assert "hits with the query's own id kept" in result.rules


def test_h18_hits_with_the_query_id_are_removed_when_asked():
    run, qrels = {"q1": [("q1", 0.9), ("d2", 0.8)]}, {"q1": {"d2": 1}}
    result = evaluate_run(run, qrels, ["RR", "nDCG@10"], drop_query_id_hits=True)
    assert result.values["RR"]["q1"] == 1.0
    assert result.values["nDCG@10"]["q1"] == 1.0
    assert result.dropped == ("q1",)
    assert result.dropped_relevant == ()
    assert "hits with the query's own id removed" in result.rules


def test_h18_removing_a_hit_that_is_judged_relevant_is_a_warning():
    run, qrels = {"12": [("12", 0.9)]}, {"12": {"12": 1}}
    assert evaluate_run(run, qrels, ["RR"]).values["RR"]["12"] == 1.0
    result = evaluate_run(run, qrels, ["RR"], drop_query_id_hits=True)
    assert result.values["RR"]["12"] == 0.0
    assert result.dropped_relevant == ("12",)
    assert any("judged relevant" in line for line in result.warnings)


def test_h3_a_hit_of_the_same_text_counts_in_the_second_set_of_values():
    run, qrels = {"q": [("d3", 0.9), ("d1", 0.8)]}, {"q": {"d1": 1}}
    result = evaluate_run(run, qrels, ["RR"], duplicates={"d3": "d1"})
    assert result.values["RR"]["q"] == 0.5
    assert result.values[same_text_name("RR")]["q"] == 1.0
    assert any("same text" in rule for rule in result.rules)


def test_h3_merged_qrels_keep_the_highest_grade_and_count_a_text_once():
    # d1 (grade 1) and d3 (grade 2) are one text: one relevant text, found first
    run, qrels = {"q": [("d3", 0.9), ("d1", 0.8)]}, {"q": {"d1": 1, "d3": 2}}
    result = evaluate_run(run, qrels, ["R@1"], duplicates={"d3": "d1"})
    assert result.values["R@1"]["q"] == 0.5
    assert result.values[same_text_name("R@1")]["q"] == 1.0
