"""The HTTP routes: shapes, vectors, limits, mistakes."""

import asyncio
import base64
import json

import httpx
import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from served_world import PASSAGES, FakeMeasuringEncoder, make_run
from starlette.testclient import TestClient

from agentic_r.config import ServeConfig
from agentic_r.export.server.app import build_app
from agentic_r.export.server.folders import find_folders
from agentic_r.export.server.served import Served, load_served

ALL = {"model": "mine", "input_type": "query"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "mine", working=tmp_path_factory.mktemp("working"))


@pytest.fixture(scope="module")
def served(run):
    return load_served(find_folders(run))


@pytest.fixture(scope="module")
def exported(run):
    """The export as anybody loads it."""
    return SentenceTransformer(str(run / "export" / "encoder"), device="cpu", local_files_only=True)


@pytest.fixture(scope="module")
def client(served):
    with TestClient(build_app(served, ServeConfig())) as client:
        yield client


@pytest.fixture
def limited(served):
    """Start a server with limits of the test's own."""

    def start(token=None, **limits):
        return TestClient(build_app(served, ServeConfig(**limits), token=token))

    return start


def refusal(answer):
    """Status and message of an error in OpenAI's shape."""
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return answer.status_code, error["message"]


def vectors(answer):
    assert answer.status_code == 200, answer.text
    data = answer.json()["data"]
    assert [item["index"] for item in data] == list(range(len(data)))
    return np.array([item["embedding"] for item in data], dtype=np.float32)


def embed(client, texts, **more):
    return vectors(client.post("/v1/embeddings", json={"input": texts, "model": "mine"} | more))


TEXTS = ["the mill of Korol", "川は湖 🌊", "", "how old is the mill? [SEP] mill of Korol", "mill " * 100]


def test_query_vectors_are_those_of_sentence_transformers_from_disk(client, served, exported):
    short = TEXTS[:-1]
    np.testing.assert_allclose(embed(client, short, input_type="query"), exported.encode_query(short), atol=1e-5)
    assert exported.max_seq_length == served.encoder.settings.max_passage_tokens  # the folder's one limit


def test_a_long_query_is_cut_where_training_cut_it_and_not_at_the_folder_s_limit(client, served, run):
    loaded = SentenceTransformer(str(run / "export" / "encoder"), device="cpu", local_files_only=True)
    at_the_folder_s_limit = loaded.encode_query(TEXTS[-1:])
    loaded.max_seq_length = served.encoder.settings.max_query_tokens
    expected = loaded.encode_query(TEXTS[-1:])
    np.testing.assert_allclose(embed(client, TEXTS[-1:], input_type="query"), expected, atol=1e-5)
    assert np.abs(expected - at_the_folder_s_limit).max() > 1e-3


def test_passage_vectors_are_those_of_sentence_transformers_from_disk(client, exported):
    texts = [text for text in TEXTS if "[SEP]" not in text]
    expected = exported.encode_document(texts)
    for kind in ("passage", "document"):
        np.testing.assert_allclose(embed(client, texts, input_type=kind), expected, atol=1e-5)
    assert np.abs(expected - exported.encode_query(texts)).max() > 0.01  # the two kinds do differ


def test_a_plain_text_is_encoded_as_it_stands(client, exported):
    texts = ["query: who is old? [SEP] mill", "passage: mill", "mill", "mill " * 100]
    expected = exported.encode(texts)
    np.testing.assert_allclose(embed(client, texts, input_type="plain"), expected, atol=1e-5)
    np.testing.assert_allclose(embed(client, texts, model="mine:plain"), expected, atol=1e-5)


def test_the_model_may_be_left_out_since_there_is_one(client, exported):
    answer = client.post("/v1/embeddings", json={"input": "mill", "input_type": "query"})
    np.testing.assert_allclose(vectors(answer)[0], exported.encode_query("mill"), atol=1e-5)
    assert answer.json()["model"] == "mine"


def test_the_model_s_name_can_say_the_kind(client, exported):
    answer = client.post("/v1/embeddings", json={"input": "mill", "model": "mine:passage"})
    np.testing.assert_allclose(vectors(answer)[0], exported.encode_document("mill"), atol=1e-5)
    assert answer.json()["model"] == "mine:passage"


