"""The frozen values that pass between stages.

Owns their names and meaning; knows no file format, model or framework (no torch, no pydantic).
How they are written to disk is ``artifacts/records.py``'s business.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = [
    "Action",
    "Candidate",
    "CandidateList",
    "Continuation",
    "Correctness",
    "Demonstration",
    "DemonstrationStep",
    "Document",
    "Evidence",
    "Generation",
    "Passage",
    "QueryText",
    "Question",
    "RecordedQuery",
    "Relevance",
    "RelevanceRequest",
    "Reply",
    "Sampling",
    "Scope",
    "ScoredDocument",
    "ScoredPassage",
    "SearchResult",
    "Skipped",
    "Split",
    "SubAnswer",
    "SubAnswerRequest",
    "ToolState",
    "TrainingInstance",
    "Trajectory",
    "TrajectoryStatus",
    "Turn",
    "UtilityLabel",
]

Split = Literal["train", "heldout"]
Action = Literal["search", "answer", "invalid", "truncated"]
ToolState = Literal["ok", "empty", "failed", "none"]
TrajectoryStatus = Literal["answered", "turn_budget", "context_budget", "tool_failed"]


@dataclass(frozen=True, slots=True)
class Document:
    """A source text. ``text`` is kept code point for code point."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Passage:
    """The unit of retrieval; ``document.text[start : start + len(text)] == text``."""

    id: str
    document_id: str
    title: str
    text: str
    start: int = 0


@dataclass(frozen=True, slots=True)
class Evidence:
    """A stretch of a document that supports an answer; empty ``text`` means the whole document.

    ``line`` (from 1; 0 for none) stands for the text of that line until gold is resolved against the corpus.
    """

    document_id: str
    text: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Question:
    """The user's question. ``gold_passages`` is empty where the data names none."""

    id: str
    text: str
    answers: tuple[str, ...]
    split: Split
    kind: str = ""
    evidence: tuple[Evidence, ...] = ()
    gold_passages: tuple[str, ...] = ()

    @property
    def gold_documents(self) -> tuple[str, ...]:
        """Ids of the documents that hold the evidence, in order, once each."""
        return tuple(dict.fromkeys(item.document_id for item in self.evidence))


@dataclass(frozen=True, slots=True)
class QueryText:
    """What a retriever is asked: the agent's query, the fixed question it serves, and the queries sent before it."""

    query: str
    question: str = ""
    history: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoredPassage:
    """A passage id with the retriever's score (higher is better)."""

    passage_id: str
    value: float


@dataclass(frozen=True, slots=True)
class ScoredDocument:
    """A document id with the score of its best passage."""

    document_id: str
    value: float


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The reply to one search: ``ok``, ``empty`` (ran, found nothing) or ``failed`` (did not run)."""

    passages: tuple[ScoredPassage, ...]
    state: ToolState
    cause: str = ""


@dataclass(frozen=True, slots=True)
class DemonstrationStep:
    """One search of a demonstration.

    ``shows`` are the passages that its results must contain, ``thought`` is what is written after
    reading them. With no ``shows`` the question's gold passages are kept out: the search missed.
    """

    query: str
    shows: tuple[Evidence, ...]
    thought: str


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A scripted attempt at a training question, good or lazy, from which a trajectory is made."""

    id: str
    question_id: str
    steps: tuple[DemonstrationStep, ...]
    answer: str
    strategy: str = "good"


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to draw tokens; ``temperature`` 0 is greedy. ``seed`` belongs to the batch."""

    max_tokens: int
    temperature: float = 1.0
    seed: int = 0
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Generation:
    """Sampled token ids with their log-probabilities (nats, at the sampling temperature)."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One model turn and what the environment answered.

    ``sampled_ids`` were written by the model, ``observation_ids`` by us: provenance, not content,
    decides what is trained on. ``content`` is the query or the answer, as written. ``num_passages_cut`` counts the
    retrieved passages that were not shown whole: left out, or (the first one) shortened; ``cause`` says why a tool
    failed.
    """

    text: str
    action: Action
    content: str
    sampled_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    observation_ids: tuple[int, ...] = ()
    retriever_input: str = ""
    passages: tuple[ScoredPassage, ...] = ()
    tool_state: ToolState = "none"
    num_passages_cut: int = 0
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """All turns of one attempt. ``sample`` numbers repeated attempts at the same question."""

    question_id: str
    sample: int
    prompt_ids: tuple[int, ...]
    turns: tuple[Turn, ...]
    status: TrajectoryStatus
    answer: str | None
    correct: float
    f1: float

    @property
    def num_searches(self) -> int:
        """Searches that reached the retriever."""
        return sum(turn.action == "search" and turn.tool_state != "none" for turn in self.turns)


@dataclass(frozen=True, slots=True)
class RecordedQuery:
    """A query that an agent really sent, for measuring retrievers under identical input."""

    id: str
    question_id: str
    query: str
    history: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage that the retriever proposed for a query; ``rank`` counts from 1."""

    passage_id: str
    rank: int
    value: float


