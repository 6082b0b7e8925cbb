"""Encoding a step's texts in chunks, so that memory does not grow with the batch.

All texts of a step, queries and passages, are sorted by length and encoded in chunks. As many of the last chunks as fit
the memory budget keep what their backward pass needs; each of the others keeps only its inputs and vectors and is
computed again during the backward pass (the gradient-cache idea, by ``torch.utils.checkpoint``, which also replays
dropout). Value and gradient are the same either way. What a text looks like in tokens is the encoder's business,
unpadded passes are ``encoder/packing.py``'s.

The kept chunks are the last since the backward pass begins with them: when the first chunk is computed again, their
memory is free, so that the peak is the larger of the two, not their sum. Short texts come first, so that the backward
pass goes from long to short and each chunk fits where the one before it was: the other way round the heap grows.

Shapes: N texts, T tokens, D dimensions.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from agentic_r.contrastive.ranks import Ranks
from agentic_r.encoder.dropout import use_quick_dropout
from agentic_r.encoder.packing import Features, enable_packing, number_words, pack
from agentic_r.heap import give_back_free_heap

__all__ = ["ChunkLimits", "ChunkedEncoder", "cut_chunks", "cut_further", "join_features", "keep_within"]

# Kept floats of a BERT layer with dropout in training, measured at 32 to 256 tokens a text: under 20 units a token, and
# the (heads x length) attention weights: twice and a mask of bytes where packed, three times in torch's own attention.
_FLOATS_PER_UNIT = 20
_ATTENTION_COPIES, _PACKED_ATTENTION_COPIES = 3.0, 2.25


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """``texts`` of one forward pass at most; ``activation_bytes`` that kept chunks may hold, by estimate.

    A single chunk stays within them too. With 0 bytes nothing is kept, and ``texts`` alone limit a chunk.
    ``keeps_layers`` is False where every layer is computed twice, keeping its input only.
    """

    texts: int
    activation_bytes: int
    keeps_layers: bool = True


class ChunkedEncoder(nn.Module):
    """A sentence-transformers model called on all texts of a step at once."""

    def __init__(
        self, model: SentenceTransformer, limits: ChunkLimits, *, unpadded: bool = True, together: Ranks | None = None
    ) -> None:
        """Take the model to train.

        Args:
            model: Gives ``sentence_embedding`` for ``input_ids`` and ``attention_mask``.
            limits: Sizes of a chunk.
            unpadded: Pack chunks where the model allows it; its attention function and its dropout are then others.
            together: The processes that must call the model equally often, since each call gathers its weights.
        """
        super().__init__()
        self.model = model
        self.limits = limits
        self._together = together
        self._no_split_modules = getattr(model.transformers_model, "_no_split_modules", None)  # what FSDP cuts by
        self._first_position = enable_packing(model) if unpadded else None
        if self.is_unpadded:
            use_quick_dropout(model)

    @property
    def is_unpadded(self) -> bool:
        """Say whether chunks are packed."""
        return self._first_position is not None

    def forward(self, texts: Features) -> Tensor:
        """Return vectors (N, D) in the order of the padded (N, T) features given."""
        words_WD = None
        if self.is_unpadded:
            texts, words_WD = number_words(self.model, texts)
        order_N, chunks = cut_chunks(texts, fits=self._fits)
        if self._together is not None:
            chunks = cut_further(chunks, count=self._together.largest(len(chunks)))
        chunks.reverse()
        num_kept = keep_within([self._bytes(chunk) for chunk in chunks], self.limits.activation_bytes)
        num_twice = len(chunks) - num_kept
        if self._together is not None:
            num_twice = self._together.largest(num_twice)
        parts = [checkpoint(self._vectors, chunk, words_WD, use_reentrant=False) for chunk in chunks[:num_twice]]
        parts += [self._vectors(chunk, words_WD) for chunk in chunks[num_twice:]]
        if num_twice and order_N.device.type == "cpu":
            give_back_free_heap()  # chunks leave small blocks behind, between which the next, longer one does not fit
        return torch.cat(parts[::-1])[order_N.argsort()]  # drops what was encoded once more, at the end

    def _vectors(self, chunk: Features, words_WD: Tensor | None) -> Tensor:
        given = dict(chunk)  # a copy, since the model writes into it
        if self._first_position is not None and words_WD is not None:
            given = pack(chunk, first_position=self._first_position, words_WD=words_WD)
        vectors: Tensor = self.model(given)["sentence_embedding"]
        return vectors

    def _fits(self, num_texts: int, length: int) -> bool:
        limit = self.limits.activation_bytes
        return num_texts <= self.limits.texts and (not limit or self._estimate(num_texts * length, length) <= limit)

    def _bytes(self, chunk: Features) -> int:
        num_texts, width = chunk["input_ids"].shape
        num_tokens = int(chunk["attention_mask"].sum()) if self.is_unpadded else num_texts * width
        return self._estimate(num_tokens, width)

    def _estimate(self, num_tokens: int, length: int) -> int:
        backbone = self.model.transformers_model
        assert backbone is not None, "the encoder's first module is a Transformer"
        shape = backbone.config
        layers: int = shape.num_hidden_layers
        if not self.limits.keeps_layers:
            width: int = shape.hidden_size
            return 4 * num_tokens * layers * width
        copies = _PACKED_ATTENTION_COPIES if self.is_unpadded else _ATTENTION_COPIES
        floats: float = _FLOATS_PER_UNIT * shape.hidden_size + copies * shape.num_attention_heads * length
        return math.ceil(4 * num_tokens * layers * floats)


def cut_chunks(features: Features, *, fits: Callable[[int, int], bool]) -> tuple[Tensor, list[Features]]:
    """Sort rows by length, longest first, and cut them into chunks no wider than their longest row.

    Args:
        features: Padded (N, T) ``input_ids`` and ``attention_mask``.
        fits: Whether a chunk of (rows, tokens of the longest) may be; a single row always may.

    Returns:
        The order (N,), as row numbers of ``features``, and the chunks.
    """
    mask_NT = features["attention_mask"]
    lengths_N, order_N = mask_NT.sum(1).sort(descending=True, stable=True)
    lengths = lengths_N.tolist()
    chunks, start = [], 0
    while start < len(lengths):
        end = start + 1
        while end < len(lengths) and fits(end + 1 - start, lengths[start]):
            end += 1
        rows = order_N[start:end]
        used_T = mask_NT[rows].any(0)  # padding may stand on either side
        chunks.append({name: value[rows][:, used_T] for name, value in features.items()})
        start = end
    return order_N, chunks


def cut_further(chunks: Sequence[Features], *, count: int) -> list[Features]:
    """Cut chunks to be ``count`` in all, the fullest first; where each has one row, the last is there once more."""
    found = list(chunks)
    while len(found) < count:
        sizes = [len(chunk["input_ids"]) for chunk in found]
        place = sizes.index(max(sizes))
        if sizes[place] == 1:
            found.append(found[-1])
            continue
        half = sizes[place] // 2
        found[place : place + 1] = [
            {name: value[rows] for name, value in found[place].items()} for rows in (slice(half), slice(half, None))
        ]
    return found


def keep_within(sizes: Sequence[int], limit: int) -> int:
    """Return how many of the last chunks, together, stay within ``limit`` bytes."""
    total = 0
    for count, size in enumerate(reversed(sizes)):
        total += size
        if total > limit:
            return count
    return len(sizes)


def join_features(one: Features, other: Features) -> Features:
    """Put two padded batches under each other, padded on the side on which they are."""
    width = max(one["input_ids"].shape[1], other["input_ids"].shape[1])
    left = any(bool((part["attention_mask"][:, :1] == 0).any()) for part in (one, other))

    def widen(value: Tensor) -> Tensor:
        missing = width - value.shape[1]
        return functional.pad(value, (missing, 0) if left else (0, missing))

    return {name: torch.cat([widen(part[name]) for part in (one, other)]) for name in one}
