"""What several commands share: their arguments, one line of JSON, and silence of the libraries."""

import json
import os
import warnings
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["ConfigPath", "Json", "Overrides", "json_line", "quiet_libraries"]


ConfigPath = Annotated[Path, typer.Argument(metavar="CONFIG", help="A YAML file, e.g. configs/quickstart.yaml.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="Override a setting: section.key=value. Repeatable.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else there.")]


def json_line(value: object) -> str:
    """Return a value as one line of JSON."""
    return json.dumps(value, ensure_ascii=False)


def quiet_libraries() -> None:
    """No telemetry, no hub, no progress bars but ours: a run talks to nobody that its configuration does not name.

    Nor warnings of what a library means to change one day: they are for programmers.
    """
    warnings.simplefilter("ignore", FutureWarning)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
