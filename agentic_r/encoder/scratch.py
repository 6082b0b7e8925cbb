"""Training an encoder from scratch on a corpus alone: no question is ever seen.

The inverse cloze task: a short stretch of a passage must find its passage among those of the batch.
Owns that objective and its checkpoint. What is drawn at a step depends on (seed, step) only, so a killed
training goes on exactly. Legend: B texts, D dimensions.

Source: Lee et al. 2019 (inverse cloze task). Our choice: lengths and rates, and that the stretch stays in its
passage, so that names learn to match themselves.
"""

import io
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from agentic_r.artifacts.fingerprint import fingerprint_strings, fingerprint_value, generator_seed
from agentic_r.artifacts.jsonl import write_bytes_atomic
from agentic_r.config import ScratchEncoder
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.scratch_model import new_model
from agentic_r.encoder.settings import EncoderSettings
from agentic_r.errors import DataError
from agentic_r.types import Passage, QueryText

__all__ = ["inverse_cloze_loss", "train_scratch_encoder"]

_QUERY_PREFIX, _PASSAGE_PREFIX = "query: ", "passage: "
_MIN_WORDS, _MAX_WORDS = 2, 8
_TITLE_SHARE = 0.3
_WORD_DROPOUT = 0.15
_TEMPERATURE = 0.05
_WARMUP_SHARE = 0.1
_WEIGHT_DECAY = 0.01
_MAX_GRADIENT_NORM = 1.0
_SAVE_EVERY = 25

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class _Training:
    """The state of one training; ``step`` counts the steps done."""

    identity: str
    encoder: BiEncoder
    optimizer: torch.optim.AdamW
    step: int


def train_scratch_encoder(
    config: ScratchEncoder,
    passages: Sequence[Passage],
    folder: Path,
    *,
    seed: int,
    progress: Progress,
    threads: int,
) -> BiEncoder:
    """Make, train and save an encoder; killed at any moment, the same call goes on where it was.

    Args:
        config: Sizes, steps and lengths.
        passages: The corpus; passages without a word are not trained on.
        folder: Receives the encoder, and the checkpoint until then. Whether a finished encoder in it is
            still wanted is the caller's to know (its stage has a manifest): this call trains again.
        seed: Seed of the weights and of what is drawn at each step.
        progress: Called with (steps done, steps in all).
        threads: Torch threads; the result is exact for one number of them.

    Returns:
        The encoder as saved.

    Raises:
        DataError: fewer than two passages have words.
    """
    usable = [passage for passage in passages if passage.text.split()]
    if len(usable) < 2:
        raise DataError(
            f"encoder: {len(usable)} of {len(passages)} passages have text; "
            "training from scratch needs at least 2 of them: add documents or use a pretrained encoder"
        )
    torch.set_num_threads(threads)
    work = folder / "training"
    training = _begin_or_resume(config, usable, work, seed=seed)
    training.encoder.model.train()
    for step in range(training.step, config.steps):
        progress(step, config.steps)
        _train_step(training, config, usable, random.Random(generator_seed(seed, "scratch encoder", step)))
        if training.step % _SAVE_EVERY == 0:
            _save(training, work)
    progress(config.steps, config.steps)
    training.encoder.save(folder)
    (work / "checkpoint.pt").unlink(missing_ok=True)  # first: it must not outlive what it continues
    shutil.rmtree(work)
    return BiEncoder.load(folder)


def inverse_cloze_loss(queries_BD: Tensor, passages_BD: Tensor, documents: Sequence[str]) -> Tensor:
    """Return the mean cross-entropy of each query finding its own passage, cosine / temperature 0.05.

    Other passages of the same document are left out of a row: the query may fit them as well.

    Args:
        queries_BD: Unit vectors.
        passages_BD: Unit vectors; row b is the passage of query b.
        documents: Document id of each passage.
    """
    number_of = {document: number for number, document in enumerate(dict.fromkeys(documents))}
    document_B = torch.tensor([number_of[document] for document in documents])
    own_BB = torch.eye(len(documents), dtype=torch.bool)
    same_BB = (document_B[:, None] == document_B[None, :]) & ~own_BB
    logits_BB = (queries_BD.float() @ passages_BD.float().T) / _TEMPERATURE
    logits_BB = logits_BB.masked_fill(same_BB.to(logits_BB.device), float("-inf"))
    return torch.nn.functional.cross_entropy(logits_BB, torch.arange(len(documents), device=logits_BB.device))


