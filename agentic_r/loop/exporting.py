"""What a run knows about its retriever, for the export: the card, and real texts for the proof.

Used by the loop's export stage and by ``agentic-r export RUN``. How a folder is written and proved is ``export/``'s.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from agentic_r.artifacts.progress import Progress
from agentic_r.artifacts.stage import StageFolder
from agentic_r.config import ExportConfig, RunConfig, load_config
from agentic_r.corpus.build import PASSAGES_FILE
from agentic_r.corpus.gold import gold_kind
from agentic_r.corpus.store import corpus_fingerprint
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.settings import SETTINGS_FILE
from agentic_r.errors import ConfigError, FingerprintError
from agentic_r.evaluation.summary import Summary, read_summary
from agentic_r.export.card import Card, ScoreLine
from agentic_r.export.checkpoint import ParityTexts, export_checkpoint
from agentic_r.export.engines.source import EncodedPassages, IndexedPassages, Source
from agentic_r.export.engines.write import EncoderFacts, IndexWish, export_index
from agentic_r.export.parity_report import ParityReport
from agentic_r.index.dense import StoredVectors
from agentic_r.loop.parts import Parts
from agentic_r.types import QueryText

__all__ = [
    "IndexPlace",
    "export_run",
    "open_run",
    "parity_texts",
    "retriever_folder",
    "run_card",
    "write_index",
]

_CONFIG_FILE = "config.yaml"

Item = TypeVar("Item")


def open_run(folder: Path) -> Parts:
    """Open a run's folder, wherever it lies now.

    Raises:
        ConfigError: it is no run.
    """
    file = folder / _CONFIG_FILE
    if not file.is_file():
        raise ConfigError(f"{folder}: no run there (it has no {_CONFIG_FILE}); give a run's folder, or an encoder's")
    parts = Parts(load_config(file))
    parts.root = folder
    return parts


def retriever_folder(parts: Parts, iteration: int | None = None) -> Path:
    """Return the encoder's folder of an iteration, by default of the last.

    Raises:
        ConfigError: that iteration has no finished retriever.
    """
    number = parts.config.iterations if iteration is None else iteration
    folder = parts.root / f"iter-{number}" / "retriever" / "encoder"
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no retriever there; finish the run (agentic-r run), or give another iteration")
    return folder


def export_run(
    folder: Path, to: Path, *, config: ExportConfig, iteration: int | None, num_texts: int, progress: Progress
) -> ParityReport:
    """Export a run's retriever, with its card, proved on texts of the run.

    Args:
        folder: The run's folder.
        to: The export.
        config: Graphs, shorter vectors, tolerances.
        iteration: Whose retriever; by default the last one's.
        num_texts: Queries and passages for the proof, at most.
        progress: Told of steps done.

    Raises:
        ConfigError: there is no such run, or it is not finished.
        ParityError: the export does not give the retriever's vectors; names the cause.
    """
    parts = open_run(folder)
    source = retriever_folder(parts, iteration)
    card = run_card(parts, read_summary(parts.root / "summary.json"))
    if iteration is not None:
        card = replace(card, name=f"{card.name}, iteration {iteration}")
    return export_checkpoint(
        source, to, card=card, texts=parity_texts(parts, num_texts), config=config, progress=progress.update
    )


@dataclass(frozen=True, slots=True)
class IndexPlace:
    """Where passages and vectors are: a run, or an export with a file of passages."""

    source: Path
    passages: Path | None = None
    iteration: int | None = None


def write_index(place: IndexPlace, folder: Path, *, wish: IndexWish, progress: Progress) -> StageFolder:
    """Write an index for an engine.

    Args:
        place: What is written.
        folder: Where to.
        wish: For which engine, and how.
        progress: Told of passages done.

    Raises:
        ConfigError: there is no such run or export, or nothing says which passages.
        FingerprintError: the run's index is not of its retriever, or not of its passages.
        StaleError: the folder holds something else.
    """
    if (place.source / SETTINGS_FILE).is_file():
        if place.iteration is not None:
            raise ConfigError(f"--iteration: {place.source} is an export, not a run; leave it out")
        if place.passages is None or not place.passages.is_file():
            raise ConfigError(
                f"--passages {place.passages or ''}: give a jsonl of passages to encode with {place.source}"
            )
        encoder, passages = BiEncoder.load(place.source), place.passages
        source: Source = EncodedPassages(passages, encoder)
    else:
        if place.passages is not None:
            raise ConfigError(f"--passages {place.passages}: {place.source} is a run, which has its own; leave it out")
        parts = open_run(place.source)
        encoder = BiEncoder.load(retriever_folder(parts, place.iteration))
        number = parts.config.iterations if place.iteration is None else place.iteration
        index = parts.root / f"iter-{number}" / "index" / "vectors"
        passages = parts.root / "corpus" / PASSAGES_FILE
        stored = StoredVectors(index, encoder_fingerprint=encoder.fingerprint)
        corpus = corpus_fingerprint(passages.parent)
        if stored.corpus != corpus:
            raise FingerprintError(
                f"{index}: this index was built from corpus {stored.corpus}, but {passages.parent} is {corpus}; "
                "build the index again (agentic-r run)"
            )
        source = IndexedPassages(passages, stored)
    facts = EncoderFacts(encoder.settings, encoder.fingerprint, encoder.dimension)
    progress.begin(f"index for {wish.kind}")
    stage = export_index(folder, source, encoder=facts, passages_file=passages, wish=wish, progress=progress.update)
    progress.end(f"{stage.counts['written']:,} passages in {folder}")
    return stage


def parity_texts(parts: Parts, number: int) -> ParityTexts:
    """Return up to ``number`` recorded queries with their questions, and as many passages, evenly spaced."""
    queries = parts.recorded_queries
    passages = list(parts.corpus.passages.values())
    return ParityTexts(
        queries=[
            QueryText(item.query, parts.questions[item.question_id].text, item.history)
            for item in _evenly_spaced(queries, number)
        ],
        passages=_evenly_spaced(passages, number),
    )


def run_card(parts: Parts, summary: Summary) -> Card:
    """Return the card of a run's retriever."""
    config = parts.config
    corpus, judge = parts.corpus, config.labels.judge.kind
    kind = gold_kind(parts.heldout_questions)
    return Card(
        name=config.name,
        base=_base(config),
        temperature=config.contrastive.temperature,
        data=(
            f"{len(corpus.documents):,} documents, {len(corpus.passages):,} passages.",
            f"{len(parts.train_questions):,} training questions; labels by local relevance "
            f"({judge} judge) and by answer correctness of the search agent.",
        ),
        settings={"epochs": str(config.contrastive.epochs), "batch size": str(config.contrastive.batch_size)},
        scores=tuple(
            ScoreLine(row.stage, measure, item.value, item.low, item.high)
            for row in summary.rows
            for measure, item in row.measures().items()
            if item is not None
        ),
        scores_note=f"{len(parts.heldout_questions)} held-out questions of this run; retrieval over {kind} passages.",
    )


def _base(config: RunConfig) -> str:
    return f"{config.encoder.kind} encoder" if config.encoder.kind == "scratch" else config.encoder.path


def _evenly_spaced(items: list[Item], number: int) -> list[Item]:
    if len(items) <= number:
        return items
    return [items[place * len(items) // number] for place in range(number)]
