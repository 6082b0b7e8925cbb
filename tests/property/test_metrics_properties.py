from hypothesis import given
from hypothesis import strategies as st

from agentic_r.metrics.answers import exact_match, normalise_answer, token_f1
from agentic_r.metrics.retrieval import evaluate_run, rank_hits, same_text_name

TEXTS = st.text(st.sampled_from(list("aAnthe 1,.-'()西游ガé\u0301\u200b!%+")), max_size=12) | st.text(max_size=12)
HITS = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-3, 3).map(lambda value: round(value, 1)), max_size=8)


@given(TEXTS)
def test_a_text_matches_itself_unless_it_is_empty(text):
    assert exact_match(text, [text]) is bool(normalise_answer(text))


@given(TEXTS, TEXTS)
def test_exact_match_is_symmetric_and_implies_full_f1(one, other):
    matches = exact_match(one, [other])
    assert matches is exact_match(other, [one])
    f1 = token_f1(one, [other])
    assert 0.0 <= f1 <= 1.0
    if matches:
        assert f1 == 1.0


@given(TEXTS)
def test_no_text_that_shows_something_becomes_empty(text):
    shown = any(character.isalnum() for character in text)
    assert not shown or normalise_answer(text)


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
def test_further_answers_never_lower_a_value(text, answers):
    for mode in ("default", "squad"):
        assert token_f1(text, answers, mode=mode) >= token_f1(text, answers[:1], mode=mode)
        assert exact_match(text, answers, mode=mode) >= exact_match(text, answers[:1], mode=mode)


@given(HITS)
def test_a_ranking_does_not_depend_on_the_order_of_its_hits(hits):
    pairs = list(hits.items())
    assert rank_hits(pairs) == rank_hits(pairs[::-1])


@given(HITS, st.sets(st.sampled_from("abcdefgh"), min_size=1))
def test_recall_and_reciprocal_rank_equal_a_plain_loop(hits, relevant):
    ranked = rank_hits(list(hits.items()))
    result = evaluate_run({"q": list(hits.items())}, {"q": dict.fromkeys(relevant, 1)}, ["R@3", "RR"], duplicates={})
    assert abs(result.values["R@3"]["q"] - len(relevant & set(ranked[:3])) / len(relevant)) < 1e-9
    first = next((place for place, passage in enumerate(ranked, start=1) if passage in relevant), None)
    assert abs(result.values["RR"]["q"] - (1 / first if first else 0.0)) < 1e-9
    assert result.values[same_text_name("RR")] == result.values["RR"]
