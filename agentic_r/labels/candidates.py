"""Candidates: what the retriever proposes for every query that the agent really sent.

Owns which turns count as queries and how a query is named. Turns whose search failed, found nothing or
never ran are left out and listed with the reason.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentic_r.agent.rollout import sent_before
from agentic_r.artifacts.record_log import map_in_chunks
from agentic_r.protocols import Retriever
from agentic_r.types import Candidate, CandidateList, QueryText, Question, Skipped, Trajectory

__all__ = ["Candidates", "find_candidates", "sent_queries", "usable"]

_CHUNK = 256  # queries a search call; decides only how much a kill loses


@dataclass(frozen=True, slots=True)
class Candidates:
    """``lists`` are the queries with candidates; ``skipped`` the query ids without, each with its reason."""

    lists: tuple[CandidateList, ...]
    skipped: tuple[Skipped, ...]


def find_candidates(
    trajectories: Sequence[Trajectory],
    questions: Mapping[str, Question],
    *,
    retriever: Retriever,
    k: int,
    output: Path,
    progress: Callable[[int, int], None],
) -> Candidates:
    """Ask the retriever for the best ``k`` passages of every query of the training trajectories.

    Args:
        trajectories: Attempts at training questions.
        questions: By id.
        retriever: The one that served these trajectories.
        k: Candidates a query (20 as published).
        output: The file of one ``CandidateList`` a query, those without candidates included.
        progress: Called with (queries done, queries in all).

    Raises:
        ValueError: a trajectory belongs to a question that is not for training.

    Source: arXiv 2601.11888, candidate passages; unlike in the released code no trajectory is dropped whole.
    """
    for trajectory in trajectories:
        if questions[trajectory.question_id].split != "train":
            raise ValueError(
                f"question {trajectory.question_id} is held out; labels are made from training questions only"
            )
    sent, skipped = sent_queries(trajectories)

    def search(_: int, chunk: Sequence[CandidateList]) -> list[CandidateList]:
        return _search(chunk, questions=questions, retriever=retriever, k=k)

    found = map_in_chunks(sent, search, kind=CandidateList, output=output, chunk_size=_CHUNK, progress=progress)
    return Candidates(lists=usable(found), skipped=(*skipped, *_unusable(found)))


def sent_queries(trajectories: Sequence[Trajectory]) -> tuple[list[CandidateList], list[Skipped]]:
    """Return every query whose search went well, still without candidates, and the searches left out."""
    sent: list[CandidateList] = []
    skipped: list[Skipped] = []
    for trajectory in trajectories:
        for number, turn in enumerate(trajectory.turns):
            if turn.action != "search":
                continue
            query_id = f"{trajectory.question_id}/{trajectory.sample}/{number}"
            if turn.tool_state == "ok":
                sent.append(
                    CandidateList(
                        query_id=query_id,
                        question_id=trajectory.question_id,
                        sample=trajectory.sample,
                        turn=number,
                        query=turn.content,
                        candidates=(),
                        history=sent_before(trajectory.turns[:number]),
                    )
                )
            else:
                skipped.append(Skipped(query_id, _REASONS[turn.tool_state]))
    return sent, skipped


def usable(lists: Sequence[CandidateList]) -> tuple[CandidateList, ...]:
    """Return the queries that have candidates."""
    return tuple(item for item in lists if item.state == "ok")


_REASONS = {
    "empty": "the agent's search found nothing",
    "failed": "the agent's search failed",
    "none": "the agent's search was not run (no turns left)",
}


def _search(
    chunk: Sequence[CandidateList], *, questions: Mapping[str, Question], retriever: Retriever, k: int
) -> list[CandidateList]:
    texts = [QueryText(item.query, questions[item.question_id].text, item.history) for item in chunk]
    made = []
    for item, result in zip(chunk, retriever.search(texts, k=k), strict=True):
        candidates = tuple(
            Candidate(found.passage_id, rank, found.value) for rank, found in enumerate(result.passages, start=1)
        )
        state = result.state if candidates or result.state == "failed" else "empty"
        made.append(
            replace(
                item,
                candidates=candidates if state == "ok" else (),
                state=state,
                cause=result.cause,
            )
        )
    return made


def _unusable(lists: Sequence[CandidateList]) -> list[Skipped]:
    reasons = {"empty": "no candidates found", "failed": "the search for candidates failed", "none": "not searched"}
    return [Skipped(item.query_id, reasons[item.state]) for item in lists if item.state != "ok"]
