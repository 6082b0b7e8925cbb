"""The proof against live services: right ones pass, and what is wrong with the others is named."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from served_world import server_process
from tiny_export import CARD, PASSAGES, QUERIES, SETTINGS, silent

from agentic_r.config import ExportConfig
from agentic_r.errors import ConfigError, ParityError, ToolFailure
from agentic_r.export.checkpoint import ParityTexts, export_checkpoint
from agentic_r.export.endpoints import Endpoint, EndpointVectors, endpoint_kind
from agentic_r.export.verify import verify_endpoint

TEXTS = ParityTexts(QUERIES, tuple(PASSAGES.values()))
Change = Callable[[list[str]], np.ndarray]


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "retriever"
    export_checkpoint(trained, folder, card=CARD, texts=TEXTS, config=ExportConfig(), progress=silent)
    return folder


@pytest.fixture(scope="module")
def model(exported) -> SentenceTransformer:
    return SentenceTransformer(str(exported), device="cpu", local_files_only=True)


def verify(folder: Path, answer: Callable[[httpx.Request], httpx.Response], kind="openai"):
    endpoint = Endpoint(kind=kind, url="http://service:80", model="mine")
    return verify_endpoint(folder, endpoint, texts=TEXTS, config=ExportConfig(), transport=httpx.MockTransport(answer))


def openai(encode: Change) -> Callable[[httpx.Request], httpx.Response]:
    """A service in OpenAI's shape around ``encode``; the last vector comes first, as the standard allows."""

    def answer(request: httpx.Request) -> httpx.Response:
        rows = encode(json.loads(request.content)["input"])
        data = [{"index": number, "embedding": row.tolist()} for number, row in enumerate(rows)]
        return httpx.Response(200, json={"data": data[::-1]})

    return answer


def causes(report) -> tuple[str, ...]:
    assert not report.equal
    return report.artefacts[0].differences


def test_a_service_that_serves_the_folder_passes(exported, model):
    report = verify(exported, openai(model.encode))
    assert report.equal
    (found,) = report.artefacts
    assert found.min_cosine == pytest.approx(1, abs=1e-5)
    assert found.ranking.overlap == 1.0
    assert report.text().startswith("openai at http://service:80: equal in ")


def test_each_kind_of_service_is_asked_in_its_own_shape(exported, model):
    def answer(request: httpx.Request, kind: str) -> httpx.Response:
        body = json.loads(request.content)
        match request.url.path:
            case "/embed":
                prompts = {"query": "query: ", "passage": "passage: ", None: ""}
                rows = model.encode([prompts[body.get("prompt_name")] + text for text in body["inputs"]])
                return httpx.Response(200, json=rows.tolist())
            case "/v1/embeddings":
                prompts = {"query": "query: ", "passage": "passage: ", "plain": ""}
                prefix = prompts[body["input_type"]] if kind == "agentic-r" else ""
                data = {"input": [prefix + text for text in body["input"]]}
                return openai(model.encode)(httpx.Request("POST", request.url, json=data))
            case "/_ml/trained_models/mine/_infer":
                rows = model.encode([item["text_field"] for item in body["docs"]])
                found = [{"predicted_value": row.tolist()} for row in rows]
                return httpx.Response(200, json={"inference_results": found})
            case "/_plugins/_ml/_predict/text_embedding/mine":
                rows = model.encode(body["text_docs"])
                found = [{"output": [{"name": "sentence_embedding", "data": row.tolist()}]} for row in rows]
                return httpx.Response(200, json={"inference_results": found})
            case path:
                return httpx.Response(500, text=path)

    for kind in ("tei", "openai", "agentic-r", "elasticsearch", "opensearch"):
        assert verify(exported, lambda request, kind=kind: answer(request, kind), kind).equal, kind


def test_a_real_sentence_transformers_process_passes(exported):
    script = Path(__file__).parents[2] / "embedding_process.py"
    environment = {**os.environ, "PYTHONPATH": "", "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(
        [sys.executable, str(script), str(exported)], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            port = int(process.stdout.readline())
            endpoint = Endpoint(kind="openai", url=f"http://127.0.0.1:{port}", model="any")
            report = verify_endpoint(exported, endpoint, texts=TEXTS, config=ExportConfig())
        finally:
            process.kill()
    assert report.equal


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("1_Pooling/config.json", b'{"no_such_setting": 1}'),
        ("model.safetensors", b"half"),
        ("tokenizer.json", b"{}"),
        ("config.json", b"{"),
        ("modules.json", b'[{"idx": 0, "name": "0", "path": "", "type": "no.such.Module"}]'),
    ],
)
def test_a_damaged_export_is_one_line(exported, tmp_path, file, content):
    broken = Path(shutil.copytree(exported, tmp_path / "broken"))
    (broken / file).write_bytes(content)
    with pytest.raises(ConfigError, match=r"broken: cannot be loaded as an encoder \(") as refused:
        verify(broken, lambda request: httpx.Response(500))
    assert "\n" not in str(refused.value)


