import math

import pytest

from agentic_r.errors import ConfigError
from agentic_r.evaluation.recorded import JudgedQueries
from agentic_r.evaluation.retrieval import FailedSearch, evaluate_retriever, summary_name
from agentic_r.types import QueryText, RecordedQuery, ScoredPassage, SearchResult


class ScriptedRetriever:
    """Answers each query text with the passages it was given; an exception's text makes that search fail."""

    fingerprint = "scripted"

    def __init__(self, replies):
        self.replies = replies
        self.asked = []

    def search(self, queries, *, k):
        self.asked.extend(queries)
        return [self._reply(query.query, k) for query in queries]

    def _reply(self, query, k):
        reply = self.replies[query]
        if isinstance(reply, Exception):
            return SearchResult((), "failed", str(reply))
        hits = tuple(ScoredPassage(passage, -float(rank)) for rank, passage in enumerate(reply[:k]))
        return SearchResult(hits, "ok" if hits else "empty")

    def format_query(self, query):
        return query.query


def judged(qrels):
    """Query ids are "question.number"; the query's text is its id."""
    queries = tuple(RecordedQuery(query, query.split(".")[0], query) for query in qrels)
    return JudgedQueries(
        queries=queries,
        question_texts={query.question_id: f"text of {query.question_id}" for query in queries},
        qrels={query: dict.fromkeys(passages, 1) for query, passages in qrels.items()},
        kind="gold",
        not_judged=(),
    )


def test_values_are_means_over_a_questions_queries():
    retriever = ScriptedRetriever({"q1.0": ["a", "x"], "q1.1": ["x", "y"], "q2.0": ["x", "b"]})
    outcome = evaluate_retriever(
        retriever, judged({"q1.0": ["a"], "q1.1": ["a"], "q2.0": ["b", "c"]}), measures=("R@5", "nDCG@10"), k=10
    )
    assert outcome.per_question["recall@5"] == {"q1": 0.5, "q2": 0.5}
    # q2: b at rank 2 of two relevant ones: (1 / log2 3) / (1 + 1 / log2 3)
    gain = 1 / math.log2(3)
    assert outcome.per_question["ndcg@10"] == {"q1": 0.5, "q2": pytest.approx(gain / (1 + gain))}
    assert (outcome.failed, outcome.not_measured, outcome.empty) == ((), (), ())


def test_the_retriever_is_given_query_and_question():
    retriever = ScriptedRetriever({"q1.0": ["a"]})
    evaluate_retriever(retriever, judged({"q1.0": ["a"]}), measures=("R@5",), k=5)
    assert retriever.asked == [QueryText(query="q1.0", question="text of q1")]


def test_a_failed_search_leaves_its_question_out_with_id_and_cause():
    retriever = ScriptedRetriever({"q1.0": ["a"], "q1.1": OSError("index gone"), "q2.0": ["x"]})
    outcome = evaluate_retriever(
        retriever, judged({"q1.0": ["a"], "q1.1": ["a"], "q2.0": ["b"]}), measures=("R@5",), k=5
    )
    assert outcome.per_question["recall@5"] == {"q2": 0.0}
    assert outcome.failed == (FailedSearch("q1.1", "index gone"),)
    assert outcome.not_measured == ("q1",)
    assert outcome.warnings == ()


def test_a_search_that_found_nothing_is_measured_and_named():
    outcome = evaluate_retriever(ScriptedRetriever({"q1.0": []}), judged({"q1.0": ["a"]}), measures=("R@5",), k=5)
    assert outcome.per_question["recall@5"] == {"q1": 0.0}
    assert outcome.empty == ("q1.0",)
    assert any("q1.0" in warning for warning in outcome.warnings)


def test_all_searches_failed_is_no_value():
    retriever = ScriptedRetriever({"q1.0": OSError("down")})
    outcome = evaluate_retriever(retriever, judged({"q1.0": ["a"]}), measures=("R@5",), k=5)
    assert outcome.per_question == {"recall@5": {}}


def test_a_measure_deeper_than_the_search_is_refused():
    with pytest.raises(ConfigError, match="nDCG@10 looks at 10 passages, but only 5 are searched"):
        evaluate_retriever(ScriptedRetriever({}), judged({}), measures=("R@5", "nDCG@10"), k=5)


def test_h18_a_hit_with_the_querys_own_id_is_kept_unless_asked_otherwise():
    queries = judged({"q1.0": ["d2"]})
    retriever = ScriptedRetriever({"q1.0": ["q1.0", "d2"]})
    kept = evaluate_retriever(retriever, queries, measures=("RR", "nDCG@10"), k=10)
    assert kept.per_question["RR"] == {"q1": 0.5}
    assert kept.per_question["ndcg@10"] == {"q1": pytest.approx(0.6309, abs=1e-4)}
    dropped = evaluate_retriever(retriever, queries, measures=("RR", "nDCG@10"), k=10, drop_query_id_hits=True)
    assert dropped.per_question == {"RR": {"q1": 1.0}, "ndcg@10": {"q1": 1.0}}
    assert kept.rules != dropped.rules


def test_h3_values_with_same_texts_counted_as_one_stand_beside_the_plain_ones():
    outcome = evaluate_retriever(
        ScriptedRetriever({"q.0": ["d3", "d1"]}),
        judged({"q.0": ["d1"]}),
        measures=("RR",),
        k=10,
        duplicates={"d3": "d1"},
    )
    assert outcome.per_question == {"RR": {"q": 0.5}, "RR (same text)": {"q": 1.0}}


def test_progress_counts_to_the_number_of_queries():
    seen = []
    qrels = {f"q{number}.0": ["a"] for number in range(300)}
    retriever = ScriptedRetriever({query: ["a"] for query in qrels})
    evaluate_retriever(
        retriever, judged(qrels), measures=("R@5",), k=5, progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(256, 300), (300, 300)]


def test_a_retriever_that_loses_a_query_is_a_bug():
    class Lossy(ScriptedRetriever):
        def search(self, queries, *, k):
            return super().search(queries, k=k)[1:]

    with pytest.raises(ValueError, match="0 results for 1 queries"):
        evaluate_retriever(Lossy({"q.0": []}), judged({"q.0": ["a"]}), measures=("R@5",), k=5)


def test_measures_have_the_summarys_names():
    assert [summary_name(name) for name in ("R@5", "nDCG@10", "RR@10")] == ["recall@5", "ndcg@10", "RR@10"]