@dataclass(frozen=True, slots=True)
class CandidateList:
    """The candidates of one query: turn ``turn`` (from 0) of a question's trajectory, after the queries ``history``.

    ``candidates`` is empty unless ``state`` is ok.
    """

    query_id: str
    question_id: str
    sample: int
    turn: int
    query: str
    candidates: tuple[Candidate, ...]
    state: ToolState = "ok"
    cause: str = ""
    history: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SubAnswer:
    """The reference answer to one query; ``None`` means "not sure". ``judge`` names who said so."""

    query_id: str
    text: str | None
    judge: str
    state: Literal["ok", "unparsed", "failed"] = "ok"
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Relevance:
    """Local relevance of one candidate, in [0, 1]; ``value`` is None unless ``state`` is ok."""

    query_id: str
    passage_id: str
    value: float | None
    judge: str
    state: Literal["ok", "unparsed", "out_of_range", "failed"] = "ok"
    cause: str = ""


@dataclass(frozen=True, slots=True)
class SubAnswerRequest:
    """One trajectory whose ``queries`` need sub-answers; ``passages`` holds those its turns were shown."""

    trajectory: Trajectory
    question: str
    answers: tuple[str, ...]
    queries: tuple[CandidateList, ...]
    passages: Mapping[str, Passage]


@dataclass(frozen=True, slots=True)
class RelevanceRequest:
    """One query, its sub-answer and the texts of its candidates, in their order."""

    query: CandidateList
    sub_answer: SubAnswer
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """A chat model's reply; ``text`` is None where none came after all retries, and ``cause`` says why."""

    text: str | None
    finish: Literal["stop", "length", "none"] = "stop"
    cause: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something left out on the way: which, and why (a reason that can be counted)."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Continuation:
    """How the agent went on from a query when it was shown one candidate alone.

    ``num_turns`` counts the turns it wrote after that; 0 where no budget was left to write one.
    """

    query_id: str
    passage_id: str
    answer: str | None
    correct: float
    num_searches: int
    num_turns: int
    status: TrajectoryStatus


@dataclass(frozen=True, slots=True)
class Correctness:
    """Answer correctness of one candidate (0 or 1); None when the continuation could not be run."""

    query_id: str
    passage_id: str
    value: float | None


@dataclass(frozen=True, slots=True)
class UtilityLabel:
    """Both signals of one candidate; either is None where its stage recorded a failure."""

    passage_id: str
    relevance: float | None
    correctness: float | None


@dataclass(frozen=True, slots=True)
class TrainingInstance:
    """What the contrastive trainer eats: one positive, N - 1 negatives.

    ``other_positives`` are masked for this query wherever they turn up in a batch. ``relevance`` (0-1) is that of the
    positive and then of the negatives, for soft targets; empty where it is not known.
    """

    id: str
    question_id: str
    question: str
    query: str
    positive: str
    negatives: tuple[str, ...]
    other_positives: tuple[str, ...] = ()
    history: tuple[str, ...] = ()
    relevance: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Scope:
    """The ranked documents admitted to one question's workspace by one recall."""

    number: int
    query: QueryText
    documents: tuple[ScoredDocument, ...]
