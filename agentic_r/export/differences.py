"""What differs between a trained encoder and its export: the usual causes of unequal vectors, as sentences."""

import json
from collections.abc import Iterator

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.transformer import Transformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.checkpoint import fast_tokenizer
from agentic_r.errors import ParityError

__all__ = ["name_differences"]


def name_differences(encoder: BiEncoder, model: SentenceTransformer) -> Iterator[str]:
    """Yield one sentence for every difference found, the commonest causes first."""
    yield from _modules(encoder.model, model)
    yield from _prompts(encoder, model)
    yield from _lengths(encoder.model, model)
    yield from _tokenizers(encoder.model, model)
    yield from _weights(encoder.model, model)


def _modules(ours: SentenceTransformer, theirs: SentenceTransformer) -> Iterator[str]:
    if _has_normalisation(ours) and not _has_normalisation(theirs):
        yield "normalisation is missing: its modules.json lists no Normalize"
    our_pooling, their_pooling = _pooling(ours), _pooling(theirs)
    if our_pooling != their_pooling:
        yield f"pooling is {their_pooling or 'missing'}, the encoder's is {our_pooling}"


def _has_normalisation(model: SentenceTransformer) -> bool:
    return any(isinstance(module, Normalize) for module in model.children())


def _pooling(model: SentenceTransformer) -> str:
    return ", ".join(str(module.pooling_mode) for module in model.children() if isinstance(module, Pooling))


def _prompts(encoder: BiEncoder, model: SentenceTransformer) -> Iterator[str]:
    wanted = {"query": encoder.settings.query_prefix, "document": encoder.settings.passage_prefix}
    for name, prefix in wanted.items():
        found = model.prompts.get(name) or ""
        if found != prefix:
            yield f"the prompt {name!r} is {found!r}, the encoder's prefix is {prefix!r}"
    if model.default_prompt_name is not None:
        yield f"plain encode adds the prompt {model.default_prompt_name!r}; the encoder adds none"


def _lengths(ours: SentenceTransformer, theirs: SentenceTransformer) -> Iterator[str]:
    if ours.max_seq_length != theirs.max_seq_length:
        yield f"the longest text is {theirs.max_seq_length} tokens, the encoder's {ours.max_seq_length}"
    first = _first(theirs)
    for kind, own in (("query", first.query_length), ("passage", first.document_length)):
        if own is not None and own != ours.max_seq_length:
            yield f"the longest {kind} is {own} tokens, the longest text {ours.max_seq_length}"


def _first(model: SentenceTransformer) -> Transformer:
    for module in model.children():
        if isinstance(module, Transformer):
            first: Transformer = module
            return first
    raise ParityError("the export has no Transformer module; export again")


def _tokenizers(ours: SentenceTransformer, theirs: SentenceTransformer) -> Iterator[str]:
    states = []
    for model in (ours, theirs):
        state = json.loads(fast_tokenizer(model).backend_tokenizer.to_str())
        states.append({name: part for name, part in state.items() if name not in ("truncation", "padding")})
    changed = sorted(name for name in states[0] if states[0][name] != states[1].get(name))
    if changed:
        yield f"the tokenizers differ in {', '.join(changed)}"


def _weights(ours: SentenceTransformer, theirs: SentenceTransformer) -> Iterator[str]:
    their_weights = theirs.state_dict()
    changed = [
        name
        for name, weight in ours.state_dict().items()
        if name not in their_weights or not torch.equal(weight.cpu(), their_weights[name].cpu().to(weight.dtype))
    ]
    if changed:
        yield f"{len(changed)} weight tensors differ, first {changed[0]}: it is another checkpoint or type"