def test_openai_s_shape_with_tokens_counted(client, exported):
    answer = client.post("/v1/embeddings", json={"input": ["mill", "old mill"], "user": "me", **ALL}).json()
    assert answer["object"] == "list"
    assert [item["object"] for item in answer["data"]] == ["embedding", "embedding"]
    tokens = sum(len(exported.tokenizer(f"query: {text}")["input_ids"]) for text in ("mill", "old mill"))
    assert answer["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}


def test_base64_holds_little_endian_float32(client):
    answer = client.post("/v1/embeddings", json={"input": "mill", "encoding_format": "base64", **ALL}).json()
    coded = np.frombuffer(base64.b64decode(answer["data"][0]["embedding"]), dtype="<f4")
    np.testing.assert_array_equal(coded, embed(client, "mill", input_type="query")[0])


def test_what_was_cut_is_said_in_a_header(client):
    answer = client.post("/v1/embeddings", json={"input": TEXTS, **ALL})
    assert answer.headers["x-texts-cut"] == "1"
    assert "x-texts-cut" not in client.post("/v1/embeddings", json={"input": "mill", **ALL}).headers
    assert client.post("/retrieve", json={"queries": ["mill " * 100]}).headers["x-texts-cut"] == "1"


def test_a_passage_finds_itself_by_search_with_its_own_fields(client):
    queries = [{"query": "the mill of Korol", "question": "how old is it?"}, {"query": "library"}]
    results = client.post("/search", json={"queries": queries, "k": 2}).json()["results"]
    assert [len(item["hits"]) for item in results] == [2, 2]
    first = results[0]["hits"][0]
    passage = next(item for item in PASSAGES if item.id == first["passage_id"])
    assert first == {
        "rank": 1,
        "score": first["score"],
        "passage_id": passage.id,
        "document_id": passage.document_id,
        "title": passage.title,
        "text": passage.text,
    }
    assert (results[0]["state"], results[0]["cut"]) == ("ok", False)


def test_hits_are_those_of_the_index_asked_directly_whatever_else_is_asked_at_once(client, served):
    texts = ["mill", "old bridge", "harbour of Tanek", ""]
    for k in (1, 3, 50, 60):  # there are 50 passages
        answer = client.post("/retrieve", json={"queries": texts, "topk": k, "return_scores": True}).json()["result"]
        direct = served.searched.dense.search(embed(client, texts, input_type="query"), k=k)
        for found, expected in zip(answer, direct, strict=True):
            assert [item["document"]["id"] for item in found] == [hit.passage_id for hit in expected.passages]
            assert len(found) == min(k, 50)


def test_state_names_what_is_served(client, served):
    state = client.get("/health").json()
    assert (state["status"], state["name"], state["index"]["passages"]) == ("ok", "mine", 50)
    assert state["encoder"]["fingerprint"] == served.fingerprint
    assert [item["id"] for item in client.get("/v1/models").json()["data"]] == [
        "mine",
        "mine:query",
        "mine:passage",
        "mine:plain",
    ]


@pytest.mark.parametrize(
    ("route", "body", "status", "says"),
    [
        (
            "/v1/embeddings",
            {"input": "a", "model": "mine"},
            400,
            "send input_type query or passage (plain for a text",
        ),
        ("/v1/embeddings", {"input": "a", "model": "gpt"}, 404, "model 'gpt' is not served here; the models are mine,"),
        (
            "/v1/embeddings",
            {"input": "a", "model": "mine:query", "input_type": "passage"},
            400,
            "contradicts the model's name",
        ),
        ("/v1/embeddings", {"input": "a", "dimensions": 8, **ALL}, 400, "this encoder has 64 dimensions"),
        ("/v1/embeddings", {"input": [[1, 2]], **ALL}, 400, "input.0: Input should be a valid string"),
        (
            "/v1/embeddings",
            {"input": "a", "input_type": "Query", "model": "mine"},
            400,
            "input_type: Input should be 'query', 'passage'",
        ),
        ("/v1/embeddings", {"input": "a", "truncate": True, **ALL}, 400, "truncate: Extra inputs are not permitted"),
        ("/v1/embeddings", {"model": "mine"}, 400, "input: Field required"),
        ("/retrieve", {"queries": ["a"], "topk": 0}, 400, "topk is 0; expected 1 to 1000"),
        ("/retrieve", {"queries": ["a"], "topk": 1001}, 400, "topk is 1001; expected 1 to 1000"),
        ("/retrieve", {"queries": ["a"], "topk": True}, 400, "topk: Input should be a valid integer"),
        ("/retrieve", {"queries": "a"}, 400, "queries: Input should be a valid list"),
        ("/retrieve", {"queries": ["a" * 8193]}, 400, "queries.0 has 8193 characters; send at most 8192"),
        ("/retrieve", {"queries": ["a"] * 1025}, 400, "1025 texts; send at most 1024 at once"),
        ("/search", {"queries": [{"question": "a"}]}, 400, "queries.0.query: Field required"),
        ("/search", {"queries": [{"query": "a"}], "k": -1}, 400, "k is -1; expected 1 to 1000"),
        (
            "/search",
            {"queries": [{"query": "a" * 5000, "question": "b" * 5000}]},
            400,
            "queries.0 has 10000 characters",
        ),
        ("/nowhere", {}, 404, "Not Found"),
        ("/health", {}, 405, "Method Not Allowed"),
    ],
)
def test_a_mistake_is_named_in_one_shape(client, route, body, status, says):
    found, message = refusal(client.post(route, json=body))
    assert found == status
    assert says in message


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"\xff\xfe",
        b'{"queries": ["\\ud800"]}',
        b'{"queries": ["a \\udc00 b"]}',
        b'{"\\ud800": 1}',
        b'{"queries": ["a"], "topk": 1e999}',
        b'{"queries": ["a"], "topk": NaN}',
        b'{"queries": ["a"], "topk": ' + b"9" * 5000 + b"}",
        b"[" * 100_000,
        b'{"queries":' * 50_000,
    ],
)
def test_what_is_no_body_is_a_bad_request_and_the_server_lives(client, body):
    answer = client.post("/retrieve", content=body, headers={"content-type": "application/json"})
    assert refusal(answer)[0] == 400
    assert client.post("/retrieve", json={"queries": ["mill"]}).status_code == 200


