"""What the command line says and returns."""

import fcntl
import json
import subprocess
import sys
from pathlib import Path

import pytest

from agentic_r.cli import main
from agentic_r.loop import run as loop_run

CONFIG = """
name: n
runs: runs
data: {kind: files, documents: docs, questions: q.jsonl}
encoder: {kind: scratch}
agent:
  model: {kind: pretrained, path: lm}
warm_start: {steps: 0}
ppo:
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a configuration whose corpus can be built; its language model is not there."""
    (tmp_path / "docs").mkdir()
    for number in range(3):
        (tmp_path / "docs" / f"d{number}.txt").write_text(f"Tower {number} is {number} metres high.")
    rows = [{"id": f"q{n}", "question": f"How high is {n}?", "answers": [f"{n} metres"]} for n in range(20)]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "c.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(monkeypatch, capsys):
    """Call the program; return exit code, standard output and standard error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["agentic-r", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return ended.value.code, shown.out, shown.err

    return run


def corpus(call, *more):
    return call("run", "c.yaml", "--until", "corpus", *more)


def test_a_finished_stage_is_0_and_done_again_is_said(folder, call):
    code, out, err = corpus(call)
    assert (code, out) == (0, "")
    assert "documents 3" in err
    code, _, err = corpus(call)
    assert code == 0
    assert err == f"{'corpus':<28} done before\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run",), "Missing argument 'CONFIG'; see agentic-r --help"),
        (("walk",), "No such command 'walk'; see agentic-r --help"),
        (("run", "c.yaml", "--bogus"), "No such option: --bogus; see agentic-r --help"),
        (("run", "c.yaml", "--set"), "Option '--set' requires an argument; see agentic-r --help"),
        (("run", "gone.yaml"), "gone.yaml: no such file; give a configuration, such as configs/quickstart.yaml"),
        (("check", "docs"), "docs: cannot be read (Is a directory); give a YAML file that can"),
        (("run", "c.yaml", "--until", "corpse"), "--until corpse: no such stage; did you mean corpus? the stages are"),
        (("run", "c.yaml", "--dry-run", "--until", "x"), "--until x: no such stage; the stages are corpus, bm25,"),
        (("run", "c.yaml", "--set", "reuse=[gone]"), "reuse: gone: no such folder; finish that run first"),
        (("run", "c.yaml", "--dry-run", "--set", "reuse=[q.jsonl]"), "reuse: q.jsonl: no such folder"),
        (("run", "c.yaml", "--set", "runs=q.jsonl"), "q.jsonl is a file, and q.jsonl/n is to be a folder"),
        (("run", "c.yaml", "--dry-run", "--set", "runs=q.jsonl"), "q.jsonl/n/corpus/manifest.json: Not a directory"),
        (("report", "gone"), "gone: no such folder; give a run's folder"),
        (("report", "c.yaml"), "c.yaml: no such folder; give a run's folder"),
        (("report", "docs"), "docs/summary.json: no summary; finish the run first"),
    ],
)
def test_a_mistake_is_one_line_and_2_and_one_object_where_json_is_asked_for(folder, call, arguments, says):
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    if arguments[-1] != "--set":
        code, out, err = call(*arguments, "--json")
        assert code == 2
        assert err == f"error: {json.loads(out)['error']}\n"
        assert out.count("\n") == 1
    assert not (folder / "runs").exists()


def test_what_a_stage_refuses_is_one_line_too(folder, call):
    code, _, err = corpus(call, "--set", "data.questions=docs")
    assert code == 2
    assert err.startswith("error: docs: is a folder; give one file of a type that is read (.jsonl,")
    assert err.count("\n") == 1


def test_without_a_command_the_help_is_shown(call):
    code, out, err = call()
    assert (code, err) == (2, "")
    assert "Usage: agentic-r" in out


def test_a_run_that_stops_early_prints_one_object(folder, call):
    code, out, _ = corpus(call, "--json")
    assert code == 0
    assert json.loads(out) == {"folder": "runs/n", "until": "corpus", "num_failed": 0}


def test_what_a_library_prints_stays_out_of_standard_output(folder, call, monkeypatch):
    monkeypatch.setitem(loop_run._WORK, "corpus", lambda *_: print("chatter"))
    code, out, err = corpus(call, "--json")
    assert code == 0
    assert json.loads(out)["until"] == "corpus"
    assert "chatter" in err


def test_failed_records_are_1(folder, call, monkeypatch):
    def work(parts, plan, stage, report):
        stage.failed["tool failed"] = 2

    monkeypatch.setitem(loop_run._WORK, "corpus", work)
    code, out, err = corpus(call, "--json")
    assert (code, json.loads(out)["num_failed"]) == (1, 2)
    assert "failed 2" in err
    assert "2 records failed; the reasons are in the report and the manifests" in err


def test_an_interrupted_run_is_130_and_says_how_to_go_on(folder, call, monkeypatch):
    def work(*_):
        raise KeyboardInterrupt

    monkeypatch.setitem(loop_run._WORK, "corpus", work)
    assert corpus(call) == (130, "", "interrupted; run the same command again to go on\n")


def test_a_full_disk_is_one_line(folder, call, monkeypatch):
    def work(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(loop_run._WORK, "corpus", work)
    code, _, err = corpus(call)
    assert code == 2
    assert err.startswith("error: writing: No space left on device; give a path that can be used, make room")


def test_an_error_of_ours_keeps_its_traceback(folder, monkeypatch):
    def work(*_):
        raise OSError("not about a file")

    monkeypatch.setitem(loop_run._WORK, "corpus", work)
    monkeypatch.setattr(sys, "argv", ["agentic-r", "run", "c.yaml", "--until", "corpus"])
    with pytest.raises(OSError, match="not about a file"):
        main()


def test_a_second_process_is_refused_and_the_first_is_left_alone(folder, call):
    (folder / "runs" / "n").mkdir(parents=True)
    with (folder / "runs" / ".n.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        code, _, err = corpus(call)
    assert code == 2
    assert err == "error: runs/n: another process is working in this folder; wait for it, or use another name\n"
    assert not (folder / "runs" / "n" / "corpus").exists()


def test_what_a_late_stage_would_refuse_is_refused_before_any_work(folder, call):
    code, _, err = call("run", "c.yaml")
    assert code == 2
    assert "agent.model.path lm: not a Hugging Face folder" in err
    assert not (folder / "runs").exists()
    assert corpus(call)[0] == 0  # which needs no model


def test_check_prints_findings_and_counts_errors(folder, call):
    code, out, err = call("check", "c.yaml")
    assert code == 2
    assert out.startswith("error: agent.model.path lm: not a Hugging Face folder")
    assert err == "1 error\n"
    code, out, err = call("check", "c.yaml", "--json")
    found = json.loads(out)
    assert (code, err, found["errors"]) == (2, "", 1)
    assert found["findings"][0]["severity"] == "error"


def test_a_dry_run_stops_where_it_is_told_to(folder, call):
    code, out, _ = call("run", "c.yaml", "--dry-run", "--until", "bm25", "--json")
    assert code == 0
    assert json.loads(out)["stages"] == {"corpus": "to do", "bm25": "to do"}
    assert not (folder / "runs").exists()


PARTS = ("endings", "exporting", "options", "running", "serving", "workspace")


def test_help_imports_nothing_of_ours_but_the_command_line():
    code = (
        "import sys; sys.argv = ['agentic-r', '--help']\n"
        "from agentic_r.cli import main\n"
        "try: main()\n"
        "except SystemExit as ended: assert ended.code == 0\n"
        "print(sorted(m for m in sys.modules if m.startswith(('agentic_r', 'torch', 'pydantic', 'yaml'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str(
        ["agentic_r", "agentic_r.cli", *(f"agentic_r.cli.{part}" for part in PARTS), "agentic_r.errors"]
    )


def test_no_line_of_the_help_is_wider_than_80(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for command in ("run", "check", "report"):
        code, out, _ = call(command, "--help")
        assert code == 0
        assert max(map(len, out.splitlines())) <= 80


def test_the_files_of_the_user_are_as_they_were(folder, call):
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    call("check", "c.yaml")
    corpus(call)
    corpus(call, "--set", "seed=7")
    assert {path: path.read_bytes() for path in before} == before
