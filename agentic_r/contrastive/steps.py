"""One optimizer step: the batch's texts through the encoder, the loss, gradients that are finite, the record.

A subclass of ``transformers.Trainer``, which brings the optimizer, the schedule, clipping, checkpoints, devices and
processes (sentence-transformers' trainer is the same class with columns of texts and a loss per data set, which do not
fit batches of identities). Whole trainings are ``trainer.py``'s business.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_model
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments
from transformers.utils import SAFE_WEIGHTS_NAME

from agentic_r.artifacts.fingerprint import fingerprint_strings, fingerprint_text, generator_seed
from agentic_r.config import ContrastiveConfig
from agentic_r.contrastive.batches import Batch, make_batch
from agentic_r.contrastive.chunks import ChunkedEncoder, ChunkLimits, join_features
from agentic_r.contrastive.loss import Identities, InfoNce, SoftTargets, matryoshka_info_nce
from agentic_r.contrastive.ranks import deal_out, present_ranks
from agentic_r.contrastive.sharding import gather_in_float32, is_sharding_asked, total_norm
from agentic_r.contrastive.step_log import StepLog, StepRecord
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.errors import CollapseError
from agentic_r.types import Passage, QueryText, TrainingInstance

__all__ = ["Plan", "RetrieverTrainer", "identities_of", "soft_targets_of"]

_NO_TEXT = -1  # hashes are not negative
MAX_SKIPPED_IN_A_ROW = 2  # our choice: the third says that the weights, not one batch, are broken
_MAX_SKIPPED_FLOAT16 = 20  # its loss scale begins at 2^16 and is halved at each overflow


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


def identities_of(batch: Batch, device: torch.device, *, is_masked: bool = True) -> Identities:
    """Hash the rows' positives and the columns of a batch into tensors; unmasked, a row knows its own column alone."""
    width = max(len(kept) for kept in batch.row_positives) if is_masked else 1
    padded = [[*kept, *[kept[0]] * (width - len(kept))][:width] for kept in batch.row_positives]
    return Identities(
        positive_B=torch.tensor(batch.positive_columns, device=device),
        row_ids_BK=torch.tensor([[_id_hash(item) for item in row] for row in padded], device=device),
        row_texts_BK=torch.tensor(
            [[_text_hash(item) if is_masked else _NO_TEXT for item in row] for row in padded], device=device
        ),
        column_ids_P=torch.tensor([_id_hash(item) for item in batch.passages], device=device),
        column_texts_P=torch.tensor([_text_hash(item) for item in batch.passages], device=device),
    )


def soft_targets_of(batch: Batch, config: ContrastiveConfig, device: torch.device) -> SoftTargets | None:
    """Spread each graded row over its own passages: softmax of relevance / temperature; None where that is off."""
    if not config.soft_target_weight:
        return None
    columns = {passage.id: column for column, passage in enumerate(batch.passages)}
    share_BP = torch.zeros(len(batch.instances), len(batch.passages), device=device)
    for row, instance in enumerate(batch.instances):
        if instance.relevance:
            own = [columns[name] for name in (instance.positive, *instance.negatives)]
            share_BP[row, own] = (
                (torch.tensor(instance.relevance) / config.soft_target_temperature).softmax(0).to(device)
            )
    return SoftTargets(share_BP, config.soft_target_weight)


def _id_hash(passage: Passage) -> int:
    return int(fingerprint_strings([passage.id]), 16) >> 1


def _text_hash(passage: Passage) -> int:
    return int(fingerprint_text(passage.text), 16) >> 1


