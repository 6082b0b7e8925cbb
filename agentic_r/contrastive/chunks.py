"""Encoding a step's texts in chunks, so that memory does not grow with the batch.

Texts are sorted by length and encoded in chunks whose activations fit a budget. Where those of the whole step
would not fit it, each chunk keeps only its inputs and vectors and is computed again during the backward
pass (the gradient-cache idea, by ``torch.utils.checkpoint``, which also replays dropout). Value and gradient
are the same either way. What a text looks like in tokens is the encoder's business.

Shapes: N texts, T tokens, D dimensions.
"""

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

__all__ = ["ACTIVATION_BYTES", "ChunkedEncoder", "cut_chunks"]

ACTIVATION_BYTES = 2**30  # our choice: fits small machines; a step below it is computed once, a third faster
_FLOATS_PER_UNIT = 40  # kept floats a token, layer and hidden unit; from 7.3 GB at 17k tokens, 6 layers x 384


class ChunkedEncoder(nn.Module):
    """A sentence-transformers model called on both sides of a step at once."""

    def __init__(
        self, model: SentenceTransformer, *, texts_per_chunk: int, activation_bytes: int = ACTIVATION_BYTES
    ) -> None:
        """Take the model to train.

        Args:
            model: Gives ``sentence_embedding`` for ``input_ids`` and ``attention_mask``.
            texts_per_chunk: Most texts of one forward pass.
            activation_bytes: What a chunk may keep, by estimate; a step that keeps more computes chunks twice.
        """
        super().__init__()
        self.model = model
        self.texts_per_chunk = texts_per_chunk
        self.activation_bytes = activation_bytes

    def forward(self, queries: dict[str, Tensor], passages: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return query and passage vectors (N, D), in the order of the padded (N, T) features given."""
        max_tokens = self._tokens_within_budget()
        sides = [
            cut_chunks(features, texts_per_chunk=self.texts_per_chunk, max_tokens=max_tokens)
            for features in (queries, passages)
        ]
        twice = sum(chunk["input_ids"].numel() for _, chunks in sides for chunk in chunks) > max_tokens
        queries_ND, passages_ND = (self._encode(order, chunks, compute_twice=twice) for order, chunks in sides)
        return queries_ND, passages_ND

    def _encode(self, order_N: Tensor, chunks: list[dict[str, Tensor]], *, compute_twice: bool) -> Tensor:
        if compute_twice:
            parts = [checkpoint(self._vectors, chunk, use_reentrant=False) for chunk in chunks]
        else:
            parts = [self._vectors(chunk) for chunk in chunks]
        return torch.cat(parts)[order_N.argsort()]

    def _vectors(self, chunk: dict[str, Tensor]) -> Tensor:
        vectors: Tensor = self.model(dict(chunk))["sentence_embedding"]  # a copy, since the model writes into it
        return vectors

    def _tokens_within_budget(self) -> int:
        backbone = self.model.transformers_model
        assert backbone is not None, "the encoder's first module is a Transformer"
        kept_bytes = backbone.config.num_hidden_layers * backbone.config.hidden_size * _FLOATS_PER_UNIT * 4
        return int(self.activation_bytes // kept_bytes)


def cut_chunks(
    features: dict[str, Tensor], *, texts_per_chunk: int, max_tokens: int
) -> tuple[Tensor, list[dict[str, Tensor]]]:
    """Sort rows by length, longest first, and cut them into chunks no wider than their longest row.

    Args:
        features: Padded (N, T) ``input_ids`` and ``attention_mask``.
        texts_per_chunk: Most rows of a chunk.
        max_tokens: Most tokens of a chunk, padding included; a single row may have more.

    Returns:
        The order (N,), as row numbers of ``features``, and the chunks.
    """
    mask_NT = features["attention_mask"]
    lengths_N, order_N = mask_NT.sum(1).sort(descending=True, stable=True)
    chunks, start = [], 0
    while start < len(order_N):
        num_rows = max(1, min(texts_per_chunk, max_tokens // max(1, int(lengths_N[start]))))
        rows = order_N[start : start + num_rows]
        used_T = mask_NT[rows].any(0)  # padding may stand on either side
        chunks.append({name: value[rows][:, used_T] for name, value in features.items()})
        start += num_rows
    return order_N, chunks
