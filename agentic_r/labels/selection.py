"""Selection: which candidates become positives and negatives. One pure, seeded function.

Two rules. ``paper`` is the published one. ``strict`` (our default) has the same positives, but no passage that leads
to a correct answer, and none with the text of such a passage, is ever a negative; it prefers fewer negatives to wrong
ones. A candidate with a failed label is neither. Whatever is left out is listed with the reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from agentic_r.artifacts.fingerprint import fingerprint_text, generator_seed
from agentic_r.config import SelectionConfig
from agentic_r.types import (
    CandidateList,
    Correctness,
    Passage,
    Question,
    Relevance,
    Skipped,
    TrainingInstance,
    UtilityLabel,
)

__all__ = [
    "Dropped",
    "LabelledQuery",
    "Negatives",
    "Selection",
    "choose_negatives",
    "join_labels",
    "select_instances",
    "shuffle_labels",
]

_SAME_TEXT = "same text as a positive"
_OTHER_POSITIVE = "other positive of the query"
_SOME_FAILED = "a label failed"


@dataclass(frozen=True, slots=True)
class LabelledQuery:
    """A query with a label for each candidate, in rank order."""

    query: CandidateList
    question: str
    labels: tuple[UtilityLabel, ...]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A candidate that was kept out of a query's negatives, and why."""

    query_id: str
    passage_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Negatives:
    """Chosen passages in their order, those kept out (id to reason), and how many are missing to the wanted number."""

    ids: tuple[str, ...]
    dropped: Mapping[str, str]
    num_missing: int


@dataclass(frozen=True, slots=True)
class Selection:
    """``skipped`` are queries without instances; ``short`` those with fewer negatives than wanted."""

    instances: tuple[TrainingInstance, ...]
    skipped: tuple[Skipped, ...]
    dropped: tuple[Dropped, ...]
    short: tuple[Skipped, ...]


def join_labels(
    queries: Sequence[CandidateList],
    questions: Mapping[str, Question],
    relevance: Sequence[Relevance],
    correctness: Sequence[Correctness],
) -> list[LabelledQuery]:
    """Bring both signals together; a part without a record is None, like one that failed."""
    relevances = {(item.query_id, item.passage_id): item.value for item in relevance}
    corrects = {(item.query_id, item.passage_id): item.value for item in correctness}
    return [
        LabelledQuery(
            query=query,
            question=questions[query.question_id].text,
            labels=tuple(
                UtilityLabel(
                    passage_id=candidate.passage_id,
                    relevance=relevances.get((query.query_id, candidate.passage_id)),
                    correctness=corrects.get((query.query_id, candidate.passage_id)),
                )
                for candidate in query.candidates
            ),
        )
        for query in queries
    ]


def select_instances(
    labelled: Sequence[LabelledQuery], *, passages: Mapping[str, Passage], settings: SelectionConfig, seed: int
) -> Selection:
    """Choose positives and negatives.

    Candidates are ranked by correctness, then relevance (ties by rank). The top one must lead to a correct answer
    and reach ``min_relevance``, else the query is skipped. Positives are all candidates equal to the top in both;
    at most ``max_positives`` give an instance each, all with the same negatives: up to ``passages_per_query`` - 1 drawn
    uniformly without replacement, in ranked order. ``paper``: drawn from everything else, too few skips the query, and
    so does any failed label. ``strict``: see ``choose_negatives``; at least one is enough.

    Args:
        labelled: From ``join_labels``.
        passages: By id; texts decide what is the same.
        settings: Rule and sizes; with ``shuffle_labels`` the labels are permuted first (the ablation).
        seed: Of the iteration; each query has its own generator, so that others do not change its draw.

    Returns:
        Instances in the order of the queries, and everything that was left out.

    Source: arXiv 2601.11888, training data; ``strict`` and the seed are our choice, since published negatives
    include passages that lead to the right answer.
    """
    if settings.shuffle_labels:
        labelled = shuffle_labels(labelled, seed=seed)
    parts = [_select(item, passages=passages, settings=settings, seed=seed) for item in labelled]
    return Selection(
        instances=tuple(instance for part in parts for instance in part.instances),
        skipped=tuple(item for part in parts for item in part.skipped),
        dropped=tuple(item for part in parts for item in part.dropped),
        short=tuple(item for part in parts for item in part.short),
    )