def test_an_answer_never_repeats_a_long_mistake(client):
    answer = client.post("/retrieve", json={"x" * 100_000: 1})
    assert answer.status_code == 400
    assert len(answer.content) < 1200


def test_zeros_and_control_tokens_in_a_text_are_text(client, exported):
    assert embed(client, ["a\0b", "[CLS] [PAD] mill"], input_type="query").shape == (2, 64)
    alone = exported.encode_query("mill")
    np.testing.assert_allclose(embed(client, "[CLS] [PAD] mill", input_type="query")[0], alone, atol=1e-5)


def test_no_texts_are_an_empty_answer(client):
    assert client.post("/retrieve", json={"queries": []}).json() == {"result": []}
    assert client.post("/v1/embeddings", json={"input": [], **ALL}).json()["data"] == []


def test_a_body_over_the_limit_is_413_whether_its_length_is_stated_or_not(limited):
    with limited(max_body_bytes=100) as client:
        assert refusal(client.post("/retrieve", content=b"x" * 101)) == (
            413,
            "the body is longer than 100 bytes; send fewer texts at once",
        )
        assert client.post("/retrieve", content=iter([b"x" * 60] * 2)).status_code == 413
        whole = json.dumps({"queries": ["mill"]}).encode().ljust(100)
        assert client.post("/retrieve", content=whole, headers={"content-type": "application/json"}).status_code == 200


def test_without_the_token_only_health_answers(limited):
    with limited(token="geheim") as client:
        for headers in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": "Basic geheim"},
            {"authorization": "Bearer"},
        ):
            for method, route in (("POST", "/retrieve"), ("GET", "/metrics"), ("GET", "/openapi.json"), ("GET", "/x")):
                answer = client.request(method, route, headers=headers)
                assert refusal(answer)[0] == 401
                assert answer.headers["www-authenticate"] == "Bearer"
        assert client.get("/health").status_code == 200
        right = {"authorization": "bearer geheim"}
        assert client.post("/retrieve", json={"queries": ["mill"]}, headers=right).status_code == 200


