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
from typing import TYPE_CHECKING, Annotated, NoReturn, cast

import typer

from agentic_r import __version__
from agentic_r.errors import AgenticRError, ConfigError, MissingPartError

if TYPE_CHECKING:
    from typer._click.core import Context  # typer has no public name for the base of its own

    from agentic_r.artifacts.progress import Progress
    from agentic_r.config import ExportConfig
    from agentic_r.export.parity_report import ParityReport

if TYPE_CHECKING:
    from agentic_r.loop.workspace_commands import WorkspaceReport

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

workspace_app = typer.Typer(help="The workspace of a finished run: coverage, presets, replays.", no_args_is_help=True)
app.add_typer(workspace_app, name="workspace")

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


ServedPath = Annotated[
    Path, typer.Argument(metavar="DIR", help="A run's folder, or an export's with --index and --corpus.")
]
IndexPath = Annotated[Path | None, typer.Option("--index", help="A dense index, instead of the run's last one.")]
CorpusPath = Annotated[Path | None, typer.Option("--corpus", help="The corpus of that index.")]


@app.command("serve")
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
    _quiet_libraries()
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


@app.command("search")
def search_command(
    query: Annotated[str, typer.Argument(help="What to search for.")],
    folder: Annotated[Path, typer.Option("--in", help="A run's folder, or an export's with --index and --corpus.")],
    question: Annotated[str, typer.Option(help="The question that the query serves.")] = "",
    k: Annotated[int, typer.Option("-k", min=1, help="Passages to show.")] = 5,
    index: IndexPath = None,
    corpus: CorpusPath = None,
    as_json: Json = False,
) -> None:
    """Ask a run's dense index from the terminal."""
    from agentic_r.export.server.folders import find_folders

    folders = find_folders(folder, index=index, corpus=corpus)
    _quiet_libraries()
    from agentic_r.export.server.lookup import look_up

    with contextlib.redirect_stdout(sys.stderr):
        found = look_up(folders, query=query, question=question, k=k)
    typer.echo(_json(found.to_json()) if as_json else found.text())


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
        typer.echo(_json({"name": name, "address": address}))


class _ExportGroup(typer.core.TyperGroup):
    """``export RUN`` without the name of a sub-command is ``export folder RUN``."""

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["folder", *args]
        return super().parse_args(ctx, args)


export_app = typer.Typer(cls=_ExportGroup, no_args_is_help=True, help="Give a trained retriever away, with proof.")
app.add_typer(export_app, name="export")

OnnxChoice = Annotated[
    str, typer.Option("--onnx", help="ONNX graphs to write, of fp32, fp16, int8 (comma-separated), or none.")
]


@export_app.command("folder")
def export_folder_command(
    source: Annotated[Path, typer.Argument(metavar="RUN|CHECKPOINT", help="A run's folder, or a saved encoder.")],
    to: Annotated[Path, typer.Option("--to", help="The export; an earlier one in its place is replaced.")],
    onnx: OnnxChoice = "fp32,fp16,int8",
    dimension: Annotated[
        list[int] | None, typer.Option(help="Also give vectors cut to this length in the graphs. Repeatable.")
    ] = None,
    iteration: Annotated[int | None, typer.Option(help="Whose retriever of a run; by default the last.")] = None,
    texts: Annotated[int, typer.Option(help="Queries and passages of the run for the proof, at most.", min=0)] = 64,
    as_json: Json = False,
) -> None:
    """Write the folder that other programs load, and prove that it gives the encoder's vectors (also: export RUN)."""
    from agentic_r.config import export_settings

    settings = export_settings(onnx, dimension or ())
    _quiet_libraries()
    from agentic_r.artifacts.progress import terminal_progress

    progress = terminal_progress(sys.stderr)
    progress.begin("export")
    with contextlib.redirect_stdout(sys.stderr):
        report = _export(source, to, settings, iteration=iteration, num_texts=texts, progress=progress)
    progress.end(f"{len(report.artefacts)} forms, all equal")
    if as_json:
        typer.echo(_json({"folder": str(to), **report.model_dump(mode="json")}))
    else:
        typer.echo(report.text())
        typer.echo(f"export: {to}")


def _export(
    source: Path,
    to: Path,
    settings: "ExportConfig",
    *,
    iteration: int | None,
    num_texts: int,
    progress: "Progress",
) -> "ParityReport":
    from agentic_r.encoder.settings import SETTINGS_FILE
    from agentic_r.export.card import Card
    from agentic_r.export.checkpoint import ParityTexts, export_checkpoint

    if (source / SETTINGS_FILE).is_file():
        if iteration is not None:
            raise ConfigError(f"--iteration: {source} is an encoder, not a run; leave it out")
        card = Card(name=source.name, base="not recorded")
        return export_checkpoint(source, to, card=card, texts=ParityTexts(), config=settings, progress=progress.update)
    from agentic_r.loop.exporting import export_run

    return export_run(source, to, config=settings, iteration=iteration, num_texts=num_texts, progress=progress)


