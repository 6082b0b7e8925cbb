"""Trackers see every step's numbers under its number; one that fails is one warning and no more."""

import warnings
from types import SimpleNamespace

import pytest
import torch
from transformers import TrainerCallback, TrainerState

from agentic_r.contrastive.dev import DevLog, DevRecord
from agentic_r.contrastive.step_log import StepLog, StepRecord
from agentic_r.contrastive.trackers import GuardedTracker, Numbers, build_trackers
from agentic_r.errors import ConfigError


class TrackerError(Exception):
    """As wandb's and MLflow's: a child of Exception alone."""


class Broken(TrainerCallback):
    def __init__(self):
        self.calls = 0

    def on_log(self, args, state, control, **kwargs):
        self.calls += 1
        raise TrackerError("no route\nto the server")


class Keeping(TrainerCallback):
    def __init__(self):
        self.seen = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.seen.append((state.global_step, logs))


def record(step, **changes):
    values = {
        "step": step,
        "instances": "abc",
        "num_rows": 2,
        "num_columns": 4,
        "num_rows_without_negatives": 0,
        "num_likely_positives": 0,
        "loss": 0.5,
        "grad_norm": None,
        "positive_similarity": 0.9,
        "negative_similarity": 0.1,
        "learning_rate": 1e-3,
        "state": "ok",
    }
    return StepRecord(**(values | changes))


@pytest.fixture
def logs(tmp_path):
    measure = {"measure": "nDCG@10", "keep_steps": 0, "is_begun": False}
    return SimpleNamespace(
        steps=StepLog(tmp_path / "metrics.jsonl", keep_steps=0),
        dev=DevLog(tmp_path / "dev.jsonl", weights_folder=tmp_path, **measure),
    )


def test_a_tracker_that_fails_is_one_warning_and_is_not_called_again(logs):
    broken = Broken()
    guarded = GuardedTracker(broken, "mine", Numbers(logs.steps, None))
    logs.steps.append(record(1))
    with pytest.warns(UserWarning, match="tracker mine failed and is left out from here on: no route to the server"):
        guarded.on_step_end(None, TrainerState(global_step=1), None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        guarded.on_step_end(None, TrainerState(global_step=1), None)
    assert broken.calls == 1


def test_a_tracker_is_told_each_step_under_its_own_number_and_the_evaluations(logs):
    keeping = Keeping()
    guarded = GuardedTracker(keeping, "mine", Numbers(logs.steps, logs.dev))
    logs.dev.append(DevRecord(0, {"nDCG@10": 0.25}), torch.nn.Linear(1, 1))
    guarded.on_train_begin(None, TrainerState(global_step=0), None)
    logs.steps.append(record(1))
    guarded.on_step_end(None, TrainerState(global_step=1), None)
    logs.steps.append(record(2, loss=0.4))
    logs.dev.append(DevRecord(2, {"nDCG@10": 0.5}), torch.nn.Linear(1, 1))
    guarded.on_step_end(None, TrainerState(global_step=2), None)
    assert [(step, seen.get("step"), seen.get("loss"), seen.get("eval_nDCG_10")) for step, seen in keeping.seen] == [
        (0, None, None, 0.25),
        (1, 1, 0.5, None),
        (2, 2, 0.4, 0.5),
    ]
    assert "instances" not in keeping.seen[1][1]


def test_a_name_that_transformers_does_not_know_is_refused(logs):
    with pytest.raises(ConfigError, match=r"contrastive\.report_to 'nobody'"):
        build_trackers(["nobody"], Numbers(logs.steps, None))


def test_no_names_are_no_trackers(logs):
    assert build_trackers([], Numbers(logs.steps, None)) == []
