"""Answer correctness: whether the agent comes to the right answer when it sees one candidate alone.

Each candidate takes the place of what its turn was shown, and the agent goes on greedily from there. The answer is
graded by the same rule as the reward. A continuation in which a tool failed, or for which no turn was left, says
nothing: its value is None, never 0.

Only what can change the selection is run: first the candidates that are relevant enough for a positive, then, where one
of them leads to a correct answer, the query's other candidates. A query with no such candidate gives no instance.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agentic_r.agent.rollout import Start
from agentic_r.artifacts.fingerprint import generator_seed
from agentic_r.artifacts.record_log import map_in_chunks
from agentic_r.artifacts.records import write_records
from agentic_r.config import CorrectnessConfig
from agentic_r.types import CandidateList, Continuation, Correctness, Question, Trajectory, Turn

__all__ = ["ContinuingAgent", "correctness_of", "count_continuations", "run_correctness"]


class ContinuingAgent(Protocol):
    """An agent that goes on from turns already taken (``agent.rollout.Rollout``)."""

    def run(self, starts: Sequence[Start], *, temperature: float, seed: int) -> list[Trajectory]:
        """Carry every start to its end; one trajectory a start, in order."""
        ...

    def with_evidence(self, turn: Turn, passage_ids: Sequence[str]) -> Turn:
        """Return that search turn with its observation replaced by these passages."""
        ...


@dataclass(frozen=True, slots=True)
class _Trial:
    query: CandidateList
    passage_id: str

    @property
    def key(self) -> tuple[str, str]:
        return self.query.query_id, self.passage_id


def run_correctness(
    queries: Sequence[CandidateList],
    trajectories: Sequence[Trajectory],
    questions: Mapping[str, Question],
    *,
    agent: ContinuingAgent,
    relevant: Mapping[str, frozenset[str]],
    config: CorrectnessConfig,
    seed: int,
    output: Path,
    progress: Callable[[int, int], None],
) -> list[Continuation]:
    """Continue the agent from the candidates of each query, greedily, and write one ``Continuation`` each.

    Args:
        queries: With their candidates.
        trajectories: Those that the queries came from.
        questions: By id.
        agent: The one that made the trajectories.
        relevant: By query id, the candidates that are relevant enough for a positive.
        config: ``batch_size`` continuations run together.
        seed: Of the run; greedy continuations need it for the batch only.
        output: The finished file.
        progress: Called with (continuations done, continuations in all as far as known).

    Returns:
        All continuations that were run, by query and rank; ``correctness_of`` gives the labels.

    Source: arXiv 2601.11888, global answer correctness; published code runs every candidate.
    """
    attempts = {(item.question_id, item.sample): item for item in trajectories}
    trials = [_Trial(query, candidate.passage_id) for query in queries for candidate in query.candidates]

    def continue_from(number: int, chunk: Sequence[_Trial]) -> list[Continuation]:
        starts = [
            _start(trial, attempts[trial.query.question_id, trial.query.sample], questions, agent) for trial in chunk
        ]
        made = agent.run(starts, temperature=0.0, seed=generator_seed(seed, "correctness", number))
        return [_record(trial, len(start.turns), end) for trial, start, end in zip(chunk, starts, made, strict=True)]

    def run(part: str, of: Sequence[_Trial], before: int) -> list[Continuation]:
        return map_in_chunks(
            of,
            continue_from,
            kind=Continuation,
            output=output.with_name(f"{output.stem}.{part}.jsonl"),
            chunk_size=config.batch_size,
            progress=lambda done, total: progress(before + done, before + total),
        )

    may_be_positive = [trial for trial in trials if trial.passage_id in relevant.get(trial.query.query_id, ())]
    made = run("relevant", may_be_positive, 0)
    with_positive = {item.query_id for item in made if correctness_of(item).value == 1}
    done = {(item.query_id, item.passage_id) for item in made}
    others = [trial for trial in trials if trial.query.query_id in with_positive and trial.key not in done]
    by_key = {(item.query_id, item.passage_id): item for item in (*made, *run("others", others, len(made)))}
    continuations = [by_key[trial.key] for trial in trials if trial.key in by_key]
    write_records(output, continuations)
    return continuations


def correctness_of(continuation: Continuation) -> Correctness:
    """Return the label: 0 or 1, or None where the continuation says nothing."""
    measured = continuation.status != "tool_failed" and continuation.num_turns > 0
    value = continuation.correct if measured else None
    return Correctness(continuation.query_id, continuation.passage_id, value)


def count_continuations(continuations: Sequence[Continuation]) -> dict[str, int]:
    """Count how continuations ended, for the stage's report; those with no turn left apart."""
    return dict(Counter(item.status if item.num_turns else "no turn left" for item in continuations))


def _start(trial: _Trial, trajectory: Trajectory, questions: Mapping[str, Question], agent: ContinuingAgent) -> Start:
    turn = trajectory.turns[trial.query.turn]
    shown = agent.with_evidence(turn, [trial.passage_id])
    return Start(
        question=questions[trajectory.question_id],
        sample=trajectory.sample,
        turns=(*trajectory.turns[: trial.query.turn], shown),
    )


def _record(trial: _Trial, num_given: int, end: Trajectory) -> Continuation:
    return Continuation(
        query_id=trial.query.query_id,
        passage_id=trial.passage_id,
        answer=end.answer,
        correct=end.correct,
        num_searches=end.num_searches,
        num_turns=len(end.turns) - num_given,
        status=end.status,
    )
