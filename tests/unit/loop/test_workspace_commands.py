"""What ``agentic-r workspace`` says of a run, and of what is not there."""

import json
from pathlib import Path

import pytest

from agentic_r.artifacts.records import write_records
from agentic_r.cli import main
from agentic_r.config import load_workspace
from agentic_r.errors import ConfigError
from agentic_r.loop.workspace_commands import ReplayRequest, replayed_name
from agentic_r.workspace.coverage import Coverage, ProbeOutcome, ToolCost

PRESETS = Path(__file__).resolve().parents[3] / "configs" / "workspace"
CONFIG = """
name: n
runs: runs
data: {kind: files, documents: docs, questions: q.jsonl}
encoder: {kind: scratch}
agent:
  model: {kind: pretrained, path: lm}
workspace: {scope_depths: [1], budgets: [500]}
"""


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    (tmp_path / "c.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["agentic-r", "workspace", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return ended.value.code, shown.out, shown.err

    return run


def outcome(question, *, ranks, evidence, state="ok"):
    coverage = Coverage(("a",), ranks, (), ("a",), (), evidence) if state == "ok" else None
    return ProbeOutcome("rarg", "base", question, state, coverage, (ToolCost("rg", 1, 40, 0.002),))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("show", "c.yaml"), "no finished workspace stage; finish the run first"),
        (
            ("replay", "c.yaml", "--system", "x", "--from", "base"),
            "system x: expected one of rise, rarg, rarg+, rarg++",
        ),
        (("replay", "c.yaml", "--system", "rarg", "--from", "base", "--order", "y"), "order y: expected one of ranked"),
        (("run", "c.yaml", "--preset", "no.yaml", "--retriever", "bm25"), "no.yaml: no such file"),
        (("replay", "c.yaml", "--system", "rarg", "--from", "base"), "no document store; finish the run first"),
        (
            ("replay", "c.yaml", "--system", "rarg", "--from", "base", "--set", "workspace.max_matches=2"),
            "--set workspace.max_matches=2: a replay takes the workspace's settings from the traces; give --order or",
        ),
    ],
)
def test_what_is_not_there_is_one_line_and_exit_code_2(call, arguments, text):
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert text in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_a_finished_stage_is_shown_as_table_and_as_json(call, tmp_path):
    rows = [outcome("q1", ranks=(1,), evidence=(100,)), outcome("q2", ranks=(7,), evidence=(None,))]
    write_records(tmp_path / "runs" / "n" / "workspace" / "outcomes.jsonl", rows)
    code, out, _ = call("show", "c.yaml", "--json")
    assert code == 0
    (row,) = json.loads(out)["rows"]
    assert (row["system"], row["retriever"], row["questions"]) == ("rarg", "base", 2)
    assert {name: item["value"] for name, item in row["coverage"].items()} == {
        "scope@1": 0.5,
        "imported": 1.0,
        "previewed": 0.0,
        "matched": 1.0,
        "read": 0.0,
        "evidence@500": 0.5,
        "evidence": 0.5,
    }
    assert row["costs"] == {"rg": {"num_calls": 1.0, "characters": 40.0, "seconds": 0.002}}
    code, out, _ = call("show", "c.yaml")
    assert code == 0
    assert "RARG" in out
    assert "rg: calls, characters, ms" in out
    assert "0 of 0 paired comparisons show a difference" in out


def test_failed_questions_are_exit_code_1(call, tmp_path):
    rows = [outcome("q1", ranks=(1,), evidence=(100,)), outcome("q2", ranks=(), evidence=(), state="failed")]
    write_records(tmp_path / "runs" / "n" / "workspace" / "outcomes.jsonl", rows)
    code, out, err = call("show", "c.yaml", "--json")
    assert (code, json.loads(out)["failed"]) == (1, 1)
    assert "1 questions failed" in err


def test_replays_of_different_recordings_have_different_names():
    asked = [("base", None), ("iter-1", None), ("base", "iter-2"), ("iter-1", "iter-2"), ("iter-2", "iter-2")]
    names = [replayed_name(ReplayRequest("rarg", recorded, retriever), seed=0) for recorded, retriever in asked]
    assert names[:3] == ["base replayed", "iter-1 replayed", "iter-2 replayed from base"]
    names += [replayed_name(ReplayRequest("rarg", "base", order="random"), seed=seed) for seed in (0, 1)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("path", sorted(PRESETS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_preset_is_one_system_with_its_published_settings(path):
    preset = load_workspace(path)
    (system,) = preset.systems
    assert {"rise_bm25": "rise", "rarg": "rarg", "rarg_plus": "rarg+", "rarg_plus_plus": "rarg++"}[path.stem] == system
    if system == "rise":
        assert (preset.search.depth, preset.search.previews) == (1000, 10)
    else:
        assert (preset.scope_documents, preset.max_matches, preset.excerpt_characters) == (10_000, 30, 1000)
    assert (preset.pool_matches, preset.opening.paragraphs) == (500, 10)


def test_a_mistake_in_a_preset_names_file_and_key(tmp_path):
    (tmp_path / "p.yaml").write_text("systems: [rarg]\nscope_document: 3\n")
    with pytest.raises(ConfigError, match=r"p\.yaml: scope_document"):
        load_workspace(tmp_path / "p.yaml")
    (tmp_path / "p.yaml").write_text("opening: {min_paragraph: 900}\n")
    with pytest.raises(ConfigError, match="expected min_paragraph <= target_paragraph"):
        load_workspace(tmp_path / "p.yaml")
