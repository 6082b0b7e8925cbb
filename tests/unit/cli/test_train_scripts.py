"""The scripts of ``train/`` end as the command line does."""

import runpy
from pathlib import Path

import pytest

from agentic_r.cli.endings import end_script

SCRIPTS = sorted((Path(__file__).parents[3] / "train").glob("*.py"))


def ended(monkeypatch, capsys, script, *arguments):
    monkeypatch.setattr("sys.argv", [str(script), *arguments])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(script), run_name="__main__")
    return end.value.code, capsys.readouterr().err


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_without_an_argument_a_script_says_its_usage_in_one_line(monkeypatch, capsys, script):
    code, said = ended(monkeypatch, capsys, script)
    assert code == 2
    assert said.startswith(f"error: usage: python train/{script.name} CONFIG")
    assert said.count("\n") == 1


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
@pytest.mark.parametrize("text", [None, "a: [", "surely: nothing"])
def test_the_users_mistake_is_one_line_and_code_2(monkeypatch, capsys, tmp_path, script, text):
    file = tmp_path / "own.yaml"
    if text is not None:
        file.write_text(text)
    code, said = ended(monkeypatch, capsys, script, str(file))
    assert code == 2
    assert said.startswith("error: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize(("num_failed", "code"), [(0, 0), (3, 1)])
def test_failed_records_are_code_1(monkeypatch, capsys, num_failed, code):
    monkeypatch.setattr("sys.argv", ["train/alternate.py", "a.yaml"])
    with pytest.raises(SystemExit) as end:
        end_script("python train/alternate.py CONFIG", lambda arguments: num_failed, max_arguments=1)
    assert end.value.code == code
    assert ("3 records failed" in capsys.readouterr().err) == bool(num_failed)
