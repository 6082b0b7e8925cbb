"""Batched multi-turn rollout: generate for all who are still going, search for all who asked.

Tokens in, tokens out: a context is the concatenation of prompt, sampled and observation ids; nothing is
decoded and encoded again between turns. Finished attempts leave the batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from agentic_r.agent.environment import Attempt, Environment
from agentic_r.agent.protocol import STOPS
from agentic_r.artifacts.fingerprint import generator_seed
from agentic_r.config import AgentConfig
from agentic_r.protocols import LanguageModel, Retriever
from agentic_r.types import Generation, Passage, QueryText, Question, Sampling, ScoredPassage, Trajectory, Turn

__all__ = ["Rollout", "Start", "sent_before"]


@dataclass(frozen=True, slots=True)
class Start:
    """Where an attempt begins: at the question, or after turns that were already taken."""

    question: Question
    sample: int = 0
    turns: tuple[Turn, ...] = ()


def sent_before(turns: Sequence[Turn]) -> tuple[str, ...]:
    """Return the queries of these turns, in order: the history of the query that comes next."""
    return tuple(turn.content for turn in turns if turn.action == "search")


@dataclass(slots=True)
class Rollout:
    """The agent at work: one language model, one retriever, one set of passages."""

    model: LanguageModel
    retriever: Retriever
    passages: Mapping[str, Passage]
    config: AgentConfig
    environment: Environment = field(init=False)

    def __post_init__(self) -> None:
        self.environment = Environment(model=self.model, passages=self.passages, config=self.config)

    def run(self, starts: Sequence[Start], *, temperature: float, seed: int) -> list[Trajectory]:
        """Carry every start to its end.

        Args:
            starts: Attempts, in order; those already over come back graded.
            temperature: 0 is greedy.
            seed: Decides the samples, together with the composition of ``starts``.

        Returns:
            One trajectory a start, in order. An attempt whose search failed ends there, as ``tool_failed``.
        """
        attempts = [self.environment.begin(start.question, sample=start.sample, turns=start.turns) for start in starts]
        finished: dict[int, Trajectory] = {}
        for turn_number in count():  # ends: every turn counts against the turn budget
            going = self._still_going(attempts, finished)
            if not going:
                break
            self._take_turn(going, temperature=temperature, seed=generator_seed(seed, "round", turn_number))
        return [finished[row] for row in range(len(attempts))]

    def with_evidence(self, turn: Turn, passage_ids: Sequence[str]) -> Turn:
        """Return a search turn whose observation shows these passages instead."""
        observation = self.environment.observe([ScoredPassage(key, 0.0) for key in passage_ids])
        return replace(
            turn,
            observation_ids=observation.ids,
            passages=observation.shown,
            tool_state="ok",
            num_passages_cut=observation.num_passages_cut,
            cause="",
        )

    def _still_going(self, attempts: Sequence[Attempt], finished: dict[int, Trajectory]) -> list[Attempt]:
        """Move what is over to ``finished``, by row; return the rest."""
        going = []
        for row, attempt in enumerate(attempts):
            if row in finished:
                continue
            status = self.environment.status(attempt)
            if status is None:
                going.append(attempt)
            else:
                finished[row] = self.environment.finish(attempt, status)
        return going

    def _take_turn(self, going: Sequence[Attempt], *, temperature: float, seed: int) -> None:
        """Let each attempt write a turn, and answer it unless it was the last that the budget allows."""
        turns = [self.environment.turn(item) for item in self._generate(going, temperature=temperature, seed=seed)]
        answered = [row for row, attempt in enumerate(going) if not self.environment.is_last_turn(attempt)]
        for row in answered:
            if turns[row].action in ("invalid", "truncated"):
                turns[row] = self.environment.answer_invalid(turns[row])
        searching = [row for row in answered if turns[row].action == "search"]
        queries = [
            QueryText(turns[row].content, going[row].question.text, sent_before(going[row].turns)) for row in searching
        ]
        results = self.retriever.search(queries, k=self.config.passages_per_search) if queries else []
        for row, query, result in zip(searching, queries, results, strict=True):
            written = self.retriever.format_query(query)
            turns[row] = self.environment.answer_search(turns[row], result, retriever_input=written)
        for attempt, turn in zip(going, turns, strict=True):
            attempt.turns.append(turn)

    def _generate(self, going: Sequence[Attempt], *, temperature: float, seed: int) -> list[Generation]:
        """Generate in batches of like length, so that little is padded; results come in the order of ``going``."""
        contexts = [attempt.context() for attempt in going]
        order = sorted(range(len(going)), key=lambda row: len(contexts[row]))
        generations: dict[int, Generation] = {}
        for begin in range(0, len(going), self.config.batch_size):
            sampling = Sampling(
                max_tokens=self.config.max_turn_tokens,
                temperature=temperature,
                seed=generator_seed(seed, "batch", begin),
                stop=STOPS,
            )
            rows = order[begin : begin + self.config.batch_size]
            made = self.model.generate([contexts[row] for row in rows], sampling=sampling)
            generations.update(zip(rows, made, strict=True))
        return [generations[row] for row in range(len(going))]
