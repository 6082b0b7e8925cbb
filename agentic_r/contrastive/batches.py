"""Batches of training instances: which rows meet in a step, and each distinct passage once.

Owns the order of an epoch, the columns of a batch and the identities by which the loss masks. Pure and
seeded: batch ``step`` of a plan is a function of (instances, sizes, seed), so that a resumed run meets the
same batches. Knows no torch; texts and vectors belong to the encoder and the trainer.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agentic_r.artifacts.fingerprint import fingerprint_text, generator_seed
from agentic_r.errors import ConfigError, DataError
from agentic_r.types import Passage, TrainingInstance

__all__ = ["Batch", "PlanCounts", "check_plan", "make_batch", "plan_steps"]


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's rows and columns.

    Attributes:
        instances: The B rows.
        passages: The P columns: every passage that is some row's positive or negative, once, by id.
        positive_columns: Column of each row's own positive.
        row_positives: For each row the passages that must never be its negatives, own positive first.
    """

    instances: tuple[TrainingInstance, ...]
    passages: tuple[Passage, ...]
    positive_columns: tuple[int, ...]
    row_positives: tuple[tuple[Passage, ...], ...]


@dataclass(frozen=True, slots=True)
class PlanCounts:
    """What a plan holds.

    Attributes:
        steps: Optimizer steps.
        passages: Columns over all steps (passages to encode).
        short_instances: Instances with fewer passages than the fullest one.
        masked_own_negatives: Given negatives that have a positive's id or text, so never act as negatives.
        rows_without_negatives: Rows, over all steps, that will be left out of the mean.
    """

    steps: int
    passages: int
    short_instances: int
    masked_own_negatives: int
    rows_without_negatives: int


def plan_steps(num_instances: int, *, batch_size: int, epochs: int, seed: int) -> list[tuple[int, ...]]:
    """Return the rows of every step.

    Each epoch is its own permutation, cut into the fewest batches of at most ``batch_size`` whose sizes differ
    by at most one: a lone row at an epoch's end would have no in-batch negatives.
    """
    steps: list[tuple[int, ...]] = []
    num_batches = -(-num_instances // batch_size)
    for epoch in range(epochs):
        generator = np.random.default_rng(generator_seed(seed, "contrastive", "order", epoch))
        order = generator.permutation(num_instances)
        steps.extend(tuple(int(row) for row in part) for part in np.array_split(order, num_batches))
    return steps


def make_batch(instances: Sequence[TrainingInstance], passages: Mapping[str, Passage]) -> Batch:
    """Collect the columns of one step, in order of first use.

    Raises:
        DataError: an instance names a passage that does not exist.
    """
    columns: dict[str, int] = {}
    for instance in instances:
        for passage_id in (instance.positive, *instance.negatives):
            columns.setdefault(passage_id, len(columns))
    return Batch(
        instances=tuple(instances),
        passages=tuple(passages[passage_id] for passage_id in columns),
        positive_columns=tuple(columns[instance.positive] for instance in instances),
        row_positives=tuple(_positives(instance, passages) for instance in instances),
    )


def check_plan(
    instances: Sequence[TrainingInstance],
    passages: Mapping[str, Passage],
    *,
    steps: Sequence[Sequence[int]],
    batch_size: int,
) -> PlanCounts:
    """Walk a whole plan before its first step and count what it will do.

    Raises:
        DataError: an instance names a passage that does not exist, or a step would have no negatives at all.
        ConfigError: the batch size alone is what leaves rows without negatives.
    """
    texts = _text_keys(instances, passages)
    if batch_size == 1:
        _refuse_lone_rows(instances, texts)
    fullest = max(len(instance.negatives) for instance in instances)
    num_columns = rows_without = 0
    for number, rows in enumerate(steps, start=1):
        members = [instances[row] for row in rows]
        columns = {name for member in members for name in (member.positive, *member.negatives)}
        counts = Counter(texts[name] for name in columns)
        lone = [member for member in members if _num_masked(member, counts, texts) == len(columns)]
        if len(lone) == len(members):
            raise DataError(
                f"step {number}: no row has a negative, since all its passages are positives of every row "
                f"(first instance: {lone[0].id}); raise contrastive.batch_size or give the instances negatives"
            )
        rows_without += len(lone)
        num_columns += len(columns)
    return PlanCounts(
        steps=len(steps),
        passages=num_columns,
        short_instances=sum(len(instance.negatives) < fullest for instance in instances),
        masked_own_negatives=sum(_num_own_masked(instance, texts) for instance in instances),
        rows_without_negatives=rows_without,
    )


def _positives(instance: TrainingInstance, passages: Mapping[str, Passage]) -> tuple[Passage, ...]:
    return tuple(passages[name] for name in dict.fromkeys((instance.positive, *instance.other_positives)))


def _text_keys(instances: Sequence[TrainingInstance], passages: Mapping[str, Passage]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for instance in instances:
        for name in (instance.positive, *instance.negatives, *instance.other_positives):
            if name not in passages:
                raise DataError(f"instance {instance.id}: no passage {name!r}; the instances belong to another corpus")
            if name not in texts:
                texts[name] = fingerprint_text(passages[name].text)
    return texts


def _num_masked(instance: TrainingInstance, counts: Counter[str], texts: Mapping[str, str]) -> int:
    own = {texts[name] for name in (instance.positive, *instance.other_positives)}
    return sum(counts[text] for text in own)


def _num_own_masked(instance: TrainingInstance, texts: Mapping[str, str]) -> int:
    own = {texts[name] for name in (instance.positive, *instance.other_positives)}
    return sum(texts[name] in own for name in instance.negatives)


def _refuse_lone_rows(instances: Sequence[TrainingInstance], texts: Mapping[str, str]) -> None:
    lone = [instance.id for instance in instances if _num_own_masked(instance, texts) == len(instance.negatives)]
    if lone:
        raise ConfigError(
            f"contrastive.batch_size 1 leaves {len(lone)} of {len(instances)} instances without any negative "
            f"(first: {lone[0]}), so that they teach nothing; raise contrastive.batch_size, or "
            "labels.selection.passages_per_query so that they have negatives of their own"
        )
