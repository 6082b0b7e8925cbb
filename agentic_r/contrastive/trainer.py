"""The contrastive trainer: a base encoder and training instances in, a trained encoder out.

Owns the course of a training: refusals before it starts, files, exact resume (every step's rows and dropout are
functions of seed and step; ``resume.py``), the summary. One step is ``steps.py``'s, its record ``step_log.py``'s.
"""

import copy
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from agentic_r.artifacts.fingerprint import fingerprint_strings, fingerprint_value, generator_seed
from agentic_r.config import ContrastiveConfig
from agentic_r.contrastive.batches import PlanCounts, check_plan, plan_steps
from agentic_r.contrastive.cuts import CutTexts, count_cut_texts
from agentic_r.contrastive.dev import DevEvaluation, DevLog, DevRecord, DevSet, split_dev
from agentic_r.contrastive.early import refuse_settings
from agentic_r.contrastive.fit import refuse_unfit
from agentic_r.contrastive.lora import add_lora
from agentic_r.contrastive.ranks import Ranks, present_ranks
from agentic_r.contrastive.resume import Checkpoints
from agentic_r.contrastive.sharding import (
    bring_weights,
    fit_deepspeed,
    launch_cuts_by,
    refuse_unfit_launch,
    refuse_unfit_precision,
)
from agentic_r.contrastive.step_log import StepLog
from agentic_r.contrastive.steps import Plan, RetrieverTrainer
from agentic_r.contrastive.trackers import Numbers, build_trackers
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.errors import ConfigError
from agentic_r.onednn import quick_linear
from agentic_r.quiet import quiet_transformers
from agentic_r.types import Passage, TrainingInstance

__all__ = ["TrainingSummary", "train_retriever"]

_ARITHMETIC = 3  # raised where a step's draws or sums change: a training is not gone on with by other ones


@dataclass(frozen=True, slots=True)
class TrainingSummary:
    """What one training did.

    Attributes:
        trained: False where there were too few instances; the caller keeps the base encoder.
        reason: One sentence with the numbers.
        num_instances: Given instances.
        counts: What the plan held; None where nothing was trained.
        cut: Texts that did not fit the encoder's limits; None where nothing was trained.
        num_steps_skipped: Steps whose loss or gradient was not finite.
        final_loss: Mean over the last epoch's steps that were not skipped.
        dev: The evaluation whose weights were kept; None without dev evaluation.
        seconds: Time of this process in training, and ``instances_per_s`` its speed; both 0 where it only had
            to load finished work.
        encoder: Folder of the trained encoder; None where nothing was trained.
    """

    trained: bool
    reason: str
    num_instances: int
    counts: PlanCounts | None = None
    cut: CutTexts | None = None
    num_steps_skipped: int = 0
    final_loss: float | None = None
    dev: DevRecord | None = None
    seconds: float = 0.0
    instances_per_s: float = 0.0
    encoder: Path | None = None