def test_a_request_beyond_the_bound_is_429_and_those_inside_lose_nothing():
    encoder = FakeMeasuringEncoder()
    app = build_app(Served("fake", encoder, "f", "float32", None), ServeConfig(max_waiting_texts=3, max_texts=3))

    async def main():
        transport = httpx.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://x") as client,
        ):

            def ask(*texts):
                body = {"input": list(texts), "model": "fake:query"}
                return asyncio.create_task(client.post("/v1/embeddings", json=body))

            encoder.gate.clear()
            inside = [ask("a", "b")]
            while not encoder.batches:
                await asyncio.sleep(0)
            beyond = await ask("c", "d")  # two are at work, and three is the bound
            inside.append(ask("e"))
            while (await client.get("/metrics")).text.count("agentic_r_texts_inside 3.0") == 0:
                await asyncio.sleep(0)
            also_beyond = await ask("f")
            encoder.gate.set()
            return await asyncio.gather(*inside), (beyond, also_beyond), await ask("c", "d", "f")

    inside, refused, later = asyncio.run(main())
    assert [len(vectors(answer)) for answer in (*inside, later)] == [2, 1, 3]
    for answer in refused:
        assert refusal(answer) == (429, "too many texts are waiting; come again in a second")
        assert answer.headers["retry-after"] == "1"
    assert encoder.batches == [["a", "b"], ["e"], ["c", "d", "f"]]


def test_more_requests_than_connections_allowed_are_503_and_health_answers_still():
    encoder = FakeMeasuringEncoder()
    app = build_app(Served("fake", encoder, "f", "float32", None), ServeConfig(max_connections=1))

    async def main():
        transport = httpx.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://x") as client,
        ):
            body = {"input": ["a"], "model": "fake:query"}
            encoder.gate.clear()
            inside = asyncio.create_task(client.post("/v1/embeddings", json=body))
            while not encoder.batches:
                await asyncio.sleep(0)
            beyond, health = await client.post("/v1/embeddings", json=body), await client.get("/health")
            encoder.gate.set()
            return await inside, beyond, health, await client.post("/v1/embeddings", json=body)

    inside, beyond, health, later = asyncio.run(main())
    assert (inside.status_code, health.status_code, later.status_code) == (200, 200, 200)
    assert refusal(beyond) == (503, "too many requests are in progress; come again in a second")
    assert (beyond.json()["error"]["type"], beyond.headers["retry-after"]) == ("server_error", "1")


def test_the_same_counts_are_found_in_metrics(limited):
    with limited() as client:
        client.post("/retrieve", json={"queries": ["mill", "mill " * 100]})
        client.post("/v1/embeddings", json={"input": "mill", "model": "mine:passage"})
        client.post("/retrieve", json={"queries": 1})
        client.get("/a/path/of/a/stranger")
        page = client.get("/metrics").text
    for line in (
        'agentic_r_requests_total{route="/retrieve",status="200"} 1.0',
        'agentic_r_requests_total{route="/retrieve",status="400"} 1.0',
        'agentic_r_requests_total{route="other",status="404"} 1.0',
        'agentic_r_texts_total{kind="query"} 2.0',
        'agentic_r_texts_total{kind="passage"} 1.0',
        'agentic_r_texts_cut_total{kind="query"} 1.0',
        'agentic_r_refused_total{reason="bad request"} 1.0',
        "agentic_r_texts_inside 0.0",
        "agentic_r_batch_texts_count 2.0",
    ):
        assert line in page.splitlines()


@pytest.fixture
def fake():
    """A server on an encoder that can fail, without an index."""
    encoder = FakeMeasuringEncoder()
    return TestClient(
        build_app(Served("fake", encoder, "f", "float32", None), ServeConfig()), raise_server_exceptions=False
    )


def test_an_encoder_that_fails_is_500_and_not_an_empty_list(fake, caplog):
    with fake:
        answer = fake.post("/v1/embeddings", json={"input": ["a", "break"], "model": "fake:query"})
        assert refusal(answer) == (500, "the work failed (RuntimeError); the server's log has more")
        assert "/v1/embeddings failed: RuntimeError: cannot encode break" in caplog.text
        assert fake.post("/v1/embeddings", json={"input": "a", "model": "fake:query"}).status_code == 200
        page = fake.get("/metrics").text.splitlines()
        assert 'agentic_r_requests_total{route="/v1/embeddings",status="500"} 1.0' in page
        assert not any('status="499"' in line for line in page)


def test_without_an_index_searches_are_404_with_the_reason(fake):
    with fake:
        for route, body in (("/retrieve", {"queries": ["a"]}), ("/search", {"queries": [{"query": "a"}]})):
            status, message = refusal(fake.post(route, json=body))
            assert (status, message) == (404, "no index is served here, only vectors; start the server with an index")
        assert fake.get("/health").json()["index"] is None
