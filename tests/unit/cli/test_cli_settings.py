"""Mistakes in a configuration: each is one line with where, what, and what to do."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_r.config import load_config, load_retriever_config
from agentic_r.errors import ConfigError

CONFIG = """name: n
data: {kind: files, documents: d, questions: q.jsonl}
encoder: {kind: pretrained, path: e}
agent:
  model: {kind: pretrained, path: m}
evaluation:
  # measures: [R@5]
"""


@pytest.fixture
def refusal(tmp_path, monkeypatch):
    """Return what a configuration with these overrides, or this text, is refused with."""
    monkeypatch.chdir(tmp_path)

    def read(*overrides, text=CONFIG):
        (tmp_path / "c.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(ConfigError) as refused:
            load_config((tmp_path / "c.yaml").relative_to(tmp_path), overrides, environment={})
        assert "\n" not in str(refused.value)
        return str(refused.value)

    return read


def test_a_section_whose_lines_are_all_comments_takes_an_override(tmp_path):
    (tmp_path / "c.yaml").write_text(CONFIG)
    assert load_config(tmp_path / "c.yaml", ("evaluation.measures=[AP]",)).evaluation.measures == ("AP",)


def test_null_goes_back_to_the_default(tmp_path):
    (tmp_path / "c.yaml").write_text(CONFIG + "seed: 3\n")
    assert load_config(tmp_path / "c.yaml", ("seed=null",)).seed == 0


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("ppo.stepz=3", "--set ppo.stepz=3: no such setting; did you mean steps?"),
        ("nope.x=3", "--set nope.x=3: nope: no such setting; expected one of name, seed, runs,"),
        ("ppo.steps=many", "--set ppo.steps=many: expected a valid integer,"),
        ("ppo.steps=-1", "--set ppo.steps=-1: expected a number greater than or equal to 0 (got -1)"),
        ("ppo.learning_rate=.nan", "--set ppo.learning_rate=.nan: expected a finite number (got nan)"),
        ("ppo=3", "--set ppo=3: expected a section with settings below it (got 3)"),
        ("evaluation.measures=AP", "--set evaluation.measures=AP: expected a list, such as [a, b] (got 'AP')"),
        ("seed.x=3", "--set seed.x=3: seed: expected a valid integer"),
        ("ppo.steps=", "--set ppo.steps=: no value; write ppo.steps=null to go back to the default"),
        ("ppo..steps=3", "--set ppo..steps=3: expected section.key=value"),
        ("ppo.steps", "--set ppo.steps: expected section.key=value"),
        ("name=3", "--set name=3: expected text (got 3); put it in quotes"),
        ("name=../n", "--set name=../n: expected the name of a folder below runs"),
        ("name=''", "--set name='': expected the name of a folder below runs"),
        ("data.kind=file", "--set data.kind=file: expected one of 'tiny_world', 'files' (got 'file')"),
        ("data.documents=${NO}/d", "--set data.documents=${NO}/d: the environment variable NO is not set;"),
        ("data={", "--set data={: not readable as YAML ("),
        ("labels.judge={kind: endpoint}", "labels.judge.base_url: is missing; give it a value; labels.judge.model: is"),
        ("encoder={kind: scratch, width: 10}", "encoder.width 10 is not a multiple of encoder.heads 4; make it one"),
        ("ppo.minibatch_size=7", "ppo.rollouts_per_step 64 is not a multiple of ppo.minibatch_size 7; make it one"),
    ],
)
def test_a_wrong_override_is_named_with_what_was_expected(refusal, override, says):
    said = refusal(override)
    assert says in said
    assert said.startswith("--set ") or "multiple" in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "c.yaml: expected sections of settings, found nothing; see configs/quickstart.yaml"),
        ("- a", "c.yaml: expected sections of settings, found a list"),
        (
            CONFIG + "ppo: {steps: 1}\nppo: {kl: 0.1}\n",
            "c.yaml:9: not readable as YAML (ppo stands here a second time)",
        ),
        (CONFIG + "ppo:\n\tsteps: 1\n", "c.yaml:9: not readable as YAML (while scanning for the next token, found"),
        (CONFIG.encode() + b"# \xe9\n", "c.yaml: not UTF-8 (byte 178: invalid continuation byte); save it as UTF-8"),
        ("[" * 5000, "c.yaml: nested too deeply"),
        (CONFIG.replace("name: n\n", ""), "c.yaml: name: is missing; give it a value"),
        (CONFIG.replace("questions", "question"), "data.question: no such setting; did you mean questions?"),
        (CONFIG.replace("kind: files, ", ""), "c.yaml: data.kind: is missing; give the kind of data"),
    ],
)
def test_a_wrong_file_is_named_with_the_line_where_there_is_one(refusal, text, says):
    assert says in refusal(text=text)


def test_all_mistakes_are_told_at_once_by_where_they_were_made(refusal):
    said = refusal("ppo.steps=-1", text=CONFIG + "threads: 0\nseed: x\n")
    assert said.startswith("c.yaml: seed: expected a valid integer")
    assert "; threads: expected a number greater than or equal to 1 (got 0); --set ppo.steps=-1: expected" in said


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path):
    (tmp_path / "c.yaml").write_bytes(b"\xef\xbb\xbf" + CONFIG.replace("\n", "\r\n").encode())
    assert load_config(tmp_path / "c.yaml").name == "n"


@given(st.text(min_size=1))
def test_any_override_is_taken_or_refused(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(CONFIG)
    with contextlib.suppress(ConfigError):
        read = load_config(path, (f"evaluation.bootstrap_samples={text}",))
        assert read.evaluation.bootstrap_samples >= 1


def test_a_configuration_of_the_other_command_names_that_command(tmp_path):
    alone, whole = tmp_path / "alone.yaml", tmp_path / "whole.yaml"
    alone.write_text("name: mine\ninstances: pairs.jsonl\nencoder: {kind: pretrained, path: some}\n")
    whole.write_text("name: mine\ndata: {kind: tiny_world}\nagent: {}\nencoder: {kind: scratch}\n")
    with pytest.raises(ConfigError, match=r"trains a retriever alone; use it with agentic-r train retriever$"):
        load_config(alone)
    with pytest.raises(ConfigError, match=r"is a whole run's; use it with agentic-r run$"):
        load_retriever_config(whole)