def test_an_export_that_lacks_a_file_is_named_before_it_is_loaded(exported, tmp_path):
    broken = Path(shutil.copytree(exported, tmp_path / "broken"))
    (broken / "model.safetensors").unlink()
    with pytest.raises(ParityError, match="there are no weights"):
        verify(broken, lambda request: httpx.Response(500))
    with pytest.raises(ConfigError, match=r"no agentic_r\.json in this folder"):
        verify(tmp_path, lambda request: httpx.Response(500))


def test_our_own_server_passes(exported):
    with server_process(exported) as server:
        command = [sys.executable, "-m", "agentic_r", "export", "verify", str(exported), "--kind", "agentic-r"]
        done = subprocess.run([*command, "--endpoint", server.address, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["equal"] is True


def test_a_lost_prefix_is_named(exported, model):
    def encode(texts: list[str]) -> np.ndarray:
        return model.encode([text.removeprefix("query: ") for text in texts])

    found = causes(verify(exported, openai(encode)))
    assert "the prefix 'query: ' of queries is lost" in found


def test_a_prefix_that_is_added_twice_is_named(exported, model):
    def encode(texts: list[str]) -> np.ndarray:
        return model.encode(["passage: " + text if text.startswith("passage: ") else text for text in texts])

    found = causes(verify(exported, openai(encode)))
    assert "the prefix 'passage: ' of passages stands twice: once written by the caller, once added" in found


def test_plain_texts_that_get_a_prefix_are_named(exported, model):
    def encode(texts: list[str]) -> np.ndarray:
        return model.encode([text if text.startswith(("query: ", "passage: ")) else "query: " + text for text in texts])

    assert causes(verify(exported, openai(encode))) == (
        "plain texts get the query prefix 'query: '; they must get none",
    )


def test_wrong_pooling_is_named(exported, model):
    def encode(texts: list[str]) -> np.ndarray:
        tokens = model.encode(texts, output_value="token_embeddings")
        return np.stack([(row[0] / row[0].norm()).numpy() for row in tokens])

    assert causes(verify(exported, openai(encode))) == ("pooling is cls, the encoder's is mean",)


def test_missing_normalisation_is_named(exported, model):
    (cause,) = causes(verify(exported, openai(lambda texts: 3 * model.encode(texts))))
    assert cause == "normalisation is missing: norms are 3 to 3 instead of 1"


def test_a_smaller_limit_is_named(exported):
    shorter = SentenceTransformer(str(exported), device="cpu", local_files_only=True)
    shorter.max_seq_length = 40
    (cause,) = causes(verify(exported, openai(shorter.encode)))
    assert cause == "only long texts differ: its limit is not 48 tokens"
    shorter.max_seq_length = 16  # the CJK texts are longer than that too
    assert causes(verify(exported, openai(shorter.encode))) == ("its limit is 16 tokens, the encoder's is 48",)


def test_vectors_that_are_none_are_said_to_be(exported, model):
    (cause,) = causes(verify(exported, openai(lambda texts: 0 * model.encode(texts))))
    assert cause == "all vectors are zero"


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("1_Pooling/config.json", 'mean_tokens": true', 'mean_tokens": false', "the proof is of encoder"),
        ("config_sentence_transformers.json", '"query: "', '""', "the prompt 'query' is ''"),
        ("modules.json", "", "", "normalisation is missing"),
        ("parity.json", "", "", "no parity.json, so it was never proved"),
    ],
)
def test_an_export_that_was_changed_since_is_no_reference(exported, model, tmp_path, file, old, new, says):
    changed = Path(shutil.copytree(exported, tmp_path / "changed"))
    if file == "modules.json":
        modules = json.loads((changed / file).read_text())
        (changed / file).write_text(json.dumps([module for module in modules if "Normalize" not in module["type"]]))
    elif not old:
        (changed / file).unlink()
    else:
        text = (changed / file).read_text().replace('"pooling_mode_cls_token": false', '"pooling_mode_cls_token": true')
        assert old in text
        (changed / file).write_text(text.replace(old, new))
    served = SentenceTransformer(str(changed), device="cpu", local_files_only=True)
    with pytest.raises(ConfigError, match=says):
        verify(changed, openai(served.encode))


def test_another_dimension_is_named(exported, model):
    report = verify(exported, openai(lambda texts: model.encode(texts)[:, :16]))
    assert causes(report) == ("vectors have 16 components, the encoder's have 32",)


