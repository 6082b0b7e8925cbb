"""Small values and fakes for the tests of labels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agentic_r.agent.rollout import Start
from agentic_r.labels.selection import LabelledQuery
from agentic_r.types import (
    Candidate,
    CandidateList,
    Passage,
    QueryText,
    Question,
    Reply,
    ScoredPassage,
    SearchResult,
    Trajectory,
    Turn,
    UtilityLabel,
)


def passage(key: str, text: str, title: str = "") -> Passage:
    return Passage(id=key, document_id=f"doc-{key}", title=title, text=text)


def by_id(*passages: Passage) -> dict[str, Passage]:
    return {item.id: item for item in passages}


def search(query: str, *shown: str, state: str = "ok") -> Turn:
    return Turn(
        text=f"<search>{query}</search>",
        action="search",
        content=query,
        sampled_ids=(1,),
        logprobs=(-0.1,),
        passages=tuple(ScoredPassage(key, 1.0) for key in shown),
        tool_state=state,
    )


def answer(text: str) -> Turn:
    return Turn(text=f"<answer>{text}</answer>", action="answer", content=text, sampled_ids=(2,), logprobs=(-0.1,))


def attempt(*turns: Turn, question_id: str = "q1", correct: float = 1.0, sample: int = 0) -> Trajectory:
    last = turns[-1] if turns and turns[-1].action == "answer" else None
    return Trajectory(
        question_id=question_id,
        sample=sample,
        prompt_ids=(0,),
        turns=turns,
        status="answered" if last else "turn_budget",
        answer=last.content if last else None,
        correct=correct if last else 0.0,
        f1=correct if last else 0.0,
    )


def question(text: str, *answers: str, key: str = "q1", split: str = "train") -> Question:
    return Question(id=key, text=text, answers=answers, split=split)


def candidates(query: str, *ids: str, turn: int = 0, question_id: str = "q1", sample: int = 0) -> CandidateList:
    return CandidateList(
        query_id=f"{question_id}/{sample}/{turn}",
        question_id=question_id,
        sample=sample,
        turn=turn,
        query=query,
        candidates=tuple(Candidate(key, rank, 1.0 / rank) for rank, key in enumerate(ids, start=1)),
    )


def labelled(*labels: tuple[str, float | None, float | None], turn: int = 0) -> LabelledQuery:
    """Labels as (passage id, correctness, relevance), in rank order."""
    return LabelledQuery(
        query=candidates("the query", *[label[0] for label in labels], turn=turn),
        question="The question?",
        labels=tuple(UtilityLabel(key, relevance, correct) for key, correct, relevance in labels),
    )


@dataclass
class ScriptedChat:
    """Answers each prompt by ``script``; a Reply passes as it is. Counts what it was asked."""

    script: Callable[[str], str | Reply]
    name: str = "scripted"
    asked: list[str] = field(default_factory=list)

    def complete(self, prompts: Sequence[str], *, arrived: Callable[[int, Reply], None] | None = None) -> list[Reply]:
        replies = []
        for number, prompt in enumerate(prompts):
            self.asked.append(prompt)
            made = self.script(prompt)
            replies.append(Reply(made) if isinstance(made, str) else made)
            if arrived is not None:
                arrived(number, replies[-1])
        return replies


@dataclass
class FixedRetriever:
    """Finds what it is told for each query; counts its queries."""

    found: Mapping[str, SearchResult]
    fingerprint: str = "fixed"
    asked: list[QueryText] = field(default_factory=list)

    def search(self, queries: Sequence[QueryText], *, k: int) -> list[SearchResult]:
        self.asked += queries
        results = [self.found[query.query] for query in queries]
        return [replace(result, passages=result.passages[:k]) for result in results]

    def format_query(self, query: QueryText) -> str:
        return query.query


@dataclass
class ScriptedAgent:
    """Ends every attempt by what ``outcome`` says of the one passage it was shown."""

    outcome: Callable[[str], Trajectory]
    batches: list[list[Start]] = field(default_factory=list)

    def run(self, starts: Sequence[Start], *, temperature: float, seed: int) -> list[Trajectory]:
        assert temperature == 0
        self.batches.append(list(starts))
        ends = []
        for start in starts:
            end = self.outcome(start.turns[-1].passages[0].passage_id)
            ends.append(replace(end, question_id=start.question.id, turns=(*start.turns, *end.turns)))
        return ends

    def with_evidence(self, turn: Turn, passage_ids: Sequence[str]) -> Turn:
        return replace(turn, passages=tuple(ScoredPassage(key, 0.0) for key in passage_ids))
