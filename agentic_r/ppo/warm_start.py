"""The supervised start: TRL's SFT trainer on demonstration trajectories, loss on the model's own tokens only.

A killed run goes on from its newest whole checkpoint exactly as the unbroken one would have.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from datasets import Dataset
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PrinterCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from agentic_r.artifacts.checkpoints import mark_whole, newest_checkpoint
from agentic_r.artifacts.jsonl import write_text_atomic
from agentic_r.config import WarmStartConfig
from agentic_r.errors import DataError
from agentic_r.onednn import quick_linear
from agentic_r.ppo.batches import sampled_tokens
from agentic_r.types import Trajectory

__all__ = ["warm_start"]

_IGNORED = -100  # the label of a token without loss, by transformers' convention
_LOG_EVERY = 5  # steps; a line is the mean loss over them
_CHECKPOINTS = 4  # a run


def warm_start(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    demonstrations: Sequence[Trajectory],
    config: WarmStartConfig,
    *,
    folder: Path,
    seed: int,
    progress: Callable[[int, int], None],
) -> int:
    """Train ``model`` in place on demonstrations, from the newest whole checkpoint in ``folder`` if there is one.

    Args:
        model: A causal language model in float32.
        tokenizer: Its tokenizer (only for padding: the trajectories hold token ids).
        demonstrations: Trajectories as the environment would have shown them.
        config: Steps, batch size, learning rate.
        folder: Checkpoints and ``metrics.jsonl`` (step, loss).
        seed: Of this stage.
        progress: Called with (steps done, in all).

    Returns:
        How many demonstrations were left out because their search failed.

    Raises:
        DataError: none is left.
    """
    kept = [item for item in demonstrations if item.status != "tool_failed"]
    if not kept:
        raise DataError(
            f"warm start: none of {len(demonstrations)} demonstrations can be used, since their searches failed; "
            "mend the retriever and run again"
        )
    trainer = SFTTrainer(
        model=model,
        args=_arguments(config, folder=folder, seed=seed),
        train_dataset=Dataset.from_list([_labelled(item) for item in kept]),
        processing_class=tokenizer,
        callbacks=[_Steps(folder, progress)],
    )
    trainer.remove_callback(PrinterCallback)  # it prints to stdout, where only results go
    newest = newest_checkpoint(folder)
    with quick_linear(model):
        trainer.train(resume_from_checkpoint=str(newest.path) if newest else None)
    model.train(mode=False)
    return len(demonstrations) - len(kept)


def _arguments(config: WarmStartConfig, *, folder: Path, seed: int) -> SFTConfig:
    # A checkpoint stands where a line of the log ends: a resumed run's next line is then the mean over the same steps.
    lines_between = max(1, config.steps // (_CHECKPOINTS * _LOG_EVERY))
    return SFTConfig(
        output_dir=str(folder),
        max_steps=config.steps,
        per_device_train_batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=max(1, config.steps // 20),
        weight_decay=0.0,
        max_grad_norm=1.0,
        save_steps=lines_between * _LOG_EVERY,
        save_total_limit=2,
        logging_steps=_LOG_EVERY,
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


def _labelled(trajectory: Trajectory) -> dict[str, list[int]]:
    ids, mask = sampled_tokens(trajectory)
    return {"input_ids": ids, "labels": [token if own else _IGNORED for token, own in zip(ids, mask, strict=True)]}


class _Steps(TrainerCallback):
    """Reports progress, keeps the loss curve, and says when a checkpoint is whole."""

    def __init__(self, folder: Path, progress: Callable[[int, int], None]) -> None:
        self._folder, self._progress = folder, progress

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        self._progress(state.global_step, state.max_steps)

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object) -> None:
        entries = [entry for entry in state.log_history if "loss" in entry]
        lines = [json.dumps({"step": entry["step"], "loss": entry["loss"]}) + "\n" for entry in entries]
        write_text_atomic(self._folder / "metrics.jsonl", "".join(lines))

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object) -> None:
        mark_whole(self._folder, state.global_step)
