from pathlib import Path

import pytest
from labels_fakes import ScriptedChat, answer, attempt, by_id, candidates, passage, search

from agentic_r.labels.chat_judge import ChatJudge
from agentic_r.labels.prompting import load_judge_prompts
from agentic_r.types import RelevanceRequest, Reply, SubAnswer, SubAnswerRequest

GOLDEN = Path(__file__).parent / "golden"
PARIS = passage("p1", "Paris is the capital of France.", "Paris")
LYON = passage("p2", "Lyon costs $answer and ${query}.", "Lyon")
QUERY = candidates("capital of France", "p1", "p2")
REQUEST = RelevanceRequest(QUERY, SubAnswer(QUERY.query_id, "Paris", "x"), (PARIS, LYON))
TRAJECTORY = attempt(
    search("capital of France", "p1", "p2"), search("mayor of Paris", state="empty"), answer("Hidalgo")
)
SUB_REQUEST = SubAnswerRequest(
    TRAJECTORY,
    "Who is the mayor of the capital of France?",
    ("Hidalgo", "Anne Hidalgo"),
    (QUERY, candidates("mayor of Paris", turn=1)),
    by_id(PARIS, LYON),
)


def judge(script, max_retries=2):
    chat = ScriptedChat(script)
    return ChatJudge(chat, load_judge_prompts(), max_retries), chat


@pytest.mark.parametrize(
    ("name", "prompt"),
    [
        ("relevance", load_judge_prompts().ask_relevance(REQUEST)),
        ("sub_answers", load_judge_prompts().ask_sub_answers(SUB_REQUEST)),
        ("again", load_judge_prompts().ask_again("The prompt.", reason="1 numbers for 2 passages", attempt=2)),
    ],
)
def test_the_prompts_read_as_in_the_golden_files(name, prompt):
    assert prompt + "\n" == (GOLDEN / f"{name}.txt").read_text()


def test_relevance_is_the_judges_number_divided_by_100():
    ours, chat = judge(lambda _: '{"scores": [97, 8]}')
    values = ours.relevance([REQUEST, REQUEST])
    assert [[item.value for item in row] for row in values] == [[0.97, 0.08]] * 2
    assert [item.passage_id for item in values[0]] == ["p1", "p2"]
    assert len(chat.asked) == 2


def test_a_broken_reply_is_asked_again_with_the_reason():
    replies = iter(["97", '{"scores": [97, 8]}'])
    ours, chat = judge(lambda _: next(replies))
    assert [item.value for item in ours.relevance([REQUEST])[0]] == [0.97, 0.08]
    assert chat.asked[1].startswith(chat.asked[0])
    assert "not usable: 1 numbers for 2 passages. This is attempt 2." in chat.asked[1]


def test_after_the_last_retry_the_label_is_unparsed_with_the_raw_reply_named():
    ours, chat = judge(lambda _: '{"scores": [97,', max_retries=2)
    labels = ours.relevance([REQUEST])[0]
    assert len(chat.asked) == 3
    assert len(set(chat.asked)) == 3  # so that no cache repeats the broken reply
    assert [(item.state, item.value) for item in labels] == [("unparsed", None)] * 2
    assert "'{\"scores\": [97,'" in labels[0].cause


def test_out_of_range_values_are_recorded_as_such():
    labels = judge(lambda _: "150 3")[0].relevance([REQUEST])[0]
    assert [(item.state, item.value) for item in labels] == [("out_of_range", None)] * 2


def test_a_reply_cut_at_the_token_limit_is_not_read_though_it_looks_whole():
    labels = judge(lambda _: Reply("97 8", "length"), max_retries=0)[0].relevance([REQUEST])[0]
    assert [item.state for item in labels] == ["unparsed", "unparsed"]


def test_a_failed_call_is_not_asked_again_here_and_never_a_value():
    ours, chat = judge(lambda _: Reply(None, "none", "no reply after 4 attempts: HTTP 500"))
    labels = ours.relevance([REQUEST])[0]
    assert len(chat.asked) == 1
    assert [(item.state, item.value, item.cause) for item in labels] == [
        ("failed", None, "no reply after 4 attempts: HTTP 500")
    ] * 2


def test_one_broken_query_does_not_touch_the_others():
    bad = RelevanceRequest(QUERY, SubAnswer(QUERY.query_id, None, "x"), (PARIS, LYON))
    ours, _ = judge(lambda prompt: "97 8" if "Reference answer" in prompt else "?", max_retries=1)
    assert [row[0].state for row in ours.relevance([bad, REQUEST, bad])] == ["unparsed", "ok", "unparsed"]


def test_sub_answers_come_one_a_query_in_order():
    ours, _ = judge(lambda _: "<sub-answer>Paris</sub-answer>\n<sub-answer>not sure</sub-answer>")
    labels = ours.sub_answers([SUB_REQUEST])[0]
    assert [(item.query_id, item.text, item.state) for item in labels] == [
        ("q1/0/0", "Paris", "ok"),
        ("q1/0/1", None, "ok"),
    ]


def test_a_wrong_number_of_sub_answers_is_unparsed_for_all_queries():
    ours, _ = judge(lambda _: "<sub-answer>Paris</sub-answer>", max_retries=0)
    labels = ours.sub_answers([SUB_REQUEST])[0]
    assert [(item.text, item.state) for item in labels] == [(None, "unparsed")] * 2
    assert labels[0].cause.startswith("1 sub-answers for 2 queries")


def test_a_failed_call_leaves_failed_sub_answers():
    labels = judge(lambda _: Reply(None, "none", "timeout"))[0].sub_answers([SUB_REQUEST])[0]
    assert [(item.text, item.state, item.cause) for item in labels] == [(None, "failed", "timeout")] * 2
