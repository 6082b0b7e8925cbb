"""The contrastive trainer: a base encoder and training instances in, a trained encoder out.

Built on ``transformers.Trainer``, which brings the optimizer, the schedule, clipping, checkpoints and devices.
Ours are the plan of steps, the loss, exact resume (every step's rows and dropout are functions of seed and step;
``resume.py``), the skipping of steps that are not finite, and the record of every step (``step_log.py``).
"""

import copy
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from agentic_r.artifacts.fingerprint import fingerprint_strings, fingerprint_text, fingerprint_value, generator_seed
from agentic_r.config import ContrastiveConfig
from agentic_r.contrastive.batches import Batch, PlanCounts, check_plan, make_batch, plan_steps
from agentic_r.contrastive.chunks import ChunkedEncoder
from agentic_r.contrastive.loss import Identities, InfoNce, info_nce
from agentic_r.contrastive.resume import Checkpoints
from agentic_r.contrastive.step_log import StepLog, StepRecord
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.errors import CollapseError, ConfigError
from agentic_r.quiet import quiet_transformers
from agentic_r.types import Passage, QueryText, TrainingInstance

__all__ = ["Plan", "TrainingSummary", "identities_of", "train_retriever"]

MAX_SKIPPED_IN_A_ROW = 2  # our choice: the third says that the weights, not one batch, are broken


@dataclass(frozen=True, slots=True)
class TrainingSummary:
    """What one training did.

    Attributes:
        trained: False where there were too few instances; the caller keeps the base encoder.
        reason: One sentence with the numbers.
        num_instances: Given instances.
        counts: What the plan held; None where nothing was trained.
        num_steps_skipped: Steps whose loss or gradient was not finite.
        final_loss: Mean over the last epoch's steps that were not skipped.
        seconds: Time of this process in training, and ``instances_per_s`` its speed; both 0 where it only had
            to load finished work.
        encoder: Folder of the trained encoder; None where nothing was trained.
    """

    trained: bool
    reason: str
    num_instances: int
    counts: PlanCounts | None = None
    num_steps_skipped: int = 0
    final_loss: float | None = None
    seconds: float = 0.0
    instances_per_s: float = 0.0
    encoder: Path | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Every step of a training: which instances it holds, and their passages."""

    instances: Sequence[TrainingInstance]
    passages: Mapping[str, Passage]
    steps: Sequence[tuple[int, ...]]
    seed: int

    def batch(self, step: int) -> Batch:
        """Batch of a step, from 1."""
        return make_batch([self.instances[row] for row in self.steps[step - 1]], self.passages)


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
) -> TrainingSummary:
    """Train a copy of ``base`` and write it to ``folder/encoder``, with ``folder/metrics.jsonl`` beside it.

    Run again after a kill, it goes on from its last whole checkpoint and ends, on the same machine with the same
    number of threads on CPU, with the weights of an unbroken run.

    Args:
        base: An encoder, left as it is, or a folder that ``BiEncoder.save`` wrote.
        instances: What to learn from; their order counts.
        passages: Every passage that an instance names, by id.
        config: Sizes, rates and temperature.
        folder: Where checkpoints, metrics and the trained encoder go.
        seed: Decides order and dropout.
        threads: CPU threads of torch while training.
        progress: Called with (steps done, steps in all).

    Raises:
        ConfigError: the batch size leaves instances without any negative, or there are several processes.
        DataError: an instance names a passage that does not exist, or a whole step has no negatives.
        CollapseError: three steps in a row were not finite.
    """
    if len(instances) < config.min_instances:
        return TrainingSummary(
            trained=False,
            reason=(
                f"{len(instances)} instances are fewer than contrastive.min_instances {config.min_instances}: "
                "nothing was trained, the base encoder is kept"
            ),
            num_instances=len(instances),
        )
    steps = plan_steps(len(instances), batch_size=config.batch_size, epochs=config.epochs, seed=seed)
    counts = check_plan(instances, passages, steps=steps, batch_size=config.batch_size)
    plan = Plan(instances=instances, passages=passages, steps=steps, seed=seed)
    encoder = _copy_for_training(base, config)
    checkpoints = Checkpoints(folder / "checkpoints", identity=_identity(encoder, plan, config))
    log = StepLog(folder / "metrics.jsonl", keep_steps=checkpoints.num_steps_done)
    started, num_done_before = time.monotonic(), checkpoints.num_steps_done
    with _torch_threads(threads), quiet_transformers():
        _run(encoder, plan, config, checkpoints=checkpoints, log=log, progress=progress)
    seconds = time.monotonic() - started
    checkpoints.finish(encoder, folder / "encoder")
    num_rows = sum(record.num_rows for record in log.records[num_done_before:])
    return _summary(plan, counts, log, config, seconds=seconds, num_rows=num_rows, encoder=folder / "encoder")


def identities_of(batch: Batch, device: torch.device) -> Identities:
    """Hash the rows' positives and the columns of a batch into tensors."""
    width = max(len(kept) for kept in batch.row_positives)
    padded = [[*kept, *[kept[0]] * (width - len(kept))] for kept in batch.row_positives]
    return Identities(
        positive_B=torch.tensor(batch.positive_columns, device=device),
        row_ids_BK=torch.tensor([[_id_hash(item) for item in row] for row in padded], device=device),
        row_texts_BK=torch.tensor([[_text_hash(item) for item in row] for row in padded], device=device),
        column_ids_P=torch.tensor([_id_hash(item) for item in batch.passages], device=device),
        column_texts_P=torch.tensor([_text_hash(item) for item in batch.passages], device=device),
    )


