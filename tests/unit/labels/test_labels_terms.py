from agentic_r.labels.terms import contains, content_terms, split_tokens, words


def test_content_terms_leave_stopwords_out_and_come_once():
    assert content_terms("Who is the teacher of the teacher of Brado?") == ("teacher", "brado")


def test_a_text_of_stopwords_alone_keeps_them():
    assert content_terms("The Who") == ("the", "who")


def test_containment_is_by_whole_words():
    assert contains(words("the Bank of Yol opened"), words("bank of yol"))
    assert not contains(words("Yolanda opened"), words("Yol"))
    assert not contains(words("anything"), [])


def test_unspaced_scripts_count_each_character():
    assert words("西游记 book") == ["西", "游", "记", "book"]


def test_the_first_word_is_a_name_only_beside_one_or_alone():
    assert [token.is_name for token in split_tokens("Director of Destiny")] == [False, False, True]
    assert [token.is_name for token in split_tokens("Edwin Carewe nationality")] == [True, True, False]
    assert [token.is_name for token in split_tokens("Tarvok founder")] == [True, False]
