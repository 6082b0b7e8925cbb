"""``agentic-r export``: what it says, returns and writes."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tiny_export import PASSAGES, train_tiny_encoder

from agentic_r.cli import main


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return train_tiny_encoder(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    """Call the program in an empty folder; return exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["agentic-r", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return ended.value.code, shown.out, shown.err

    return run


def test_a_checkpoint_becomes_an_export_with_its_proof(call, checkpoint, tmp_path):
    code, out, _ = call("export", checkpoint, "--to", "out", "--onnx", "none", "--json")
    report = json.loads(out)
    assert (code, report["folder"], report["equal"]) == (0, "out", True)
    assert [item["name"] for item in report["artefacts"]] == ["sentence-transformers"]
    assert (tmp_path / "out" / "parity.html").is_file()
    assert "| base | not recorded |" in (tmp_path / "out" / "README.md").read_text()


def test_without_json_each_form_is_one_line(call, checkpoint):
    code, out, _ = call("export", checkpoint, "--to", "out", "--onnx", "none")
    assert code == 0
    assert out.startswith("sentence-transformers: equal in 19 kinds of text (largest difference ")
    assert out.endswith("export: out\n")


@pytest.mark.parametrize(
    ("options", "mistake"),
    [
        (("--onnx", "fp8"), "--onnx fp8: Input should be 'fp32', 'fp16' or 'int8'"),
        (("--dimension", "0"), "--dimension 0: Input should be greater than or equal to 1"),
        (("--onnx", "none", "--dimension", "8"), "shorter vectors are outputs of an ONNX graph"),
        (("--iteration", "1"), "is an encoder, not a run; leave it out"),
    ],
)
def test_a_wish_that_cannot_be_met_is_the_users_mistake(call, checkpoint, tmp_path, options, mistake):
    code, out, err = call("export", checkpoint, "--to", "out", *options)
    assert (code, out) == (2, "")
    assert mistake in err
    assert not list(tmp_path.iterdir())


def test_what_is_neither_run_nor_encoder_is_named(call):
    code, _, err = call("export", "nowhere", "--to", "out")
    assert (code, err) == (
        2,
        "error: nowhere: no run there (it has no config.yaml); give a run's folder, or an encoder's\n",
    )


def test_an_index_is_written_from_an_export_and_a_file_of_passages(call, checkpoint, tmp_path):
    rows = [{"id": item.id, "title": item.title, "text": item.text} for item in PASSAGES.values()]
    (tmp_path / "passages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ("export", "index", checkpoint, "--passages", "passages.jsonl", "--kind", "qdrant", "--to", "out")
    code, out, _ = call(*command)
    assert (code, out) == (0, "out: 4 of 4 passages\n")
    code, out, _ = call(*command, "--json")
    assert json.loads(out) == {"folder": "out", "counts": {"passages": 4, "written": 4, "parts": 1}, "skipped": {}}
    code, _, err = call("export", "index", checkpoint, "--kind", "qdrant", "--to", "out")
    assert code == 2
    assert "give a jsonl of passages to encode" in err


def test_passages_left_out_of_an_index_are_1(call, checkpoint, tmp_path):
    (tmp_path / "passages.jsonl").write_text('{"id": "a", "text": "b\\u0000"}\n{"id": "b", "text": "c"}\n')
    code, out, _ = call(
        "export", "index", checkpoint, "--passages", "passages.jsonl", "--kind", "pgvector", "--to", "out"
    )
    assert (code, out) == (1, "out: 1 of 2 passages; left out, the character U+0000: 1\n")


def test_a_wrong_kind_or_key_is_named_before_anything_is_sent(call, checkpoint):
    call("export", checkpoint, "--to", "out", "--onnx", "none")
    code, _, err = call("export", "verify", "out", "--endpoint", "http://127.0.0.1:9", "--kind", "milvus")
    assert code == 2
    assert "--kind milvus: no such kind of service" in err
    code, _, err = call(
        "export", "verify", "out", "--endpoint", "http://x", "--kind", "tei", "--api-key-env", "NO_SUCH_NAME"
    )
    assert code == 2
    assert "--api-key-env NO_SUCH_NAME: not set" in err
    code, _, err = call("export", "verify", "out", "--endpoint", "http://x", "--kind", "tei", "--to", checkpoint)
    assert code == 2
    assert "an encoder is there, whose own proof this is not" in err


class _Wrong(BaseHTTPRequestHandler):
    """Gives two components for every text."""

    def do_POST(self) -> None:
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["inputs"]
        reply = json.dumps([[1.0, 0.0]] * len(texts)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        pass


def test_a_service_with_other_vectors_is_1_and_the_cause_is_said(call, checkpoint, tmp_path):
    call("export", checkpoint, "--to", "out", "--onnx", "none")
    with HTTPServer(("127.0.0.1", 0), _Wrong) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        code, out, _ = call("export", "verify", "out", "--endpoint", address, "--kind", "tei", "--to", "proof")
        server.shutdown()
    assert code == 1
    assert "vectors have 2 components, the encoder's have 32" in out
    assert json.loads((tmp_path / "proof" / "parity.json").read_text())["equal"] is False
