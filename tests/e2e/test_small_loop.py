"""The small loop from a corpus to an export, killed and run again, through the command line."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

from agentic_r.artifacts.jsonl import read_jsonl

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "tests" / "e2e" / "small.yaml"
COMMAND = [sys.executable, "-m", "agentic_r", "run", str(CONFIG)]
# What a stage leaves, apart from times: these must be equal, byte for byte.
RESULTS = (
    "iter-1/instances/instances.jsonl",
    "iter-1/rollout/trajectories.jsonl",
    "iter-1/agent/training/metrics.jsonl",
    "cross/iter-1/iter-1/trajectories.jsonl",
    "evaluation/iter-1/per_question.json",
    "iter-1/agent/model/model.safetensors",
    "iter-1/retriever/encoder/model.safetensors",
)


def start(runs: Path, *options: str) -> "subprocess.Popen[str]":
    command = [*COMMAND, "--set", f"runs={runs}", *options]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(runs: Path, *options: str) -> tuple[int, str, str]:
    process = start(runs, *options)
    out, err = process.communicate(timeout=600)
    return process.returncode, out, err


def kill_when(runs: Path, moment: str) -> None:
    """Start a run and kill it as soon as a file of the run exists."""
    process = start(runs)
    deadline = time.monotonic() + 300
    while process.poll() is None and not list((runs / "small").glob(moment)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert process.poll() is None, "the run ended before it could be killed"
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    runs = tmp_path_factory.mktemp("unbroken")
    code, out, err = finish(runs, "--json")
    assert code == 0, err
    return runs / "small", json.loads(out)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_summary_has_its_rows_and_cells_and_the_page_is_there(unbroken):
    folder, summary = unbroken
    assert [row["stage"] for row in summary["rows"]] == ["bm25", "base", "iter-1"]
    assert {(cell["agent"], cell["retriever"]) for cell in summary["cross"]} == {
        (agent, retriever) for agent in ("warm", "iter-1") for retriever in ("bm25", "base", "iter-1")
    }
    assert summary == json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert "</html>" in (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_export_loads_by_itself_and_gives_unit_vectors(unbroken):
    folder, _ = unbroken
    vectors = SentenceTransformer(str(folder / "export" / "encoder"), local_files_only=True).encode_query(["who ?"])
    assert abs(float((vectors**2).sum()) - 1) < 1e-5
    assert json.loads((folder / "export" / "encoder" / "parity.json").read_text(encoding="utf-8"))["equal"] is True


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_finished_run_is_exported_again_and_its_index_given_to_an_engine(unbroken, tmp_path):
    folder, _ = unbroken
    options = ["--to", str(tmp_path / "export"), "--onnx", "none", "--json"]
    report = json.loads(_agentic_r("export", str(folder), *options))
    assert report["equal"]
    assert report["artefacts"][0]["ranking"]["overlap"] == 1.0
    assert "| iter-1 | recall@5 |" in (tmp_path / "export" / "README.md").read_text(encoding="utf-8")
    options = ["--kind", "parquet", "--to", str(tmp_path / "index"), "--json"]
    written = json.loads(_agentic_r("export", "index", str(folder), *options))
    counts = json.loads((folder / "iter-1" / "index" / "manifest.json").read_bytes())["counts"]
    assert (written["counts"]["written"], written["skipped"]) == (counts["passages"], {})
    changed = Path(shutil.copytree(folder, tmp_path / "changed"))
    passages = changed / "corpus" / "passages.jsonl"
    passages.write_text("".join(passages.read_text(encoding="utf-8").splitlines(keepends=True)[:-1]), encoding="utf-8")
    command = [sys.executable, "-m", "agentic_r", "export", "index", str(changed), "--kind", "parquet"]
    refused = subprocess.run([*command, "--to", str(tmp_path / "other")], cwd=ROOT, capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "they were changed by hand" in refused.stderr


def _agentic_r(*arguments: str) -> str:
    command = [sys.executable, "-m", "agentic_r", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_runs_end_as_the_unbroken_one_and_do_nothing_twice(unbroken, tmp_path):
    folder, _ = unbroken
    kill_when(tmp_path, "iter-1/agent/training/checkpoint-*")
    corpus = (tmp_path / "small" / "corpus" / "manifest.json").read_bytes()
    kill_when(tmp_path, "iter-1/retriever/begun.json")
    code, _, err = finish(tmp_path)
    assert code == 0, err
    assert (tmp_path / "small" / "corpus" / "manifest.json").read_bytes() == corpus
    for name in RESULTS:
        assert (tmp_path / "small" / name).read_bytes() == (folder / name).read_bytes(), name


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_changed_setting_names_what_is_stale_and_refuses(unbroken):
    folder, _ = unbroken
    code, _, err = finish(folder.parent, "--set", "ppo.kl=0.5")
    assert code == 2
    line = err.strip().splitlines()[-1]
    assert "iter-1/agent is stale" in line
    assert "ppo.kl was 0.001, is now 0.5" in line


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_another_run_takes_over_the_stages_that_still_fit(unbroken, tmp_path):
    folder, _ = unbroken
    options = ("--set", f"reuse=[{folder}]", "--set", "labels.selection.shuffle_labels=true")
    code, _, err = finish(tmp_path, *options, "--until", "iter-1/instances")
    assert code == 0, err
    assert (tmp_path / "small" / "iter-1" / "correctness" / "continuations.jsonl").read_bytes() == (
        folder / "iter-1" / "correctness" / "continuations.jsonl"
    ).read_bytes()
    assert "taken over" in err


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_recorded_tool_calls_replay_to_the_same_coverage_and_a_smaller_budget_shows_no_more(unbroken):
    folder, _ = unbroken

    def replayed(*options):
        command = [sys.executable, "-m", "agentic_r", "workspace", "replay", str(CONFIG), "--json"]
        chosen = ["--set", f"runs={folder.parent}", "--system", "rarg+", "--from", "iter-1", *options]
        answer = subprocess.run([*command, *chosen], cwd=ROOT, capture_output=True, text=True, timeout=600)
        assert answer.returncode == 0, answer.stderr
        return [row["coverage"] for row in json.loads(answer.stdout)["rows"]]

    recorded, again = replayed("--retriever", "iter-1")
    assert recorded == again
    recorded, smaller = replayed("--budget", "800")
    assert smaller["evidence"]["value"] <= recorded["evidence"]["value"]
    assert smaller["scope@5"] == recorded["scope@5"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_recorded_trace_that_is_missing_or_damaged_is_said_and_made_again(unbroken, tmp_path):
    copy = tmp_path / "small"
    shutil.copytree(unbroken[0], copy)
    trace = min((copy / "workspace" / "traces" / "rarg" / "base").iterdir())
    (before,) = read_jsonl(trace)
    command = [sys.executable, "-m", "agentic_r"]
    settings = [str(CONFIG), "--set", f"runs={tmp_path}"]
    for damage in (trace.unlink, lambda: trace.write_text("{")):
        damage()
        replay = [*command, "workspace", "replay", *settings, "--system", "rarg", "--from", "base"]
        answer = subprocess.run(replay, cwd=ROOT, capture_output=True, text=True, timeout=600)
        assert answer.returncode == 2
        assert f"{trace}: " in answer.stderr
        manifest = copy / "workspace" / "manifest.json"
        assert f"delete {manifest} and finish the run again" in answer.stderr
    manifest.unlink()
    subprocess.run([*command, "run", *settings], cwd=ROOT, check=True, timeout=600)
    (after,) = read_jsonl(trace)
    assert after["scopes"] == before["scopes"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_workspace_of_a_run_that_does_not_fit_is_refused_and_nothing_is_written_over(unbroken, tmp_path):
    copy = tmp_path / "small"
    shutil.copytree(unbroken[0], copy)

    def said(*arguments):
        command = [sys.executable, "-m", "agentic_r", "workspace", *arguments, "--set", f"runs={tmp_path}"]
        answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
        return answer.returncode, answer.stderr

    code, err = said("show", str(CONFIG), "--set", "contrastive.learning_rate=0.5")
    assert (code, "contrastive.learning_rate was" in err) == (2, True)
    preset = tmp_path / "rarg.yaml"
    preset.write_text((ROOT / "configs" / "workspace" / "rarg.yaml").read_text())
    run = ("run", str(CONFIG), "--preset", str(preset), "--retriever", "bm25")
    assert said(*run)[0] == 0
    traces = {path: path.read_bytes() for path in (copy / "workspace_runs" / "rarg").rglob("*.json")}
    preset.write_text("systems: [rarg]\nmax_matches: 3\n")
    code, err = said(*run)
    assert (code, "other settings (in preset.json); rename the file" in err) == (2, True)
    assert {path: path.read_bytes() for path in traces} == traces
    document = min((copy / "workspace" / "store" / "documents").iterdir())
    document.unlink()
    code, err = said("replay", str(CONFIG), "--system", "rarg", "--from", "base")
    assert (code, f"{document}: missing, or not as long" in err) == (2, True)
