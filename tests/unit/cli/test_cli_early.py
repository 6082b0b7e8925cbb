"""What is found before a run starts, of which a stage would speak hours later."""

import json
import os
import struct
from pathlib import Path

import pytest

from agentic_r.artifacts.stage import open_stage
from agentic_r.check import check_run, refuse_early
from agentic_r.config import FilesData, RunConfig
from agentic_r.corpus.readers import list_document_files
from agentic_r.corpus.report import ReadingReport
from agentic_r.errors import ConfigError, DataError
from agentic_r.loop.layout import plan_stages

SHAPE = {
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "max_position_embeddings": 4096,
    "intermediate_size": 16,
    "num_attention_heads": 2,
    "vocab_size": 10,
}
NO_TEMPLATE = "has no chat template; set agent.prompt to search"


@pytest.fixture
def tree(tmp_path):
    """A run in order: both models are folders with one weight."""
    header = json.dumps({"w": {"shape": [1]}}).encode()
    for name in ("encoder", "lm"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(SHAPE))
        (tmp_path / name / "modules.json").write_text("[]")
        (tmp_path / name / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    return {
        "name": "n",
        "runs": str(tmp_path / "runs"),
        "data": {"kind": "files", "documents": str(tmp_path / "d.jsonl"), "questions": str(tmp_path / "q.jsonl")},
        "encoder": {"kind": "pretrained", "path": str(tmp_path / "encoder")},
        "agent": {"model": {"kind": "pretrained", "path": str(tmp_path / "lm")}},
        "warm_start": {"steps": 0},
    }


def refusal(tree, **options):
    with pytest.raises(ConfigError) as refused:
        refuse_early(RunConfig.model_validate(tree), environment={}, **options)
    return str(refused.value)


def errors(tree):
    found = check_run(RunConfig.model_validate(tree), environment={})
    return [item.text for item in found if item.severity == "error"]


def test_a_run_in_order_is_not_refused(tree):
    assert refuse_early(RunConfig.model_validate(tree), environment={}) is None


@pytest.mark.parametrize(
    ("section", "change", "says"),
    [
        (
            "agent",
            {"max_context_tokens": 5000},
            "agent.max_context_tokens 5000 is more than the model's 4096 positions",
        ),
        ("agent", {"prompt": "chat"}, NO_TEMPLATE),
        ("agent", {"max_turns": 1}, "agent.max_turns 1 leaves no turn after a search"),
        ("encoder", {"max_passage_tokens": 5000}, "encoder.max_passage_tokens 5000 is more than the model's 4096"),
        ("encoder", {"path": "gone"}, "encoder.path gone: not a sentence-transformers folder"),
        ("warm_start", {"steps": 3}, "warm_start.steps is above 0 and there are no demonstrations"),
        ("labels", {"judge": {"kind": "endpoint", "base_url": "http://j", "model": "m", "api_key_env": "KEY"}}, "KEY"),
        ("evaluation", {"measures": ["foo"]}, "evaluation.measures: measure 'foo' is not known"),
    ],
)
def test_check_and_the_start_of_a_run_say_the_same(tree, section, change, says):
    if section == "warm_start":  # check reads the questions first, which are not there
        tree["data"]["questions"] = str(Path(tree["runs"]).parent / "q.jsonl")
        rows = [{"id": f"q{n}", "question": f"q{n}?", "answers": ["1"]} for n in range(20)]
        Path(tree["data"]["questions"]).write_text("".join(json.dumps(row) + "\n" for row in rows))
        Path(tree["data"]["documents"]).write_text('{"id": "d", "text": "1"}\n')
    tree[section] = {**tree.get(section, {}), **change}
    said = refusal(tree)
    assert says in said
    assert said in errors(tree)


def test_all_that_is_wrong_is_told_at_once(tree):
    tree["encoder"]["path"] = tree["agent"]["model"]["path"] = "gone"
    said = refusal(tree)
    assert "; agent.model.path gone: not a Hugging Face folder" in said
    assert said.startswith("encoder.path gone: ")


def test_a_stage_beyond_until_does_not_matter(tree):
    tree["agent"]["model"]["path"] = "gone"
    refuse_early(RunConfig.model_validate(tree), until="iter-0/index")
    assert "agent.model.path gone" in refusal(tree, until="warm/agent")


@pytest.mark.parametrize("of", ["this run", "a run to reuse"])
def test_what_a_finished_stage_needed_may_be_gone(tree, tmp_path, of):
    if of == "a run to reuse":
        tree["reuse"] = [str(tmp_path / "other")]
    folder = tmp_path / "other" if of == "a run to reuse" else RunConfig.model_validate(tree).folder
    warm = next(plan for plan in plan_stages(RunConfig.model_validate(tree)) if plan.kind == "warm_start")
    open_stage(warm.folder(folder), warm.identity).finish()
    tree["agent"]["model"]["path"] = "gone"
    refuse_early(RunConfig.model_validate(tree))
    (warm.folder(folder) / "manifest.json").unlink()
    assert "agent.model.path gone" in refusal(tree)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("chat_template.jinja", "{{ messages }}"),
        ("tokenizer_config.json", '{"chat_template": "{{ messages }}"}'),
        ("additional_chat_templates/tool.jinja", "{{ messages }}"),
    ],
)
def test_a_chat_template_is_found_where_tokenizers_keep_it(tree, tmp_path, file, content):
    tree["agent"]["prompt"] = "chat"
    assert NO_TEMPLATE in refusal(tree)
    (tmp_path / "lm" / "tokenizer_config.json").write_text("[]")
    assert NO_TEMPLATE in refusal(tree)
    (tmp_path / "lm" / file).parent.mkdir(exist_ok=True)
    (tmp_path / "lm" / file).write_text(content)
    refuse_early(RunConfig.model_validate(tree))


def test_a_run_below_a_file_is_refused(tree, tmp_path):
    (tmp_path / "file").write_text("")
    tree["runs"] = str(tmp_path / "file")
    assert refusal(tree).startswith(f"runs: {tmp_path / 'file'} is a file, and ")
    assert any(line.startswith("runs: ") for line in errors(tree))


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_that_cannot_be_written_to_is_refused(tree, tmp_path):
    (tmp_path / "runs").mkdir(mode=0o555)
    assert "cannot be written to; set runs to another folder" in refusal(tree)


def test_a_run_to_reuse_without_a_finished_stage_is_a_warning(tree, tmp_path):
    tree["reuse"] = [str(tmp_path)]
    found = [item.text for item in check_run(RunConfig.model_validate(tree)) if item.severity == "warning"]
    assert f"reuse: {tmp_path}: holds no finished stage of a run; give the folder of one" in found


def test_a_folder_of_documents_that_cannot_be_looked_into_is_named(tmp_path, monkeypatch):
    (tmp_path / "docs" / "locked").mkdir(parents=True)
    (tmp_path / "docs" / "a.txt").write_text("a")
    inside = Path.iterdir

    def look(folder):
        if folder.name == "locked":  # as the system says it, and does not say it to root
            raise PermissionError(13, "Permission denied", str(folder))
        return inside(folder)

    monkeypatch.setattr(Path, "iterdir", look)
    data = FilesData(kind="files", documents=tmp_path / "docs", questions=tmp_path / "q.jsonl")
    with pytest.raises(DataError, match=r"locked: cannot be read \(Permission denied\); correct it"):
        list_document_files(data, report=ReadingReport())
    report = ReadingReport(broken_lines="skip")
    assert list_document_files(data, report=report) == [tmp_path / "docs" / "a.txt"]
    assert report.skipped["cannot be read"].count == 1
