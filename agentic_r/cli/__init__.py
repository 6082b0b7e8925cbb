"""The command line: arguments in, text or one JSON object out, and which command is whose.

Heavy imports stand inside the commands: ``--help`` and every configuration error are instant.
"""

from typing import Annotated

import typer

from agentic_r import __version__
from agentic_r.cli.endings import end_after
from agentic_r.cli.exporting import export_app
from agentic_r.cli.running import check_command, report_command, run_command, train_retriever_command
from agentic_r.cli.serving import search_command, serve_command
from agentic_r.cli.workspace import workspace_app

__all__ = ["app", "main"]

app = typer.Typer(
    help="Train a retriever for agentic search, and prove that it helps.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


train_app = typer.Typer(help="Train one part by itself.", no_args_is_help=True)
train_app.command("retriever")(train_retriever_command)

app.command("run")(run_command)
app.command("check")(check_command)
app.command("report")(report_command)
app.add_typer(train_app, name="train")
app.add_typer(export_app, name="export")
app.command("serve")(serve_command)
app.command("search")(search_command)
app.add_typer(workspace_app, name="workspace")


def main() -> None:
    """Entry point: exit codes 0 done, 1 finished with failures, 2 the user's mistake, 130 interrupted."""
    end_after(lambda: app(prog_name="agentic-r", standalone_mode=False))
