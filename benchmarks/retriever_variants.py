"""What the retriever's input and identity masking are worth, on the instances of finished quickstarts.

    python benchmarks/retriever_variants.py runs/quickstart runs/quickstart_seed1 --out runs/variants

Each run's base encoder is trained anew on its first iteration's instances: reading the query alone, ``question [SEP]
query``, or with the earlier queries between; and, with the run's own input, on instances in which a copy of the
positive under another id stands in for one of the negatives, with identity masking and without. Every encoder is then
measured on the run's frozen queries over its whole corpus. Kept between calls: run it again after a kill.
"""

import argparse
import json
import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from agentic_r.artifacts.jsonl import write_json
from agentic_r.artifacts.records import read_records
from agentic_r.config import ContrastiveConfig
from agentic_r.contrastive.trainer import train_retriever
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.evaluation.intervals import Bootstrap, paired_difference
from agentic_r.evaluation.recorded import judge_queries
from agentic_r.evaluation.retrieval import evaluate_retriever
from agentic_r.index.dense import build_dense_index
from agentic_r.index.retriever import DenseRetriever
from agentic_r.loop.exporting import open_run
from agentic_r.loop.parts import Parts
from agentic_r.types import Passage, TrainingInstance

PerQuestion = Mapping[str, Mapping[str, float]]
FORMATS = ("query", "question_query", "history")
PLANTED = {"duplicates, masked": True, "duplicates, not masked": False}
PAIRS = (
    ("question_query", "query"),
    ("history", "question_query"),
    ("history", "query"),
    ("duplicates, masked", "duplicates, not masked"),
)


@dataclass(frozen=True, slots=True)
class Variant:
    """What is trained: settings, instances, and the passages that they name."""

    config: ContrastiveConfig
    instances: Sequence[TrainingInstance]
    passages: Mapping[str, Passage]


def main() -> None:
    """Train and measure what is not yet there; print every value and every paired difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="folders of finished quickstarts")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    found = {run.name: measure_run(run, options.out / run.name, threads=options.threads) for run in options.runs}
    print(json.dumps(found, indent=2))


def measure_run(run: Path, folder: Path, *, threads: int) -> dict[str, object]:
    """Return recall@5 of every variant of a run, and the differences."""
    parts = open_run(run)
    values = {
        name: measure(parts, variant, folder / name.replace(", ", "-").replace(" ", "-"), threads=threads)
        for name, variant in variants(parts).items()
    }
    (measure_name,) = {name for group in values.values() for name in group if name.startswith("recall")}
    return {
        measure_name: {name: float(np.mean([*group[measure_name].values()])) for name, group in values.items()},
        "differences": {
            f"{new} - {old}": difference(values[new][measure_name], values[old][measure_name]) for new, old in PAIRS
        },
    }


def variants(parts: Parts) -> dict[str, Variant]:
    """Return what to train, by name."""
    file = parts.root / "iter-1" / "instances" / "instances.jsonl"
    instances = list(read_records(file, TrainingInstance))
    passages, config = parts.corpus.passages, parts.config.contrastive
    found = {name: Variant(config.model_copy(update={"query_format": name}), instances, passages) for name in FORMATS}
    planted, copies = plant_duplicates(instances, passages)
    for name, is_masked in PLANTED.items():
        update = {"mask_identities": is_masked}
        found[name] = Variant(config.model_copy(update=update), planted, {**passages, **copies})
    return found


def plant_duplicates(
    instances: Sequence[TrainingInstance], passages: Mapping[str, Passage]
) -> tuple[list[TrainingInstance], dict[str, Passage]]:
    """Put a copy of each instance's positive, under another id, in the place of one of its negatives."""
    planted, copies = [], {}
    for item in instances:
        name = f"copy of {item.positive}"
        copies[name] = replace(passages[item.positive], id=name)
        place = random.Random(item.id).randrange(len(item.negatives))
        negatives = (*item.negatives[:place], name, *item.negatives[place + 1 :])
        planted.append(replace(item, negatives=negatives))
    return planted, copies


def measure(parts: Parts, variant: Variant, folder: Path, *, threads: int) -> PerQuestion:
    """Train a variant, rank the run's corpus for its frozen queries; return measures by name and question."""
    file = folder / "per_question.json"
    if not file.exists():
        train_retriever(
            parts.encoder(0),
            variant.instances,
            variant.passages,
            variant.config,
            folder=folder,
            seed=parts.config.seed,
            threads=threads,
            progress=lambda done, total: None,
        )
        write_json(file, evaluate(parts, BiEncoder.load(folder / "encoder"), folder / "vectors"))
        shutil.rmtree(folder / "vectors")
    found: PerQuestion = json.loads(file.read_text(encoding="utf-8"))
    return found


def evaluate(parts: Parts, encoder: BiEncoder, folder: Path) -> PerQuestion:
    """Measure an encoder as the run measures its retrievers."""
    judged = judge_queries(
        parts.recorded_queries,
        parts.heldout_questions,
        passages=parts.corpus.passages,
        answer_bearing=parts.answer_bearing,
    )
    index = build_dense_index(
        folder,
        encoder,
        list(parts.corpus.passages.values()),
        corpus_fingerprint=parts.corpus.fingerprint,
        config=parts.config.index,
        progress=lambda done, total: None,
    )
    outcome = evaluate_retriever(
        DenseRetriever(encoder, index),
        judged,
        measures=parts.config.evaluation.measures,
        k=20,
        drop_query_id_hits=parts.config.evaluation.drop_query_id_hits,
        progress=lambda done, total: None,
    )
    return outcome.per_question


def difference(new: Mapping[str, float], old: Mapping[str, float]) -> dict[str, float]:
    """Return a paired difference over questions with its 95 % interval."""
    test = paired_difference(new, old, bootstrap=Bootstrap())
    if test is None:
        raise SystemExit("no question on both sides")
    return {"value": test.difference, "low": test.low, "high": test.high, "p": test.p_value}


if __name__ == "__main__":
    main()
