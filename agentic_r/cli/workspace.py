"""The commands about a finished run's workspace: show, run, replay."""

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentic_r.cli.options import ConfigPath, Json, Overrides, json_line, quiet_libraries
from agentic_r.errors import ConfigError

if TYPE_CHECKING:
    from agentic_r.loop.workspace_commands import WorkspaceReport

__all__ = ["workspace_app"]


workspace_app = typer.Typer(help="The workspace of a finished run: coverage, presets, replays.", no_args_is_help=True)


@workspace_app.command("show")
def workspace_show_command(config: ConfigPath, overrides: Overrides = None, as_json: Json = False) -> None:
    """Print how far gold evidence came in a finished run's workspace."""
    from agentic_r.config import load_config
    from agentic_r.loop.workspace_commands import show_coverage

    _print_coverage(show_coverage(load_config(config, tuple(overrides or ()))), as_json=as_json)


@workspace_app.command("run")
def workspace_run_command(
    config: ConfigPath,
    preset: Annotated[Path, typer.Option(help="Workspace settings, e.g. configs/workspace/rarg.yaml.")],
    retriever: Annotated[list[str], typer.Option(help="bm25, base, iter-2, bm25+iter-2 ... Repeatable.")],
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """Run a preset over a finished run's recorded queries; no chat model takes part. Safe to kill and run again."""
    from agentic_r.config import load_config, load_workspace

    _refuse_limits(overrides, f"workspace run takes the workspace's settings from the preset; change {preset}")
    settings, chosen = load_config(config, tuple(overrides or ())), load_workspace(preset)
    quiet_libraries()
    from agentic_r.artifacts.progress import terminal_progress
    from agentic_r.loop.workspace_commands import run_preset

    progress = terminal_progress(sys.stderr)
    progress.begin(f"workspace {preset.stem}")
    with contextlib.redirect_stdout(sys.stderr):
        found = run_preset(settings, chosen, name=preset.stem, retrievers=retriever, progress=progress.update)
    progress.end("done")
    _print_coverage(found, as_json=as_json)


@workspace_app.command("replay")
def workspace_replay_command(
    config: ConfigPath,
    system: Annotated[str, typer.Option(help="Whose traces: rise, rarg, rarg+ or rarg++.")],
    recorded: Annotated[str, typer.Option("--from", help="The retriever that the traces were recorded with.")],
    retriever: Annotated[str | None, typer.Option(help="Rank by this one instead.")] = None,
    order: Annotated[str, typer.Option(help="Scan in this order: ranked, name or random.")] = "ranked",
    budget: Annotated[int | None, typer.Option(min=100, help="Characters of output a question.")] = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """Make recorded tool calls again, without a model, and say which evidence would have been shown."""
    from agentic_r.config import load_config

    _refuse_limits(overrides, "a replay takes the workspace's settings from the traces; give --order or --budget")
    settings = load_config(config, tuple(overrides or ()))
    quiet_libraries()
    from agentic_r.artifacts.progress import terminal_progress
    from agentic_r.loop.workspace_commands import ReplayRequest, read_order, read_system, replay_traces

    request = ReplayRequest(read_system(system), recorded, retriever, read_order(order), budget)
    progress = terminal_progress(sys.stderr)
    progress.begin(f"workspace replay {system}")
    with contextlib.redirect_stdout(sys.stderr):
        found = replay_traces(settings, request, progress=progress.update)
    progress.end("done")
    _print_coverage(found, as_json=as_json)


def _refuse_limits(overrides: Sequence[str] | None, reason: str) -> None:
    """Refuse settings that would have no effect."""
    for item in overrides or ():
        if item.startswith("workspace."):
            raise ConfigError(f"--set {item}: {reason}")


def _print_coverage(found: "WorkspaceReport", *, as_json: bool) -> None:
    from rich.console import Console

    from agentic_r.evaluation.coverage_text import coverage_text

    if as_json:
        typer.echo(json_line(found.to_json()))
    else:
        Console(width=None if sys.stdout.isatty() else 160).print(coverage_text(found.coverage, found.comparisons))
    if found.num_failed:
        typer.echo(f"{found.num_failed} questions failed; their causes are in the traces", err=True)
        raise typer.Exit(1)
