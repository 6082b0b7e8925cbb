"""Query and passage format, and what is shortened first. The token counter here counts words plus two."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_r.encoder.settings import EncoderSettings
from agentic_r.encoder.text import fit_query, passage_text, query_text, strip_control_tokens
from agentic_r.types import Passage, QueryText


def settings(max_query_tokens=12, query_format="question_query", query_prefix="query: "):
    return EncoderSettings(
        query_prefix=query_prefix,
        passage_prefix="passage: ",
        query_format=query_format,
        max_query_tokens=max_query_tokens,
        max_passage_tokens=16,
        separator="[SEP]",
        dtype="float32",
    )


def count(text):
    return len(text.split()) + 2


def test_question_and_query_stand_around_the_separator_after_the_prefix():
    assert query_text(QueryText("born where", "who wrote it"), settings()) == "query: who wrote it [SEP] born where"


def test_without_a_question_there_is_no_separator():
    assert query_text(QueryText("born where"), settings()) == "query: born where"


def test_query_format_leaves_the_question_out():
    assert query_text(QueryText("born where", "who wrote it"), settings(query_format="query")) == "query: born where"


def test_history_format_puts_earlier_queries_between_question_and_query():
    query = QueryText("born where", "who wrote it", ("first book", "its author"))
    text = query_text(query, settings(query_format="history"))
    assert text == "query: who wrote it [SEP] first book [SEP] its author [SEP] born where"
    assert query_text(query, settings()) == "query: who wrote it [SEP] born where"


def test_oldest_queries_are_left_out_before_the_question_is_shortened():
    # prefix 1 + question 2 + query 1 + special tokens 2 + separator 1 = 7 of 10; "e f" and its separator fill it
    query = QueryText("x", "a b", ("c d", "e f"))
    fitted = fit_query(query, settings(10, "history"), count)
    assert (fitted.text, fitted.cut) == ("query: a b [SEP] e f [SEP] x", {"history"})
    shorter = fit_query(query, settings(6, "history"), count)
    assert (shorter.text, shorter.cut) == ("query: a [SEP] x", {"history", "question"})


def test_passage_is_prefix_title_newline_text():
    assert passage_text(Passage("p", "d", "Title", "Text."), settings()) == "passage: Title\nText."
    assert passage_text(Passage("p", "d", "", "Text."), settings()) == "passage: Text."


def test_question_is_shortened_from_its_end_and_the_query_is_kept_whole():
    # prefix 1 + separator 1 + query 3 + special tokens 2 = 7 of 10: three words of the question fit
    fitted = fit_query(QueryText("x y z", "a b c d e f"), settings(10), count)
    assert fitted.text == "query: a b c [SEP] x y z"
    assert fitted.cut == {"question"}


def test_question_may_vanish_with_its_separator_before_the_query_is_touched():
    # prefix 1 + query 7 + 2 = 10: nothing of the question fits
    fitted = fit_query(QueryText("a b c d e f g", "q w"), settings(10), count)
    assert fitted.text == "query: a b c d e f g"
    assert fitted.cut == {"question"}


def test_query_that_does_not_fit_alone_is_cut_at_its_own_end():
    fitted = fit_query(QueryText("a b c d e f g h i", "q w"), settings(10), count)
    assert fitted.text == "query: a b c d e f g"
    assert fitted.cut == {"question", "query"}


def test_first_word_too_long_is_cut_inside_and_the_prefix_stays():
    fitted = fit_query(QueryText("abcdefghij"), settings(6), lambda text: len(text.removeprefix("query: ")) + 3)
    assert fitted.text == "query: abc"
    assert fitted.cut == {"query"}


def test_text_without_spaces_is_shortened_character_by_character():
    # "query: " 7 + question 6 + " [SEP] " 7 + query 1 = 21 characters; 18 leave three of the question
    fitted = fit_query(QueryText("a", "西游记是小说"), settings(18), len)
    assert fitted.text == "query: 西游记 [SEP] a"
    assert fitted.cut == {"question"}


def test_what_fits_exactly_is_not_cut():
    assert fit_query(QueryText("x y z", "a b c"), settings(10), count).cut == frozenset()


@pytest.mark.parametrize("text", ["a [SEP] b", "[SEP]a[CLS] b", "a[SEP][SEP]b [MASK]"])
def test_control_tokens_of_the_tokenizer_become_spaces_in_user_text(text):
    stripped = strip_control_tokens(text, ("[SEP]", "[CLS]", "[MASK]"))
    assert stripped.split() == ["a", "b"]


words = st.lists(st.text("abcxyz西游", min_size=1, max_size=5), max_size=12).map(" ".join)


@given(
    query=words,
    question=words,
    history=st.lists(words, max_size=3).map(tuple),
    limit=st.integers(4, 30),
    query_format=st.sampled_from(["question_query", "query", "history"]),
)
def test_query_stays_whole_whenever_it_fits_alone_and_the_limit_always_holds(
    query, question, history, limit, query_format
):
    chosen = settings(limit, query_format)
    fitted = fit_query(QueryText(query, question, history), chosen, count)
    assert fitted.text.startswith("query: ")
    assert count(fitted.text) <= limit
    if count(f"query: {query}") <= limit:
        assert fitted.text.endswith(query)
        assert fitted.cut != "query"


@given(query=words, question=words, limit=st.integers(4, 30))
def test_no_longer_start_of_the_question_would_have_fitted(query, question, limit):
    chosen = settings(limit)
    fitted = fit_query(QueryText(query, question), chosen, count)
    if fitted.cut == {"question"}:
        kept = fitted.text.removeprefix("query: ").removesuffix(query).removesuffix(" [SEP] ")
        assert question.startswith(kept)
        longer = f"{kept} {question[len(kept) :].split()[0]}"
        assert count(f"query: {longer} [SEP] {query}") > limit
