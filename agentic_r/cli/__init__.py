"""The command line: arguments in, text or one JSON object out, and what every ending says and returns.

Heavy imports stand inside the commands: ``--help`` and every configuration error are instant.
"""

import errno
import sys
from typing import Annotated, NoReturn, cast

import typer

from agentic_r import __version__
from agentic_r.cli.exporting import export_app
from agentic_r.cli.options import json_line
from agentic_r.cli.running import check_command, report_command, run_command, train_retriever_command
from agentic_r.cli.serving import search_command, serve_command
from agentic_r.cli.workspace import workspace_app
from agentic_r.errors import AgenticRError

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
            sys.stdout.write(json_line({"error": line}) + "\n")
    sys.exit(2)
