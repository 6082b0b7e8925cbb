import pytest

from agentic_r.labels.parse import parse_scores, parse_sub_answers

FENCED = '```json\n{"score": 7}\n```'
FENCES_INSIDE = '{"reason": "it says ```x``` there", "score": 7}'


@pytest.mark.parametrize(
    "reply",
    [
        '{"score": 7}',
        FENCED,
        'thought: {maybe 3}\n{"score": 7}',
        '{"reason":"the set {1} fits", "score": 7}',
        '{"score": "7"}',
        FENCES_INSIDE,
    ],
)
def test_h8_a_whole_reply_is_read_whatever_stands_around_it(reply):
    parsed = parse_scores(reply, count=1, high=10)
    assert (parsed.state, parsed.values) == ("ok", (7.0,))


@pytest.mark.parametrize("reply", ['{"score":', "", "6 4"])
def test_h8_a_broken_reply_is_unparsed_and_kept(reply):
    parsed = parse_scores(reply, count=3 if reply == "6 4" else 1, high=10)
    assert (parsed.state, parsed.values, parsed.raw) == ("unparsed", None, reply)
    assert parsed.cause


def test_h8_out_of_range_is_no_label_and_not_clamped():
    parsed = parse_scores('{"score": 70}', count=1, high=10)
    assert (parsed.state, parsed.values) == ("out_of_range", None)
    assert parsed.cause == "70 is not within 0-10"


@pytest.mark.parametrize(
    ("reply", "values"),
    [
        ("68 42 97", (68, 42, 97)),
        ("68, 42, 97", (68, 42, 97)),
        ("85.5 42 97", (85.5, 42, 97)),
        ("68  42 97", (68, 42, 97)),
        ("68\n42\n97\n", (68, 42, 97)),
        ("```\n68 42 97\n```", (68, 42, 97)),
        ("[68, 42, 97]", (68, 42, 97)),
        ('{"scores": [68, "42", 97]}', (68, 42, 97)),
        ('Here: {"scores": [68, 42, 97]} as asked', (68, 42, 97)),
        ('<think>first {"scores": [1, 2, 3]}</think>\n{"scores": [68, 42, 97]}', (68, 42, 97)),
        ('{"scores": [68, 42, 97]}\n{"scores": [68, 42, 97]}', (68, 42, 97)),
        ('{"scores": [1, 0, 1]}', (1, 0, 1)),
    ],
)
def test_three_values_are_read_in_order(reply, values):
    assert parse_scores(reply, count=3).values == values


@pytest.mark.parametrize(
    "reply",
    [
        "68 42 97 12",
        "68 42",
        "68,42,97",
        "68 42 97 are my scores",
        "68/100 42/100 97/100",
        '{"scores": [68, 42]}',
        '{"scores": [68, 42, null]}',
        '{"scores": [68, 42, true]}',
        '{"scores": [68, 42, NaN]}',
        '{"scores": [68, 42, "97%"]}',
        '{"scores": {"1": 68, "2": 42, "3": 97}}',
        '{"scores": [68, 42, 97]} or rather {"scores": [60, 40, 90]}',
        '{"scores": [1, 2, 3], "scores": [68, 42, 97]}',
        '{"scores": [68, 42, 97], "score": 3}',
        '{"draft": {"scores": [1, 2, 3]}, "note": "then',
        '{"draft": {"scores": [1, 2, 3]}, "scores": [68, 42',
        '{"reason": "a "quoted} word", "draft": {"scores": [1, 2, 3]}, "scores": [68, 42, 97]}',
        '<think>{"scores": [68, 42, 97]}',
        "{" * 5000,
        '{"scores": ' + "[" * 100_000,
    ],
)
def test_an_incomplete_or_ambiguous_reply_gives_no_values(reply):
    parsed = parse_scores(reply, count=3)
    assert (parsed.state, parsed.values) == ("unparsed", None)


def test_published_clamping_is_not_taken_over():
    assert parse_scores("150 -3 97", count=3).state == "out_of_range"


def test_values_on_a_scale_of_one_are_not_taken_for_hundredths():
    parsed = parse_scores('{"scores": [0.9, 0, 1]}', count=3)
    assert (parsed.state, parsed.cause) == ("unparsed", "values look like a scale of 0-1, not 0-100")


def test_sub_answers_are_read_in_order_and_not_sure_is_none():
    parsed = parse_sub_answers("<sub-answer> Beijing </sub-answer> <sub-answer> Not Sure </sub-answer>", count=2)
    assert parsed.texts == ("Beijing", None)


def test_sub_answers_for_another_number_of_queries_are_unparsed():
    parsed = parse_sub_answers("<sub-answer> Beijing </sub-answer> <sub-answer> Not Sure </sub-answer>", count=3)
    assert (parsed.state, parsed.texts, parsed.cause) == ("unparsed", None, "2 sub-answers for 3 queries")


def test_not_sure_with_a_full_stop_is_not_an_answer():
    assert parse_sub_answers("<sub-answer>not  sure.</sub-answer>", count=1).texts == (None,)


def test_a_sub_answer_over_two_lines_is_one_line():
    assert parse_sub_answers("<Sub-Answer>New\nYork</sub-answer>", count=1).texts == ("New York",)


@pytest.mark.parametrize(
    "reply",
    [
        "Beijing",
        "<sub-answer>Beijing",
        "Beijing</sub-answer>",
        "<sub-answer>a<sub-answer>b</sub-answer>",
        "<sub-answer> </sub-answer>",
    ],
)
def test_sub_answer_tags_that_do_not_pair_are_unparsed(reply):
    assert parse_sub_answers(reply, count=1).state == "unparsed"
