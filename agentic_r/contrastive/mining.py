"""Hard negatives for instances that have only pairs: what a retriever ranks high and nobody called relevant.

Owns the rank range, the margin against likely unlabelled positives, the draw, and the counts of what was left out.
Searching is the retriever's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from agentic_r.artifacts.fingerprint import fingerprint_text, generator_seed
from agentic_r.config import MiningConfig
from agentic_r.errors import DataError
from agentic_r.protocols import Retriever
from agentic_r.types import Passage, QueryText, ScoredPassage, TrainingInstance

__all__ = ["Mined", "mine_negatives"]

_QUERIES_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Mined:
    """Instances with their negatives, and what was left out.

    Attributes:
        instances: In the order given; negatives that a row brought along come first.
        num_same_text: Hits in the rank range with the text of a positive.
        num_over_margin: Hits as close to the query as its positive, or nearly.
        num_short: Instances that got fewer than asked for.
        num_unfound_positives: Instances whose positive was not within the ranks: with a margin they get nothing.
    """

    instances: tuple[TrainingInstance, ...]
    num_same_text: int
    num_over_margin: int
    num_short: int
    num_unfound_positives: int


def mine_negatives(
    instances: Sequence[TrainingInstance],
    retriever: Retriever,
    passages: Mapping[str, Passage],
    config: MiningConfig,
    *,
    seed: int,
    progress: Callable[[int, int], None],
) -> Mined:
    """Draw negatives for each instance from the hits of its query.

    A hit is taken from ranks ``first_rank`` to ``last_rank`` (from 1), unless it is a positive, has the text of one,
    or its score is above ``(1 - relative_margin) x`` the positive's.

    Raises:
        DataError: a search failed.

    Source: ranks and number as FlagEmbedding's miner (10-210, 15, drawn at random); margin as NV-Retriever
    (arXiv 2407.15831), which keeps hits of at most 95 % of the positive's score.
    """
    made: list[TrainingInstance] = []
    counts = np.zeros(4, dtype=int)
    for start in range(0, len(instances), _QUERIES_AT_ONCE):
        part = instances[start : start + _QUERIES_AT_ONCE]
        results = retriever.search(
            [QueryText(item.query, item.question, item.history) for item in part], k=config.last_rank
        )
        for item, result in zip(part, results, strict=True):
            if result.state == "failed":
                raise DataError(f"mining: the search of instance {item.id} failed ({result.cause}); run again")
            negatives, left_out = _draw(item, result.passages, passages, config, seed=seed)
            counts += left_out
            made.append(replace(item, negatives=(*item.negatives, *negatives), relevance=()))
        progress(len(made), len(instances))
    same_text, over_margin, short, unfound = counts.tolist()
    return Mined(tuple(made), same_text, over_margin, short, unfound)


def _draw(
    item: TrainingInstance,
    hits: Sequence[ScoredPassage],
    passages: Mapping[str, Passage],
    config: MiningConfig,
    *,
    seed: int,
) -> tuple[list[str], tuple[int, int, int, int]]:
    positives = {item.positive, *item.other_positives}
    texts = {fingerprint_text(passages[name].text) for name in positives}
    own = next((hit.value for hit in hits if hit.passage_id == item.positive), None)
    usable, same_text, over_margin = [], 0, 0
    for hit in hits[config.first_rank - 1 :]:
        if hit.passage_id in positives or hit.passage_id in item.negatives:
            continue
        if fingerprint_text(passages[hit.passage_id].text) in texts:
            same_text += 1
        elif config.relative_margin is not None and (own is None or hit.value > (1 - config.relative_margin) * own):
            over_margin += 1
        else:
            usable.append(hit.passage_id)
    generator = np.random.default_rng(generator_seed(seed, "mining", item.id))
    wanted = max(0, config.negatives - len(item.negatives))
    chosen = sorted(generator.permutation(len(usable))[:wanted].tolist())
    return [usable[place] for place in chosen], (same_text, over_margin, int(len(chosen) < wanted), int(own is None))