def _begin_or_resume(config: ScratchEncoder, passages: Sequence[Passage], work: Path, *, seed: int) -> _Training:
    texts = [f"{passage.title}\n{passage.text}" for passage in passages]
    identity = fingerprint_value([config.model_dump(), seed, fingerprint_strings(texts)])
    checkpoint = work / "checkpoint.pt"
    state: dict[str, Any] = {}  # Any: a checkpoint as torch stores it, recognised by its identity
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
    if state.get("identity") != identity:
        state = {}
        shutil.rmtree(work, ignore_errors=True)
        model = new_model(config, texts, work / "parts", seed=seed)
        BiEncoder(model, _settings(config)).save(work / "start")
    encoder = BiEncoder.load(work / "start")
    optimizer = torch.optim.AdamW(encoder.model.parameters(), lr=config.learning_rate, weight_decay=_WEIGHT_DECAY)
    if state:
        encoder.model.load_state_dict(state["weights"])
        optimizer.load_state_dict(state["optimizer"])
    return _Training(identity, encoder, optimizer, step=state.get("step", 0))


def _save(training: _Training, work: Path) -> None:
    buffer = io.BytesIO()
    state = {
        "identity": training.identity,
        "step": training.step,
        "weights": training.encoder.model.state_dict(),
        "optimizer": training.optimizer.state_dict(),
    }
    torch.save(state, buffer)
    write_bytes_atomic(work / "checkpoint.pt", buffer.getvalue())


def _settings(config: ScratchEncoder) -> EncoderSettings:
    return EncoderSettings(
        query_prefix=_QUERY_PREFIX,
        passage_prefix=_PASSAGE_PREFIX,
        query_format=config.query_format,
        max_query_tokens=config.max_query_tokens,
        max_passage_tokens=config.max_passage_tokens,
        separator="[SEP]",
        dtype="float32",
    )


def _train_step(
    training: _Training, config: ScratchEncoder, passages: Sequence[Passage], generator: random.Random
) -> None:
    drawn = generator.sample(passages, k=min(config.batch_size, len(passages)))
    queries = [QueryText(_stretch(passage, generator)) for passage in drawn]
    encoder = training.encoder
    queries_BD = encoder.model(encoder.query_features(queries))["sentence_embedding"]
    passages_BD = encoder.model(encoder.passage_features(drawn))["sentence_embedding"]
    loss = inverse_cloze_loss(queries_BD, passages_BD, [passage.document_id for passage in drawn])
    training.optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(encoder.model.parameters(), _MAX_GRADIENT_NORM)
    for group in training.optimizer.param_groups:
        group["lr"] = config.learning_rate * _schedule(training.step, config.steps)
    training.optimizer.step()
    training.step += 1


def _stretch(passage: Passage, generator: random.Random) -> str:
    """Draw a few successive words of a passage, sometimes after its title, some of them dropped."""
    words = passage.text.split()
    length = generator.randint(_MIN_WORDS, _MAX_WORDS)
    begin = generator.randrange(max(1, len(words) - length + 1))
    chosen = words[begin : begin + length]
    if generator.random() < _TITLE_SHARE:
        chosen = [*passage.title.split(), *chosen]
    kept = [word for word in chosen if generator.random() >= _WORD_DROPOUT]
    return " ".join(kept or chosen)


def _schedule(step: int, steps: int) -> float:
    """Linear warm-up over the first tenth, then linear decay to almost 0."""
    warmup = max(1, int(_WARMUP_SHARE * steps))
    return (step + 1) / warmup if step < warmup else (steps - step) / max(1, steps - warmup)
