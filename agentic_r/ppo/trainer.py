"""The agent trainer: PPO as a ``transformers.Trainer`` around one actor-critic module.

A step of PPO is: roll out, score with the policy and the frozen reference, credit the sampled tokens
(``experience.py``), then one update a minibatch and epoch (here). A killed run goes on from its newest whole
checkpoint exactly as the unbroken one would have; the lines of ``metrics.jsonl`` that it lost are written again.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_model, save_model
from torch.utils.data import DataLoader
from transformers import (
    PreTrainedModel,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from agentic_r.agent.rollout import Rollout
from agentic_r.artifacts.checkpoints import mark_whole, newest_checkpoint
from agentic_r.artifacts.jsonl import write_text_atomic
from agentic_r.config import PpoConfig
from agentic_r.errors import CollapseError, ConfigError
from agentic_r.onednn import quick_linear
from agentic_r.ppo.actor_critic import ActorCritic, TokenScores
from agentic_r.ppo.experience import ExperienceSource, Minibatch
from agentic_r.ppo.losses import Experience, ppo_loss
from agentic_r.types import Question

__all__ = ["AgentProgress", "train_agent"]

_MAX_BAD_UPDATES = 3  # not finite, in a row
_WEIGHTS = "model.safetensors"
_LOGGED = {  # metric: part of the loss
    "policy_loss": "policy",
    "value_loss": "value",
    "clipped_share": "clipped_share",
    "divergence": "divergence",
}

AgentProgress = Callable[[int, int], None]


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
    """Train ``policy`` in place, from the newest whole checkpoint in ``folder`` if there is one.

    Args:
        rollout: Plays the agent with ``policy`` (the same object) as its language model; its configuration says
            which reward an answer gets.
        policy: The model that learns.
        reference: The frozen start, for the KL penalty.
        questions: Training questions; each step draws its own without replacement.
        config: PPO's settings.
        folder: Checkpoints and ``metrics.jsonl``, one line a step.
        seed: Of this stage.
        progress: Called with (PPO steps done, in all).

    Raises:
        CollapseError: three updates in a row were not finite, or in a step every search failed.
        ConfigError: the launcher started several processes, or the policy's logits cannot be followed.
    """
    module = ActorCritic(policy, critic=config.critic, temperature=config.temperature)
    source = ExperienceSource(
        module, reference=reference, rollout=rollout, questions=questions, config=config, seed=seed
    )
    trainer = _PpoTrainer(module, source, config, folder=folder, seed=seed, progress=progress)
    reference.to(trainer.args.device)  # type: ignore[arg-type]  # transformers' wrapper hides torch's signature
    reference.train(mode=False)
    newest = newest_checkpoint(folder)
    source.first_step = newest.step // source.updates_per_step if newest else 0
    with quick_linear(module):
        trainer.train(resume_from_checkpoint=str(newest.path) if newest else None)


class _PpoTrainer(Trainer):
    """Gives the loss, two learning rates and the checkpoint cadence; the rest is transformers'."""

    def __init__(
        self,
        module: ActorCritic,
        source: ExperienceSource,
        config: PpoConfig,
        *,
        folder: Path,
        seed: int,
        progress: AgentProgress,
    ) -> None:
        self._ppo, self._source = config, source
        self._bad_updates = self._skipped_updates = 0
        self._parts: list[dict[str, float]] = []
        updates = source.updates_per_step
        arguments = TrainingArguments(
            output_dir=str(folder),
            max_steps=config.steps * updates,
            save_steps=config.save_every * updates,
            save_total_limit=2,
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            ignore_data_skip=True,  # the source itself begins at the right step
            max_grad_norm=config.max_grad_norm,
            warmup_steps=config.warmup_steps * updates,
            lr_scheduler_type="constant_with_warmup",
            seed=seed % 2**32,
            use_cpu=not torch.cuda.is_available(),
            bf16=False,
        )
        if arguments.world_size > 1:
            raise ConfigError(
                f"PPO runs in one process, but the launcher started {arguments.world_size}; start it without a launcher"
            )
        arguments._n_gpu = 1  # one process drives one card; torch's DataParallel would split minibatches
        ended = _StepEnd(updates, log=lambda step: self._log_step(folder / "metrics.jsonl", step), progress=progress)
        super().__init__(model=module, args=arguments, train_dataset=source, callbacks=[ended])
        self.remove_callback(PrinterCallback)  # it prints to stdout, where only results go

    def get_train_dataloader(self) -> DataLoader[Minibatch]:
        """Minibatches come ready from the source: nothing may fetch ahead of an update."""
        return DataLoader(self._source, batch_size=None)

    def create_optimizer(self, model: torch.nn.Module | None = None) -> torch.optim.Optimizer:
        """AdamW with the critic's own learning rate."""
        if self.optimizer is None:
            named = list(self._module.named_parameters())
            actor = [weight for name, weight in named if name.startswith("policy.")]
            critic = [weight for name, weight in named if not name.startswith("policy.")]
            groups: list[dict[str, Any]] = [  # Any: torch's own type of a parameter group
                {"params": actor, "lr": self._ppo.learning_rate},
                {"params": critic, "lr": self._ppo.critic_learning_rate},
            ]
            self.optimizer = torch.optim.AdamW(groups, weight_decay=0.0)
        return self.optimizer

    def training_step(
        self,
        model: torch.nn.Module,
        inputs: dict[str, torch.Tensor | Any],  # Any: transformers' own signature
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """Back-propagate; where that gave nothing usable, take the gradients away, so that nothing is updated."""
        loss = super().training_step(model, inputs, num_items_in_batch)
        gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
        is_finite = bool(torch.stack([item.isfinite().all() for item in (loss, *gradients)]).all())
        self._bad_updates = 0 if is_finite else self._bad_updates + 1
        if self._bad_updates >= _MAX_BAD_UPDATES:
            raise CollapseError(
                f"PPO: {_MAX_BAD_UPDATES} updates in a row were not finite (step {self._step}); lower "
                f"ppo.learning_rate; the last good checkpoint is in {self.args.output_dir}"
            )
        if not is_finite or not bool(inputs["mask_BT"].any()):
            self._skipped_updates += 1
            self._parts.pop()
            model.zero_grad(set_to_none=True)
        return loss

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, torch.Tensor | Any],  # Any: transformers' own signature
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """Policy loss + value_weight x value loss - entropy bonus; without the actor's two where it is not to move."""
        experience = Experience(**{item.name: inputs[item.name] for item in fields(Experience)})
        scores: TokenScores = model(inputs["ids_BT"], inputs["attention_BT"], experience.mask_BT)
        parts = ppo_loss(scores, experience, clip=self._ppo.clip, value_clip=self._ppo.value_clip)
        self._parts.append({name: getattr(parts, field).item() for name, field in _LOGGED.items()})
        loss = self._ppo.value_weight * parts.value
        if bool(inputs["moves_actor"]):
            loss = loss + parts.policy - self._ppo.entropy * parts.entropy
        return loss

    @property
    def _module(self) -> torch.nn.Module:
        assert self.model is not None, "given when the trainer was made"
        return self.model

    @property
    def _step(self) -> int:
        return self.state.global_step // self._source.updates_per_step

    def _log_step(self, file: Path, step: int) -> None:
        """Write the line of PPO step ``step`` (from 0); lines of later steps, lost by a killed run, go."""
        parts, self._parts = self._parts, []
        skipped, self._skipped_updates = self._skipped_updates, 0
        metrics = dict(self._source.metrics)
        if parts:
            metrics |= {name: sum(part[name] for part in parts) / len(parts) for name in _LOGGED}
        metrics["updates_skipped"] = float(skipped)
        before = file.read_text(encoding="utf-8").splitlines()[:step] if file.exists() else []
        line = json.dumps({"step": step, **{key: round(value, 6) for key, value in metrics.items()}})
        write_text_atomic(file, "\n".join([*before, line]) + "\n")

    def _save(self, output_dir: str | None = None, state_dict: dict[str, torch.Tensor] | None = None) -> None:
        """Write actor and critic; unlike transformers' own, this knows weights that two layers share."""
        folder = Path(output_dir or str(self.args.output_dir))
        folder.mkdir(parents=True, exist_ok=True)
        save_model(self._module, str(folder / _WEIGHTS))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: torch.nn.Module | None = None) -> None:
        """Read what ``_save`` wrote."""
        load_model(model or self._module, str(Path(resume_from_checkpoint) / _WEIGHTS))


class _StepEnd(TrainerCallback):
    """Says when a PPO step is over, and when a checkpoint is whole."""

    def __init__(self, updates: int, *, log: Callable[[int], None], progress: AgentProgress) -> None:
        self._updates, self._log, self._progress = updates, log, progress

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        if state.global_step % self._updates == 0:
            done = state.global_step // self._updates
            self._log(done - 1)
            self._progress(done, state.max_steps // self._updates)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object) -> None:
        mark_whole(Path(str(args.output_dir)), state.global_step)
