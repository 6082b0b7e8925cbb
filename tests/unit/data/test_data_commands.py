"""The scripts' command lines, and the tiny world as files."""

import subprocess
import sys

import pytest
from data_scripts import ROOT

from agentic_r.config import FilesData, PassagesConfig
from agentic_r.corpus.check import check_data

SCRIPTS = ("hotpotqa", "tiny_world", "twowiki_demonstrations", "wiki_leads")


def run(name, *arguments):
    return subprocess.run(
        [sys.executable, str(ROOT / "data" / f"{name}.py"), *arguments],
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_says_what_a_script_does(name):
    shown = run(name, "--help")
    assert shown.returncode == 0
    assert "folder to write" in shown.stdout


def test_a_users_mistake_is_one_line_and_exit_code_2(tmp_path):
    ended = run("twowiki_demonstrations", str(tmp_path / "nowhere"), str(tmp_path / "out"))
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: ")
    assert ended.stderr.count("\n") == 1
    assert run("tiny_world", str(tmp_path / "out"), "--documents", "999999").returncode == 2


def test_tiny_world_files_pass_the_check_of_data(tmp_path):
    ended = run(
        "tiny_world",
        str(tmp_path / "w"),
        "--documents",
        "60",
        "--train",
        "8",
        "--heldout",
        "4",
        "--demonstrations",
        "10",
    )
    assert ended.stdout == f"{tmp_path / 'w'}: 60 documents, 8 training and 4 held-out questions, 10 demonstrations\n"
    files = FilesData(
        kind="files",
        documents=tmp_path / "w" / "documents.jsonl",
        questions=tmp_path / "w" / "questions.jsonl",
        demonstrations=tmp_path / "w" / "demonstrations.jsonl",
    )
    assert not [line for line in check_data(files, PassagesConfig(max_words=30)) if line.startswith("error")]
