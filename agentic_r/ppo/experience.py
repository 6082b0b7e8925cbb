"""What PPO learns from: one step's rollouts, scored and credited, in minibatches.

Owns what a trajectory is rewarded with and what is watched. Everything random in step s derives from (seed, s), so
that a resumed run rolls out exactly as the unbroken one would have. An attempt that ended because a tool failed is
neither trained on nor measured, only counted. A step whose rewards are all equal says nothing about which action was
better, so the actor sits it out: its gradient would be noise and the entropy bonus, which Adam scales up to whole steps
(our choice).
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Literal

import torch
from torch.utils.data import IterableDataset
from transformers import PreTrainedModel

from agentic_r.agent.rollout import Rollout, Start
from agentic_r.artifacts.fingerprint import generator_seed
from agentic_r.config import PpoConfig
from agentic_r.errors import CollapseError
from agentic_r.ppo.actor_critic import ActorCritic, TokenScores, score_tokens, spread
from agentic_r.ppo.advantages import credit_tokens, whiten
from agentic_r.ppo.batches import PaddedBatch, pad_trajectories
from agentic_r.ppo.losses import Experience, masked_mean
from agentic_r.types import Question, Trajectory

__all__ = ["ExperienceSource", "Minibatch", "reward_of"]

# B trajectories, T token positions

_MIN_ADVANTAGE_STD = 0.05  # below it a batch holds no signal worth scaling up (our choice)

Minibatch = dict[str, torch.Tensor]  # ids, attention, Experience's fields, moves_actor: the Trainer takes a dict


def reward_of(trajectory: Trajectory, *, rule: Literal["em", "f1"], constant: float | None) -> float:
    """Return what the policy is rewarded with for a finished attempt.

    ``em`` gives answer correctness (0 or 1), as published; ``f1`` gives token F1 itself, which also tells near misses
    apart (our choice: where exact matches are rare, a threshold leaves nothing to learn from). Labels and evaluation
    read ``Trajectory.correct`` under either rule. ``constant`` takes the reward's place, for ablation.
    """
    if constant is not None:
        return constant
    return trajectory.f1 if rule == "f1" else trajectory.correct


@dataclass(frozen=True, slots=True)
class _Scored:
    """A batch's scores by the policy, and log pi - log pi_ref of each sampled token (B, T)."""

    scores: TokenScores
    kl_BT: torch.Tensor


@dataclass(frozen=True, slots=True)
class _Prepared:
    """One step's rollouts, ready to learn from."""

    batch: PaddedBatch
    experience: Experience
    moves_actor: bool
    metrics: dict[str, float]


