import json
import threading

import httpx
import pytest

from agentic_r.config import EndpointJudge
from agentic_r.errors import ConfigError
from agentic_r.llm.endpoint import EndpointChat, Usage
from agentic_r.types import Reply

ADDRESS = "http://judge.test:8000"


def completion(text, *, finish="stop", usage=True):
    body = {
        "id": "x",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
    }
    if usage:
        body["usage"] = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return httpx.Response(200, json=body)


def prompt_of(request):
    return json.loads(request.content)["messages"][0]["content"]


class Sleeps(list):
    def __call__(self, seconds):
        self.append(seconds)


def chat(handler, *, environment=None, sleep=None, **settings):
    config = EndpointJudge(kind="endpoint", model="m", **{"base_url": ADDRESS, "concurrency": 1, **settings})
    return EndpointChat(
        config,
        environment=environment or {},
        transport=httpx.MockTransport(handler),
        sleep=Sleeps() if sleep is None else sleep,
    )


def test_each_prompt_is_one_request_and_replies_keep_their_order():
    requests = []

    def handler(request):
        requests.append(request)
        return completion(prompt_of(request).upper())

    ours = chat(handler, concurrency=4, temperature=0.5, max_tokens=20)
    replies = ours.complete(["a", "b", "c"])
    assert [reply.text for reply in replies] == ["A", "B", "C"]
    assert replies[0] == Reply("A", "stop", "", 7, 3)
    assert str(requests[0].url) == "http://judge.test:8000/v1/chat/completions"
    body = json.loads(requests[0].content)
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("m", 0.5, 20)
    assert ours.usage == Usage(num_requests=3, num_replies=3, prompt_tokens=21, completion_tokens=9)


def test_an_address_that_ends_in_v1_is_taken_as_it_is():
    urls = []
    ours = chat(lambda request: urls.append(str(request.url)) or completion("x"), base_url="https://judge.test/api/v1/")
    ours.complete(["a"])
    assert urls == ["https://judge.test/api/v1/chat/completions"]


def test_the_name_tells_model_address_and_sampling():
    assert chat(completion).name == "m at http://judge.test:8000/v1 temperature=0 max_tokens=1000"


@pytest.mark.parametrize("code", [429, 500, 503, 529])
def test_a_busy_endpoint_is_asked_again_after_growing_waits(code):
    answers = iter([httpx.Response(code), httpx.Response(code), completion("x")])
    sleeps = Sleeps()
    ours = chat(lambda _: next(answers), sleep=sleeps)
    assert ours.complete(["a"])[0].text == "x"
    assert sleeps == [1.0, 2.0]
    assert ours.usage.num_requests == 3


def test_the_wait_that_the_endpoint_asks_for_is_kept_up_to_a_minute():
    answers = iter([httpx.Response(429, headers={"retry-after": wait}) for wait in ("5", "900", "Fri, 1 Jan")])
    sleeps = Sleeps()
    chat(lambda _: next(answers, completion("x")), sleep=sleeps).complete(["a"])
    assert sleeps == [5.0, 60.0, 4.0]


def test_a_prompt_without_a_reply_after_all_attempts_fails_alone():
    def handler(request):
        if prompt_of(request) == "b":
            raise httpx.ReadTimeout("too slow")
        return completion("x")

    ours = chat(handler, max_retries=2)
    replies = ours.complete(["a", "b", "c"])
    assert [reply.text for reply in replies] == ["x", None, "x"]
    assert replies[1].cause == "no reply after 3 attempts: ReadTimeout: too slow"
    assert (ours.usage.num_requests, ours.usage.num_failed) == (5, 1)


def test_a_request_that_the_endpoint_rejects_is_not_sent_again():
    ours = chat(lambda _: httpx.Response(400, text="context  too long"))
    (reply,) = ours.complete(["a"])
    assert (reply.text, reply.cause) == (None, "HTTP 400: context too long")
    assert ours.usage.num_requests == 1


@pytest.mark.parametrize(
    ("response", "cause"),
    [
        (httpx.Response(200, text="<html>"), "not a chat completion: <html>"),
        (httpx.Response(200, json={"choices": []}), "a completion without text"),
        (httpx.Response(200, json={"choices": [{"message": {"content": None}}]}), "a completion without text"),
    ],
)
def test_an_answer_that_is_no_completion_is_never_an_empty_reply(response, cause):
    (reply,) = chat(lambda _: httpx.Response(200, content=response.content), max_retries=1).complete(["a"])
    assert (reply.text, reply.finish) == (None, "none")
    assert reply.cause == f"no reply after 2 attempts: {cause}"


