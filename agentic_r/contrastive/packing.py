"""Unpadded passes: the texts of a chunk as one row of tokens, so that no layer computes padding.

Owns an attention function for transformers in which every text attends to itself alone, and the proof that a model
gives the same vectors with it. A model whose layers see less than a whole text (a sliding window), or cap their
attention, is left padded: the proof's short texts would not show the difference. Linear layers see the real tokens
only; sentence-transformers' own pooling reads the borders (``cu_seq_lens_q``). Which texts form a chunk is
``chunks.py``'s business.

Shapes: 1 row, H heads, N tokens of all texts, E units a head, W distinct words of a step, D units a word.
"""

from typing import NamedTuple

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from agentic_r.contrastive.dropout import draw_kept, use_quick_dropout
from agentic_r.encoder.bi_encoder import Features

__all__ = ["NumberedWords", "enable_packing", "number_words", "pack"]

_NAME = "agentic_r_packed"
_TOLERANCE = 1e-4  # of a component of a unit vector; wrong positions or borders differ by far more
_EXACT_TYPES = (torch.float32, torch.float64)  # in half precision torch's own attention still sums in float32
_PROBE_LENGTHS = (3, 7, 5)
_UNKNOWN_KINDS = ("sliding_window", "softcap", "s_aux")  # as layers hand them to an attention: it is not this one
_UNKNOWN_SETTINGS = ("sliding_window", "local_attention", "attention_window", "attn_logit_softcapping")


class NumberedWords(NamedTuple):
    """Features whose ``input_ids`` are rows of ``words_WD``."""

    features: Features
    words_WD: Tensor


def enable_packing(model: SentenceTransformer) -> int | None:
    """Let a model read packed chunks, if it gives the same vectors so.

    Padded input stays possible: without borders the attention is torch's own. Its dropout layers become quick ones.

    Returns:
        The number of a text's first position, or None where the model must be given padded texts (it is left as it
        was): other vectors, no choice of attention, or a device on which one call a text does not pay.
    """
    backbone = model.transformers_model
    if backbone is None or model.device.type != "cpu":
        return None
    settings = backbone.config.to_dict()
    if any(settings.get(name) is not None for name in _UNKNOWN_SETTINGS):
        return None
    before = backbone.config._attn_implementation
    AttentionInterface.register(_NAME, _attend)
    AttentionMaskInterface.register(_NAME, sdpa_mask)
    probe = _probe(model)
    expected = _vectors(model, dict(probe))
    try:
        backbone.set_attn_implementation(_NAME)
        for first_position in dict.fromkeys((0, (backbone.config.pad_token_id or 0) + 1)):
            numbered, words_WD = number_words(model, probe)
            packed = pack(numbered, words_WD, first_position=first_position)
            found = _vectors(model, dict(probe)), _vectors(model, packed)
            if all(bool((expected - vectors).abs().max() < _TOLERANCE) for vectors in found):
                use_quick_dropout(model)
                return first_position
    except (TypeError, ValueError, RuntimeError, IndexError):  # what models say that cannot be called so
        pass
    backbone.set_attn_implementation(before)
    return None


def number_words(model: SentenceTransformer, features: Features) -> NumberedWords:
    """Look every distinct word of a step up once, so that the table gets one gradient a step and not one a chunk.

    Returns:
        The features with places among the distinct words for ``input_ids``, and those words' vectors (W, D).
    """
    ids_W, places = torch.unique(features["input_ids"], return_inverse=True)
    backbone = model.transformers_model
    assert backbone is not None, "the encoder's first module is a Transformer"
    words_WD: Tensor = backbone.get_input_embeddings()(ids_W)
    return NumberedWords({**features, "input_ids": places}, words_WD)


def pack(features: Features, words_WD: Tensor, *, first_position: int) -> Features:
    """Return padded (B, T) numbered features as one row of their N real tokens, with positions and borders."""
    mask_BT = features["attention_mask"].bool()
    lengths_B = mask_BT.sum(1)
    positions_BT = mask_BT.cumsum(1) - 1 + first_position
    borders = functional.pad(lengths_B.cumsum(0), (1, 0)).int()
    return {
        "inputs_embeds": functional.embedding(features["input_ids"][mask_BT][None], words_WD),
        "position_ids": positions_BT[mask_BT][None],
        "cu_seq_lens_q": borders,
    }


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    cu_seq_lens_q: Tensor | None = None,
    **kwargs: object,  # what else transformers hands to every attention
) -> tuple[Tensor, None]:
    if cu_seq_lens_q is None:
        attended, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, is_causal=is_causal
        )
        return attended, None
    unknown = [name for name in _UNKNOWN_KINDS if kwargs.get(name) is not None]
    if unknown:
        raise ValueError(f"packed attention does not do {unknown}")
    causal = bool(module.is_causal) if is_causal is None else is_causal
    lengths = cu_seq_lens_q.diff().tolist()
    sides = (torch.split(part, lengths, 2) for part in (query, key, value))
    grouped = key.shape[1] != query.shape[1]
    if dropout and not causal and not grouped and query.dtype in _EXACT_TYPES:
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        parts = [_attend_with_dropout(*side, dropout=dropout, scale=scale) for side in zip(*sides, strict=True)]
    else:
        parts = [
            functional.scaled_dot_product_attention(
                one_query, one_key, one_value, dropout_p=dropout, scale=scaling, is_causal=causal, enable_gqa=grouped
            )
            for one_query, one_key, one_value in zip(*sides, strict=True)
        ]
    return torch.cat(parts, 2).transpose(1, 2).contiguous(), None


def _attend_with_dropout(query: Tensor, key: Tensor, value: Tensor, *, dropout: float, scale: float) -> Tensor:
    """Attend as torch does under dropout, with the draws of ``dropout.py``."""
    weights = ((scale * query) @ key.transpose(-2, -1)).softmax(-1)
    return (weights * draw_kept(weights.shape, dropout)) @ (value / (1 - dropout))


def _probe(model: SentenceTransformer) -> Features:
    """Three made-up texts of the vocabulary's first words, padded."""
    width = max(_PROBE_LENGTHS)
    mask_BT = torch.tensor([[1] * length + [0] * (width - length) for length in _PROBE_LENGTHS])
    pad: int = model.tokenizer.pad_token_id
    ids_BT = torch.arange(mask_BT.numel()).reshape(mask_BT.shape) % len(model.tokenizer)
    ids_BT = ids_BT.masked_fill(ids_BT == pad, pad + 1).masked_fill(mask_BT == 0, pad)
    return {"input_ids": ids_BT, "attention_mask": mask_BT}


def _vectors(model: SentenceTransformer, features: Features) -> Tensor:
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            vectors: Tensor = model(features)["sentence_embedding"]
    finally:
        model.train(was_training)
    return vectors
