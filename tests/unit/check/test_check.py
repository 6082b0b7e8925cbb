"""What a check before a run finds."""

import json
import struct
import subprocess
import sys

import httpx
import pytest

from agentic_r.check import Finding, Machine, check_run
from agentic_r.config import RunConfig

ROOMY = Machine(memory_bytes=10**13, free_disk_bytes=10**13)
ENDPOINT = {"kind": "endpoint", "base_url": "http://judge", "model": "m", "api_key_env": "JUDGE_KEY"}


def write_weights(folder, config, shapes):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "modules.json").write_text("[]")
    header = {f"w{place}": {"shape": shape} for place, shape in enumerate(shapes)}
    content = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(content)) + content)
    return str(folder)


@pytest.fixture
def tree(tmp_path):
    """A run that is in order: 100 weights in each model."""
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "max_position_embeddings": 4096}
    more = {"intermediate_size": 16, "num_attention_heads": 2, "vocab_size": 10}
    documents = [{"id": f"d{number}", "text": f"text {number}"} for number in range(30)]
    questions = [
        {"id": f"q{number}", "question": f"q{number}?", "answers": [f"text {number}"], "split": split}
        for number, split in enumerate(["train"] * 20 + ["dev"] * 5)
    ]
    demonstrations = [{"id": "m", "question_id": "q0", "steps": [], "answer": "text 0", "strategy": "good"}]
    for name, rows in (("d", documents), ("q", questions), ("m", demonstrations)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {
        "name": "n",
        "runs": str(tmp_path / "runs"),
        "data": {
            "kind": "files",
            "documents": str(tmp_path / "d.jsonl"),
            "questions": str(tmp_path / "q.jsonl"),
            "demonstrations": str(tmp_path / "m.jsonl"),
        },
        "encoder": {"kind": "pretrained", "path": write_weights(tmp_path / "encoder", shape, [[10, 10]])},
        "agent": {
            "model": {"kind": "pretrained", "path": write_weights(tmp_path / "model", shape | more, [[10, 10]])},
            "prompt": "search",
        },
        "ppo": {"rollouts_per_step": 16, "minibatch_size": 4},
    }


def check(tree, **options):
    return check_run(RunConfig.model_validate(tree), environment={}, machine=options.pop("machine", ROOMY), **options)


def texts(findings, severity):
    return [item.text for item in findings if item.severity == severity]


def test_a_run_in_order_gets_notes_alone(tree):
    found = check(tree)
    assert {item.severity for item in found} == {"note"}
    assert "data: 30 documents, 30 passages, 20 training and 5 held-out questions, 1 demonstrations" in texts(
        found, "note"
    )


def test_errors_come_first_and_all_parts_are_looked_at(tree):
    tree["encoder"]["path"] = "nowhere"
    tree["agent"]["model"]["path"] = "package:unknown"
    tree["data"]["documents"] = "gone.jsonl"
    found = check(tree)
    assert [item.severity for item in found] == sorted(
        [item.severity for item in found], key=["error", "warning", "note"].index
    )
    errors = "\n".join(texts(found, "error"))
    assert "encoder.path nowhere: not a sentence-transformers folder" in errors
    assert "agent.model.path package:unknown: no package of that name is known" in errors
    assert "gone.jsonl: no such file or folder" in errors


def test_lengths_beyond_the_models_positions_are_errors(tree):
    tree["agent"]["max_context_tokens"] = 5000
    tree["encoder"]["max_query_tokens"] = 4097
    assert texts(check(tree), "error") == [
        "encoder.max_query_tokens 4097 is more than the model's 4096 positions; lower it",
        "agent.max_context_tokens 5000 is more than the model's 4096 positions; lower it",
    ]


@pytest.mark.parametrize(
    ("section", "change", "severity", "text"),
    [
        ("warm_start", {"steps": 0}, "warning", "a small agent that was never shown the search protocol"),
        ("agent", {"max_turns": 1}, "error", "agent.max_turns 1 leaves no turn after a search"),
        ("agent", {"max_observation_tokens": 400}, "warning", "are about 450 tokens (an estimate), more than"),
        ("labels", {"candidates": 10}, "warning", "passages_per_query 16 is more than labels.candidates 10"),
        ("labels", {"candidates": 31}, "warning", "labels.candidates 31: the corpus has 30 passages"),
        ("contrastive", {"min_instances": 81}, "warning", "at most 80 queries can become instances"),  # 20 x (5 - 1)
        ("ppo", {"rollouts_per_step": 24}, "note", "is more than the 20 training questions"),
    ],
)
def test_settings_that_cannot_work_together_are_named(tree, section, change, severity, text):
    tree.setdefault(section, {}).update(change)
    assert any(text in line for line in texts(check(tree), severity))


def test_a_warm_start_without_demonstrations_is_an_error(tree):
    del tree["data"]["demonstrations"]
    [line] = texts(check(tree), "error")
    assert line.startswith("warm_start.steps is above 0 and there are no demonstrations")


def test_a_key_that_is_not_set_is_an_error_and_the_price_is_told_all_the_same(tree):
    tree["labels"] = {"judge": ENDPOINT}
    found = check(tree)
    assert any("the environment variable JUDGE_KEY is not set" in line for line in texts(found, "error"))
    assert any("20 prompts for sub-answers, 80 for relevance" in line for line in texts(found, "note"))  # 20 x (5 - 1)


def test_the_endpoint_is_asked_only_when_told_to(tree):
    asked = []

    def answer(request):
        asked.append(str(request.url))
        return httpx.Response(200, json={"data": [{"id": "m"}]})

    tree["labels"] = {"judge": {**ENDPOINT, "api_key_env": None}}
    transport = httpx.MockTransport(answer)
    check(tree, transport=transport)
    assert asked == []
    found = check(tree, reach=True, transport=transport)
    assert asked == ["http://judge/v1/models"]
    assert any("reachable; serves m" in line for line in texts(found, "note"))


def test_an_endpoint_that_is_not_there_is_an_error(tree):
    def refuse(request):
        raise httpx.ConnectError("refused")

    tree["labels"] = {"judge": {**ENDPOINT, "api_key_env": None}}
    found = check(tree, reach=True, transport=httpx.MockTransport(refuse))
    assert any("not reachable" in line for line in texts(found, "error"))


def test_too_little_memory_is_a_warning_and_too_little_disk_an_error(tree):
    found = check(tree, machine=Machine(memory_bytes=1000, free_disk_bytes=1000))
    assert any("agent (PPO) may need" in line for line in texts(found, "warning"))
    assert any("1000" not in line and "are free; make room" in line for line in texts(found, "error"))
    unknown = check(tree, machine=Machine(memory_bytes=None, free_disk_bytes=10**13))
    assert not texts(unknown, "warning")


def test_this_machine_has_memory_and_disk(tmp_path):
    here = Machine.here(tmp_path / "not" / "there" / "yet")
    assert here.free_disk_bytes > 0
    assert here.memory_bytes is None or here.memory_bytes > 10**8


def test_findings_are_values():
    assert Finding("note", "a") == Finding("note", "a")


def test_checking_imports_no_torch():
    code = "import sys, agentic_r.check; sys.exit(any(m in sys.modules for m in ('torch', 'transformers', 'faiss')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
