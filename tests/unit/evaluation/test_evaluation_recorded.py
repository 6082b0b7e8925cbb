import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_r.errors import DataError
from agentic_r.evaluation.recorded import judge_queries, mean_by_question, names_title
from agentic_r.types import Passage, Question, RecordedQuery

PASSAGES = {
    passage.id: passage
    for passage in (
        Passage("wood#0", "wood", "Ed Wood", "Ed Wood was a director."),
        Passage("wood#1", "wood", "Ed Wood", "He was American."),
        Passage("film#0", "film", "Ed Wood (film)", "A film of 1994."),
        Passage("paris#0", "paris", "Paris", "A city."),
        Passage("untitled#0", "untitled", "", "Text without a title."),
    )
}


def question(*gold, question_id="q1"):
    return Question(id=question_id, text="Who?", answers=("x",), split="heldout", gold_passages=gold)


def relevant(query, *gold):
    judged = judge_queries([RecordedQuery("r", "q1", query)], [question(*gold)], passages=PASSAGES)
    return set(judged.qrels["r"])


def test_a_query_that_names_a_gold_document_is_judged_on_its_passages():
    assert relevant("When was Ed Wood born?", "wood#0", "wood#1", "paris#0") == {"wood#0", "wood#1"}
    assert relevant("PARIS population", "wood#0", "wood#1", "paris#0") == {"paris#0"}


def test_any_other_query_is_judged_on_all_gold_passages():
    assert relevant("nationality of the director", "wood#0", "paris#0") == {"wood#0", "paris#0"}
    assert relevant("comparison", "wood#0", "paris#0") == {"wood#0", "paris#0"}


def test_a_title_is_named_from_token_border_to_token_border_only():
    assert relevant("Parisian cafes", "wood#0", "paris#0") == {"wood#0", "paris#0"}
    assert relevant("Ed Woodward", "wood#0", "paris#0") == {"wood#0", "paris#0"}
    assert relevant("Ed Wood's nationality", "wood#0", "paris#0") == {"wood#0"}


def test_a_title_inside_a_longer_named_title_does_not_count():
    assert relevant("Ed Wood film year", "wood#0", "film#0") == {"film#0"}
    assert relevant("did Ed Wood see Ed Wood (film)", "wood#0", "film#0") == {"wood#0", "film#0"}


def test_a_query_that_names_two_gold_documents_is_judged_on_both():
    assert relevant("Ed Wood in Paris", "wood#0", "film#0", "paris#0") == {"wood#0", "paris#0"}


def test_an_empty_title_is_never_named():
    assert relevant("anything", "untitled#0", "paris#0") == {"untitled#0", "paris#0"}


@pytest.mark.parametrize(
    ("text", "title", "named"),
    [
        ("Café Müller", "cafe\u0301 mu\u0308ller", True),  # composed and decomposed
        ("ＥＤ　ＷＯＯＤ", "Ed Wood", True),  # full width
        ("西游记的作者", "西游记", True),  # no spaces: every character is a token
        ("snake_case name", "snake case", True),
        ("Edward Wood", "Ed Wood", False),
        ("wood ed", "Ed Wood", False),
        ("", "Ed Wood", False),
        ("?!", "!", False),
    ],
)
def test_titles_are_compared_in_normal_form(text, title, named):
    assert names_title(text, title) is named


def test_a_question_without_gold_is_judged_on_answer_bearing_passages():
    queries = [RecordedQuery("r1", "q1", "Paris"), RecordedQuery("r2", "q2", "x")]
    questions = [question("paris#0"), question(question_id="q2")]
    judged = judge_queries(queries, questions, passages=PASSAGES, answer_bearing={"q2": ["wood#1", "film#0"]})
    assert set(judged.qrels["r2"]) == {"wood#1", "film#0"}
    assert judged.kind == "mixed"
    alone = judge_queries(queries[1:], questions, passages={}, answer_bearing={"q2": ["wood#1"]})
    assert alone.kind == "answer-bearing"


def test_a_query_that_nothing_judges_is_listed_and_not_scored():
    queries = [RecordedQuery("r1", "q1", "Paris"), RecordedQuery("r2", "q2", "x")]
    judged = judge_queries(queries, [question("paris#0"), question(question_id="q2")], passages=PASSAGES)
    assert [query.id for query in judged.queries] == ["r1"]
    assert judged.not_judged == ("r2",)
    assert judged.kind == "gold"
    assert judged.question_texts == {"q1": "Who?"}


@pytest.mark.parametrize(
    ("queries", "questions", "message"),
    [
        ([RecordedQuery("r", "q9", "x")], [question("paris#0")], "recorded query r: question q9"),
        ([RecordedQuery("r", "q1", "x")] * 2, [question("paris#0")], "recorded query r: the id is used twice"),
        ([RecordedQuery("r", "q1", "x")], [question("gone#0")], "question q1: gold passage gone#0"),
    ],
)
def test_ids_that_do_not_meet_are_named(queries, questions, message):
    with pytest.raises(DataError, match=message):
        judge_queries(queries, questions, passages=PASSAGES)


def test_values_are_averaged_over_a_questions_queries_first():
    # q1 has three queries (mean 1/3), q2 one (1): a mean over queries would be 1/2, over questions it is 2/3.
    values = mean_by_question({"a": 1.0, "b": 0.0, "c": 0.0, "d": 1.0}, {"a": "q1", "b": "q1", "c": "q1", "d": "q2"})
    assert values == {"q1": pytest.approx(1 / 3), "q2": 1.0}


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_a_title_between_spaces_is_always_named_if_it_has_a_token(before, title, after):
    assert names_title(f"{before} {title} {after}", title) == names_title(title, title)


@settings(deadline=None, max_examples=50)
@given(
    st.sampled_from(["Ed Wood", "x", "Ed Wood film Paris", "Paris"]),
    st.permutations(["wood#0", "wood#1", "film#0", "paris#0"]),
)
def test_every_query_is_judged_on_some_gold_passages_of_its_question(query, gold):
    assert set() < relevant(query, *gold[:3]) <= set(gold[:3])