def train_retriever(
    base: BiEncoder | Path,
    instances: Sequence[TrainingInstance],
    passages: Mapping[str, Passage],
    config: ContrastiveConfig,
    *,
    folder: Path,
    seed: int,
    threads: int,
    progress: Callable[[int, int], None],
    dev: DevSet | None = None,
) -> TrainingSummary:
    """Train a copy of ``base`` and write it to ``folder/encoder``, with ``folder/metrics.jsonl`` beside it.

    With a dev set, given or held out by ``config.dev_share``, the weights written are those that did best on it, the
    base's own included, and ``folder/dev.jsonl`` has the evaluations; else they are the last.

    Run again after a kill, it goes on from its last whole checkpoint and ends, on the same machine with the same
    number of threads on CPU, with the weights of an unbroken run. Run again after its end, it finds its encoder.

    Args:
        base: An encoder, left as it is, or a folder that ``BiEncoder.save`` wrote.
        instances: What to learn from; their order counts.
        passages: Every passage that an instance names, by id.
        config: Sizes, rates and temperature.
        folder: Where checkpoints, metrics and the trained encoder go.
        seed: Decides order and dropout.
        threads: CPU threads of torch while training.
        progress: Called with (steps done, steps in all).
        dev: Queries to measure on while training; by default those that ``config.dev_share`` holds out.

    Raises:
        ConfigError: a setting does not fit the instances, the encoder or this machine; the batch size leaves
            instances without any negative, or processes without a query.
        DataError: an instance names a passage that does not exist, or a whole step has no negatives.
        CollapseError: three steps in a row were not finite, or 21 under float16.
    """
    refuse_settings(config, has_dev=dev is not None)
    if len(instances) < config.min_instances:
        return TrainingSummary(
            trained=False,
            reason=(
                f"{len(instances)} instances are fewer than contrastive.min_instances {config.min_instances}: "
                "nothing was trained, the base encoder is kept"
            ),
            num_instances=len(instances),
        )
    num_given = len(instances)
    if dev is None and config.dev_share:
        instances, dev = split_dev(instances, passages, share=config.dev_share, seed=seed)
    steps = plan_steps(len(instances), batch_size=config.batch_size, epochs=config.epochs, seed=seed)
    counts = check_plan(instances, passages, steps=steps, batch_size=config.batch_size)
    plan = Plan(instances=instances, passages=passages, steps=steps, seed=seed)
    encoder = _copy_for_training(base, config)
    refuse_unfit(config, encoder, instances)
    cut = count_cut_texts(encoder, instances, passages)
    identity = _identity(encoder, plan, config, dev)
    arguments = _arguments(config, folder=folder / "checkpoints", num_steps=len(steps), seed=seed, encoder=encoder)
    ranks = _ranks(config, steps)
    files = _open_files(folder, config, ranks, identity=identity, has_dev=dev is not None)
    evaluation = None
    if dev is not None and files.dev_log is not None:
        evaluation = DevEvaluation(encoder, dev, files.dev_log, config, ranks)
    started, num_done_before = time.monotonic(), files.checkpoints.num_steps_done
    summary = partial(_summary, plan, counts, cut, files, config, num_given=num_given, num_done_before=num_done_before)
    if files.checkpoints.is_finished:
        return summary(seconds=0.0)
    with _torch_threads(threads), quiet_transformers(), quick_linear(encoder.model):
        watcher = _Watcher(encoder, files.checkpoints, progress, ranks, evaluation)
        progress(files.checkpoints.num_steps_done, len(steps))
        _take_steps(encoder, plan, config, arguments, files, watcher)
    seconds = time.monotonic() - started
    files.checkpoints.finish(encoder, num_steps=len(files.log.records))
    ranks.wait()
    return summary(seconds=seconds)


@dataclass(frozen=True, slots=True)
class _Files:
    """What a training keeps in its folder."""

    folder: Path
    checkpoints: Checkpoints
    log: StepLog
    dev_log: DevLog | None


def _open_files(folder: Path, config: ContrastiveConfig, ranks: Ranks, *, identity: str, has_dev: bool) -> _Files:
    """Open them; of several processes the first clears up before the others look."""
    if not ranks.is_first:
        ranks.wait()
    checkpoints = Checkpoints(
        folder / "checkpoints",
        encoder=folder / "encoder",
        identity=identity,
        cut_by=launch_cuts_by(),
        is_owner=ranks.is_first,
    )
    num_done = checkpoints.num_steps_done
    log = StepLog(folder / "metrics.jsonl", keep_steps=num_done, is_owner=ranks.is_first)
    dev_log = None
    if has_dev:
        dev_log = DevLog(
            folder / "dev.jsonl",
            weights_folder=checkpoints.folder,
            measure=config.dev_measures[0],
            keep_steps=num_done,
            is_begun=checkpoints.newest is not None or checkpoints.is_finished,
            is_owner=ranks.is_first,
        )
    if ranks.is_first:
        ranks.wait()
    return _Files(folder, checkpoints, log, dev_log)