@export_app.command("verify")
def export_verify_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An export.")],
    endpoint: Annotated[
        str, typer.Option(help="Address of the service, without the path, e.g. http://127.0.0.1:8080.")
    ],
    kind: Annotated[str, typer.Option(help="tei, openai (vLLM too), agentic-r, elasticsearch or opensearch.")],
    model: Annotated[str, typer.Option(help="The model's name there.")] = "",
    api_key_env: Annotated[str, typer.Option(help="Environment variable that holds the key.")] = "",
    run: Annotated[Path | None, typer.Option(help="A run, for real queries and passages.")] = None,
    texts: Annotated[int, typer.Option(help="Queries and passages of the run, at most.", min=0)] = 64,
    to: Annotated[Path | None, typer.Option("--to", help="Folder for parity.json and parity.html.")] = None,
    as_json: Json = False,
) -> None:
    """Ask a live service for the vectors of the proof's texts; exit code 1 where they are not the export's."""
    from agentic_r.config import ExportConfig, environment_key

    key = environment_key(api_key_env)
    _quiet_libraries()
    from agentic_r.export.checkpoint import ParityTexts
    from agentic_r.export.endpoints import Endpoint, endpoint_kind
    from agentic_r.export.parity import write_report
    from agentic_r.export.verify import verify_endpoint

    service = Endpoint(kind=endpoint_kind(kind), url=endpoint, model=model, api_key=key)
    of_run = ParityTexts()
    if run is not None:
        from agentic_r.loop.exporting import open_run, parity_texts

        of_run = parity_texts(open_run(run), texts)
    report = verify_endpoint(folder, service, texts=of_run, config=ExportConfig())
    if to is not None:
        write_report(to, report)
    typer.echo(_json(report.model_dump(mode="json")) if as_json else report.text())
    if not report.equal:
        raise typer.Exit(1)


@export_app.command("index")
def export_index_command(
    source: Annotated[Path, typer.Argument(metavar="RUN|DIR", help="A run's folder, or an export (with --passages).")],
    to: Annotated[Path, typer.Option("--to", help="Folder for the engine's files.")],
    kind: Annotated[str, typer.Option(help="parquet, faiss, elasticsearch, opensearch, vespa, qdrant or pgvector.")],
    passages: Annotated[Path | None, typer.Option(help="A jsonl of id, title, text; to be encoded.")] = None,
    name: Annotated[str, typer.Option(help="Name of the index, collection or table.")] = "passages",
    dimension: Annotated[int | None, typer.Option(help="Cut vectors to this length.", min=1)] = None,
    part_passages: Annotated[int, typer.Option(help="Passages a file.", min=1)] = 1000,
    iteration: Annotated[int | None, typer.Option(help="Whose retriever of a run; by default the last.")] = None,
    as_json: Json = False,
) -> None:
    """Write passages and vectors as a search engine's bulk files, schema and recipe; kill and run again at will."""
    _quiet_libraries()
    from agentic_r.artifacts.progress import terminal_progress
    from agentic_r.export.engines.write import IndexWish, engine_kind
    from agentic_r.loop.exporting import IndexPlace, write_index

    wish = IndexWish(kind=engine_kind(kind), name=name, dimension=dimension, part_passages=part_passages)
    place = IndexPlace(source=source, passages=passages, iteration=iteration)
    stage = write_index(place, to, wish=wish, progress=terminal_progress(sys.stderr))
    found = {"folder": str(to), "counts": stage.counts, "skipped": stage.skipped}
    if as_json:
        typer.echo(_json(found))
    else:
        left_out = "".join(f"; left out, {reason}: {count:,}" for reason, count in stage.skipped.items())
        typer.echo(f"{to}: {stage.counts['written']:,} of {stage.counts['passages']:,} passages{left_out}")
    if stage.skipped:
        raise typer.Exit(1)


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

    settings, chosen = load_config(config, tuple(overrides or ())), load_workspace(preset)
    _quiet_libraries()
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

    settings = load_config(config, tuple(overrides or ()))
    _quiet_libraries()
    from agentic_r.artifacts.progress import terminal_progress
    from agentic_r.loop.workspace_commands import ReplayRequest, read_order, read_system, replay_traces

    request = ReplayRequest(read_system(system), recorded, retriever, read_order(order), budget)
    progress = terminal_progress(sys.stderr)
    progress.begin(f"workspace replay {system}")
    with contextlib.redirect_stdout(sys.stderr):
        found = replay_traces(settings, request, progress=progress.update)
    progress.end("done")
    _print_coverage(found, as_json=as_json)


def _print_coverage(found: "WorkspaceReport", *, as_json: bool) -> None:
    from rich.console import Console

    from agentic_r.evaluation.coverage_text import coverage_text

    if as_json:
        typer.echo(_json(found.to_json()))
    else:
        Console(width=None if sys.stdout.isatty() else 160).print(coverage_text(found.coverage, found.comparisons))
    if found.num_failed:
        typer.echo(f"{found.num_failed} questions failed; their causes are in the traces", err=True)
        raise typer.Exit(1)


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
