"""Unpadded passes: the texts of a pass as one row of tokens, so that no layer computes padding.

Owns an attention function for transformers in which every text attends to itself alone, and the proof that a model
gives the same vectors with it. A model whose layers see less than a whole text (a sliding window), or cap their
attention, is left padded: the proof's short texts would not show the difference. Linear layers see the real tokens
only; sentence-transformers' own pooling reads the borders (``cu_seq_lens_q``). Which texts form a pass is
the caller's business: those of equal length attend in one call where they stand next to each other.

Shapes: 1 row, H heads, N tokens of all texts, E units a head, B texts of T tokens, W distinct words of a step, D units
a word.
"""

from itertools import groupby
from typing import NamedTuple

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from agentic_r.encoder.dropout import draw_kept

__all__ = ["Features", "NumberedWords", "enable_packing", "number_words", "pack"]

Features = dict[str, Tensor]

_NAME = "agentic_r_packed"
# Of a component of a unit vector: wrong positions or borders differ by far more, in float32.
_TOLERANCE, _TOLERANCE_IN_HALF = 1e-4, 1e-2
_EXACT_TYPES = (torch.float32, torch.float64)  # in half precision torch's own attention still sums in float32
_PROBE_LENGTHS = (3, 7, 5)
_UNKNOWN_KINDS = ("sliding_window", "softcap", "s_aux")  # as layers hand them to an attention: it is not this one
_UNKNOWN_SETTINGS = ("sliding_window", "local_attention", "attention_window", "attn_logit_softcapping")


class NumberedWords(NamedTuple):
    """Features whose ``input_ids`` are rows of ``words_WD``."""

    features: Features
    words_WD: Tensor


def enable_packing(model: SentenceTransformer) -> int | None:
    """Let a model read packed texts, if it gives the same vectors so.

    Padded input stays possible: without borders the attention is torch's own.

    Returns:
        The number of a text's first position, or None where the model must be given padded texts (it is left as it
        was): other vectors, no choice of attention, or a device on which one call a length does not pay.
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
    differences = {}
    try:
        backbone.set_attn_implementation(_NAME)
        for first_position in dict.fromkeys((0, (backbone.config.pad_token_id or 0) + 1)):
            numbered, words_WD = number_words(model, probe)
            forms = (
                dict(probe),
                pack(probe, first_position=first_position),
                pack(numbered, first_position=first_position, words_WD=words_WD),
            )
            found = max(float((expected - _vectors(model, form)).abs().max()) for form in forms)
            differences[found] = first_position
    except (TypeError, ValueError, RuntimeError, IndexError):  # what models say that cannot be called so
        pass
    tolerance = _TOLERANCE if expected.dtype in _EXACT_TYPES else _TOLERANCE_IN_HALF
    if differences and min(differences) < tolerance:
        return differences[min(differences)]
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


def pack(features: Features, *, first_position: int, words_WD: Tensor | None = None) -> Features:
    """Return padded (B, T) features as one row of their N real tokens, with positions and borders.

    Args:
        features: ``input_ids`` and ``attention_mask``.
        first_position: The number of a text's first position.
        words_WD: Where ``number_words`` made the features: what their ids are places of.
    """
    mask_BT = features["attention_mask"].bool()
    lengths_B = mask_BT.sum(1)
    positions_BT = mask_BT.cumsum(1) - 1 + first_position
    ids_1N = features["input_ids"][mask_BT][None]
    words = {"input_ids": ids_1N} if words_WD is None else {"inputs_embeds": functional.embedding(ids_1N, words_WD)}
    borders = functional.pad(lengths_B.cumsum(0), (1, 0)).int()
    return {**words, "position_ids": positions_BT[mask_BT][None], "cu_seq_lens_q": borders}


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
    grouped = key.shape[1] != query.shape[1]
    is_own = bool(dropout) and not causal and not grouped and query.dtype in _EXACT_TYPES
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    parts, start = [], 0
    lengths = cu_seq_lens_q.diff().tolist()
    # under dropout one by one: what is kept for the backward pass is then in blocks that fit where others were
    alike = [(length, 1) for length in lengths] if is_own else [(one, len([*all_])) for one, all_ in groupby(lengths)]
    for length, count in alike:
        given, keys, values = (_texts(side, start, count, length) for side in (query, key, value))
        if is_own:
            part_BHTE = _attend_with_dropout(given, keys, values, dropout=dropout, scale=scale)
        else:
            part_BHTE = functional.scaled_dot_product_attention(
                given, keys, values, dropout_p=dropout, scale=scaling, is_causal=causal, enable_gqa=grouped
            )
        parts.append(part_BHTE.transpose(1, 2).flatten(0, 1))
        start += count * length
    return torch.cat(parts)[None], None


def _texts(side_1HNE: Tensor, start: int, count: int, length: int) -> Tensor:
    """Cut texts of one length out of a row, as (B, H, T, E)."""
    side_HNE = side_1HNE[0, :, start : start + count * length]
    return side_HNE.view(side_HNE.shape[0], count, length, -1).transpose(0, 1)


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