def _id_hash(passage: Passage) -> int:
    return int(fingerprint_strings([passage.id]), 16) >> 1


def _text_hash(passage: Passage) -> int:
    return int(fingerprint_text(passage.text), 16) >> 1


class _RetrieverTrainer(Trainer):
    """Takes the steps of a plan. A step that is not finite leaves weights and optimizer as they were."""

    def __init__(
        self,
        encoder: BiEncoder,
        plan: Plan,
        config: ContrastiveConfig,
        *,
        arguments: TrainingArguments,
        log: StepLog,
        callbacks: list[TrainerCallback],
    ) -> None:
        module = ChunkedEncoder(encoder.model, texts_per_chunk=config.mini_batch_size)
        super().__init__(model=module, args=arguments, callbacks=callbacks)
        self.remove_callback(PrinterCallback)
        self._encoder, self._plan, self._config, self._log = encoder, plan, config, log

    def get_train_dataloader(self) -> DataLoader[Any]:  # Any: accelerate's own wrapper is untyped
        """Give the numbers of the steps, in order: a resumed run skips numbers, not data."""
        numbers = TensorDataset(torch.arange(1, len(self._plan.steps) + 1))
        steps = DataLoader(numbers, batch_size=1, shuffle=False, collate_fn=_step_number)
        loader: DataLoader[Any] = self.accelerator.prepare(steps)
        return loader

    def training_step(
        self, model: nn.Module, inputs: dict[str, Tensor | Any], num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        """Compute loss and gradients of one step and record it."""
        step = int(inputs["step"])
        batch = self._plan.batch(step)
        model.train()
        torch.manual_seed(generator_seed(self._plan.seed, "contrastive", "dropout", step))
        queries = [QueryText(query=row.query, question=row.question) for row in batch.instances]
        queries_BD, passages_PD = model(
            self._encoder.query_features(queries), self._encoder.passage_features(batch.passages)
        )
        result = info_nce(
            queries_BD,
            passages_PD,
            identities=identities_of(batch, queries_BD.device),
            temperature=self._config.temperature,
        )
        grad_norm = self._gradients(model, result.loss)
        self._log.append(self._record(step, batch, result, grad_norm))
        if self._log.num_skipped_last > MAX_SKIPPED_IN_A_ROW:
            raise CollapseError(
                f"contrastive training stopped: steps {step - MAX_SKIPPED_IN_A_ROW} to {step} gave no finite loss or "
                f"gradient; lower contrastive.learning_rate {self._config.learning_rate} or start from another base; "
                f"checkpoints before that are in {self.args.output_dir}"
            )
        return result.loss.detach()

    def _gradients(self, model: nn.Module, loss: Tensor) -> float | None:
        """Back-propagate; drop the gradients (so that the optimizer passes over them) unless all are finite."""
        if not math.isfinite(loss.item()):
            return None
        self.accelerator.backward(loss)
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients).item()
        if math.isfinite(norm):
            return norm
        for parameter in model.parameters():
            parameter.grad = None
        return None

    def _record(self, step: int, batch: Batch, result: InfoNce, grad_norm: float | None) -> StepRecord:
        assert self.optimizer is not None, "train() makes the optimizer before the first step"
        return StepRecord(
            step=step,
            instances=fingerprint_strings(instance.id for instance in batch.instances),
            num_rows=len(batch.instances),
            num_columns=len(batch.passages),
            num_rows_without_negatives=result.num_rows_without_negatives,
            loss=_finite(result.loss),
            grad_norm=grad_norm,
            positive_similarity=_finite(result.positive_similarity),
            negative_similarity=_finite(result.negative_similarity),
            learning_rate=float(self.optimizer.param_groups[0]["lr"]),
            state="skipped" if grad_norm is None else "ok",
        )


