"""How many of the texts that a training reads do not fit the encoder's limits.

A function of instances, passages and encoder alone: the same for a resumed training and for every process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.types import Passage, QueryText, TrainingInstance

__all__ = ["CutTexts", "count_cut_texts"]

_TEXTS_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class CutTexts:
    """Distinct queries whose history, question or own text was shortened (or left out), and passages cut."""

    histories_shortened: int
    questions_shortened: int
    queries_cut: int
    passages_cut: int


def count_cut_texts(
    encoder: BiEncoder, instances: Sequence[TrainingInstance], passages: Mapping[str, Passage]
) -> CutTexts:
    """Tokenise every distinct query and passage of the instances once, and count."""
    counting = BiEncoder(encoder.model, encoder.settings)  # counts from 0
    queries = list(dict.fromkeys(QueryText(item.query, item.question, item.history) for item in instances))
    named = list(dict.fromkeys(name for item in instances for name in (item.positive, *item.negatives)))
    for start in range(0, len(queries), _TEXTS_AT_ONCE):
        counting.query_features(queries[start : start + _TEXTS_AT_ONCE])
    for start in range(0, len(named), _TEXTS_AT_ONCE):
        counting.passage_features([passages[name] for name in named[start : start + _TEXTS_AT_ONCE]])
    found = counting.count_cut()
    return CutTexts(
        histories_shortened=found.histories_shortened,
        questions_shortened=found.questions_shortened,
        queries_cut=found.queries_cut,
        passages_cut=len(found.passages_cut),
    )
