"""The agent trainer: PPO as a ``transformers.Trainer`` around one actor-critic module.

A step of PPO is: roll out, score with the policy and the frozen reference, credit the sampled tokens,
then one update a minibatch and epoch. Everything random in step s derives from (seed, s), so that
a run resumed from a checkpoint goes on exactly as the unbroken one would have.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset
from transformers import PreTrainedModel, Trainer, TrainerCallback, TrainingArguments

from agentic_r.agent.rollout import Rollout, Start
from agentic_r.artifacts.fingerprint import generator_seed
from agentic_r.artifacts.jsonl import write_text_atomic
from agentic_r.config import PpoConfig
from agentic_r.errors import CollapseError
from agentic_r.ppo.actor_critic import ActorCritic, TokenScores, score_tokens, spread
from agentic_r.ppo.advantages import credit_tokens, whiten
from agentic_r.ppo.batches import PaddedBatch, pad_trajectories
from agentic_r.ppo.losses import masked_mean, ppo_loss
from agentic_r.types import Question, Trajectory

__all__ = ["AgentProgress", "train_agent"]

# B trajectories, T token positions

_MIN_ADVANTAGE_STD = 0.05  # below it a batch holds no signal worth scaling up (our choice)
_MAX_BAD_STEPS = 3

Minibatch = dict[str, torch.Tensor]
AgentProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """One PPO step's rollouts, scored and credited."""

    batch: PaddedBatch
    old: TokenScores
    advantages_BT: torch.Tensor
    returns_BT: torch.Tensor
    metrics: dict[str, float]


def train_agent(
    *,
    rollout: Rollout,
    policy: PreTrainedModel,
    reference: PreTrainedModel,
    questions: Sequence[Question],
    config: PpoConfig,
    folder: Path,
    seed: int,
    progress: AgentProgress,
) -> None:
    """Train ``policy`` in place, from the newest checkpoint in ``folder`` if there is one.

    Args:
        rollout: Plays the agent with ``policy`` (the same object) as its language model.
        policy: The model that learns.
        reference: The frozen start, for the KL penalty.
        questions: Training questions; each step draws its own without replacement.
        config: PPO's settings.
        folder: Checkpoints and ``metrics.jsonl``.
        seed: Of this stage.
        progress: Called with (PPO steps done, in all).

    Raises:
        CollapseError: three updates in a row were not finite.
    """
    module = ActorCritic(policy, critic=config.critic, temperature=config.temperature)
    source = _RolloutSource(
        module=module, reference=reference, rollout=rollout, questions=questions, config=config, folder=folder, seed=seed
    )
    trainer = _PpoTrainer(module, source, config, folder=folder, seed=seed, progress=progress)
    checkpoints = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
    finished = [path for path in checkpoints if (path / "trainer_state.json").exists()]
    trainer.train(resume_from_checkpoint=str(finished[-1]) if finished else None)
    policy.eval()