def shuffle_labels(labelled: Sequence[LabelledQuery], *, seed: int) -> list[LabelledQuery]:
    """Permute the (relevance, correctness) pairs among the candidates of each query: an ablation without signal."""
    shuffled = []
    for item in labelled:
        generator = np.random.default_rng(generator_seed(seed, "shuffle labels", item.query.query_id))
        order = generator.permutation(len(item.labels))
        labels = tuple(
            replace(label, relevance=item.labels[row].relevance, correctness=item.labels[row].correctness)
            for label, row in zip(item.labels, order, strict=True)
        )
        shuffled.append(replace(item, labels=labels))
    return shuffled


def choose_negatives(
    pool: Sequence[str],
    *,
    positives: Sequence[str],
    barred: Mapping[str, str],
    texts: Mapping[str, str],
    size: int,
    generator: np.random.Generator,
) -> Negatives:
    """Draw up to ``size`` negatives from ``pool``, never a positive or its text.

    Args:
        pool: Passage ids, best first.
        positives: All positives of the query.
        barred: Further passages that must not be drawn, with the reason; nor may passages of the same text.
        texts: Text identity (``fingerprint_text``) by passage id.
        size: How many are wanted.
        generator: Decides the draw.
    """
    positive_texts = {texts[key] for key in positives}
    barred_texts = {texts[key] for key in barred}
    dropped: dict[str, str] = {}
    eligible: list[str] = []
    for key in dict.fromkeys(pool):
        if key in positives:
            dropped[key] = _OTHER_POSITIVE if key != positives[0] else "the positive itself"
        elif texts[key] in positive_texts:
            dropped[key] = _SAME_TEXT
        elif key in barred:
            dropped[key] = barred[key]
        elif texts[key] in barred_texts:
            dropped[key] = "same text as a passage that must not be a negative"
        else:
            eligible.append(key)
    ids = _draw(eligible, size=size, generator=generator)
    return Negatives(ids=ids, dropped=dropped, num_missing=size - len(ids))


def _draw(eligible: Sequence[str], *, size: int, generator: np.random.Generator) -> tuple[str, ...]:
    """Draw uniformly without replacement; the order stays."""
    if len(eligible) <= size:
        return tuple(eligible)
    rows = sorted(int(row) for row in generator.choice(len(eligible), size=size, replace=False))
    return tuple(eligible[row] for row in rows)


@dataclass(frozen=True, slots=True)
class _Utility:
    """A label with both parts."""

    passage_id: str
    relevance: float
    correctness: float

    @property
    def pair(self) -> tuple[float, float]:
        return self.correctness, self.relevance


def _select(item: LabelledQuery, *, passages: Mapping[str, Passage], settings: SelectionConfig, seed: int) -> Selection:
    reason = _why_not(item, settings)
    if reason:
        return _skip(item, reason)
    whole = [
        _Utility(label.passage_id, label.relevance, label.correctness)
        for label in item.labels
        if label.relevance is not None and label.correctness is not None
    ]
    ranked = sorted(whole, key=lambda label: label.pair, reverse=True)
    positives = [label.passage_id for label in ranked if label.pair == ranked[0].pair]
    generator = np.random.default_rng(generator_seed(seed, "negatives", item.query.query_id))
    if settings.rule == "paper":
        return _by_paper(item, ranked, positives, settings=settings, generator=generator)
    texts = {label.passage_id: fingerprint_text(passages[label.passage_id].text) for label in item.labels}
    return _strictly(item, ranked, positives, texts=texts, settings=settings, generator=generator)


