import pytest

from agentic_r.metrics.answers import answer_tokens, contains_answer, exact_match, normalise_answer, token_f1

H17 = [
    ("A", "A", True, True),
    ("A", "B", False, False),
    ("A", "An", False, True),
    ("the", "", False, True),
    ("The Beatles", "beatles.", True, True),
    ("The Who", "who", True, True),
    ("西游记", "《西游记》。", True, False),
    ("caf\u00e9", "cafe\u0301", True, False),
    ("1990-1995", "1990–1995", True, False),
    ("グーグル", "ｸﾞｰｸﾞﾙ", True, False),
]


@pytest.mark.parametrize(("gold", "prediction", "default", "squad"), H17)
def test_h17_exact_match_of_every_listed_pair(gold, prediction, default, squad):
    assert exact_match(prediction, [gold]) is default
    assert exact_match(prediction, [gold], mode="squad") is squad


@pytest.mark.parametrize("measure", [exact_match, token_f1, contains_answer])
def test_h17_an_empty_gold_list_is_an_error_and_not_zero(measure):
    with pytest.raises(ValueError, match="no answer to compare with"):
        measure("A", [])


def test_a_bare_string_as_answers_is_an_error_and_not_a_list_of_letters():
    with pytest.raises(ValueError, match="one string"):
        exact_match("P", "Paris")


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("The Beatles", "beatles"),
        ("U.S.A.", "usa"),
        ("U. S. A.", "u s"),
        ("A-Team", "ateam"),
        ("1,234", "1234"),
        ("10%", "10"),
        ("Mr. O'Neil", "mr oneil"),
        ("the", ""),
        ("“Quoted”", "“quoted”"),
        ("Beyoncé", "beyoncé"),
    ],
)
def test_squad_normalisation_as_published(text, normalised):
    assert normalise_answer(text, mode="squad") == normalised


def test_squad_exact_match_as_published():
    assert exact_match("the Eiffel Tower.", ["Eiffel tower", "La Tour"], mode="squad")
    assert not exact_match("Eiffel", ["Eiffel Tower"], mode="squad")
    assert contains_answer("It is the Eiffel Tower", ["eiffel tower"], mode="squad")
    assert exact_match("", ["the"], mode="squad")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1.5", "15"),
        ("1990-1995", "19901995"),
        ("1/2", "12"),
        ("-5", "5"),
        ("C++", "C"),
        ("C#", "C"),
        ("10²", "102"),
        ("Vitamin A", "Vitamin"),
        ("!!!", "???"),
        ("Beyoncé", "Beyonce"),
    ],
)
def test_marks_that_carry_meaning_keep_answers_apart(one, other):
    assert not exact_match(one, [other])
    assert not exact_match(other, [one])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1,234,567", "1234567"),
        ("U.S.A.", "USA"),
        ("Mr. O'Neil", "mr O’Neil"),
        ("Spider-Man", "Spider Man"),
        ("−5", "-5"),
        ("The Lord of the Rings", "Lord of Rings"),
        ("Straße", "STRASSE"),
        ("列夫·托尔斯泰", "列夫托尔斯泰"),
        ("西 游 记", "西游记"),
        ("10～20", "10-20"),
        ("Paris\u200b", "Paris"),
        ("!!!", " !!! "),
        ("**Paris**", "paris"),
    ],
)
def test_writings_of_one_answer_agree(one, other):
    assert exact_match(one, [other])
    assert exact_match(other, [one])


@pytest.mark.parametrize("empty", ["", "   ", "\u200b"])
def test_an_empty_prediction_is_never_right_in_default_mode(empty):
    assert not exact_match(empty, ["", "the", "A"])
    assert token_f1(empty, ["", "the", "A"]) == 0.0


def test_token_f1_is_the_harmonic_mean_of_the_best_answer():
    # predicted {eiffel, tower, paris}, gold {eiffel, tower}: precision 2/3, recall 1, F1 = 4/3 / (5/3) = 0.8
    assert token_f1("Eiffel Tower, Paris", ["London", "the Eiffel Tower"]) == pytest.approx(0.8)


def test_token_f1_counts_repeated_tokens_once_for_each_occurrence():
    # shared: one "new"; precision 1/2, recall 1/1
    assert token_f1("new new", ["new"]) == pytest.approx(2 / 3)


def test_token_f1_of_cjk_is_by_character():
    # predicted 西 游, gold 西 游 记: precision 1, recall 2/3, F1 = 0.8; in squad mode each is one token
    assert token_f1("西游", ["西游记"]) == pytest.approx(0.8)
    assert token_f1("西游", ["西游记"], mode="squad") == 0.0


def test_token_f1_of_two_empty_texts_is_one_in_squad_mode_only():
    assert token_f1("", ["the"], mode="squad") == 1.0
    assert token_f1("the", ["a"]) == 0.0


def test_a_range_of_years_is_two_tokens():
    assert answer_tokens("1990–1995") == ["1990", "1995"]


@pytest.mark.parametrize(
    ("text", "answer", "contained"),
    [
        ("It rained in the city of Paris, France.", "Paris", True),
        ("Parisian nights", "Paris", False),
        ("Vitamin A is good", "Vitamin A", True),
        ("They played The Who records", "The Who", True),
        ("a reign (1990–1995)", "1995", True),
        ("it cost 1.5 pounds", "5", False),
        ("我读《西游记》。", "西游记", True),
        ("anything", "", False),
        ("Wales", "the", False),
    ],
)
def test_an_answer_is_contained_as_whole_tokens(text, answer, contained):
    assert contains_answer(text, [answer]) is contained