def test_an_empty_text_and_a_cut_text_are_replies():
    answers = iter([completion(""), completion("6", finish="length", usage=False)])
    ours = chat(lambda _: next(answers))
    assert ours.complete(["a", "b"]) == [Reply("", "stop", "", 7, 3), Reply("6", "length")]
    assert ours.usage.num_uncounted == 1


@pytest.mark.parametrize(("code", "hint"), [(401, "api_key_env"), (403, "api_key_env"), (404, "base_url and model")])
def test_what_only_the_user_can_mend_stops_at_once(code, hint):
    with pytest.raises(ConfigError, match=f"HTTP {code}.*{hint}"):
        chat(lambda _: httpx.Response(code)).complete(["a", "b"])


def test_an_endpoint_that_nobody_runs_stops_with_one_line():
    def handler(request):
        raise httpx.ConnectError("refused")

    with pytest.raises(
        ConfigError, match=r"^http://judge.test:8000/v1: no reply after 2 attempts: not reachable"
    ) as info:
        chat(handler, max_retries=1).complete(["a", "b"])
    assert "\n" not in str(info.value)


def test_an_endpoint_that_is_lost_on_the_way_fails_the_prompts_that_it_missed():
    def handler(request):
        if prompt_of(request) == "b":
            raise httpx.ConnectError("refused")
        return completion("x")

    assert [reply.text for reply in chat(handler, max_retries=0).complete(["a", "b"])] == ["x", None]


def test_the_key_comes_from_the_named_variable():
    seen = []
    ours = chat(
        lambda request: seen.append(request.headers.get("authorization")) or completion("x"),
        api_key_env="OUR_KEY",
        environment={"OUR_KEY": "secret"},
    )
    ours.complete(["a"])
    assert seen == ["Bearer secret"]
    assert "secret" not in ours.name


@pytest.mark.parametrize("environment", [{}, {"OUR_KEY": " "}])
def test_a_missing_key_is_told_by_the_name_of_its_variable(environment):
    with pytest.raises(ConfigError, match="environment variable OUR_KEY is not set"):
        chat(completion, api_key_env="OUR_KEY", environment=environment)


def test_an_address_without_a_scheme_is_refused():
    with pytest.raises(ConfigError, match="base_url 'localhost:8000'"):
        chat(completion, base_url="localhost:8000")


def test_replies_are_handed_over_as_they_arrive():
    arrived = []
    chat(lambda request: completion(prompt_of(request))).complete(
        ["a", "b"], arrived=lambda number, reply: arrived.append((number, reply.text))
    )
    assert sorted(arrived) == [(0, "a"), (1, "b")]


def test_as_many_requests_as_allowed_are_in_flight_and_no_more():
    meeting = threading.Barrier(3, timeout=20)
    lock, flying, most = threading.Lock(), [0], [0]

    def handler(request):
        with lock:
            flying[0] += 1
            most[0] = max(most[0], flying[0])
        meeting.wait()  # passes only when three requests are in flight together
        with lock:
            flying[0] -= 1
        return completion("x")

    replies = chat(handler, concurrency=3).complete([str(number) for number in range(9)])
    assert len(replies) == 9
    assert most == [3]


def test_no_prompts_are_no_requests():
    assert chat(lambda _: httpx.Response(500)).complete([]) == []


def models(*names):
    return httpx.Response(200, json={"object": "list", "data": [{"id": name} for name in names]})


@pytest.mark.parametrize(
    ("response", "line"),
    [
        (models("m", "n"), "http://judge.test:8000/v1: reachable; serves m"),
        (models("n"), "http://judge.test:8000/v1: reachable; does not list m"),
        (httpx.Response(404), "http://judge.test:8000/v1: reachable; it does not list its models (HTTP 404)"),
    ],
)
def test_check_tells_in_one_line_what_is_there(response, line):
    assert chat(lambda _: response).check() == line


def test_check_of_an_endpoint_that_nobody_runs_is_a_configuration_error():
    def handler(request):
        raise httpx.ConnectError("refused")

    with pytest.raises(ConfigError, match="not reachable"):
        chat(handler).check()
    with pytest.raises(ConfigError, match="key was refused"):
        chat(lambda _: httpx.Response(401)).check()
