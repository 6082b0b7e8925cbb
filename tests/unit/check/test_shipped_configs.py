"""The configurations that come with the project."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from agentic_r.config import EndpointJudge, load_config

CONFIGS = Path(__file__).resolve().parents[3] / "configs"


def leaves(section):
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from leaves(value)
        else:
            yield name


@pytest.mark.parametrize("name", ["domain", "hotpotqa_small", "wiki_small"])
def test_it_parses_where_no_variable_is_set(name):
    assert load_config(CONFIGS / f"{name}.yaml", environment={}).name


def test_domain_names_every_key():
    text = (CONFIGS / "domain.yaml").read_text()
    for name in (*leaves(load_config(CONFIGS / "domain.yaml", environment={})), *EndpointJudge.model_fields):
        assert re.search(rf"\b{name}:", text), name


def test_what_domain_shows_as_defaults_are_the_defaults(tmp_path):
    text = (CONFIGS / "domain.yaml").read_text()
    settings = text[text.index("\nname:") :]  # what stands before is prose
    before, judge, after = re.split(r"(?m)(?=^  judge:|^  correctness:)", settings)  # two judges cannot both be shown
    shown = [re.sub(r"(?m)^( *)# (?=\w+: )", r"\1", part) for part in (before, after)]
    assert shown[0].count("# ") < before.count("# ")
    (tmp_path / "shown.yaml").write_text(shown[0] + judge + shown[1])
    assert load_config(tmp_path / "shown.yaml") == load_config(CONFIGS / "domain.yaml")


def test_hotpotqa_paths_come_from_variables():
    config = load_config(CONFIGS / "hotpotqa_small.yaml", environment={"HOTPOTQA": "/h", "TWOWIKI": "/t"})
    assert (str(config.data.documents), str(config.data.demonstrations)) == ("/h/documents.jsonl", "/t")
