import pytest
from labels_fakes import answer, attempt, by_id, candidates, passage, search

from agentic_r.labels.rule_judge import RuleBasedJudge, new_term
from agentic_r.types import RelevanceRequest, SubAnswer, SubAnswerRequest

QUESTION = "What is the birthplace of the teacher of Brado Kulim ?"
SAYS = passage("p1", "Brado Kulim learned the craft from Tarin Melu .", "Brado Kulim")
OTHER = passage("p2", "Vosk Rund learned the craft from Tarin Melu .", "Vosk Rund")
LOOKS = passage("p3", "Letters about the teacher of Brado Kulim were lost .", "Brado Kulim")
TOWN = passage("p4", "Tarin Melu first saw daylight in Glasp .", "Tarin Melu")


def sub_answers(trajectory, queries, passages=(SAYS, OTHER, LOOKS, TOWN), question=QUESTION):
    request = SubAnswerRequest(trajectory, question, ("Glasp",), tuple(queries), by_id(*passages))
    return [item.text for item in RuleBasedJudge().sub_answers([request])[0]]


def relevance(query, sub_answer, *passages):
    listed = candidates(query, *[item.id for item in passages])
    request = RelevanceRequest(listed, SubAnswer(listed.query_id, sub_answer, "rule 1"), passages)
    return [item.value for item in RuleBasedJudge().relevance([request])[0]]


def test_the_sub_answer_is_the_new_name_of_the_next_query_and_then_the_final_answer():
    trajectory = attempt(
        search("teacher of Brado Kulim", "p1", "p3"), search("birthplace of Tarin Melu", "p4"), answer("Glasp")
    )
    queries = [candidates("teacher of Brado Kulim"), candidates("birthplace of Tarin Melu", turn=1)]
    assert sub_answers(trajectory, queries) == ["Tarin Melu", "Glasp"]


def test_lower_case_queries_give_the_same_term_as_written():
    trajectory = attempt(
        search("teacher of brado kulim", "p1"), search("birthplace of tarin melu", "p4"), answer("glasp")
    )
    assert sub_answers(trajectory, [candidates("teacher of brado kulim")]) == ["tarin melu"]


def test_a_wrong_final_answer_is_not_a_sub_answer():
    trajectory = attempt(search("birthplace of Tarin Melu", "p4"), answer("Rund"), correct=0.0)
    assert sub_answers(trajectory, [candidates("birthplace of Tarin Melu")]) == [None]


@pytest.mark.parametrize("final", ["yes", "No", "Brado Kulim"])
def test_a_verdict_or_a_name_from_the_question_was_not_found_by_the_query(final):
    trajectory = attempt(search("age of Brado Kulim", "p1"), answer(final))
    assert sub_answers(trajectory, [candidates("age of Brado Kulim")]) == [None]


def test_an_attempt_that_ran_out_of_turns_has_no_last_sub_answer():
    assert sub_answers(attempt(search("teacher of Brado Kulim", "p1")), [candidates("teacher of Brado Kulim")]) == [
        None
    ]


@pytest.mark.parametrize(
    "following",
    [
        "teacher of Brado Kulim",  # the same again
        "Brado Kulim learned the craft from",  # the same in other words, which the evidence holds
        "teacher of Vosk Rund and Tarin Melu",  # two new names
        "birthplace of Nobody",  # not in the evidence
        "who gave lessons",  # no new name in a text that could have one
    ],
)
def test_a_next_query_that_took_no_single_name_over_leaves_it_not_sure(following):
    evidence = [SAYS, passage("p5", "Brado Kulim met Vosk Rund .")]
    assert new_term(following, question=QUESTION, asked=["teacher of Brado Kulim"], evidence=evidence) is None


def test_a_term_from_evidence_about_something_else_was_not_found_by_this_query():
    question = "Are the teachers of Brado Kulim and of Vosk Rund from one town ?"
    asked = ["teacher of Brado Kulim", "teacher of Vosk Rund"]
    other = passage("p9", "Vosk Rund copied each stroke of Gleb Stor .", "Vosk Rund")
    evidence = [SAYS, other]
    assert new_term("birthplace of Tarin Melu", question=question, asked=asked, evidence=evidence) is None
    assert new_term("birthplace of Gleb Stor", question=question, asked=asked, evidence=evidence) == "Gleb Stor"


def test_a_second_search_in_lower_case_after_a_miss_is_not_a_sub_answer():
    term = new_term(
        "brado kulim learned the craft from",
        question=QUESTION.lower(),
        asked=["teacher of brado kulim"],
        evidence=[OTHER],
    )
    assert term is None


def test_a_name_is_drawn_out_over_known_words_and_stopwords_as_the_evidence_spells_it():
    evidence = [passage("a", "His father was Wilhelm Georg Roscher , of the Bank of Yol .")]
    asked = ["Who is Wilhelm Heinrich Roscher's father?"]
    question = "When did Wilhelm Heinrich Roscher's father die?"
    found = new_term("When did Wilhelm Georg Roscher die?", question=question, asked=asked, evidence=evidence)
    assert found == "Wilhelm Georg Roscher"
    found = new_term("founder of the Bank of Yol", question=question, asked=asked, evidence=evidence)
    assert found == "Bank of Yol"


def test_a_failed_search_in_between_does_not_hide_the_next_query():
    trajectory = attempt(
        search("teacher of Brado Kulim", "p1"), search("birthplace of Tarin Melu", state="failed"), answer("Glasp")
    )
    assert sub_answers(trajectory, [candidates("teacher of Brado Kulim")]) == ["Tarin Melu"]


def test_a_paraphrase_with_the_name_is_relevant_and_a_mention_elsewhere_is_not():
    # terms teacher, brado, kulim. p1 holds 2 of 3 and the answer: 0.6 + 0.4 * 2/3. p2 holds none: 0.
    # p3 holds all 3, not the answer: 0.4. p4 holds the answer and no name: 0.
    values = relevance("teacher of Brado Kulim", "Tarin Melu", SAYS, OTHER, LOOKS, TOWN)
    assert values == pytest.approx([0.6 + 0.4 * 2 / 3, 0.0, 0.4, 0.0])


def test_in_lower_case_the_names_are_what_stands_in_titles():
    values = relevance("teacher of brado kulim", "tarin melu", SAYS, OTHER, LOOKS, TOWN)
    assert values == pytest.approx([0.6 + 0.4 * 2 / 3, 0.0, 0.4, 0.0])


def test_half_a_name_is_another_entity():
    half = passage("x", "Brado Rund is the teacher who met Tarin Melu .", "Brado Rund")
    assert relevance("teacher of Brado Kulim", "Tarin Melu", half) == pytest.approx([0.4 * 2 / 3])


def test_without_names_or_titles_half_of_the_terms_decide():
    # terms opposite, hot; one of two held with the answer: 0.6 + 0.4 / 2
    assert relevance("opposite of hot", "cold", passage("x", "hot and cold"), passage("y", "cold")) == pytest.approx(
        [0.8, 0]
    )


def test_without_a_sub_answer_nothing_reaches_the_threshold():
    assert relevance("teacher of Brado Kulim", None, LOOKS, SAYS) == pytest.approx([0.5, 0.5 * 2 / 3])


def test_a_sub_answer_inside_another_word_is_not_held():
    text = passage("x", "Brado Kulim counts 456 teacher winters", "Brado Kulim")
    assert relevance("teacher of Brado Kulim", "45", text) == pytest.approx([0.4])


def test_labels_name_their_judge():
    assert RuleBasedJudge().name == "rule 1"
