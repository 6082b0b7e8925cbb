"""The supervised start: TRL's SFT trainer on demonstration trajectories, loss on the model's own tokens only."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback, TrainingArguments
from trl import SFTConfig, SFTTrainer

from agentic_r.artifacts.jsonl import write_text_atomic
from agentic_r.config import WarmStartConfig
from agentic_r.ppo.batches import sampled_tokens
from agentic_r.types import Trajectory

__all__ = ["warm_start"]

_IGNORED = -100  # the label of a token without loss, by transformers' convention


def warm_start(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    demonstrations: Sequence[Trajectory],
    config: WarmStartConfig,
    *,
    folder: Path,
    seed: int,
    progress: Callable[[int, int], None],
) -> None:
    """Train ``model`` in place on demonstrations, from the newest checkpoint in ``folder`` if there is one.

    Args:
        model: A causal language model in float32.
        tokenizer: Its tokenizer (only for padding: the trajectories hold token ids).
        demonstrations: Trajectories as the environment would have shown them.
        config: Steps, batch size, learning rate.
        folder: Checkpoints and ``metrics.jsonl`` (step, loss).
        seed: Of this stage.
        progress: Called with (steps done, in all).
    """
    rows = [_labelled(item) for item in demonstrations]
    arguments = SFTConfig(
        output_dir=str(folder),
        max_steps=config.steps,
        per_device_train_batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=max(1, config.steps // 20),
        weight_decay=0.0,
        max_grad_norm=1.0,
        save_steps=max(1, config.steps // 4),
        save_total_limit=2,
        logging_steps=5,
        report_to=[],
        disable_tqdm=True,
        seed=seed % 2**32,
        data_seed=seed % 2**32,
        max_length=None,
        packing=False,
        dataset_kwargs={"skip_prepare_dataset": True},
        remove_unused_columns=False,
        use_cpu=not torch.cuda.is_available(),
        bf16=False,
        gradient_checkpointing=False,
    )
    trainer = SFTTrainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        callbacks=[_Steps(folder, progress)],
    )
    finished = [path for path in folder.glob("checkpoint-*") if (path / "trainer_state.json").exists()]
    newest = max(finished, key=lambda path: int(path.name.split("-")[1]), default=None)
    trainer.train(resume_from_checkpoint=str(newest) if newest else None)
    model.eval()


def _labelled(trajectory: Trajectory) -> dict[str, list[int]]:
    ids, mask = sampled_tokens(trajectory)
    return {"input_ids": ids, "labels": [token if own else _IGNORED for token, own in zip(ids, mask, strict=True)]}


class _Steps(TrainerCallback):
    """Reports progress and keeps the loss curve."""

    def __init__(self, folder: Path, progress: Callable[[int, int], None]) -> None:
        self._folder, self._progress = folder, progress

    def on_step_end(self, args: TrainingArguments, state: Any, control: Any, **kwargs: object) -> None:  # Any: transformers'
        self._progress(state.global_step, state.max_steps)

    def on_log(self, args: TrainingArguments, state: Any, control: Any, **kwargs: object) -> None:  # Any: transformers'
        lines = [
            json.dumps({"step": entry["step"], "loss": entry["loss"]}) for entry in state.log_history if "loss" in entry
        ]
        write_text_atomic(self._folder / "metrics.jsonl", "".join(line + "\n" for line in lines))