def test_other_weights_are_left_unexplained(exported, model):
    mixed = np.random.default_rng(0).permutation(32)
    (cause,) = causes(verify(exported, openai(lambda texts: model.encode(texts)[:, mixed])))
    assert cause.startswith("no usual mistake explains it")


def test_a_vector_a_token_is_named(exported, model):
    def encode(texts: list[str]) -> np.ndarray:
        return np.stack([np.stack([row, row]) for row in model.encode(texts)])

    with pytest.raises(ParityError, match=r"a vector a token means that the service cuts the model before pooling"):
        verify(exported, openai(encode))


def test_a_service_may_refuse_empty_texts_and_those_beyond_the_limit_and_no_others(exported, model):
    def answer(request: httpx.Request) -> httpx.Response:
        texts = json.loads(request.content)["input"]
        if any(not text.removeprefix("query: ").removeprefix("passage: ") or len(text) > 300 for text in texts):
            return httpx.Response(413, text="too long, or empty")
        return openai(model.encode)(request)

    report = verify(exported, answer)
    refused = {kind.kind: kind.refusal for kind in report.artefacts[0].kinds if kind.num_refused}
    assert report.equal
    assert set(refused) == {"query, empty", "passage, empty", "passage, limit + 50"}
    assert set(refused.values()) == {"413: too long, or empty"}

    def refuse_all(request: httpx.Request) -> httpx.Response:
        return httpx.Response(422, text="no")

    report = verify(exported, refuse_all)
    assert not report.equal
    assert "refused: 422: no" in report.text()


def test_a_busy_service_is_asked_again_and_a_wrong_address_is_not():
    replies = [httpx.Response(429), httpx.Response(503), httpx.Response(200, json={"data": []})]
    waits: list[float] = []
    endpoint = Endpoint(kind="openai", url="http://service", model="mine")

    def vectors(answer: Callable[[httpx.Request], httpx.Response]) -> EndpointVectors:
        return EndpointVectors(endpoint, SETTINGS, transport=httpx.MockTransport(answer), wait=waits.append)

    with pytest.raises(ParityError, match="0 vectors for 1 texts"):
        vectors(lambda request: replies.pop(0)).encode(["a"], "query")
    assert waits == [1.0, 2.0]
    with pytest.raises(ConfigError, match=r"no such address or model; check --endpoint, --kind and --model"):
        vectors(lambda request: httpx.Response(404)).encode(["a"], "query")
    with pytest.raises(ToolFailure, match="503"):
        vectors(lambda request: httpx.Response(503)).encode(["a"], "query")


def test_nobody_at_the_address_is_the_users_to_mend(exported):
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused", request=request)

    endpoint = Endpoint(kind="tei", url="http://service")
    vectors = EndpointVectors(endpoint, SETTINGS, transport=httpx.MockTransport(refuse), wait=lambda seconds: None)
    with pytest.raises(ConfigError, match=r"http://service: nobody answers \(ConnectError: connection refused\)"):
        vectors.encode(["a"], "query")


@pytest.mark.parametrize("url", ["http://[::1", "http://host:port", "127.0.0.1:8080", "ftp://service", ""])
def test_what_is_no_address_is_one_line_and_asked_once(url):
    waits: list[float] = []
    with pytest.raises(ConfigError, match=r"^--endpoint .*: no address of a service .*; give one such as"):
        EndpointVectors(Endpoint(kind="tei", url=url), SETTINGS, wait=waits.append).encode(["a"], "query")
    assert waits == []


@pytest.mark.parametrize("error", [httpx.TooManyRedirects("in a circle"), httpx.DecodingError("no gzip")])
def test_an_answer_that_cannot_be_read_is_one_line(error):
    def answer(request: httpx.Request) -> httpx.Response:
        raise error

    endpoint = Endpoint(kind="tei", url="http://service")
    with pytest.raises(ConfigError, match=r"http://service: no usable answer \(\w+: (in a circle|no gzip)\)"):
        EndpointVectors(endpoint, SETTINGS, transport=httpx.MockTransport(answer)).encode(["a"], "query")


@pytest.mark.parametrize("key", ["schlüssel", "key\nx-other: 1"])
def test_a_key_that_no_header_may_hold_is_refused_and_not_shown(key):
    with pytest.raises(ConfigError, match="--api-key-env: the key has characters") as refused:
        EndpointVectors(Endpoint(kind="tei", url="http://service", api_key=key), SETTINGS)
    assert key not in str(refused.value)


def test_an_unknown_kind_names_those_there_are():
    with pytest.raises(ConfigError, match=r"--kind milvus: .*tei, openai, agentic-r, elasticsearch, opensearch"):
        endpoint_kind("milvus")
