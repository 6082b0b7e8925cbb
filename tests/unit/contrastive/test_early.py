"""Settings of a training that cannot be met are refused before it starts."""

from pathlib import Path

import pytest

from agentic_r.check import check_run, refuse_early
from agentic_r.config import ContrastiveConfig, LoraConfig, load_config
from agentic_r.contrastive.early import refuse_settings
from agentic_r.errors import ConfigError

REFUSED = [
    ({"patience": 2}, r"contrastive\.patience 2: there is no dev evaluation"),
    ({"dev_share": 0.1, "dev_measures": ("nDCG@10", "R@1000")}, r"'R@1000': dev rankings are cut at 100"),
    ({"dev_share": 0.1, "dev_measures": ("nonsense",)}, r"measure 'nonsense' is not known"),
    ({"report_to": ("nobody",)}, r"contrastive\.report_to 'nobody'"),
]


@pytest.mark.parametrize(("changes", "says"), REFUSED)
def test_what_cannot_be_met_is_refused_in_one_line(changes, says):
    with pytest.raises(ConfigError, match=says):
        refuse_settings(ContrastiveConfig(**changes), has_dev=False)


@pytest.mark.parametrize(
    "changes", [{"patience": 2, "dev_share": 0.1}, {"dev_measures": ("R@100", "RR")}, {"lora": LoraConfig()}]
)
def test_a_run_with_settings_that_can_be_met_has_no_such_finding(changes):
    run = load_config(Path(__file__).parents[3] / "configs" / "quickstart.yaml")
    config = run.model_copy(update={"contrastive": run.contrastive.model_copy(update=changes)})
    assert not [item.text for item in check_run(config) if item.severity == "error"]


def test_patience_can_be_met_by_a_dev_set_that_is_given():
    changes = {"patience": 2}
    with pytest.raises(ConfigError, match="no dev evaluation"):
        refuse_settings(ContrastiveConfig(**changes), has_dev=False)
    refuse_settings(ContrastiveConfig(**changes), has_dev=True)


def test_a_run_is_checked_so_before_it_starts():
    config = load_config(Path(__file__).parents[3] / "configs" / "quickstart.yaml", ("contrastive.patience=2",))
    assert any("contrastive.patience 2" in item.text for item in check_run(config) if item.severity == "error")
    with pytest.raises(ConfigError, match=r"contrastive\.patience 2"):
        refuse_early(config)
