"""Experiment trackers, by the names that transformers' ``report_to`` knows, kept from harming a training.

A tracker that fails while training says so in one warning and is not called again. Trackers look at a training; nothing
of its result depends on them.
"""

import warnings
from collections.abc import Callable, Sequence

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations.integration_utils import get_reporting_integration_callbacks

from agentic_r.errors import ConfigError, MissingPartError

__all__ = ["GuardedTracker", "build_trackers"]

# What trackers raise where a server, a login, a folder or a version is not as they need it.
_FAILURES = (OSError, RuntimeError, ValueError, TypeError, AttributeError, ImportError, KeyError)


def build_trackers(names: Sequence[str]) -> list[TrainerCallback]:
    """Return one guarded callback for each tracker named.

    Raises:
        ConfigError: transformers knows no tracker of a name.
        MissingPartError: a tracker's package is not installed.
    """
    guarded: list[TrainerCallback] = []
    for name in names:
        try:
            kinds = get_reporting_integration_callbacks([name])  # type: ignore[no-untyped-call]
            guarded += [GuardedTracker(kind(), name) for kind in kinds]
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise ConfigError(f"contrastive.report_to {name!r}: {reason}") from None
        except (RuntimeError, ImportError) as error:
            reason = " ".join(str(error).split())
            raise MissingPartError(f"contrastive.report_to {name!r}: {reason}") from None
    return guarded


class GuardedTracker(TrainerCallback):
    """Passes begin, logs and end on to a tracker until it fails."""

    def __init__(self, tracker: TrainerCallback, name: str) -> None:
        self._tracker, self._name = tracker, name
        self._is_broken = False

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """Tell the tracker that training begins."""
        self._try(lambda: self._tracker.on_train_begin(args, state, control, **kwargs))

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object) -> None:
        """Give the tracker a step's numbers."""
        self._try(lambda: self._tracker.on_log(args, state, control, **kwargs))

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """Tell the tracker that training ends."""
        self._try(lambda: self._tracker.on_train_end(args, state, control, **kwargs))

    def _try(self, call: Callable[[], object]) -> None:
        if self._is_broken:
            return
        try:
            call()
        except _FAILURES as error:
            self._is_broken = True
            reason = " ".join(str(error).split())
            warnings.warn(f"tracker {self._name} failed and is left out from here on: {reason}", stacklevel=2)
