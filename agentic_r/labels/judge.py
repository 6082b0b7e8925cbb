"""The judge's two stages, and the one place where a judge is chosen.

Sub-answers: a map over trajectories. Relevance: a map over queries. Both write one record a query or
candidate and go on where a killed process stopped. What failed is a record with its state.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import assert_never

from agentic_r.artifacts.record_log import map_in_chunks
from agentic_r.config import EndpointJudge, JudgeConfig, RuleJudge
from agentic_r.labels.cache import CachedChat
from agentic_r.labels.chat_judge import ChatJudge
from agentic_r.labels.prompting import load_judge_prompts
from agentic_r.labels.rule_judge import RuleBasedJudge
from agentic_r.llm.endpoint import EndpointChat
from agentic_r.protocols import Judge
from agentic_r.types import (
    CandidateList,
    Passage,
    Question,
    Relevance,
    RelevanceRequest,
    SubAnswer,
    SubAnswerRequest,
    Trajectory,
)

__all__ = ["build_judge", "count_states", "run_relevance", "run_sub_answers", "sub_answer_requests"]

_CHUNK = 64  # prompts in flight between two lines of the log; replies are kept one by one


def build_judge(config: JudgeConfig, *, cache: Path) -> Judge:
    """Return the configured judge; an endpoint's replies are kept in the file ``cache``.

    Raises:
        ConfigError: the environment variable that should hold the endpoint's key is not set.
    """
    match config:
        case RuleJudge():
            return RuleBasedJudge()
        case EndpointJudge():
            prompts = load_judge_prompts()
            chat = CachedChat(EndpointChat(config), cache, templates=prompts.fingerprint)
            return ChatJudge(chat=chat, prompts=prompts, max_retries=config.max_retries)
        case _:
            assert_never(config)


def run_sub_answers(
    requests: Sequence[SubAnswerRequest], *, judge: Judge, output: Path, progress: Callable[[int, int], None]
) -> list[SubAnswer]:
    """Write one ``SubAnswer`` a query.

    Args:
        requests: From ``sub_answer_requests``.
        judge: Who says so.
        output: The finished file.
        progress: Called with (trajectories done, trajectories in all).
    """

    def ask(_: int, chunk: Sequence[SubAnswerRequest]) -> list[SubAnswer]:
        return [answer for answers in judge.sub_answers(chunk) for answer in answers]

    return map_in_chunks(requests, ask, kind=SubAnswer, output=output, chunk_size=_CHUNK, progress=progress)


def run_relevance(
    queries: Sequence[CandidateList],
    sub_answers: Sequence[SubAnswer],
    *,
    passages: Mapping[str, Passage],
    judge: Judge,
    output: Path,
    progress: Callable[[int, int], None],
) -> list[Relevance]:
    """Write one ``Relevance`` a candidate. A query whose sub-answer failed is judged without one, as published.

    Args:
        queries: With their candidates.
        sub_answers: One for each of them.
        passages: By id.
        judge: Who says so.
        output: The finished file.
        progress: Called with (queries done, queries in all).

    Raises:
        ValueError: a query has no sub-answer record.
    """
    answers = {item.query_id: item for item in sub_answers}
    missing = [query.query_id for query in queries if query.query_id not in answers]
    if missing:
        raise ValueError(f"{len(missing)} queries have no sub-answer record, the first is {missing[0]}")

    def ask(_: int, chunk: Sequence[CandidateList]) -> list[Relevance]:
        requests = [
            RelevanceRequest(
                query=query,
                sub_answer=answers[query.query_id],
                passages=tuple(passages[candidate.passage_id] for candidate in query.candidates),
            )
            for query in chunk
        ]
        return [value for values in judge.relevance(requests) for value in values]

    return map_in_chunks(queries, ask, kind=Relevance, output=output, chunk_size=_CHUNK, progress=progress)


def sub_answer_requests(
    queries: Sequence[CandidateList],
    trajectories: Sequence[Trajectory],
    questions: Mapping[str, Question],
    passages: Mapping[str, Passage],
) -> list[SubAnswerRequest]:
    """Put the queries of each trajectory together; trajectories without queries are left out."""
    by_attempt: dict[tuple[str, int], list[CandidateList]] = {}
    for query in queries:
        by_attempt.setdefault((query.question_id, query.sample), []).append(query)
    return [
        SubAnswerRequest(
            trajectory=trajectory,
            question=questions[trajectory.question_id].text,
            answers=questions[trajectory.question_id].answers,
            queries=tuple(by_attempt[key]),
            passages=passages,
        )
        for trajectory in trajectories
        if (key := (trajectory.question_id, trajectory.sample)) in by_attempt
    ]


def count_states(records: Sequence[SubAnswer] | Sequence[Relevance]) -> dict[str, int]:
    """Count records by state, for a stage's report."""
    return dict(sorted(Counter(record.state for record in records).items()))
