"""Demonstrations made into trajectories, as the environment would have shown them.

The scripted queries go to a real retriever; the passages that a step must show are put among the results
(at a seeded rank) where it missed them, and the question's gold passages are taken out of the
results of a step that is to miss. How many passages a step shows varies (seeded): answer correctness will
show one alone, and an agent that has only ever seen full blocks takes a short one for the end of its search.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentic_r.agent.environment import Environment
from agentic_r.agent.protocol import defuse
from agentic_r.artifacts.fingerprint import generator_seed
from agentic_r.config import AgentConfig
from agentic_r.errors import DataError
from agentic_r.protocols import LanguageModel, Retriever
from agentic_r.types import (
    Demonstration,
    DemonstrationStep,
    Evidence,
    Generation,
    Passage,
    QueryText,
    Question,
    ScoredPassage,
    SearchResult,
    Trajectory,
)

__all__ = ["demonstration_trajectories"]


@dataclass(frozen=True, slots=True)
class _Searched:
    """What the environment shows for one step."""

    result: SearchResult
    retriever_input: str


def demonstration_trajectories(
    demonstrations: Sequence[Demonstration],
    *,
    questions: Mapping[str, Question],
    locate: Mapping[Evidence, tuple[str, ...]],
    model: LanguageModel,
    retriever: Retriever,
    passages: Mapping[str, Passage],
    config: AgentConfig,
    seed: int,
) -> list[Trajectory]:
    """Build one trajectory a demonstration.

    Args:
        demonstrations: The scripts.
        questions: By id; every demonstration's question is among them.
        locate: The passages that hold each piece of evidence.
        model: Whose tokens the trajectory is written in.
        retriever: Answers the scripted queries.
        passages: By id.
        config: Budgets; a demonstration longer than the turn budget ends as the agent's would.
        seed: Decides how many passages a step shows, and the ranks at which missing evidence is put in.

    Returns:
        Trajectories with log-probabilities 0 (nobody sampled them) and, for passages put in, scores 0. One whose
        search failed ends there, as ``tool_failed``.

    Raises:
        DataError: no passage holds a piece of evidence that a step must show.
    """
    environment = Environment(model=model, passages=passages, config=config)
    asked = [
        QueryText(step.query, questions[item.question_id].text, tuple(before.query for before in item.steps[:number]))
        for item in demonstrations
        for number, step in enumerate(item.steps)
    ]
    num_gold = max((len(questions[item.question_id].gold_passages) for item in demonstrations), default=0)
    found = iter(retriever.search(asked, k=config.passages_per_search + num_gold) if asked else [])
    inputs = iter([retriever.format_query(query) for query in asked])
    trajectories = []
    for item in demonstrations:
        question = questions[item.question_id]
        searches = []
        for number, step in enumerate(item.steps):
            place = random.Random(generator_seed(seed, "demonstration", item.id, number))
            result = _stage(step, next(found), question, locate, k=config.passages_per_search, generator=place)
            searches.append(_Searched(result, next(inputs)))
        trajectories.append(_play(item, question, searches, environment, model))
    return trajectories


def _stage(
    step: DemonstrationStep,
    result: SearchResult,
    question: Question,
    locate: Mapping[Evidence, tuple[str, ...]],
    *,
    k: int,
    generator: random.Random,
) -> SearchResult:
    """Return the result as the script wants it: with what the step shows, or without the question's gold.

    At most ``size`` passages, drawn from 1 to ``k``, or as many as the step must show.
    """
    if result.state == "failed":
        return result
    size = generator.randint(1, k)
    if not step.shows:
        gold = set(question.gold_passages)
        kept = tuple(item for item in result.passages if item.passage_id not in gold)[:size]
        return SearchResult(kept, "ok" if kept else "empty")
    shown = [item.passage_id for item in result.passages[:size]]
    needed: list[str] = []
    for evidence in step.shows:
        holders = _holders(evidence, locate, question)
        present = [key for key in shown if key in holders]
        needed += present or holders[:1]
        if not present:
            shown.insert(generator.randrange(size), holders[0])
    surplus = max(0, len(shown) - max(size, len(step.shows)))
    dropped = [key for key in reversed(shown) if key not in needed][:surplus]
    values = {item.passage_id: item.value for item in result.passages}
    return SearchResult(
        tuple(ScoredPassage(key, values.get(key, 0.0)) for key in shown if key not in dropped), state="ok"
    )


def _holders(evidence: Evidence, locate: Mapping[Evidence, tuple[str, ...]], question: Question) -> tuple[str, ...]:
    holders = locate.get(evidence, ())
    if not holders:
        raise DataError(
            f"a demonstration of question {question.id!r} must show {evidence.text[:60]!r} of document "
            f"{evidence.document_id!r}, which no passage holds; correct what the step shows"
        )
    return holders


def _play(
    item: Demonstration,
    question: Question,
    searches: Sequence[_Searched],
    environment: Environment,
    model: LanguageModel,
) -> Trajectory:
    """Write the script's turns, each answered by the environment, until it ends or a budget does."""
    attempt = environment.begin(question)
    thought = ""
    for step, searched in zip(item.steps, searches, strict=True):
        status = environment.status(attempt)
        if status is not None:
            return environment.finish(attempt, status)
        turn = environment.turn(_write(model, f"{thought}<search> {defuse(step.query)} </search>"))
        if not environment.is_last_turn(attempt):
            turn = environment.answer_search(turn, searched.result, retriever_input=searched.retriever_input)
        attempt.turns.append(turn)
        thought = f"<think> {defuse(step.thought)} </think> "
    status = environment.status(attempt)
    if status is None:
        attempt.turns.append(environment.turn(_write(model, f"{thought}<answer> {defuse(item.answer)} </answer>")))
        status = environment.status(attempt)
    assert status is not None, "an answer ends an attempt"
    return environment.finish(attempt, status)


def _write(model: LanguageModel, text: str) -> Generation:
    ids = tuple(model.encode(text, control=True))
    return Generation(ids=ids, logprobs=(0.0,) * len(ids), finish="stop")
