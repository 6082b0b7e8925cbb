"""The command line: arguments in, text or one JSON object out, and what every ending says and returns.

Heavy imports stand inside the commands: ``--help`` and every configuration error are instant.
"""

import contextlib
import errno
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Annotated, NoReturn, cast

import typer

from agentic_r import __version__
from agentic_r.errors import AgenticRError, ConfigError

__all__ = ["app", "main"]

# Every mistake on the command line; a cast, since typer has no public name for the class.
_UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[1])
_INTERRUPTED = 130
_FULL = (errno.ENOSPC, errno.EDQUOT)

app = typer.Typer(
    help="Train a retriever for agentic search, and prove that it helps.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

train_app = typer.Typer(help="Train one part by itself.", no_args_is_help=True)
app.add_typer(train_app, name="train")

ConfigPath = Annotated[Path, typer.Argument(metavar="CONFIG", help="A YAML file, e.g. configs/quickstart.yaml.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="Override a setting: section.key=value. Repeatable.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else there.")]


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.command("run")
def run_command(
    config: ConfigPath,
    overrides: Overrides = None,
    until: Annotated[str | None, typer.Option(help="Stop after this stage.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the stages and the settings; do nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Run the whole loop; safe to kill and run again."""
    from agentic_r.config import load_config

    settings = load_config(config, tuple(overrides or ()))
    if dry_run:
        from agentic_r.loop.preview import preview

        shown = preview(settings, until=until)
        typer.echo(_json(shown.to_json()) if as_json else shown.text())
        return
    from agentic_r.check import refuse_early

    refuse_early(settings, until=until)
    _quiet_libraries()
    from agentic_r.artifacts.progress import terminal_progress
    from agentic_r.loop.run import run

    with contextlib.redirect_stdout(sys.stderr):  # what a library says is not what the command says
        outcome = run(settings, progress=terminal_progress(sys.stderr), until=until)
    if as_json:
        early = {"folder": str(outcome.folder), "until": until, "num_failed": outcome.num_failed}
        summary = outcome.summary
        typer.echo(_json(early if summary is None else summary.model_dump(mode="json", by_alias=True)))
    elif outcome.summary is not None:
        _print_tables(outcome.folder)
    if outcome.num_failed:
        typer.echo(f"{outcome.num_failed} records failed; the reasons are in the report and the manifests", err=True)
        raise typer.Exit(1)


@app.command("check")
def check_command(config: ConfigPath, overrides: Overrides = None, as_json: Json = False) -> None:
    """Say what is wrong before anything heavy starts."""
    from agentic_r.check import check_run
    from agentic_r.config import load_config

    findings = check_run(load_config(config, tuple(overrides or ())))
    num_errors = sum(item.severity == "error" for item in findings)
    if as_json:
        listed = [{"severity": item.severity, "text": item.text} for item in findings]
        typer.echo(_json({"errors": num_errors, "findings": listed}))
    else:
        for item in findings:
            typer.echo(f"{item.severity}: {item.text}")
        typer.echo(f"{num_errors} error{'' if num_errors == 1 else 's'}", err=True)
    if num_errors:
        raise typer.Exit(2)


@app.command("report")
def report_command(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")], as_json: Json = False
) -> None:
    """Print a finished run's result table again."""
    from agentic_r.evaluation.summary import read_summary

    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder; give a run's folder, such as runs/quickstart")
    summary = read_summary(folder / "summary.json")
    if as_json:
        typer.echo(_json(summary.model_dump(mode="json", by_alias=True)))
    else:
        _print_tables(folder)


@train_app.command("retriever")
def train_retriever_command(config: ConfigPath, overrides: Overrides = None, as_json: Json = False) -> None:
    """Train a retriever on your own instances (ours, Tevatron, FlagEmbedding or sentence-transformers shapes)."""
    from agentic_r.config import load_retriever_config

    settings = load_retriever_config(config, tuple(overrides or ()))
    _quiet_libraries()
    from agentic_r.artifacts.progress import terminal_progress
    from agentic_r.contrastive.standalone import train_alone

    with contextlib.redirect_stdout(sys.stderr):
        train_alone(settings, progress=terminal_progress(sys.stderr))
    text = (settings.folder / "summary.json").read_text(encoding="utf-8")
    typer.echo(_json(json.loads(text)) if as_json else f"encoder: {settings.folder / 'retriever' / 'encoder'}")


def _print_tables(folder: Path) -> None:
    from rich.console import Console

    from agentic_r.evaluation.findings import headline
    from agentic_r.evaluation.summary import read_summary
    from agentic_r.evaluation.table import terminal_table

    summary = read_summary(folder / "summary.json")
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(headline(summary))
    console.print(terminal_table(summary))
    console.print(f"report: {folder / 'report.html'}", soft_wrap=True)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _quiet_libraries() -> None:
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


def main() -> None:
    """Entry point: exit codes 0 done, 1 finished with failures, 2 the user's mistake, 130 interrupted.

    A mistake is one line on standard error and, with ``--json``, one object with ``error`` on standard output.
    """
    try:
        code = app(prog_name="agentic-r", standalone_mode=False)
    except AgenticRError as error:
        _refuse(str(error))
    except _UsageError as error:
        text = error.format_message()
        _refuse(f"{text.rstrip('.')}; see agentic-r --help" if text else "")
    except OSError as error:
        if error.filename is None and error.errno not in _FULL:
            raise  # not about a file of the user's
        where = error.filename or "writing"
        _refuse(f"{where}: {error.strerror}; give a path that can be used, make room, or mend its permissions")
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        start = "\n" if sys.stderr.isatty() else ""  # below the live line
        sys.stderr.write(f"{start}interrupted; run the same command again to go on\n")
    sys.exit(code or 0)


def _refuse(text: str) -> NoReturn:
    """End with the user's mistake; without a text, the help that was printed says it all."""
    line = " ".join(text.split())
    if line:
        sys.stderr.write(f"error: {line}\n")
        if "--json" in sys.argv[1:]:
            sys.stdout.write(_json({"error": line}) + "\n")
    sys.exit(2)
