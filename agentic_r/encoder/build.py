"""Choosing the base encoder: the one place where its configuration becomes an encoder."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import assert_never

from agentic_r.config import EncoderConfig, PretrainedEncoder, ScratchEncoder
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.pretrained import load_pretrained
from agentic_r.encoder.scratch import train_scratch_encoder
from agentic_r.types import Passage

__all__ = ["build_encoder"]


def build_encoder(
    config: EncoderConfig,
    *,
    passages: Sequence[Passage],
    folder: Path,
    seed: int,
    threads: int,
    progress: Callable[[int, int], None],
) -> BiEncoder:
    """Make the encoder that every iteration starts from, and save it.

    Args:
        config: Trained from scratch on ``passages``, or pretrained.
        passages: The corpus.
        folder: Receives the encoder: ``BiEncoder.load(folder)`` gives it again. A pretrained one is stored
            with float32 weights, whatever type it encodes in, so that a trainer can start from them.
        seed: Seed of a training from scratch.
        threads: Torch threads of a training from scratch.
        progress: Called with (steps done, steps in all).

    Returns:
        The encoder as loaded from ``folder``.
    """
    match config:
        case ScratchEncoder():
            return train_scratch_encoder(config, passages, folder, seed=seed, progress=progress, threads=threads)
        case PretrainedEncoder():
            progress(0, 1)
            load_pretrained(config, folder.parent / "cache", in_float32=True).save(folder)
            progress(1, 1)
            return BiEncoder.load(folder)
        case _:
            assert_never(config)
