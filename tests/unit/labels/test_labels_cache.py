import json

import pytest
from labels_fakes import ScriptedChat, candidates, passage

from agentic_r.labels.cache import CachedChat
from agentic_r.labels.chat_judge import ChatJudge
from agentic_r.labels.prompting import JudgePrompts, load_judge_prompts
from agentic_r.types import RelevanceRequest, Reply, SubAnswer


class Killed(BaseException):
    """Stands for the end of the process."""


def judge_pair(path, *, model, value, prompts=None, text="a text"):
    """Judge one (query, passage) pair; return (calls, relevance)."""
    prompts = prompts or load_judge_prompts()
    chat = ScriptedChat(lambda _: json.dumps({"scores": [value]}), name=model)
    judge = ChatJudge(CachedChat(chat, path, templates=prompts.fingerprint), prompts, max_retries=0)
    query = candidates("capital of France", "d1")
    request = RelevanceRequest(query, SubAnswer(query.query_id, None, "x"), (passage("d1", text),))
    return len(chat.asked), judge.relevance([request])[0][0], len(chat.asked)


def test_h9_a_label_is_identified_by_judge_prompt_and_text(tmp_path):
    path = tmp_path / "replies.jsonl"
    ours = load_judge_prompts()
    other = JudgePrompts(ours.sub_answers, ours.relevance.replace("Judge how", "Say how"), ours.again)
    runs = [
        judge_pair(path, model="m1", value=1),
        judge_pair(path, model="m2", value=0),
        judge_pair(path, model="m1", value=55),
        judge_pair(path, model="m1", value=1, prompts=other),
        judge_pair(path, model="m1", value=1, text="a changed text"),
    ]
    assert [calls for _, _, calls in runs] == [1, 1, 0, 1, 1]
    assert [label.value for _, label, _ in runs] == [0.01, 0.0, 0.01, 0.01, 0.01]
    assert runs[0][1].judge == runs[2][1].judge != runs[1][1].judge
    assert runs[3][1].judge != runs[0][1].judge
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["judge"] for line in lines] == ["m1", "m2", "m1", "m1"]
    assert len({line["templates"] for line in lines}) == 2
    assert len({(line["judge"], line["prompt"]) for line in lines}) == 4


def test_a_reply_is_kept_the_moment_it_arrives(tmp_path):
    path = tmp_path / "replies.jsonl"

    def dies_at_third(prompt):
        if prompt == "c":
            raise Killed
        return prompt.upper()

    with pytest.raises(Killed):
        CachedChat(ScriptedChat(dies_at_third), path).complete(["a", "b", "c"])
    chat = ScriptedChat(str.upper)
    assert [reply.text for reply in CachedChat(chat, path).complete(["a", "b", "c"])] == ["A", "B", "C"]
    assert chat.asked == ["c"]


def test_a_half_written_line_is_cut_off_and_asked_again(tmp_path):
    path = tmp_path / "replies.jsonl"
    CachedChat(ScriptedChat(str.upper), path).complete(["a", "b"])
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    chat = ScriptedChat(str.upper)
    CachedChat(chat, path).complete(["a", "b"])
    assert chat.asked == ["b"]
    assert path.read_bytes() == whole


def test_equal_prompts_are_asked_once_and_failures_are_not_kept(tmp_path):
    path = tmp_path / "replies.jsonl"
    failing = ScriptedChat(lambda prompt: prompt if prompt == "a" else Reply(None, "none", "HTTP 500"))
    replies = CachedChat(failing, path).complete(["a", "b", "a", "b"])
    assert failing.asked == ["a", "b"]
    assert [reply.text for reply in replies] == ["a", None, "a", None]
    assert CachedChat(failing, path).num_missing(["a", "b", "b"]) == 1


def test_line_separators_and_token_numbers_survive(tmp_path):
    reply = Reply("one\u2028two\x85three\n", "length", "", 3, 4)
    CachedChat(ScriptedChat(lambda _: reply), tmp_path / "r").complete(["a"])
    assert CachedChat(ScriptedChat(str), tmp_path / "r").complete(["a"]) == [reply]