class _Watcher(TrainerCallback):
    """Reports progress and marks whole checkpoints."""

    def __init__(self, checkpoints: Checkpoints, progress: Callable[[int, int], None]) -> None:
        self._checkpoints, self._progress = checkpoints, progress

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        self._progress(state.global_step, state.max_steps)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object) -> None:
        self._checkpoints.mark_whole(state.global_step)


def _run(
    encoder: BiEncoder,
    plan: Plan,
    config: ContrastiveConfig,
    *,
    checkpoints: Checkpoints,
    log: StepLog,
    progress: Callable[[int, int], None],
) -> None:
    total = len(plan.steps)
    arguments = TrainingArguments(
        output_dir=str(checkpoints.folder),
        num_train_epochs=1,  # the plan is all epochs in one pass
        max_steps=total,
        learning_rate=config.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=math.ceil(config.warmup_ratio * total),
        optim="adamw_torch",
        weight_decay=0.0,
        max_grad_norm=1.0,  # as in the published training: the Trainer's default
        save_strategy="steps",
        save_steps=config.save_every,
        save_total_limit=2,
        logging_strategy="no",
        logging_nan_inf_filter=False,
        report_to="none",
        disable_tqdm=True,
        use_cpu=encoder.model.device.type == "cpu",
        dataloader_pin_memory=False,
        remove_unused_columns=False,
        seed=plan.seed % 2**32,
    )
    if arguments.world_size > 1:
        raise ConfigError(
            f"contrastive training was launched as {arguments.world_size} processes and runs in one; "
            "start it without a distributed launcher"
        )
    arguments._n_gpu = min(arguments.n_gpu, 1)  # else the Trainer splits the columns of a step over all cards
    trainer = _RetrieverTrainer(
        encoder, plan, config, arguments=arguments, log=log, callbacks=[_Watcher(checkpoints, progress)]
    )
    progress(checkpoints.num_steps_done, total)
    trainer.train(resume_from_checkpoint=checkpoints.newest)


def _copy_for_training(base: BiEncoder | Path, config: ContrastiveConfig) -> BiEncoder:
    """Return an encoder of our own: float32 weights, whatever type the base encodes in, and the format to learn."""
    if isinstance(base, Path):
        encoder = BiEncoder.load(base, dtype="float32")
    else:
        encoder = BiEncoder(copy.deepcopy(base.model).float(), base.settings)
    if config.query_format is None:
        return encoder
    return BiEncoder(encoder.model, encoder.settings.model_copy(update={"query_format": config.query_format}))


def _identity(encoder: BiEncoder, plan: Plan, config: ContrastiveConfig) -> str:
    named = {
        name: plan.passages[name]
        for instance in plan.instances
        for name in (instance.positive, *instance.negatives, *instance.other_positives)
    }
    return fingerprint_value(
        {
            "base": encoder.fingerprint,
            "instances": fingerprint_strings(repr(instance) for instance in plan.instances),
            "passages": fingerprint_strings(repr(named[name]) for name in sorted(named)),
            "config": config.model_dump(),
            "seed": plan.seed,
        }
    )


def _summary(
    plan: Plan,
    counts: PlanCounts,
    log: StepLog,
    config: ContrastiveConfig,
    *,
    seconds: float,
    num_rows: int,
    encoder: Path,
) -> TrainingSummary:
    last_epoch = log.records[-(len(plan.steps) // config.epochs) :]
    losses = [record.loss for record in last_epoch if record.state == "ok" and record.loss is not None]
    num_skipped = sum(record.state == "skipped" for record in log.records)
    return TrainingSummary(
        trained=True,
        reason=(
            f"trained on {len(plan.instances)} instances in {counts.steps} steps; {num_skipped} steps skipped, "
            f"{counts.rows_without_negatives} rows without negatives, {counts.short_instances} short instances"
        ),
        num_instances=len(plan.instances),
        counts=counts,
        num_steps_skipped=num_skipped,
        final_loss=sum(losses) / len(losses) if losses else None,
        seconds=seconds if num_rows else 0.0,
        instances_per_s=num_rows / seconds if num_rows else 0.0,
        encoder=encoder,
    )


def _step_number(rows: list[tuple[Tensor, ...]]) -> dict[str, Tensor]:
    return {"step": rows[0][0]}


def _finite(value: Tensor) -> float | None:
    number = value.item()
    return number if math.isfinite(number) else None


@contextmanager
def _torch_threads(threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