class _RolloutSource(IterableDataset[Minibatch]):
    """Yields minibatches; rolls out whenever the last step's are used up."""

    def __init__(
        self,
        *,
        module: ActorCritic,
        reference: PreTrainedModel,
        rollout: Rollout,
        questions: Sequence[Question],
        config: PpoConfig,
        folder: Path,
        seed: int,
    ) -> None:
        self._module, self._reference, self._rollout = module, reference.eval(), rollout
        self._questions, self._config, self._seed = list(questions), config, seed
        self._log = folder / "metrics.jsonl"
        self.first_step = 0

    def __iter__(self) -> Iterator[Minibatch]:
        config = self._config
        for step in range(self.first_step, config.steps):
            prepared = self._prepare(step)
            self._write(step, prepared.metrics)
            for epoch in range(config.epochs):
                order = list(range(config.rollouts_per_step))
                random.Random(generator_seed(self._seed, "order", step, epoch)).shuffle(order)  # noqa: S311  not for secrets
                order = [row for row in order if row < prepared.batch.ids_BT.shape[0]]
                for begin in range(0, config.rollouts_per_step, config.minibatch_size):
                    yield self._minibatch(prepared, order[begin : begin + config.minibatch_size] or order[:1])

    @torch.no_grad()
    def _prepare(self, step: int) -> _Prepared:
        config = self._config
        trajectories = self._play(step)
        kept = [item for item in trajectories if item.status != "tool_failed"]
        self._module.eval()
        batch = pad_trajectories(kept, pad_id=0, device=self._module.value_head.weight.device)
        parts = [self._score(batch, begin) for begin in range(0, len(kept), config.minibatch_size)]
        old = TokenScores(*(torch.cat([getattr(scores, name) for scores, _ in parts]) for name in TokenScores.__slots__))
        kl_BT = old.logprobs_BT - torch.cat([reference_BT for _, reference_BT in parts])
        rewards = [item.correct if config.constant_reward is None else config.constant_reward for item in kept]
        credit = credit_tokens(
            rewards, old.values_BT, batch.mask_BT, kl_BT, kl=config.kl, gamma=config.gamma, lam=config.lam
        )
        advantages_BT = credit.advantages_BT
        if config.whiten:
            advantages_BT = whiten(advantages_BT, batch.mask_BT, min_std=_MIN_ADVANTAGE_STD)
        metrics = _watch(trajectories, batch, old, kl_BT)
        return _Prepared(batch, old, advantages_BT, credit.returns_BT, metrics)

    def _play(self, step: int) -> list[Trajectory]:
        generator = random.Random(generator_seed(self._seed, "questions", step))  # noqa: S311  not for secrets
        count = self._config.rollouts_per_step
        pool: list[Question] = []
        while len(pool) < count:
            pool += generator.sample(self._questions, len(self._questions))
        starts = [Start(question, sample=number) for number, question in enumerate(pool[:count])]
        return self._rollout.run(
            starts, temperature=self._config.temperature, seed=generator_seed(self._seed, "sampling", step)
        )

    def _score(self, batch: PaddedBatch, begin: int) -> tuple[TokenScores, torch.Tensor]:
        rows = slice(begin, begin + self._config.minibatch_size)
        ids_BT, attention_BT, mask_BT = batch.ids_BT[rows], batch.attention_BT[rows], batch.mask_BT[rows]
        scores = self._module(ids_BT, attention_BT, mask_BT)
        reference_N, _, _ = score_tokens(
            self._reference, ids_BT, attention_BT, mask_BT, temperature=self._config.temperature
        )
        return scores, spread(reference_N, mask_BT)

    @staticmethod
    def _minibatch(prepared: _Prepared, rows: list[int]) -> Minibatch:
        used = int(prepared.batch.attention_BT[rows].sum(1).max())
        return {
            "ids_BT": prepared.batch.ids_BT[rows, :used],
            "attention_BT": prepared.batch.attention_BT[rows, :used],
            "mask_BT": prepared.batch.mask_BT[rows, :used],
            "old_logprobs_BT": prepared.old.logprobs_BT[rows, :used],
            "old_values_BT": prepared.old.values_BT[rows, :used],
            "advantages_BT": prepared.advantages_BT[rows, :used],
            "returns_BT": prepared.returns_BT[rows, :used],
        }

    def _write(self, step: int, metrics: dict[str, float]) -> None:
        """Append this step's line; lines of steps that a killed run lost are written over."""
        lines = self._log.read_text(encoding="utf-8").splitlines() if self._log.exists() else []
        line = json.dumps({"step": step, **{key: round(value, 6) for key, value in metrics.items()}})
        write_text_atomic(self._log, "\n".join([*lines[:step], line]) + "\n")


def _watch(
    trajectories: Sequence[Trajectory], batch: PaddedBatch, old: TokenScores, kl_BT: torch.Tensor
) -> dict[str, float]:
    count = len(trajectories)
    turns = [turn for item in trajectories for turn in item.turns]
    sampled = [logprob for item in trajectories if item.status != "tool_failed" for turn in item.turns for logprob in turn.logprobs]
    rescored = old.logprobs_BT[batch.mask_BT].tolist()
    return {
        "em": sum(item.correct for item in trajectories) / count,
        "f1": sum(item.f1 for item in trajectories) / count,
        "kl": float(masked_mean(kl_BT, batch.mask_BT)),
        "entropy": float(masked_mean(old.entropy_BT, batch.mask_BT)),
        "value": float(masked_mean(old.values_BT, batch.mask_BT)),
        "invalid_share": sum(turn.action in ("invalid", "truncated") for turn in turns) / max(len(turns), 1),
        "searches": sum(item.num_searches for item in trajectories) / count,
        "tokens": float(batch.mask_BT.sum()) / count,
        "tool_failed": float(sum(item.status == "tool_failed" for item in trajectories)),
        "sampler_gap": max((abs(a - b) for a, b in zip(sampled, rescored, strict=True)), default=0.0),
    }


