"""The audit: which negatives look like positives, and what the labels look like as a whole.

It reads what selection made and changes nothing: suspicious negatives are named before training starts.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentic_r.artifacts.fingerprint import fingerprint_text
from agentic_r.labels.selection import LabelledQuery
from agentic_r.metrics.answers import contains_answer, normalise_answer
from agentic_r.types import Passage, Question, TrainingInstance, UtilityLabel

__all__ = ["Audit", "LabelStatistics", "Suspicion", "audit"]

_VERDICTS = frozenset({"yes", "no", "true", "false"})


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A negative that may be a positive, and why."""

    instance_id: str
    passage_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class LabelStatistics:
    """Numbers over all labels. Shares are of the labels whose part is there; 0.0 where there are none.

    ``num_all_correct`` counts queries whose every candidate leads to a correct answer: the agent answers
    those blind, so correctness tells nothing there.
    """

    num_queries: int
    num_labels: int
    num_without_relevance: int
    num_without_correctness: int
    mean_relevance: float
    share_relevant: float
    share_correct: float
    num_some_correct: int
    num_all_correct: int


@dataclass(frozen=True, slots=True)
class Audit:
    """What was found in ``num_negatives`` negatives of ``num_instances`` instances."""

    num_instances: int
    num_negatives: int
    suspicions: tuple[Suspicion, ...]
    statistics: LabelStatistics

    def counts(self) -> dict[str, int]:
        """Suspicions by reason."""
        return dict(sorted(Counter(item.reason for item in self.suspicions).items()))


def audit(
    instances: Sequence[TrainingInstance],
    labelled: Sequence[LabelledQuery],
    *,
    passages: Mapping[str, Passage],
    questions: Mapping[str, Question],
    min_relevance: float,
) -> Audit:
    """Look at every negative of every instance.

    A negative is suspicious if it holds an accepted answer word for word (yes and no are not looked for), has the
    text of a positive of its query, leads to a correct answer, or reaches ``min_relevance``; one line for each reason.

    Args:
        instances: From selection.
        labelled: What selection read.
        passages: By id.
        questions: By id, for their accepted answers.
        min_relevance: The threshold that positives had to reach.
    """
    labels = {(item.query.query_id, label.passage_id): label for item in labelled for label in item.labels}
    suspicions = [
        Suspicion(instance.id, key, reason)
        for instance in instances
        for key in instance.negatives
        for reason in _reasons(
            passages[key],
            label=labels.get((instance.id.rpartition("/")[0], key)),
            positives=[passages[other] for other in (instance.positive, *instance.other_positives)],
            answers=questions[instance.question_id].answers,
            min_relevance=min_relevance,
        )
    ]
    return Audit(
        num_instances=len(instances),
        num_negatives=sum(len(instance.negatives) for instance in instances),
        suspicions=tuple(suspicions),
        statistics=_statistics(labelled, min_relevance),
    )


def _reasons(
    passage: Passage,
    *,
    label: UtilityLabel | None,
    positives: Sequence[Passage],
    answers: Sequence[str],
    min_relevance: float,
) -> Iterator[str]:
    wanted = [answer for answer in answers if normalise_answer(answer) not in _VERDICTS]
    if wanted and contains_answer(f"{passage.title}\n{passage.text}", wanted):
        yield "holds an accepted answer"
    if fingerprint_text(passage.text) in {fingerprint_text(positive.text) for positive in positives}:
        yield "same text as a positive"
    if label is not None and (label.correctness or 0) >= 1:
        yield "leads to a correct answer"
    if label is not None and label.relevance is not None and label.relevance >= min_relevance:
        yield "as relevant as a positive must be"


def _statistics(labelled: Sequence[LabelledQuery], min_relevance: float) -> LabelStatistics:
    labels = [label for item in labelled for label in item.labels]
    relevances = [label.relevance for label in labels if label.relevance is not None]
    corrects = [label.correctness for label in labels if label.correctness is not None]
    outcomes = [[(label.correctness or 0) >= 1 for label in item.labels] for item in labelled if item.labels]
    return LabelStatistics(
        num_queries=len(labelled),
        num_labels=len(labels),
        num_without_relevance=len(labels) - len(relevances),
        num_without_correctness=len(labels) - len(corrects),
        mean_relevance=_mean(relevances),
        share_relevant=_mean([float(value >= min_relevance) for value in relevances]),
        share_correct=_mean(corrects),
        num_some_correct=sum(any(outcome) for outcome in outcomes),
        num_all_correct=sum(all(outcome) for outcome in outcomes),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
