"""The commands that answer queries: serve, search."""

import contextlib
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from agentic_r.cli.options import Json, json_line, quiet_libraries
from agentic_r.errors import ConfigError, MissingPartError

__all__ = ["search_command", "serve_command"]


ServedPath = Annotated[
    Path, typer.Argument(metavar="DIR", help="A run's folder, or an export's with --index and --corpus.")
]
IndexPath = Annotated[Path | None, typer.Option("--index", help="A dense index, instead of the run's last one.")]
CorpusPath = Annotated[Path | None, typer.Option("--corpus", help="The corpus of that index.")]


def serve_command(
    folder: ServedPath,
    index: IndexPath = None,
    corpus: CorpusPath = None,
    name: Annotated[str | None, typer.Option(help="The model's name; by default the run's or folder's.")] = None,
    host: Annotated[
        str, typer.Option(help="Where to listen; by default this machine alone can connect.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    token_env: Annotated[
        str | None, typer.Option("--token-env", help="Environment variable that holds the bearer token to ask for.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override a limit: max_waiting_texts=4096. Repeatable.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Serve an exported retriever over HTTP until told to stop."""
    from agentic_r.config import load_serve_config
    from agentic_r.export.server.folders import find_folders

    config = load_serve_config(tuple(overrides or ()))
    token = _token(token_env)
    folders = find_folders(folder, index=index, corpus=corpus, name=name)
    _need_server_packages()
    quiet_libraries()
    from agentic_r.export.server.app import build_app
    from agentic_r.export.server.run import bind, is_loopback, run_server
    from agentic_r.export.server.served import load_served

    with bind(host, port) as listening:
        with contextlib.redirect_stdout(sys.stderr):
            served = load_served(folders, dtype=config.dtype)
        if token is None and not is_loopback(listening):
            typer.echo(f"warning: {host} lets other machines in without a token; see --token-env", err=True)
        application = build_app(served, config, token=token)
        run_server(application, listening, config, ready=lambda address: _say(address, served.name, as_json=as_json))
    typer.echo("stopped", err=True)


def search_command(
    query: Annotated[str, typer.Argument(help="What to search for.")],
    folder: Annotated[Path, typer.Option("--in", help="A run's folder, or an export's with --index and --corpus.")],
    question: Annotated[str, typer.Option(help="The question that the query serves.")] = "",
    history: Annotated[
        list[str] | None, typer.Option(help="A query sent before this one, oldest first. Repeatable.")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Passages to show.")] = 5,
    index: IndexPath = None,
    corpus: CorpusPath = None,
    as_json: Json = False,
) -> None:
    """Ask a run's dense index from the terminal."""
    from agentic_r.export.server.folders import find_folders

    folders = find_folders(folder, index=index, corpus=corpus)
    quiet_libraries()
    from agentic_r.export.server.lookup import look_up
    from agentic_r.types import QueryText

    with contextlib.redirect_stdout(sys.stderr):
        found = look_up(folders, QueryText(query, question, tuple(history or ())), k=k)
    typer.echo(json_line(found.to_json()) if as_json else found.text())


def _token(variable: str | None) -> str | None:
    if variable is None:
        return None
    token = os.environ.get(variable, "").strip()
    if not token:
        raise ConfigError(f"--token-env {variable}: this environment variable is not set; set it to the token")
    return token


def _need_server_packages() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("fastapi", "uvicorn", "prometheus_client", "orjson") if find_spec(name) is None]
    if missing:
        raise MissingPartError(f"serve: needs {', '.join(missing)}; install them: pip install 'agentic-r[serve]'")


def _say(address: str, name: str, *, as_json: bool) -> None:
    typer.echo(f"serving {name} at {address}", err=True)
    if as_json:
        typer.echo(json_line({"name": name, "address": address}))
