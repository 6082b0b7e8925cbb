"""Why vectors differ, from the vectors alone: what is wrong with a graph or a server that shows nothing of its inside.

The usual mistakes are made on purpose (prefix lost, doubled or of the other side; another pooling) with the encoder's
own weights, and the one whose vectors are those that were found is named. Missing normalisation shows in the norms, a
wrong limit in which kinds of text differ. Legend: N texts, T tokens, D dimensions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from sentence_transformers.sentence_transformer.modules import Pooling
from sentence_transformers.sentence_transformer.modules.pooling import PoolingMode

from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.checkpoint import fast_tokenizer
from agentic_r.export.artefacts import Side
from agentic_r.export.probes import BEYOND_LIMIT, OF_THE_RUN, Probe
from agentic_r.protocols import Vectors

__all__ = ["UNEXPLAINED", "cosines", "explain_vectors"]

UNEXPLAINED = (
    "no usual mistake explains it (prefix, pooling, normalisation, limit were tried): other weights, another "
    "tokenizer, or too coarse numbers"
)

_TEXTS_TRIED = 8
_NOTABLE = 1e-4  # a distance (1 - cosine) below it is rounding, and no mistake is looked for
_CLEARLY = 0.1  # share of the distance that may be left where a mistake explains it
_ROUNDED = 0.01  # an error of norms below it is rounding too
_LIMITS = (16, 32, 64, 128, 256, 512)  # what services are usually left at
_POOLINGS: tuple[PoolingMode, ...] = ("mean", "cls", "max", "lasttoken", "mean_sqrt_len_tokens", "weightedmean")


@dataclass(frozen=True, slots=True)
class _Mistake:
    prefix: str
    pooling: PoolingMode | tuple[PoolingMode, ...]
    limit: int
    sentences: tuple[str, ...]


def explain_vectors(
    encoder: BiEncoder, unequal: Sequence[Probe], found: Mapping[str, Vectors], *, max_norm_error: float
) -> Iterator[str]:
    """Yield the causes of the difference, the surest first; at least one sentence where anything differs.

    Args:
        encoder: The encoder itself.
        unequal: The probes whose vectors differ.
        found: What was found instead, (N, D') rows by the probe's kind.
        max_norm_error: How far a norm may be from 1.
    """
    widths = sorted({found[probe.kind].shape[-1] for probe in unequal} - {encoder.dimension})
    if widths:
        yield f"vectors have {widths[0]} components, the encoder's have {encoder.dimension}"
        return
    sentences = [*_from_norms(unequal, found, max_norm_error), *_from_mistakes(encoder, unequal, found)]
    yield from dict.fromkeys(sentences or _from_kinds(encoder, unequal))


def cosines(left_ND: Vectors, right_ND: Vectors) -> Vectors:
    """Return the cosine of each pair of rows, whatever their norms."""
    lengths_N = np.linalg.norm(left_ND, axis=1) * np.linalg.norm(right_ND, axis=1)
    result: Vectors = (left_ND * right_ND).sum(axis=1) / np.maximum(lengths_N, 1e-12)
    return result


def _from_norms(unequal: Sequence[Probe], found: Mapping[str, Vectors], max_norm_error: float) -> Iterator[str]:
    norms = np.concatenate([np.linalg.norm(found[probe.kind], axis=1) for probe in unequal])
    if not np.isfinite(norms).all():
        yield f"{int((~np.isfinite(norms)).sum())} of {len(norms)} vectors are not finite"
        return
    if not norms.any():
        yield "all vectors are zero"
        return
    error = float(np.abs(norms - 1).max())
    if error > _ROUNDED:
        yield f"normalisation is missing: norms are {norms.min():.4g} to {norms.max():.4g} instead of 1"
    elif error > max_norm_error:
        yield f"norms are {norms.min():.6g} to {norms.max():.6g} instead of 1: normalised in too coarse numbers"


def _from_mistakes(encoder: BiEncoder, unequal: Sequence[Probe], found: Mapping[str, Vectors]) -> Iterator[str]:
    for side in ("query", "passage", "plain"):
        probes = [probe for probe in unequal if probe.side == side]
        texts = [text for probe in probes for text in probe.texts]
        if not texts:
            continue
        found_ND = np.concatenate([found[probe.kind] for probe in probes])
        expected_ND = np.concatenate([probe.expected for probe in probes])
        tried = np.argsort(cosines(found_ND, expected_ND))[:_TEXTS_TRIED]  # those that differ most say most
        yield from _nearest_mistake(
            encoder, side, [texts[row] for row in tried], found_ND[tried], right_ND=expected_ND[tried]
        )


def _nearest_mistake(
    encoder: BiEncoder, side: Side, texts: Sequence[str], found_ND: Vectors, *, right_ND: Vectors
) -> tuple[str, ...]:
    """The sentences of the mistake whose vectors are nearest, if it explains nearly all of the difference."""
    distance = 1 - float(cosines(found_ND, right_ND).mean())
    if distance < _NOTABLE:
        return ()
    best, smallest = _Mistake("", "mean", 0, ()), _CLEARLY * distance
    for mistake in _mistakes(encoder, side):
        vectors_ND = _mistaken_vectors(encoder, texts, mistake)
        if vectors_ND.shape != found_ND.shape:
            continue
        left = 1 - float(cosines(found_ND, vectors_ND).mean())
        if left < smallest:
            best, smallest = mistake, left
    return best.sentences


def _mistakes(encoder: BiEncoder, side: Side) -> Iterator[_Mistake]:
    pooling, limit = _pooling(encoder).pooling_mode, _limit(encoder)
    poolings = [pooling, *(mode for mode in _POOLINGS if mode != pooling)]
    for prefix, of_prefix in _prefixes(encoder, side).items():
        for mode in poolings:
            of_pooling = () if mode == pooling else (f"pooling is {mode}, the encoder's is {pooling}",)
            if of_prefix or of_pooling:
                yield _Mistake(prefix, mode, limit, (*of_prefix, *of_pooling))
    right = next(iter(_prefixes(encoder, side)))
    backbone = encoder.model.transformers_model
    positions = None if backbone is None else backbone.config.to_dict().get("max_position_embeddings")
    for other in _LIMITS:
        if other != limit and (positions is None or other <= positions):
            yield _Mistake(right, pooling, other, (f"its limit is {other} tokens, the encoder's is {limit}",))


def _prefixes(encoder: BiEncoder, side: Side) -> dict[str, tuple[str, ...]]:
    """Prefixes that may have been used, the right one first, with what is to be said of each."""
    query, passage = encoder.settings.query_prefix, encoder.settings.passage_prefix
    if side == "plain":
        added = "plain texts get the {} prefix {!r}; they must get none"
        prefixes = [("", ()), (query, (added.format("query", query),)), (passage, (added.format("passage", passage),))]
    else:
        own, other, other_side = (query, passage, "passage") if side == "query" else (passage, query, "query")
        texts = "queries" if side == "query" else "passages"
        prefixes = [
            (own, ()),
            ("", (f"the prefix {own!r} of {texts} is lost",)),
            (other, (f"{texts} get the {other_side} prefix {other!r} instead of {own!r}",)),
            (own + own, (f"the prefix {own!r} of {texts} stands twice: once written by the caller, once added",)),
        ]
    chosen: dict[str, tuple[str, ...]] = {}
    for prefix, sentences in prefixes:
        chosen.setdefault(prefix, sentences)
    return chosen


def _mistaken_vectors(encoder: BiEncoder, texts: Sequence[str], mistake: _Mistake) -> Vectors:
    model = encoder.model
    tokenizer = fast_tokenizer(model)
    encoded = tokenizer(
        [mistake.prefix + text for text in texts],
        truncation=True,
        max_length=mistake.limit,
        padding=True,
        return_token_type_ids=False,
        return_tensors="pt",
    )
    features = {name: encoded[name].to(model.device) for name in ("input_ids", "attention_mask")}
    pooling = Pooling(_pooling(encoder).embedding_dimension, pooling_mode=mistake.pooling)
    model.eval()
    with torch.inference_mode():
        for module in model.children():
            features = (pooling if isinstance(module, Pooling) else module)(features)
    vectors: Vectors = features["sentence_embedding"].float().cpu().numpy()
    return vectors


def _limit(encoder: BiEncoder) -> int:
    return max(encoder.settings.max_query_tokens, encoder.settings.max_passage_tokens)


def _pooling(encoder: BiEncoder) -> Pooling:
    pooling: Pooling = next(module for module in encoder.model.children() if isinstance(module, Pooling))
    return pooling


def _from_kinds(encoder: BiEncoder, unequal: Sequence[Probe]) -> list[str]:
    kinds = {probe.kind.partition(", ")[2] for probe in unequal}
    limit = _limit(encoder)
    of_length = {f"limit + {BEYOND_LIMIT}", "at the limit", "long"}
    if kinds & of_length and kinds <= of_length | {OF_THE_RUN}:
        return [f"only long texts differ: its limit is not {limit} tokens"]
    if kinds <= {"CJK", "emoji"}:
        return ["only CJK texts and emoji differ: its tokenizer is not the encoder's"]
    return [UNEXPLAINED]
