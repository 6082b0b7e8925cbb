"""Training a retriever alone: a user's instances in, a trained encoder out, in one folder that can be resumed.

Reads, mines negatives where that is asked for, trains, and writes ``summary.json`` and the manifest. The loop's own
training starts elsewhere, from its labels. Under a launcher, the first process reads, mines and writes.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from agentic_r.artifacts.fingerprint import fingerprint_files, fingerprint_strings, generator_seed
from agentic_r.artifacts.jsonl import write_json
from agentic_r.artifacts.lock import locked
from agentic_r.artifacts.progress import Progress
from agentic_r.artifacts.records import read_records, write_records
from agentic_r.artifacts.stage import StageFolder, StageIdentity, open_stage
from agentic_r.config import Bm25Config, IndexConfig, MiningConfig, RetrieverConfig
from agentic_r.contrastive.dev import DevSet
from agentic_r.contrastive.early import refuse_settings
from agentic_r.contrastive.mining import mine_negatives
from agentic_r.contrastive.own_instances import OwnInstances, read_instances, read_pool
from agentic_r.contrastive.ranks import Ranks, start_ranks
from agentic_r.contrastive.trainer import TrainingSummary, train_retriever
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.pretrained import load_pretrained
from agentic_r.encoder.settings import SETTINGS_FILE, EncoderSettings
from agentic_r.encoder.text import query_text
from agentic_r.errors import DataError
from agentic_r.index.bm25 import build_bm25_index
from agentic_r.index.dense import build_dense_index
from agentic_r.index.retriever import Bm25Retriever, DenseRetriever
from agentic_r.protocols import Retriever
from agentic_r.types import Passage, QueryText, TrainingInstance

__all__ = ["dev_set", "train_alone"]

_SCHEMA = 2
_PREPARED = "prepared"


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What training begins with."""

    instances: Sequence[TrainingInstance]
    passages: Mapping[str, Passage]
    dev: DevSet | None


def train_alone(config: RetrieverConfig, *, progress: Progress) -> TrainingSummary | None:
    """Train a retriever and return the summary; None where the folder was finished before.

    Run again after a kill, it goes on: reading is repeated, mined negatives and checkpoints are kept.

    Raises:
        DataError: instances or corpus cannot be used; names file and line.
        ConfigError: a setting does not fit (see ``train_retriever``), or another process works in the folder.
        StaleError: the folder holds a training of other inputs or settings.
        MissingPartError: a package that the configuration names is not installed.
    """
    refuse_settings(config.contrastive, has_dev=config.dev_instances is not None)
    ranks = start_ranks()
    if not ranks.is_first:
        if ranks.agree(False):
            return None
        ranks.wait()
        return _train(config, _read_prepared(config), ranks, progress=lambda done, total: None)
    with locked(config.folder):
        return _train_first(config, ranks, progress)


def _train_first(config: RetrieverConfig, ranks: Ranks, progress: Progress) -> TrainingSummary | None:
    """Do the first process's part, which writes everything."""
    identity = StageIdentity(
        name="retriever",
        schema=_SCHEMA,
        inputs={file.name: fingerprint_files([file]) for file in _inputs(config)},
        settings=config.model_dump(mode="json", include={"encoder", "mining", "contrastive", "threads"}),
        seed=config.seed,
    )
    stage = open_stage(config.folder, identity)
    if ranks.agree(stage.done):
        progress.end("done before")
        return None
    _prepare(config, stage, progress)
    ranks.wait()
    progress.begin("train retriever")
    summary = _train(config, _read_prepared(config), ranks, progress=progress.update)
    if not summary.trained:
        raise DataError(f"{config.instances}: {summary.reason}; give more instances, or lower the setting")
    stage.counts.update(instances=summary.num_instances, steps_skipped=summary.num_steps_skipped)
    if summary.cut is not None:
        stage.counts.update(asdict(summary.cut))
    written = asdict(summary) | {"encoder": str(summary.encoder)}
    write_json(config.folder / "summary.json", written)
    stage.finish()
    progress.end(summary.reason)
    return summary


def _inputs(config: RetrieverConfig) -> list[Path]:
    given = [config.instances, config.corpus, config.dev_instances]
    files = [file for file in given if file is not None]
    for file in files:
        if not file.is_file():
            raise DataError(f"{file}: no such file; correct the path in the configuration")
    return files


def _prepare(config: RetrieverConfig, stage: StageFolder, progress: Progress) -> None:
    """Read, mine and write what training begins with; finished work is kept."""
    folder = config.folder / _PREPARED
    done = folder / "done"
    if (folder / "encoder" / SETTINGS_FILE).exists() and done.exists():
        kept = json.loads(done.read_text(encoding="utf-8"))
        stage.counts.update(kept["counts"])
        stage.skipped.update(kept["skipped"])
        return
    progress.begin("read instances")
    pool = {} if config.corpus is None else read_pool(config.corpus)
    found = read_instances(config.instances, pool=pool)
    dev = None if config.dev_instances is None else read_instances(config.dev_instances, pool=found.passages)
    passages = found.passages if dev is None else dev.passages
    _count(stage, found)
    progress.end(f"{len(found.instances)} instances from {found.num_rows} rows, {len(passages)} passages")
    encoder = load_pretrained(config.encoder, config.folder / "cache", in_float32=True)
    if dev is not None:
        _refuse_trained_queries(config, found.instances, dev.instances, encoder.settings)
    encoder.save(folder / "encoder")
    instances: Sequence[TrainingInstance] = found.instances
    if config.mining is not None:
        instances = _mine(config, config.mining, instances, passages, encoder, stage, progress)
    write_records(folder / "instances.jsonl", instances)
    write_records(folder / "passages.jsonl", [passages[name] for name in sorted(passages)])
    write_records(folder / "dev.jsonl", [] if dev is None else dev.instances)
    write_json(done, {"counts": stage.counts, "skipped": stage.skipped})


