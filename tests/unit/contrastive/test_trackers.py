"""Trackers see every step's numbers; one that fails is one warning and no more."""

import warnings

import pytest
from transformers import TrainerCallback

from agentic_r.contrastive.trackers import GuardedTracker, build_trackers
from agentic_r.errors import ConfigError


class Broken(TrainerCallback):
    def __init__(self):
        self.calls = 0

    def on_log(self, args, state, control, **kwargs):
        self.calls += 1
        raise OSError("no route\nto the server")


class Keeping(TrainerCallback):
    def __init__(self):
        self.seen = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.seen.append(logs)


def test_a_tracker_that_fails_is_one_warning_and_is_not_called_again():
    broken = Broken()
    guarded = GuardedTracker(broken, "mine")
    with pytest.warns(UserWarning, match="tracker mine failed and is left out from here on: no route to the server"):
        guarded.on_log(None, None, None, logs={})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        guarded.on_log(None, None, None, logs={})
    assert broken.calls == 1


def test_a_tracker_is_passed_what_is_logged():
    keeping = Keeping()
    GuardedTracker(keeping, "mine").on_log(None, None, None, logs={"loss": 1.0})
    assert keeping.seen == [{"loss": 1.0}]


def test_a_name_that_transformers_does_not_know_is_refused():
    with pytest.raises(ConfigError, match=r"contrastive\.report_to 'nobody'"):
        build_trackers(["nobody"])


def test_no_names_are_no_trackers():
    assert build_trackers([]) == []