def _take_steps(
    encoder: BiEncoder,
    plan: Plan,
    config: ContrastiveConfig,
    arguments: TrainingArguments,
    files: _Files,
    watcher: "_Watcher",
) -> None:
    """Take the steps that are left, and leave the best weights in the encoder, adapters merged."""
    merge = None if config.lora is None else add_lora(encoder, config.lora, seed=generator_seed(plan.seed, "lora"))
    trackers = build_trackers(config.report_to, Numbers(files.log, files.dev_log)) if watcher.ranks.is_first else []
    trainer = RetrieverTrainer(
        encoder, plan, config, arguments=arguments, log=files.log, callbacks=[watcher, *trackers]
    )
    if watcher.evaluation is None or not watcher.evaluation.is_over:
        with warnings.catch_warnings():  # of names that these libraries still call in each other
            warnings.filterwarnings("ignore", category=FutureWarning, module=r"accelerate|torch\.distributed")
            trainer.train(resume_from_checkpoint=files.checkpoints.newest)
        bring_weights(trainer.model, encoder.model)
    if files.dev_log is not None:
        files.dev_log.restore_best(encoder.model)
    if merge is not None:
        merge()


class _Watcher(TrainerCallback):
    """Reports progress, evaluates, marks whole checkpoints."""

    def __init__(
        self,
        encoder: BiEncoder,
        checkpoints: Checkpoints,
        progress: Callable[[int, int], None],
        ranks: Ranks,
        evaluation: DevEvaluation | None,
    ) -> None:
        self._encoder, self._checkpoints, self._progress = encoder, checkpoints, progress
        self.ranks, self.evaluation = ranks, evaluation

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        if self.evaluation is not None and self.evaluation.is_due(0, is_last=False):
            self.evaluation.measure(0)

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: nn.Module | None = None,
        **kwargs: object,
    ) -> None:
        if self.evaluation is not None:
            if self.evaluation.is_due(state.global_step, is_last=state.global_step == state.max_steps):
                bring_weights(model, self._encoder.model)
                self.evaluation.measure(state.global_step)
            if self.evaluation.is_over:
                control.should_training_stop = True
        self._progress(state.global_step, state.max_steps)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object) -> None:
        self.ranks.wait()  # every process writes its part of a checkpoint
        self._checkpoints.mark_whole(state.global_step)
        if self.evaluation is not None:
            self.evaluation.log.forget_worse()


def _arguments(
    config: ContrastiveConfig, *, folder: Path, num_steps: int, seed: int, encoder: BiEncoder
) -> TrainingArguments:
    """Make the Trainer's arguments; where a launcher started several processes, they meet here."""
    refuse_unfit_precision(config)
    arguments = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=1,  # the plan is all epochs in one pass
        max_steps=num_steps,
        learning_rate=config.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=math.ceil(config.warmup_ratio * num_steps),
        optim="adamw_torch" if config.precision == "float16" else "adamw_torch_fused",  # fused: in place, less memory
        weight_decay=0.0,
        max_grad_norm=1.0,  # as in the published training: the Trainer's default
        save_strategy="steps",
        save_steps=config.save_every,
        save_total_limit=2,
        logging_strategy="no",
        logging_nan_inf_filter=False,
        report_to="none",
        disable_tqdm=True,
        bf16=config.precision == "bfloat16" and launch_cuts_by() != "DeepSpeed",  # which would cast the weights
        fp16=config.precision == "float16",
        use_cpu=encoder.model.device.type == "cpu",
        dataloader_pin_memory=False,
        remove_unused_columns=False,
        ddp_find_unused_parameters=False,
        ddp_broadcast_buffers=False,
        seed=seed % 2**32,
    )
    fit_deepspeed(arguments, config)
    arguments._n_gpu = min(arguments.n_gpu, 1)  # else the Trainer splits the columns of a step over all cards
    return arguments


