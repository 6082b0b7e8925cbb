"""The commands that give a retriever away: export, export verify, export index."""

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentic_r.cli.options import Json, json_line, quiet_libraries
from agentic_r.errors import ConfigError

if TYPE_CHECKING:
    from typer._click.core import Context  # typer has no public name for the base of its own

    from agentic_r.artifacts.progress import Progress
    from agentic_r.config import ExportConfig
    from agentic_r.export.parity_report import ParityReport

__all__ = ["export_app"]

_TEXTS = 64


class _ExportGroup(typer.core.TyperGroup):
    """``export RUN`` without the name of a sub-command is ``export folder RUN``."""

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["folder", *args]
        return super().parse_args(ctx, args)


export_app = typer.Typer(cls=_ExportGroup, no_args_is_help=True, help="Give a trained retriever away, with proof.")

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
    texts: Annotated[
        int | None, typer.Option(help="Queries and passages of the run for the proof, at most: 64 unless given.", min=0)
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the folder that other programs load, and prove that it gives the encoder's vectors (also: export RUN)."""
    from agentic_r.config import export_settings

    settings = export_settings(onnx, dimension or ())
    quiet_libraries()
    from agentic_r.artifacts.progress import terminal_progress

    progress = terminal_progress(sys.stderr)
    progress.begin("export")
    with contextlib.redirect_stdout(sys.stderr):
        report = _export(source, to, settings, iteration=iteration, num_texts=texts, progress=progress)
    progress.end(f"{len(report.artefacts)} forms, all equal")
    if as_json:
        typer.echo(json_line({"folder": str(to), **report.model_dump(mode="json")}))
    else:
        typer.echo(report.text())
        typer.echo(f"export: {to}")


def _export(
    source: Path,
    to: Path,
    settings: "ExportConfig",
    *,
    iteration: int | None,
    num_texts: int | None,
    progress: "Progress",
) -> "ParityReport":
    from agentic_r.encoder.settings import SETTINGS_FILE
    from agentic_r.export.card import Card
    from agentic_r.export.checkpoint import ParityTexts, export_checkpoint

    if (source / SETTINGS_FILE).is_file():
        for option, given in (("--iteration", iteration), ("--texts", num_texts)):
            if given is not None:
                raise ConfigError(f"{option}: {source} is an encoder, not a run; leave it out")
        card = Card(name=source.name, base="not recorded")
        return export_checkpoint(source, to, card=card, texts=ParityTexts(), config=settings, progress=progress.update)
    from agentic_r.loop.exporting import export_run

    return export_run(
        source,
        to,
        config=settings,
        iteration=iteration,
        num_texts=_TEXTS if num_texts is None else num_texts,
        progress=progress,
    )


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
    from agentic_r.encoder.settings import SETTINGS_FILE

    key = environment_key(api_key_env)
    if to is not None and (to / SETTINGS_FILE).is_file():
        raise ConfigError(f"--to {to}: an encoder is there, whose own proof this is not; give another folder")
    quiet_libraries()
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
    typer.echo(json_line(report.model_dump(mode="json")) if as_json else report.text())
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
    quiet_libraries()
    from agentic_r.artifacts.progress import terminal_progress
    from agentic_r.export.engines.write import IndexWish, engine_kind
    from agentic_r.loop.exporting import IndexPlace, write_index

    wish = IndexWish(kind=engine_kind(kind), name=name, dimension=dimension, part_passages=part_passages)
    place = IndexPlace(source=source, passages=passages, iteration=iteration)
    stage = write_index(place, to, wish=wish, progress=terminal_progress(sys.stderr))
    found = {"folder": str(to), "counts": stage.counts, "skipped": stage.skipped}
    if as_json:
        typer.echo(json_line(found))
    else:
        left_out = "".join(f"; left out, {reason}: {count:,}" for reason, count in stage.skipped.items())
        typer.echo(f"{to}: {stage.counts['written']:,} of {stage.counts['passages']:,} passages{left_out}")
    if stage.skipped:
        raise typer.Exit(1)