class RetrieverTrainer(Trainer):
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
        """Take what one training consists of; the module that is optimised is the encoder in chunks.

        Under FSDP a copy of the encoder is cut into parts: the encoder stays whole, to be measured and saved.
        """
        self._ranks, is_sharded = present_ranks(), is_sharding_asked()
        model = copy.deepcopy(encoder.model) if is_sharded else encoder.model
        if config.gradient_checkpointing and model.transformers_model is not None:
            model.transformers_model.gradient_checkpointing_enable(  # type: ignore[no-untyped-call]
                {"use_reentrant": False}
            )
        limits = ChunkLimits(
            texts=config.mini_batch_size,
            activation_bytes=config.activation_bytes,
            keeps_layers=not config.gradient_checkpointing,
        )
        module = ChunkedEncoder(
            model,
            limits,
            unpadded=config.unpadded and not is_sharded,  # packing reads the table of words past FSDP
            together=self._ranks if is_sharded else None,
        )
        super().__init__(model=module, args=arguments, callbacks=callbacks)
        if is_sharded:
            gather_in_float32(self.accelerator)
        self.remove_callback(PrinterCallback)
        self._encoder, self._plan, self._config, self._log = encoder, plan, config, log

    def get_train_dataloader(self) -> DataLoader[Any]:  # Any: accelerate's own wrapper is untyped
        """Give the numbers of the steps, in order: a resumed run skips numbers, not data."""
        # Not prepared by accelerate, which would deal the numbers out to processes: all take every step together.
        numbers = TensorDataset(torch.arange(1, len(self._plan.steps) + 1))
        return DataLoader(numbers, batch_size=1, shuffle=False, collate_fn=_step_number)

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Tensor] | None = None) -> None:
        """Write a checkpoint's weights, each once: safetensors refuses two names of one tensor (T5's embeddings)."""
        assert self.model is not None, "the Trainer was given one"
        super()._save(output_dir, _without_second_names(self.model.state_dict() if state_dict is None else state_dict))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        """Read them back, under all their names."""
        if self.is_fsdp_enabled:
            super()._load_from_checkpoint(resume_from_checkpoint, model)
            return
        whole = self.model if model is None else model
        assert whole is not None, "the Trainer was given one"
        load_model(whole, Path(resume_from_checkpoint) / SAFE_WEIGHTS_NAME)

    def training_step(
        self, model: nn.Module, inputs: dict[str, Tensor | Any], num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        """Compute loss and gradients of one step and record it."""
        step = int(inputs["step"])
        batch = self._plan.batch(step)
        model.train()
        torch.manual_seed(generator_seed(self._plan.seed, "contrastive", "dropout", step, self._ranks.rank))
        result = self._loss(model, batch)
        grad_norm = self._gradients(model, result.loss)
        self._log.append(self._record(step, batch, result, grad_norm))
        self._stop_broken(step)
        return result.loss.detach()

    def _loss(self, model: nn.Module, batch: Batch) -> InfoNce:
        """Encode this process's share of the batch and compute the loss of all of it."""
        queries = [QueryText(row.query, row.question, row.history) for row in batch.instances]
        lengths = [len("".join((text.question, *text.history, text.query))) for text in queries]
        lengths += [len(passage.title) + len(passage.text) for passage in batch.passages]
        shares = deal_out(lengths, world=self._ranks.world)
        own = shares[self._ranks.rank]
        features = join_features(
            self._encoder.query_features([queries[text] for text in own if text < len(queries)]),
            self._encoder.passage_features(
                [batch.passages[text - len(queries)] for text in own if text >= len(queries)]
            ),
        )
        with self.accelerator.autocast():  # under FSDP the module itself does not
            own_SD = model(features)
        vectors_ND = self._ranks.gather(own_SD, shares)
        return matryoshka_info_nce(
            vectors_ND[: len(queries)],
            vectors_ND[len(queries) :],
            dimensions=self._config.matryoshka_dims,
            identities=identities_of(batch, vectors_ND.device, is_masked=self._config.mask_identities),
            temperature=self._config.temperature,
            false_negative_margin=self._config.false_negative_margin,
            soft_targets=soft_targets_of(batch, self._config, vectors_ND.device),
        )

    def _stop_broken(self, step: int) -> None:
        limit = _MAX_SKIPPED_FLOAT16 if self._config.precision == "float16" else MAX_SKIPPED_IN_A_ROW
        if self._log.num_skipped_last > limit:
            raise CollapseError(
                f"contrastive training stopped: steps {step - limit} to {step} gave no finite loss or "
                f"gradient; lower contrastive.learning_rate {self._config.learning_rate} or start from another base; "
                f"checkpoints before that are in {self.args.output_dir}"
            )

    def _gradients(self, model: nn.Module, loss: Tensor) -> float | None:
        """Back-propagate; drop the gradients (so that the optimizer passes over them) unless all are finite.

        In float16 the scaler drops them itself, and must see them to lower its scale.
        """
        scaler = self.accelerator.scaler
        if scaler is None and not math.isfinite(loss.item()):
            return None
        self.accelerator.backward(loss * self._ranks.gradient_scale)
        if self.is_deepspeed_enabled:  # it has stepped already, and skips what is not finite by itself
            engine: Any = self.model_wrapped  # Any: DeepSpeed's engine is untyped
            engine_norm = float(engine.get_global_grad_norm())
            return engine_norm if math.isfinite(engine_norm) else None
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        norm = total_norm(gradients) / (1.0 if scaler is None else scaler.get_scale())
        if math.isfinite(norm):
            return norm
        if scaler is None:
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
            num_likely_positives=result.num_likely_positives,
            loss=_finite(result.loss),
            grad_norm=grad_norm,
            positive_similarity=_finite(result.positive_similarity),
            negative_similarity=_finite(result.negative_similarity),
            learning_rate=float(self.optimizer.param_groups[0]["lr"]),
            state="skipped" if grad_norm is None else "ok",
        )


def _without_second_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    kept: dict[tuple[int, torch.Size, tuple[int, ...]], str] = {}
    for name, weight in state.items():
        kept.setdefault((weight.data_ptr(), weight.shape, weight.stride()), name)
    return {name: state[name] for name in kept.values()}


def _step_number(rows: list[tuple[Tensor, ...]]) -> dict[str, Tensor]:
    return {"step": rows[0][0]}


def _finite(value: Tensor) -> float | None:
    number = value.item()
    return number if math.isfinite(number) else None
