"""``serve`` and ``search`` on the command line."""

import json
import signal
import socket
import sys
import urllib.error
import urllib.request

import pytest
from served_world import make_encoder, make_run, server_process

from agentic_r.cli import main


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "mine", working=tmp_path_factory.mktemp("working"))


@pytest.fixture
def call(monkeypatch, capsys):
    """Call the program; return exit code, standard output and standard error."""

    def run_program(*arguments):
        monkeypatch.setattr(sys, "argv", ["agentic-r", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return ended.value.code, shown.out, shown.err

    return run_program


def test_search_shows_passages_best_first(run, call):
    code, out, err = call("search", "Tanek", "--in", run, "-k", 2)
    assert (code, err) == (0, "")
    first, text, second, _ = out.splitlines()
    assert first.startswith("1. ")
    assert first.endswith("  d25#0  Tanek")
    assert text == "   the library of Tanek is 25 years old"
    assert second.startswith("2. ")


def test_search_prints_one_object_with_the_question_taken_into_account(run, call):
    code, out, _ = call("search", "mill", "--in", run, "--question", "Melol?", "--history", "town", "--json")
    found = json.loads(out)
    assert (code, found["query"], found["question"], found["history"], found["cut"]) == (
        0,
        "mill",
        "Melol?",
        ["town"],
        False,
    )
    assert [hit["rank"] for hit in found["hits"]] == [1, 2, 3, 4, 5]
    assert found["hits"][0]["passage_id"] == "d17#0"
    assert json.loads(call("search", "mill " * 99, "--in", run, "--json")[1])["cut"] is True


@pytest.mark.parametrize("command", [("search", "mill", "--in"), ("serve",)])
def test_a_folder_that_is_no_export_is_one_line_and_2(tmp_path, call, command):
    code, out, err = call(*command, tmp_path)
    assert (code, out) == (2, "")
    assert err == f"error: {tmp_path}: holds no exported encoder; finish the run first, or give the export's folder\n"


def test_search_without_an_index_is_told_what_to_add(run, call):
    code, _, err = call("search", "mill", "--in", run / "export")
    assert code == 2
    assert "an export alone holds no passages; add --index and --corpus" in err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--set", "max_wait=1"), "error: --set max_wait=1: no such setting; did you mean max_waiting_texts?"),
        (("--set", "max_k=none"), "error: --set max_k=none: "),
        (("--set", "max_texts=9", "--set", "max_waiting_texts=8"), "max_texts 9 is more than max_waiting_texts 8"),
        (("--set", "default_k=9", "--set", "max_k=8"), "default_k 9 is more than max_k 8; lower it"),
        (("--token-env", "NO_SUCH"), "error: --token-env NO_SUCH: this environment variable is not set"),
        (("--port", "70000"), "error: Invalid value for '--port': Input should be less than or equal to 65535"),
        (("--host", "203.0.113.7"), "203.0.113.7:8000: cannot listen there"),  # an address of nobody's, RFC 5737
    ],
)
def test_a_wrong_setting_of_the_server_is_one_line_and_2(run, call, options, says):
    code, out, err = call("serve", run, *options)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_a_port_in_use_is_one_line_and_2(run, call):
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        code, _, err = call("serve", run, "--port", port)
    assert code == 2
    assert f"127.0.0.1:{port}: cannot listen there (Address already in use); stop what listens there" in err


def test_h7_serving_an_index_of_another_encoder_is_one_line_and_2(run, call, tmp_path):
    make_encoder(tmp_path, seed=1).save(tmp_path / "other")
    index, corpus = run / "iter-2/index/vectors", run / "corpus"
    code, _, err = call("serve", tmp_path / "other", "--index", index, "--corpus", corpus, "--port", 0)
    assert code == 2
    assert "this index was built by encoder" in err
    assert err.count("\n") == 1


def test_a_server_asks_for_its_token_answers_and_ends_when_told(run, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "geheim")
    with server_process(run, "--token-env", "MY_TOKEN", "--name", "other") as server:
        assert server.address.startswith("http://127.0.0.1:")
        state = json.load(urllib.request.urlopen(f"{server.address}/health", timeout=60))
        assert state["name"] == "other"
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{server.address}/v1/models", timeout=60)
        assert refused.value.code == 401
        request = urllib.request.Request(f"{server.address}/v1/models", headers={"Authorization": "Bearer geheim"})
        assert urllib.request.urlopen(request, timeout=60).status == 200
        server.process.send_signal(signal.SIGTERM)
        out, _ = server.process.communicate(timeout=200)
        err = server.log()
    assert (server.process.returncode, out) == (0, "")
    assert err == f"serving other at {server.address}\nstopped\n"
