"""The environment: what a turn leads to, and the budgets.

Reads turns from what the model wrote, answers them in token ids and says when an attempt is over. Runs no model and
no search. Budgets are explicit: turns, observation tokens (``observation.py``), context tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agentic_r.agent.grading import grade_answer
from agentic_r.agent.observation import Observation, show_evidence, show_nothing
from agentic_r.agent.prompts import PromptSet, load_prompts
from agentic_r.agent.protocol import defuse, parse_turn
from agentic_r.config import AgentConfig
from agentic_r.protocols import LanguageModel
from agentic_r.types import (
    Generation,
    Passage,
    Question,
    ScoredPassage,
    SearchResult,
    Trajectory,
    TrajectoryStatus,
    Turn,
)

__all__ = ["Attempt", "Environment"]


@dataclass(slots=True)
class Attempt:
    """One attempt under way. ``sample`` numbers repeated attempts at the same question."""

    question: Question
    sample: int
    prompt_ids: tuple[int, ...]
    turns: list[Turn]

    def context(self) -> list[int]:
        """Return the token ids that the next turn continues: prompt, sampled and observed ids in their order."""
        ids = list(self.prompt_ids)
        for turn in self.turns:
            ids += turn.sampled_ids
            ids += turn.observation_ids
        return ids


class Environment:
    """Turns text into turns, results into observations, and attempts into trajectories."""

    def __init__(self, *, model: LanguageModel, passages: Mapping[str, Passage], config: AgentConfig) -> None:
        self._model = model
        self._passages = passages
        self._config = config
        self._prompts: PromptSet = load_prompts(config.prompt)

    def begin(self, question: Question, *, sample: int = 0, turns: Sequence[Turn] = ()) -> Attempt:
        """Begin an attempt at the question, or after turns already taken."""
        return Attempt(question, sample, self.prompt_ids(question), list(turns))

    def prompt_ids(self, question: Question) -> tuple[int, ...]:
        """Return the token ids of the prompt; the question's text can neither hold control tokens nor our tags."""
        before, after = self._prompts.question.split("{question}")
        return (
            *self._model.encode(before, control=True, begins=True, chat=self._prompts.chat),
            *self._model.encode(defuse(question.text)),
            *self._model.encode(after, control=True, ends=True, chat=self._prompts.chat),
        )

    def turn(self, generation: Generation) -> Turn:
        """Read what the model wrote."""
        text = self._model.decode(generation.ids)
        parsed = parse_turn(text, cut=generation.finish == "length")
        return Turn(
            text=text,
            action=parsed.action,
            content=parsed.content,
            sampled_ids=generation.ids,
            logprobs=generation.logprobs,
        )

    def answer_search(self, turn: Turn, result: SearchResult, *, retriever_input: str) -> Turn:
        """Add a search's result to its turn; a search that failed shows nothing and says why."""
        if result.state == "failed":
            return replace(turn, retriever_input=retriever_input, tool_state="failed", cause=result.cause)
        observation = self.observe(result.passages)
        return replace(
            turn,
            observation_ids=observation.ids,
            retriever_input=retriever_input,
            passages=observation.shown,
            tool_state=result.state,
            num_passages_cut=observation.num_passages_cut,
        )

    def answer_invalid(self, turn: Turn) -> Turn:
        """Add the reply to a turn that was no action."""
        return replace(turn, observation_ids=tuple(self._model.encode(self._prompts.invalid, control=True)))

    def observe(self, found: Sequence[ScoredPassage]) -> Observation:
        """Show passages, best first, within the observation budget."""
        if not found:
            return show_nothing(self._prompts.empty, model=self._model)
        budget = self._config.max_observation_tokens
        return show_evidence(found, passages=self._passages, model=self._model, max_tokens=budget)

    def is_last_turn(self, attempt: Attempt) -> bool:
        """Say whether the next turn is the last that the turn budget allows: a search in it is not run."""
        return len(attempt.turns) + 1 >= self._config.max_turns

    def status(self, attempt: Attempt) -> TrajectoryStatus | None:
        """Return why an attempt is over, or None while it goes on."""
        last = attempt.turns[-1] if attempt.turns else None
        if last and last.action == "answer":
            return "answered"
        if last and last.tool_state == "failed":
            return "tool_failed"
        if len(attempt.turns) >= self._config.max_turns:
            return "turn_budget"
        if len(attempt.context()) + self._config.max_turn_tokens > self._config.max_context_tokens:
            return "context_budget"
        return None

    def finish(self, attempt: Attempt, status: TrajectoryStatus) -> Trajectory:
        """Grade an attempt that is over. Only an answer that the model itself gave last counts."""
        answer = attempt.turns[-1].content if status == "answered" else None
        grade = grade_answer(answer, attempt.question, self._config)
        return Trajectory(
            question_id=attempt.question.id,
            sample=attempt.sample,
            prompt_ids=attempt.prompt_ids,
            turns=tuple(attempt.turns),
            status=status,
            answer=answer,
            correct=grade.correct,
            f1=grade.f1,
        )
