"""The loop's own commands: run, check, report, train retriever."""

import contextlib
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from agentic_r.cli.options import ConfigPath, Json, Overrides, json_line, quiet_libraries
from agentic_r.errors import ConfigError

__all__ = ["check_command", "report_command", "run_command", "train_retriever_command"]


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
        typer.echo(json_line(shown.to_json()) if as_json else shown.text())
        return
    from agentic_r.check import refuse_early

    refuse_early(settings, until=until)
    quiet_libraries()
    from agentic_r.artifacts.progress import terminal_progress
    from agentic_r.loop.run import run

    with contextlib.redirect_stdout(sys.stderr):  # what a library says is not what the command says
        outcome = run(settings, progress=terminal_progress(sys.stderr), until=until)
    if as_json:
        early = {"folder": str(outcome.folder), "until": until, "num_failed": outcome.num_failed}
        summary = outcome.summary
        typer.echo(json_line(early if summary is None else summary.model_dump(mode="json", by_alias=True)))
    elif outcome.summary is not None:
        _print_tables(outcome.folder)
    if outcome.num_failed:
        typer.echo(f"{outcome.num_failed} records failed; the reasons are in the report and the manifests", err=True)
        raise typer.Exit(1)


def check_command(config: ConfigPath, overrides: Overrides = None, as_json: Json = False) -> None:
    """Say what is wrong before anything heavy starts."""
    from agentic_r.check import check_run
    from agentic_r.config import load_config

    findings = check_run(load_config(config, tuple(overrides or ())))
    num_errors = sum(item.severity == "error" for item in findings)
    if as_json:
        listed = [{"severity": item.severity, "text": item.text} for item in findings]
        typer.echo(json_line({"errors": num_errors, "findings": listed}))
    else:
        for item in findings:
            typer.echo(f"{item.severity}: {item.text}")
        typer.echo(f"{num_errors} error{'' if num_errors == 1 else 's'}", err=True)
    if num_errors:
        raise typer.Exit(2)


def report_command(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")], as_json: Json = False
) -> None:
    """Print a finished run's result table again, or write the page of a retriever that was trained alone."""
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder; give a run's folder, such as runs/quickstart")
    if (folder / "retriever").is_dir():  # a run's are in its iterations
        _end_training(folder, as_json=as_json)
        return
    from agentic_r.evaluation.summary import read_summary

    summary = read_summary(folder / "summary.json")
    if as_json:
        typer.echo(json_line(summary.model_dump(mode="json", by_alias=True)))
    else:
        _print_tables(folder)


def train_retriever_command(config: ConfigPath, overrides: Overrides = None, as_json: Json = False) -> None:
    """Train a retriever on your own instances (ours, Tevatron, FlagEmbedding or sentence-transformers shapes)."""
    from agentic_r.config import load_retriever_config

    settings = load_retriever_config(config, tuple(overrides or ()))
    quiet_libraries()
    from agentic_r.artifacts.progress import terminal_progress
    from agentic_r.contrastive.standalone import train_alone

    with contextlib.redirect_stdout(sys.stderr):
        train_alone(settings, progress=terminal_progress(sys.stderr))
    _end_training(settings.folder, as_json=as_json)


def _end_training(folder: Path, *, as_json: bool) -> None:
    from agentic_r.evaluation.training_report import write_training_report

    report = write_training_report(folder)
    if as_json:
        typer.echo(json_line(json.loads((folder / "summary.json").read_text(encoding="utf-8"))))
    else:
        typer.echo(f"encoder: {folder / 'retriever' / 'encoder'}\nreport: {report}")


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
