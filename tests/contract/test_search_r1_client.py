"""A client of the Search-R1 protocol against a running server.

Written only from the protocol's description: ``POST /retrieve`` with ``queries``, ``topk``, ``return_scores``; under
``result`` a list of hits for each query; ``document`` has ``id`` and ``contents``, whose first line is a quoted title.
"""

import json
import urllib.request

import pytest
from served_world import DOCUMENTS, make_run, server_process


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    run = make_run(tmp_path_factory.mktemp("runs") / "mine", working=tmp_path_factory.mktemp("working"))
    with server_process(run) as server:
        yield f"{server.address}/retrieve"


def post(url, payload):
    body = json.dumps(payload).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def batch_search(url, queries, topk):
    """What the agent's rollout calls once a turn."""
    return post(url, {"queries": queries, "topk": topk, "return_scores": True})["result"]


def passages_to_string(hits):
    """What the agent's rollout shows of one query's hits."""
    lines = []
    for number, hit in enumerate(hits, start=1):
        content = hit["document"]["contents"]
        title, text = content.split("\n")[0], "\n".join(content.split("\n")[1:])
        lines.append(f"Doc {number}(Title: {title}) {text}\n")
    return "".join(lines)


def test_each_query_of_a_turn_gets_the_passage_that_it_names(url):
    wanted = [item for item in DOCUMENTS if item.title]
    for found, document in zip(batch_search(url, [item.title for item in wanted], 3), wanted, strict=True):
        assert len(found) == 3
        assert found[0]["document"]["id"] == f"{document.id}#0"
        scores = [hit["score"] for hit in found]
        assert scores == sorted(scores, reverse=True)
        assert all(isinstance(score, float) for score in scores)


def test_what_the_agent_is_shown_begins_with_the_title(url):
    shown = passages_to_string(batch_search(url, ["Tanek"], 1)[0])
    assert shown == 'Doc 1(Title: "Tanek") the library of Tanek is 25 years old\n'


def test_a_question_before_the_separator_goes_with_its_query(url):
    alone, with_question = batch_search(url, ["mill", "Melol? [SEP] mill"], 50)
    assert {hit["document"]["id"] for hit in alone} == {hit["document"]["id"] for hit in with_question}
    assert alone != with_question
    assert "Melol" in with_question[0]["document"]["contents"]


def test_without_scores_a_hit_is_the_document_itself(url):
    scored = batch_search(url, ["Tanek", "Melol"], 2)  # the published server mixes two queries up here
    bare = post(url, {"queries": ["Tanek", "Melol"], "topk": 2, "return_scores": False})["result"]
    assert bare == [[hit["document"] for hit in hits] for hits in scored]


def test_no_depth_is_three_and_a_depth_beyond_the_index_is_all_of_it(url):
    assert [len(found) for found in post(url, {"queries": ["a", "b"], "topk": None})["result"]] == [3, 3]
    everything = batch_search(url, ["Melol"], 1000)[0]
    assert len({hit["document"]["id"] for hit in everything}) == len(everything) == len(DOCUMENTS)


def test_a_rollout_s_whole_batch_is_one_request(url):
    queries = [f"{item.title} {number}" for number in range(11) for item in DOCUMENTS][:512]
    assert [len(found) for found in batch_search(url, queries, 3)] == [3] * 512


def test_an_empty_query_is_searched(url):
    assert len(batch_search(url, [""], 3)[0]) == 3
