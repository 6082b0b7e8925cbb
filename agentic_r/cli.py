"""The command line. Heavy imports stand inside the commands: ``--help`` and every configuration error are instant."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from agentic_r import __version__
from agentic_r.errors import AgenticRError

__all__ = ["app", "main"]

app = typer.Typer(
    help="Train a retriever for agentic search, and prove that it helps.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

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

        shown = preview(settings)
        typer.echo(json.dumps(shown.to_json()) if as_json else shown.text())
        return
    _quiet_libraries()
    from agentic_r.artifacts.progress import terminal_progress
    from agentic_r.loop.run import run

    outcome = run(settings, progress=terminal_progress(sys.stderr), until=until)
    if outcome.summary is not None:
        if as_json:
            typer.echo(json.dumps(outcome.summary.model_dump(mode="json", by_alias=True)))
        else:
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
    if as_json:
        typer.echo(
            json.dumps([{"severity": item.severity, "text": item.text} for item in findings], ensure_ascii=False)
        )
    else:
        for item in findings:
            typer.echo(f"{item.severity}: {item.text}")
        typer.echo(f"{sum(item.severity == 'error' for item in findings)} errors", err=True)
    if any(item.severity == "error" for item in findings):
        raise typer.Exit(2)


@app.command("report")
def report_command(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")], as_json: Json = False
) -> None:
    """Print a finished run's result table again."""
    from agentic_r.evaluation.summary import read_summary

    summary = read_summary(folder / "summary.json")
    if as_json:
        typer.echo(json.dumps(summary.model_dump(mode="json", by_alias=True)))
    else:
        _print_tables(folder)


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


def _quiet_libraries() -> None:
    """No telemetry, no hub, no progress bars but ours: a run talks to nobody that its configuration does not name."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")


def main() -> None:
    """Entry point: exit codes 0 done, 1 finished with failures, 2 the user's mistake, 130 interrupted."""
    try:
        app()
    except AgenticRError as error:
        sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; run the same command again to go on\n")
        sys.exit(130)
