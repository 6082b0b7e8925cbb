"""Dev evaluation while training: which queries, how well the encoder ranks, and which weights were best so far.

The dev set is a pool of passages with queries over it, given by the caller or held out from the instances by question.
Its log (``dev.jsonl``) and the kept weights follow the checkpoints: a resumed training finds them as they were at its
checkpoint. Measures are ``metrics``', the course of a training is ``trainer.py``'s.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from agentic_r.artifacts.fingerprint import fingerprint_value, generator_seed
from agentic_r.artifacts.jsonl import write_jsonl
from agentic_r.artifacts.records import from_json, to_json
from agentic_r.config import ContrastiveConfig
from agentic_r.contrastive.early import DEV_DEPTH
from agentic_r.contrastive.ranks import Ranks
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.errors import ConfigError, DataError
from agentic_r.metrics.retrieval import evaluate_run
from agentic_r.types import Passage, QueryText, TrainingInstance

__all__ = ["DevEvaluation", "DevLog", "DevRecord", "DevSet", "measure_dev", "split_dev"]

_QUERIES_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class DevSet:
    """Queries by id, the passages that each should find, and the pool that all are ranked over."""

    queries: Mapping[str, QueryText]
    relevant: Mapping[str, tuple[str, ...]]
    pool: tuple[Passage, ...]

    @property
    def fingerprint(self) -> str:
        """Hash of all of it."""
        queries = [[name, to_json(text), *self.relevant[name]] for name, text in self.queries.items()]
        return fingerprint_value([queries, [[item.id, item.title, item.text] for item in self.pool]])


@dataclass(frozen=True, slots=True)
class DevRecord:
    """One evaluation, after ``step`` (0: before training): means over the dev queries by measure."""

    step: int
    values: dict[str, float]


def split_dev(
    instances: Sequence[TrainingInstance], passages: Mapping[str, Passage], *, share: float, seed: int
) -> tuple[list[TrainingInstance], DevSet]:
    """Hold out a share of the questions, by hash of their id, with all their instances.

    The pool is every passage that any instance names. Queries of the same text, question and history are one.

    Raises:
        ConfigError: the share leaves no question on one side.
    """
    limit = share * 2**63
    is_dev = [generator_seed(seed, "contrastive", "dev", item.question_id) < limit for item in instances]
    held_out = [item for item, chosen in zip(instances, is_dev, strict=True) if chosen]
    kept = [item for item, chosen in zip(instances, is_dev, strict=True) if not chosen]
    if not held_out or not kept:
        raise ConfigError(
            f"contrastive.dev_share {share}: {len(held_out)} of {len(instances)} instances are held out, "
            f"{len(kept)} left to train on; choose another share, or 0 for no dev evaluation"
        )
    queries: dict[str, QueryText] = {}
    relevant: dict[str, tuple[str, ...]] = {}
    ids: dict[QueryText, str] = {}
    for item in held_out:
        asked = QueryText(item.query, item.question, item.history)
        name = ids.setdefault(asked, item.id)
        queries.setdefault(name, asked)
        found = (*relevant.get(name, ()), item.positive, *item.other_positives)
        relevant[name] = tuple(dict.fromkeys(found))
    named = {name for item in instances for name in (item.positive, *item.negatives, *item.other_positives)}
    missing = sorted(named - passages.keys())
    if missing:
        raise DataError(f"{len(missing)} passages that instances name do not exist (first: {missing[0]!r})")
    return kept, DevSet(queries, relevant, tuple(passages[name] for name in sorted(named)))


def measure_dev(encoder: BiEncoder, dev: DevSet, measures: Sequence[str], *, ranks: Ranks) -> dict[str, float]:
    """Rank the pool for every dev query and return the mean of each measure, the same on every process.

    Each process encodes its share; rankings are cut at 100 passages.

    Raises:
        ConfigError: a measure is not known.
    """
    names = list(dev.queries)
    queries_QD = ranks.gather_rows(
        encoder.encode_queries([dev.queries[name] for name in names[ranks.rank :: ranks.world]])
    )
    passages_PD = ranks.gather_rows(encoder.encode_passages(dev.pool[ranks.rank :: ranks.world]))
    ids = [item.id for item in dev.pool]
    run: dict[str, list[tuple[str, float]]] = {}
    for start in range(0, len(names), _QUERIES_AT_ONCE):
        values_QP = queries_QD[start : start + _QUERIES_AT_ONCE] @ passages_PD.T
        for name, values_P in zip(names[start:], values_QP, strict=False):
            best = np.argsort(-values_P, kind="stable")[:DEV_DEPTH]
            run[name] = [(ids[column], float(values_P[column])) for column in best]
    qrels = {name: dict.fromkeys(dev.relevant[name], 1) for name in names}
    found = evaluate_run(run, qrels, measures).values
    return {measure: sum(found[measure].values()) / len(names) for measure in measures}


class DevLog:
    """The evaluations so far, on disk and in memory, and the weights of the best of them.

    Weights are kept in ``weights_folder`` under their step. Those of an earlier best are removed only once a whole
    checkpoint holds the later one, so that going on from a checkpoint always finds the best up to there.
    """

    def __init__(
        self, path: Path, *, weights_folder: Path, measure: str, keep_steps: int, is_begun: bool, is_owner: bool = True
    ) -> None:
        """Open the log, keeping evaluations up to ``keep_steps``; none where training has not begun.

        Args:
            path: The file.
            weights_folder: Where the best weights are; removed with the checkpoints.
            measure: The one that decides.
            keep_steps: Steps of the checkpoint that training goes on from.
            is_begun: Whether there is such a checkpoint.
            is_owner: Whether this process writes files.
        """
        self.path = path
        self._weights_folder, self._measure, self._is_owner = weights_folder, measure, is_owner
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() and is_begun else []
        records = [from_json(DevRecord, json.loads(raw), where=f"{path}:{n}") for n, raw in enumerate(lines, start=1)]
        self.records = [record for record in records if record.step <= keep_steps]
        if is_begun and not self.records:
            raise DataError(f"{path}: no evaluation, but checkpoints are beside it; delete {path.parent} and run again")
        if is_owner:
            write_jsonl(path, (to_json(record) for record in self.records))

    @property
    def best(self) -> DevRecord:
        """The best evaluation, the earliest of equals."""
        return max(self.records, key=lambda record: (record.values[self._measure], -record.step))

    @property
    def num_since_best(self) -> int:
        """Evaluations after the best one."""
        return len(self.records) - 1 - self.records.index(self.best)

    def append(self, record: DevRecord, model: torch.nn.Module) -> None:
        """Record an evaluation, and the weights if they are the best so far."""
        self.records.append(record)
        if not self._is_owner:
            return
        with self.path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(json.dumps(to_json(record)) + "\n")
        if self.best is record:
            part = self._weights_folder / "best.part"
            torch.save(model.state_dict(), part)
            part.replace(self._weights(record.step))

    def forget_worse(self) -> None:
        """Remove weights that are not the best; to be called when a whole checkpoint of this step is on disk."""
        if self._is_owner:
            for path in self._weights_folder.glob("best-*.pt"):
                if path != self._weights(self.best.step):
                    path.unlink()

    def restore_best(self, model: torch.nn.Module) -> None:
        """Put the best weights into the model."""
        if self._is_owner:
            model.load_state_dict(torch.load(self._weights(self.best.step), weights_only=True))

    def _weights(self, step: int) -> Path:
        return self._weights_folder / f"best-{step}.pt"


class DevEvaluation:
    """When to evaluate, and whether there is a point in going on."""

    def __init__(self, encoder: BiEncoder, dev: DevSet, log: DevLog, config: ContrastiveConfig, ranks: Ranks) -> None:
        """Take the encoder in training; ``log`` may hold evaluations from before."""
        self._encoder, self._dev, self._config, self._ranks = encoder, dev, config, ranks
        self.log = log

    @property
    def is_over(self) -> bool:
        """Say whether so many evaluations as ``config.patience`` brought nothing better."""
        if self._config.patience is None or not self.log.records:
            return False
        return self.log.num_since_best >= self._config.patience

    def is_due(self, step: int, *, is_last: bool) -> bool:
        """Say whether to measure after a step; 0 is the base, unless training goes on from a checkpoint."""
        return is_last or (step % self._config.dev_every == 0 if step else not self.log.records)

    def measure(self, step: int) -> None:
        """Measure the encoder as it is, and keep its weights if they are the best."""
        values = measure_dev(self._encoder, self._dev, self._config.dev_measures, ranks=self._ranks)
        self.log.append(DevRecord(step, values), self._encoder.model)