class ExperienceSource(IterableDataset[Minibatch]):
    """Yields minibatches; rolls out whenever the last step's are used up.

    ``first_step`` is the PPO step to begin with; ``metrics`` are those of the step whose minibatches are being yielded.
    """

    def __init__(
        self,
        module: ActorCritic,
        *,
        reference: PreTrainedModel,
        rollout: Rollout,
        questions: Sequence[Question],
        config: PpoConfig,
        seed: int,
    ) -> None:
        self._module, self._reference, self._rollout = module, reference, rollout
        if not questions:
            raise ValueError("no questions to learn from")
        self._questions, self._config, self._seed = list(questions), config, seed
        self.first_step = 0
        self.metrics: dict[str, float] = {}

    @property
    def updates_per_step(self) -> int:
        """Minibatches that one PPO step is cut into, over all its epochs."""
        return self._config.epochs * self._config.rollouts_per_step // self._config.minibatch_size

    def __iter__(self) -> Iterator[Minibatch]:
        for step in range(self.first_step, self._config.steps):
            prepared = self._prepare(step)
            self.metrics = prepared.metrics
            for epoch in range(self._config.epochs):
                order = list(range(len(prepared.batch.ids_BT)))
                random.Random(generator_seed(self._seed, "order", step, epoch)).shuffle(order)
                for rows in _split(order, self.updates_per_step // self._config.epochs):
                    yield _minibatch(prepared, rows)

    @torch.no_grad()
    def _prepare(self, step: int) -> _Prepared:
        config = self._config
        trajectories = self._play(step)
        kept = [item for item in trajectories if item.status != "tool_failed"]
        if not kept:
            cause = trajectories[0].turns[-1].cause or "no cause given"
            raise CollapseError(
                f"PPO step {step}: all {len(trajectories)} attempts ended because a search failed ({cause}); mend that "
                "and run again, it goes on from the last checkpoint"
            )
        batch = pad_trajectories(kept, pad_id=0, device=self._module.value_head.weight.device)
        scored = self._score(batch)
        rewards = [reward_of(item, rule=self._rollout.config.reward, constant=config.constant_reward) for item in kept]
        if config.shuffle_rewards:
            random.Random(generator_seed(self._seed, "rewards", step)).shuffle(rewards)
        moves_actor = max(rewards) > min(rewards)
        metrics = {
            "reward": sum(rewards) / len(rewards),
            **_watch_attempts(kept),
            **_watch_tokens(kept, batch.mask_BT, scored),
            "rewards_differ": float(moves_actor),
            "tool_failed": float(len(trajectories) - len(kept)),
        }
        return _Prepared(batch, _credit(rewards, batch.mask_BT, scored, config), moves_actor, metrics)

    def _play(self, step: int) -> list[Trajectory]:
        """Roll out on this step's questions, drawn without replacement (all of them again where they are too few)."""
        generator = random.Random(generator_seed(self._seed, "questions", step))
        count = self._config.rollouts_per_step
        drawn: list[Question] = []
        while len(drawn) < count:
            drawn += generator.sample(self._questions, len(self._questions))
        starts = [Start(question, sample=number) for number, question in enumerate(drawn[:count])]
        return self._rollout.run(
            starts, temperature=self._config.temperature, seed=generator_seed(self._seed, "sampling", step)
        )

    def _score(self, batch: PaddedBatch) -> _Scored:
        """Score in pieces of a minibatch, which fit into memory as the update's do."""
        pieces = []
        for begin in range(0, len(batch.ids_BT), self._config.minibatch_size):
            rows = slice(begin, begin + self._config.minibatch_size)
            ids_BT, attention_BT, mask_BT = batch.ids_BT[rows], batch.attention_BT[rows], batch.mask_BT[rows]
            scores = self._module(ids_BT, attention_BT, mask_BT)
            reference = score_tokens(
                self._reference, ids_BT, attention_BT, mask_BT, temperature=self._config.temperature
            )
            pieces.append(_Scored(scores, scores.logprobs_BT - spread(reference.logprobs_N, mask_BT)))
        return _Scored(
            scores=TokenScores(
                logprobs_BT=torch.cat([piece.scores.logprobs_BT for piece in pieces]),
                entropy_BT=torch.cat([piece.scores.entropy_BT for piece in pieces]),
                values_BT=torch.cat([piece.scores.values_BT for piece in pieces]),
            ),
            kl_BT=torch.cat([piece.kl_BT for piece in pieces]),
        )


def _credit(rewards: Sequence[float], mask_BT: torch.Tensor, scored: _Scored, config: PpoConfig) -> Experience:
    credit = credit_tokens(
        rewards,
        values_BT=scored.scores.values_BT,
        mask_BT=mask_BT,
        kl_BT=scored.kl_BT,
        kl=config.kl,
        gamma=config.gamma,
        lam=config.lam,
    )
    advantages_BT = credit.advantages_BT
    if config.whiten:
        advantages_BT = whiten(advantages_BT, mask_BT, min_std=_MIN_ADVANTAGE_STD)
    return Experience(
        logprobs_BT=scored.scores.logprobs_BT,
        values_BT=scored.scores.values_BT,
        advantages_BT=advantages_BT,
        returns_BT=credit.returns_BT,
        mask_BT=mask_BT,
    )


def _split(order: Sequence[int], parts: int) -> list[list[int]]:
    """Cut into as many parts as there are updates, as even as can be; where rows are too few, the last are empty."""
    size, larger = divmod(len(order), parts)
    borders = [part * size + min(part, larger) for part in range(parts + 1)]
    return [list(order[begin:end]) for begin, end in pairwise(borders)]


def _minibatch(prepared: _Prepared, rows: list[int]) -> Minibatch:
    """Return the tensors of some trajectories; no rows make a trajectory in which nothing was sampled."""
    experience = prepared.experience
    if not rows:
        rows, experience = [0], replace(experience, mask_BT=torch.zeros_like(experience.mask_BT))
    batch = prepared.batch.rows(rows)
    used = batch.ids_BT.shape[1]
    chosen = {item.name: getattr(experience, item.name)[rows, :used] for item in fields(experience)}
    moves_actor = torch.tensor(prepared.moves_actor)
    return {"ids_BT": batch.ids_BT, "attention_BT": batch.attention_BT, "moves_actor": moves_actor, **chosen}


def _watch_attempts(kept: Sequence[Trajectory]) -> dict[str, float]:
    turns = [turn for item in kept for turn in item.turns]
    return {
        "em": sum(item.correct for item in kept) / len(kept),
        "f1": sum(item.f1 for item in kept) / len(kept),
        "searches": sum(item.num_searches for item in kept) / len(kept),
        "invalid_share": sum(turn.action in ("invalid", "truncated") for turn in turns) / max(len(turns), 1),
        "tokens": sum(len(turn.sampled_ids) for turn in turns) / len(kept),
    }


def _watch_tokens(kept: Sequence[Trajectory], mask_BT: torch.Tensor, scored: _Scored) -> dict[str, float]:
    """Means over sampled tokens; ``sampler_gap`` is the largest difference between sampling and scoring (nats)."""
    sampled = [logprob for item in kept for turn in item.turns for logprob in turn.logprobs]
    rescored = scored.scores.logprobs_BT[mask_BT].tolist()
    return {
        "kl": float(masked_mean(scored.kl_BT, mask_BT)),
        "entropy": float(masked_mean(scored.scores.entropy_BT, mask_BT)),
        "value": float(masked_mean(scored.scores.values_BT, mask_BT)),
        "sampler_gap": max((abs(a - b) for a, b in zip(sampled, rescored, strict=True)), default=0.0),
    }