def _why_not(item: LabelledQuery, settings: SelectionConfig) -> str:
    """Why a query has no positive; empty where it has one.

    Correctness is asked of the relevant candidates first: where none of them leads to a correct answer, the others
    need not have been tried.
    """
    if not item.labels:
        return "no candidates"
    judged = [label for label in item.labels if label.relevance is not None]
    relevant = [label for label in judged if (label.relevance or 0.0) >= settings.min_relevance]
    measured = [label.correctness for label in relevant if label.correctness is not None]
    must_be_whole = settings.rule == "paper"
    if not judged or (relevant and not measured):
        return _SOME_FAILED if must_be_whole else "every label failed"
    if must_be_whole and (len(judged) < len(item.labels) or len(measured) < len(relevant)):
        return _SOME_FAILED
    if not relevant:
        return "no candidate is relevant enough"
    if max(measured) < 1:
        return "no relevant candidate leads to a correct answer"
    if must_be_whole and any(label.correctness is None for label in item.labels):
        return _SOME_FAILED
    return ""


def _by_paper(
    item: LabelledQuery,
    ranked: Sequence[_Utility],
    positives: Sequence[str],
    *,
    settings: SelectionConfig,
    generator: np.random.Generator,
) -> Selection:
    size = settings.passages_per_query - 1
    others = [label.passage_id for label in ranked if label.passage_id not in positives]
    if len(others) < size:
        return _skip(item, "too few negatives")
    negatives = _draw(others, size=size, generator=generator)
    chosen = positives[: settings.max_positives]
    return Selection(_instances(item, chosen, negatives, known=positives), (), (), ())


def _strictly(
    item: LabelledQuery,
    ranked: Sequence[_Utility],
    positives: Sequence[str],
    *,
    texts: Mapping[str, str],
    settings: SelectionConfig,
    generator: np.random.Generator,
) -> Selection:
    query_id, size = item.query.query_id, settings.passages_per_query - 1
    best: dict[str, str] = {}  # of the positives with one text
    for key in positives:
        best.setdefault(texts[key], key)
    distinct = list(best.values())
    correct = {label.passage_id for label in item.labels if (label.correctness or 0) >= 1}
    barred = {key: "leads to a correct answer" for key in sorted(correct - set(distinct))}
    negatives = choose_negatives(
        [label.passage_id for label in ranked if label.passage_id != distinct[0]],
        positives=distinct,
        barred=barred,
        texts=texts,
        size=size,
        generator=generator,
    )
    half = {label.passage_id for label in item.labels} - {label.passage_id for label in ranked}
    reasons = {**negatives.dropped, **{key: "a part of its label failed" for key in sorted(half)}}
    dropped = tuple(Dropped(query_id, key, reason) for key, reason in reasons.items())
    if not negatives.ids:
        return replace(_skip(item, "no negative left"), dropped=dropped)
    known_texts = {texts[key] for key in (*distinct, *barred)}
    known = [label.passage_id for label in item.labels if texts[label.passage_id] in known_texts]
    short = (Skipped(query_id, f"{len(negatives.ids)} of {size} negatives"),) if negatives.num_missing else ()
    chosen = distinct[: settings.max_positives]
    return Selection(_instances(item, chosen, negatives.ids, known=known), (), dropped, short)


def _instances(
    item: LabelledQuery, chosen: Sequence[str], negatives: tuple[str, ...], *, known: Sequence[str]
) -> tuple[TrainingInstance, ...]:
    relevance = {label.passage_id: label.relevance for label in item.labels if label.relevance is not None}
    return tuple(
        TrainingInstance(
            id=f"{item.query.query_id}/{number}",
            question_id=item.query.question_id,
            question=item.question,
            query=item.query.query,
            positive=positive,
            negatives=negatives,
            other_positives=tuple(key for key in known if key != positive),
            history=item.query.history,
            relevance=tuple(relevance[key] for key in (positive, *negatives)),
        )
        for number, positive in enumerate(chosen)
    )


def _skip(item: LabelledQuery, reason: str) -> Selection:
    return Selection((), (Skipped(item.query.query_id, reason),), (), ())
