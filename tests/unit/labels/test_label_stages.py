import pytest
from labels_fakes import ScriptedChat, answer, attempt, by_id, candidates, passage, question, search

from agentic_r.config import EndpointJudge, RuleJudge
from agentic_r.errors import ConfigError
from agentic_r.labels.chat_judge import ChatJudge
from agentic_r.labels.judge import build_judge, count_states, run_relevance, run_sub_answers, sub_answer_requests
from agentic_r.labels.price import estimate_price
from agentic_r.labels.prompting import load_judge_prompts
from agentic_r.labels.rule_judge import RuleBasedJudge

PASSAGES = by_id(passage("p1", "Brado's teacher is Tarin."), passage("p2", "Nothing here."))
QUERIES = [candidates("teacher of Brado", "p1", "p2"), candidates("teacher of Brado", "p2", question_id="q2")]
TRAJECTORIES = [
    attempt(search("teacher of Brado", "p1"), answer("Tarin")),
    attempt(search("other", state="failed"), question_id="q3"),
    attempt(search("teacher of Brado", "p2"), question_id="q2"),
]
QUESTIONS = {key: question("Who is the teacher of Brado?", "Tarin", key=key) for key in ("q1", "q2", "q3")}


def requests():
    return sub_answer_requests(QUERIES, TRAJECTORIES, QUESTIONS, PASSAGES)


def run_both(judge, folder):
    answers = run_sub_answers(requests(), judge=judge, output=folder / "s.jsonl", progress=lambda *_: None)
    relevance = run_relevance(
        QUERIES, answers, passages=PASSAGES, judge=judge, output=folder / "r.jsonl", progress=lambda *_: None
    )
    return answers, relevance


def test_each_trajectory_with_queries_is_one_request():
    assert [(item.trajectory.question_id, len(item.queries)) for item in requests()] == [("q1", 1), ("q2", 1)]


def test_the_stages_write_one_record_a_query_and_one_a_candidate(tmp_path):
    answers, relevance = run_both(RuleBasedJudge(), tmp_path)
    assert [(item.query_id, item.text) for item in answers] == [("q1/0/0", "Tarin"), ("q2/0/0", None)]
    assert [(item.query_id, item.passage_id) for item in relevance] == [
        ("q1/0/0", "p1"),
        ("q1/0/0", "p2"),
        ("q2/0/0", "p2"),
    ]
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 3
    assert count_states(relevance) == {"ok": 3}


def test_a_query_whose_sub_answer_failed_is_judged_without_one(tmp_path):
    chat = ScriptedChat(lambda prompt: "?" if "sub-answer" in prompt else '{"scores": [80, 10]}')
    judge = ChatJudge(chat, load_judge_prompts(), max_retries=0)
    answers, relevance = run_both(judge, tmp_path)
    assert count_states(answers) == {"unparsed": 2}
    assert count_states(relevance) == {"ok": 2, "unparsed": 1}  # two numbers do not fit q2's one candidate
    assert not any("Reference answer" in prompt for prompt in chat.asked)


def test_a_query_without_a_sub_answer_record_is_a_bug(tmp_path):
    with pytest.raises(ValueError, match="2 queries have no sub-answer record, the first is q1/0/0"):
        run_relevance(
            QUERIES, [], passages=PASSAGES, judge=RuleBasedJudge(), output=tmp_path / "r", progress=lambda *_: None
        )


def test_the_judge_is_chosen_by_kind(tmp_path):
    assert build_judge(RuleJudge(kind="rule"), cache=tmp_path / "r") == RuleBasedJudge()
    config = EndpointJudge(kind="endpoint", base_url="http://127.0.0.1:1", model="m")
    fingerprint = load_judge_prompts().fingerprint
    name = f"m at http://127.0.0.1:1/v1 temperature=0 max_tokens=1000 prompts={fingerprint}"
    assert build_judge(config, cache=tmp_path / "r").name == name


def test_a_missing_key_names_its_variable(tmp_path, monkeypatch):
    monkeypatch.delenv("OUR_JUDGE_KEY", raising=False)
    config = EndpointJudge(kind="endpoint", base_url="http://127.0.0.1:1", model="m", api_key_env="OUR_JUDGE_KEY")
    with pytest.raises(ConfigError, match="environment variable OUR_JUDGE_KEY is not set"):
        build_judge(config, cache=tmp_path / "r")


def test_the_price_counts_prompts_and_characters_by_four():
    prompts = load_judge_prompts()
    texts = [prompts.ask_sub_answers(request) for request in requests()]
    price = estimate_price(requests(), QUERIES, passages=PASSAGES, prompts=prompts, max_tokens=100)
    assert (price.num_sub_answer_prompts, price.num_relevance_prompts, price.max_reply_tokens) == (2, 2, 400)
    assert price.prompt_tokens > sum(len(text) for text in texts) / 4
    assert "characters / 4" in price.line()