def _ranks(config: ContrastiveConfig, steps: Sequence[Sequence[int]]) -> Ranks:
    """Return this process's place, once the launcher's processes are found to train together."""
    ranks = present_ranks()
    refuse_unfit_launch()
    launched = int(os.environ.get("WORLD_SIZE", "1"))
    if launched != ranks.world:
        raise ConfigError(
            f"the launcher started {launched} processes but {ranks.world} train together; "
            "on CPU start them with torchrun and ACCELERATE_USE_CPU=true"
        )
    smallest = min(len(rows) for rows in steps)
    if smallest < ranks.world:
        raise ConfigError(
            f"contrastive.batch_size {config.batch_size}: a step has {smallest} queries for {ranks.world} processes; "
            "raise it to at least one query a process, or start fewer"
        )
    return ranks


def _copy_for_training(base: BiEncoder | Path, config: ContrastiveConfig) -> BiEncoder:
    """Return an encoder of our own: float32 weights, whatever type the base encodes in, and the format to learn."""
    if isinstance(base, Path):
        encoder = BiEncoder.load(base, dtype="float32")
    else:
        encoder = BiEncoder(copy.deepcopy(base.model).float(), base.settings)
    if config.query_format is None:
        return encoder
    return BiEncoder(encoder.model, encoder.settings.model_copy(update={"query_format": config.query_format}))


def _identity(encoder: BiEncoder, plan: Plan, config: ContrastiveConfig, dev: DevSet | None) -> str:
    named = {
        name: plan.passages[name]
        for instance in plan.instances
        for name in (instance.positive, *instance.negatives, *instance.other_positives)
    }
    return fingerprint_value(
        {
            "arithmetic": _ARITHMETIC,
            "base": encoder.fingerprint,
            "instances": fingerprint_strings(repr(instance) for instance in plan.instances),
            "passages": fingerprint_strings(repr(named[name]) for name in sorted(named)),
            "config": config.model_dump(),
            "seed": plan.seed,
            "dev": None if dev is None else dev.fingerprint,
        }
    )


def _summary(
    plan: Plan,
    counts: PlanCounts,
    cut: CutTexts,
    files: _Files,
    config: ContrastiveConfig,
    *,
    num_given: int,
    num_done_before: int,
    seconds: float,
) -> TrainingSummary:
    records = files.log.records
    last_epoch = records[-(len(plan.steps) // config.epochs) :]
    losses = [record.loss for record in last_epoch if record.state == "ok" and record.loss is not None]
    num_skipped = sum(record.state == "skipped" for record in records)
    num_rows = sum(record.num_rows for record in records[num_done_before:])
    dev = None if files.dev_log is None else files.dev_log.best
    return TrainingSummary(
        trained=True,
        reason=(
            f"trained on {len(plan.instances)} instances in {len(records)} of {counts.steps} steps; "
            f"{num_skipped} steps skipped, {counts.rows_without_negatives} rows without negatives, "
            f"{counts.short_instances} short instances"
            + (f", {counts.masked_own_negatives} own negatives are positives" if counts.masked_own_negatives else "")
            + ("" if dev is None else f"; kept the weights of step {dev.step}, {_measured(dev)} on the dev set")
        ),
        num_instances=num_given,
        counts=counts,
        cut=cut,
        num_steps_skipped=num_skipped,
        final_loss=sum(losses) / len(losses) if losses else None,
        dev=dev,
        seconds=seconds if num_rows else 0.0,
        instances_per_s=num_rows / seconds if num_rows else 0.0,
        encoder=files.folder / "encoder",
    )


def _measured(dev: DevRecord) -> str:
    return ", ".join(f"{measure} {value:.4f}" for measure, value in dev.values.items())


@contextmanager
def _torch_threads(threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
