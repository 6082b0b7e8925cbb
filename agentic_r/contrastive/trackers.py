"""Experiment trackers, by the names that transformers' ``report_to`` knows, kept from harming a training.

A tracker that fails while training says so in one warning and is not called again. Trackers look at a training; nothing
of its result depends on them. They are told after a step, when its number stands in the Trainer's state, what the
training's own logs have of it; dev values are named ``eval_...``.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations.integration_utils import get_reporting_integration_callbacks

from agentic_r.artifacts.records import to_json
from agentic_r.contrastive.dev import DevLog
from agentic_r.contrastive.step_log import StepLog
from agentic_r.errors import ConfigError, MissingPartError

__all__ = ["GuardedTracker", "Numbers", "build_trackers", "refuse_trackers"]

_UNNAMEABLE = re.compile(r"[^\w.-]+")  # some trackers refuse a name with "@"


class Numbers:
    """What the logs of a training say of a step."""

    def __init__(self, log: StepLog, dev_log: DevLog | None) -> None:
        """Take the logs; they are looked at when asked."""
        self._log, self._dev_log = log, dev_log

    def of(self, step: int) -> dict[str, float]:
        """Return the step's record and evaluation, where they are the last ones."""
        numbers: dict[str, float] = {}
        records, evaluations = self._log.records[-1:], self._dev_log.records[-1:] if self._dev_log is not None else []
        for record in records:
            if record.step == step:
                known = to_json(record).items()
                numbers |= {name: value for name, value in known if isinstance(value, int | float)}
        for evaluation in evaluations:
            if evaluation.step == step:
                values = evaluation.values.items()
                numbers |= {f"eval_{_UNNAMEABLE.sub('_', measure)}": value for measure, value in values}
        return numbers


def build_trackers(names: Sequence[str], numbers: Numbers) -> list[TrainerCallback]:
    """Return one guarded callback for each tracker named.

    Raises:
        ConfigError: transformers knows no tracker of a name.
        MissingPartError: a tracker's package is not installed.
    """
    guarded: list[TrainerCallback] = []
    for name in names:
        with _named(name):
            guarded += [GuardedTracker(kind(), name, numbers) for kind in _kinds(name)]
    return guarded


def refuse_trackers(names: Sequence[str]) -> None:
    """Look whether transformers knows every tracker, and make none; raises as ``build_trackers``."""
    for name in names:
        with _named(name):
            _kinds(name)


def _kinds(name: str) -> list[type[TrainerCallback]]:
    kinds: list[type[TrainerCallback]] = get_reporting_integration_callbacks([name])  # type: ignore[no-untyped-call]
    return kinds


@contextmanager
def _named(name: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"contrastive.report_to {name!r}: {reason}") from None
    except (RuntimeError, ImportError) as error:
        reason = " ".join(str(error).split())
        raise MissingPartError(f"contrastive.report_to {name!r}: {reason}") from None


class GuardedTracker(TrainerCallback):
    """Passes begin, every step's numbers and end on to a tracker until it fails."""

    def __init__(self, tracker: TrainerCallback, name: str, numbers: Numbers) -> None:
        self._tracker, self._name, self._numbers = tracker, name, numbers
        self._is_broken = False

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """Tell the tracker that training begins, and how well the base did on the dev set."""
        self._try(lambda: self._tracker.on_train_begin(args, state, control, **kwargs))
        if state.global_step == 0:
            self._tell(args, state, control, **kwargs)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """Give the tracker a step's numbers."""
        self._tell(args, state, control, **kwargs)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """Tell the tracker that training ends."""
        self._try(lambda: self._tracker.on_train_end(args, state, control, **kwargs))

    def _tell(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object) -> None:
        logs = self._numbers.of(state.global_step)
        if logs:
            self._try(lambda: self._tracker.on_log(args, state, control, **{**kwargs, "logs": logs}))

    def _try(self, call: Callable[[], object]) -> None:
        if self._is_broken:
            return
        try:
            call()
        except Exception as error:  # noqa: BLE001 - a tracker must never end a training, and theirs have no common base
            self._is_broken = True
            reason = " ".join(str(error).split()) or type(error).__name__
            warnings.warn(f"tracker {self._name} failed and is left out from here on: {reason}", stacklevel=2)