def _refuse_trained_queries(
    config: RetrieverConfig,
    instances: Sequence[TrainingInstance],
    dev: Sequence[TrainingInstance],
    settings: EncoderSettings,
) -> None:
    """A dev score of queries that are trained on shows nothing; the same is what the encoder reads the same."""
    if config.contrastive.query_format is not None:
        settings = settings.model_copy(update={"query_format": config.contrastive.query_format})

    def text(item: TrainingInstance) -> str:
        return " ".join(query_text(QueryText(item.query, item.question, item.history), settings).split())

    trained = {text(item) for item in instances}
    queries = {text(item): item.query for item in dev}
    both = [query for key, query in queries.items() if key in trained]
    if both:
        raise DataError(
            f"{config.dev_instances}: {len(both)} of {len(queries)} queries are also in {config.instances} "
            f"(the first: {both[0][:80]!r}); take them out of one of the files"
        )


def _count(stage: StageFolder, found: OwnInstances) -> None:
    stage.counts.update(rows=found.num_rows, instances_read=len(found.instances), passages=len(found.passages))
    stage.counts["rows_of_earlier_queries"] = found.num_rows_of_earlier_queries
    stage.skipped.update({f"field {name!r} is of no use": count for name, count in found.unused_fields.items()})


def _mine(
    config: RetrieverConfig,
    mining: MiningConfig,
    instances: Sequence[TrainingInstance],
    passages: Mapping[str, Passage],
    encoder: BiEncoder,
    stage: StageFolder,
    progress: Progress,
) -> Sequence[TrainingInstance]:
    progress.begin("mine negatives")
    retriever = _miner(config, mining, passages, encoder, progress.update)
    mined = mine_negatives(
        instances,
        retriever,
        passages,
        mining,
        seed=generator_seed(config.seed, "mining"),
        progress=progress.update,
    )
    stage.counts.update(
        negatives_same_text=mined.num_same_text,
        negatives_over_margin=mined.num_over_margin,
        instances_with_fewer_negatives=mined.num_short,
        positives_outside_the_ranks=mined.num_unfound_positives,
    )
    progress.end(
        f"{sum(len(item.negatives) for item in mined.instances)} negatives; left out: {mined.num_same_text} with a "
        f"positive's text, {mined.num_over_margin} over the margin; {mined.num_short} instances got fewer"
    )
    return mined.instances


def _miner(
    config: RetrieverConfig,
    mining: MiningConfig,
    passages: Mapping[str, Passage],
    encoder: BiEncoder,
    report: Callable[[int, int], None],
) -> Retriever:
    known = [passages[name] for name in sorted(passages)]
    corpus = fingerprint_strings(repr(passage) for passage in known)
    folder = config.folder / _PREPARED
    if mining.retriever == "bm25":
        index = build_bm25_index(
            folder / "bm25", known, corpus_fingerprint=corpus, config=Bm25Config(), progress=report
        )
        return Bm25Retriever(index)
    return DenseRetriever(
        encoder,
        build_dense_index(
            folder / "index", encoder, known, corpus_fingerprint=corpus, config=IndexConfig(), progress=report
        ),
    )


def _read_prepared(config: RetrieverConfig) -> _Prepared:
    folder = config.folder / _PREPARED
    passages = {item.id: item for item in read_records(folder / "passages.jsonl", Passage)}
    held_out = list(read_records(folder / "dev.jsonl", TrainingInstance))
    return _Prepared(
        instances=list(read_records(folder / "instances.jsonl", TrainingInstance)),
        passages=passages,
        dev=dev_set(held_out, passages) if held_out else None,
    )


def dev_set(instances: Sequence[TrainingInstance], passages: Mapping[str, Passage]) -> DevSet:
    """Rank the whole pool for each dev query; instances of one query are one."""
    merged: dict[QueryText, TrainingInstance] = {}
    for item in instances:
        asked = QueryText(item.query, item.question, item.history)
        first = merged.setdefault(asked, item)
        others = dict.fromkeys((*first.other_positives, item.positive, *item.other_positives))
        merged[asked] = replace(first, other_positives=tuple(others))
    return DevSet(
        queries={item.id: asked for asked, item in merged.items()},
        relevant={item.id: tuple(dict.fromkeys((item.positive, *item.other_positives))) for item in merged.values()},
        pool=tuple(passages.values()),
    )


def _train(
    config: RetrieverConfig, prepared: _Prepared, ranks: Ranks, *, progress: Callable[[int, int], None]
) -> TrainingSummary:
    return train_retriever(
        config.folder / _PREPARED / "encoder",
        prepared.instances,
        prepared.passages,
        config.contrastive,
        folder=config.folder / "retriever",
        seed=generator_seed(config.seed, "retriever"),
        threads=config.threads,
        progress=progress,
        dev=prepared.dev,
    )
