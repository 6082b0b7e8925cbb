import pytest

from agentic_r.artifacts.fingerprint import same_text_key
from agentic_r.corpus.passages import split_document
from agentic_r.corpus.text import count_words, is_empty_text
from agentic_r.types import Document, Passage


def texts(text, max_words):
    return [item.text for item in split_document(Document("d", "T", text), max_words=max_words)]


def test_passages_know_their_document_and_place():
    assert split_document(Document("d", "T", "  one two. three"), max_words=2) == [
        Passage("d#0", "d", "T", "one two.", 2),
        Passage("d#1", "d", "T", "three", 11),
    ]


def test_a_short_document_is_one_passage_without_its_outer_space():
    assert texts(" one\n\ntwo ", 5) == ["one\n\ntwo"]


def test_a_passage_ends_at_a_sentence_rather_than_between_words():
    assert texts("a b c d. e f g h i j k l m n o p", 6) == ["a b c d.", "e f g h i j", "k l m n o p"]


def test_a_passage_ends_at_a_paragraph_rather_than_at_a_sentence():
    assert texts("a b c d\n\ne. f g h i j k l m n", 6)[0] == "a b c d"


def test_a_line_of_a_list_is_a_better_end_than_a_word():
    assert texts("a b c d\ne f g h i j k l m n", 6)[0] == "a b c d"


def test_the_last_two_passages_share_what_is_left():
    # 7 words, limit 6: 4 and 3, not 6 and 1
    assert texts("a b c d e f g", 6) == ["a b c d", "e f g"]


def test_each_ideograph_and_kana_counts_as_a_word_and_keeps_its_marks():
    assert count_words("西游记。") == 3
    assert texts("我读书。你写字。", 4) == ["我读书。", "你写字。"]
    assert texts("《西游记》", 2) == ["《西游", "记》"]


def test_a_voicing_mark_stays_with_its_kana():
    assert count_words("か\u3099") == 1


def test_a_word_is_never_cut_however_long():
    assert texts("x" * 5000 + " y", 1) == ["x" * 5000, "y"]


def test_a_limit_below_one_is_an_error():
    with pytest.raises(ValueError, match="at least 1"):
        texts("a", 0)


@pytest.mark.parametrize("text", ["", "  ", "\u200b", "\ufeff\n", "\u00ad\u2060\u0000"])
def test_texts_without_a_visible_character_are_empty(text):
    assert is_empty_text(text)


@pytest.mark.parametrize("text", ["ok", ".", "\u200ba", "☃"])
def test_texts_with_a_visible_character_are_not_empty(text):
    assert not is_empty_text(text)


def test_case_and_space_do_not_make_another_text():
    assert same_text_key("Text  A.") == same_text_key("text\na. ")
    assert same_text_key("Text A") != same_text_key("Text A.")