class _PpoTrainer(Trainer):
    """Gives the loss, two learning rates and the checkpoint cadence; the rest is transformers'."""

    def __init__(
        self, module: ActorCritic, source: _RolloutSource, config: PpoConfig, *, folder: Path, seed: int, progress: AgentProgress
    ) -> None:
        self._ppo, self._source = config, source
        self._updates = config.epochs * config.rollouts_per_step // config.minibatch_size
        arguments = TrainingArguments(
            output_dir=str(folder),
            max_steps=max(config.steps, 1) * self._updates,
            save_steps=config.save_every * self._updates,
            save_total_limit=2,
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            ignore_data_skip=True,
            max_grad_norm=config.max_grad_norm,
            warmup_steps=config.warmup_steps * self._updates,
            lr_scheduler_type="constant_with_warmup",
            seed=seed % 2**32,
            use_cpu=not torch.cuda.is_available(),
            bf16=False,
        )
        super().__init__(model=module, args=arguments, train_dataset=source, callbacks=[_Progress(self._updates, progress)])
        self._bad_steps = 0

    def get_train_dataloader(self) -> DataLoader[Minibatch]:
        """Minibatches come ready from the source: nothing may fetch ahead of an update."""
        self._source.first_step = self.state.global_step // self._updates
        return DataLoader(self._source, batch_size=None)

    def create_optimizer(self, model: torch.nn.Module | None = None) -> torch.optim.Optimizer:
        """AdamW with the critic's own learning rate."""
        if self.optimizer is None:
            actor = [p for name, p in self.model.named_parameters() if name.startswith("policy.")]
            critic = [p for name, p in self.model.named_parameters() if not name.startswith("policy.")]
            self.optimizer = torch.optim.AdamW(
                [
                    {"params": actor, "lr": self._ppo.learning_rate},
                    {"params": critic, "lr": self._ppo.critic_learning_rate},
                ],
                weight_decay=0.0,
            )
        return self.optimizer

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, torch.Tensor | Any],  # Any: transformers' own signature
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """Policy loss + value_weight x value loss - entropy bonus."""
        mask_BT = inputs["mask_BT"]
        scores: TokenScores = model(inputs["ids_BT"], inputs["attention_BT"], mask_BT)
        parts = ppo_loss(
            logprobs_BT=scores.logprobs_BT,
            old_logprobs_BT=inputs["old_logprobs_BT"],
            values_BT=scores.values_BT,
            old_values_BT=inputs["old_values_BT"],
            entropy_BT=scores.entropy_BT,
            advantages_BT=inputs["advantages_BT"],
            returns_BT=inputs["returns_BT"],
            mask_BT=mask_BT,
            clip=self._ppo.clip,
            value_clip=self._ppo.value_clip,
        )
        loss = parts.policy + self._ppo.value_weight * parts.value - self._ppo.entropy * parts.entropy
        if not torch.isfinite(loss):
            return self._skip(scores)
        self._bad_steps = 0
        return loss

    def _skip(self, scores: TokenScores) -> torch.Tensor:
        self._bad_steps += 1
        if self._bad_steps >= _MAX_BAD_STEPS:
            raise CollapseError(
                f"PPO: {_MAX_BAD_STEPS} updates in a row were not finite (step {self.state.global_step}); "
                f"lower ppo.learning_rate; the last good checkpoint is in {self.args.output_dir}"
            )
        return torch.nan_to_num(scores.values_BT).sum() * 0.0


class _Progress(TrainerCallback):
    def __init__(self, updates: int, progress: AgentProgress) -> None:
        self._updates, self._progress = updates, progress

    def on_step_end(self, args: TrainingArguments, state: Any, control: Any, **kwargs: object) -> None:  # Any: transformers'
        if state.global_step % self._updates == 0:
            self._progress(state.global_step // self._updates, state.max_steps // self._updates)
