"""The tiny language model: a small Llama over the tiny world's words, made from scratch.

Owns its shape, its word-level tokenizer and its starting weights. ``data/tiny_language_model.py`` trains it.
"""

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

__all__ = ["SPECIAL_TOKENS", "new_tiny_model", "tiny_tokenizer"]

_SPECIAL = ("<pad>", "<unk>", "<end>")
_TAGS = tuple(f"<{slash}{name}>" for name in ("think", "search", "information", "answer") for slash in ("", "/"))
SPECIAL_TOKENS = (*_SPECIAL, *_TAGS)

_THETA = 10_000.0
_COPYING_HEADS = 2  # of each of the first two layers


def tiny_tokenizer(words: tuple[str, ...]) -> PreTrainedTokenizerFast:
    """Make a word-level tokenizer: one id a lower-cased word, one id a tag."""
    vocabulary = {word: number for number, word in enumerate((*SPECIAL_TOKENS, *words))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]  # transformers' own
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="<end>",
        additional_special_tokens=list(_TAGS),
        clean_up_tokenization_spaces=False,
    )


def new_tiny_model(
    vocabulary: int, *, seed: int, width: int = 128, layers: int = 3, heads: int = 4
) -> LlamaForCausalLM:
    """Make an untrained model that can already copy.

    Copying a name out of the context is what a small model learns last, after thousands of steps of nothing. So
    the weights start with an induction circuit (Olsson et al. 2022) in place: two heads of the first layer look
    at the previous token and write what they see into a subspace of their own; two heads of the second layer
    look for a place whose previous token is the present one, and copy what stands there. Training does the rest.
    """
    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=width,
            intermediate_size=width * 3,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=heads,
            max_position_embeddings=1024,
            rope_parameters={"rope_type": "default", "rope_theta": _THETA},
            tie_word_embeddings=False,
            attention_bias=True,
            pad_token_id=0,
            bos_token_id=None,
            eos_token_id=2,
        )
    )
    with torch.no_grad():
        _scale_weights(model)
        _lay_induction(model, head_width=width // heads, width=width)
    return model


def _scale_weights(model: LlamaForCausalLM) -> None:
    """Embeddings outweigh what untrained layers add to them; output embeddings start as the input ones."""
    for name, weight in model.named_parameters():
        if weight.dim() == 2:
            writes = name.endswith(("o_proj.weight", "down_proj.weight"))
            weight.normal_(0, 0.05 if "embed" in name else 0.008 if writes else 0.02)
    model.lm_head.weight.copy_(model.model.embed_tokens.weight)


def _lay_induction(model: LlamaForCausalLM, *, head_width: int, width: int) -> None:
    before, after = (model.model.layers[number].self_attn for number in (0, 1))
    half = head_width // 2
    angles = _THETA ** (-torch.arange(half) / half)  # rotary angle a position of each pair of components
    slow = [*range(half // 2, half), *range(half + half // 2, head_width)]  # components that hardly turn over a context
    basis: Tensor = torch.linalg.qr(torch.randn(width, width))[0]
    for head in range(_COPYING_HEADS):
        rows = slice(head * head_width, (head + 1) * head_width)
        seen = basis[rows]
        kept = basis[_COPYING_HEADS * head_width :][rows].T  # where the previous token is written: apart from ``seen``
        strength = 6.0  # the previous token gets 0.97 of the attention
        before.q_proj.weight[rows] = 0
        before.k_proj.weight[rows] = 0
        before.q_proj.bias[rows] = torch.cat([torch.full((half,), strength), torch.zeros(half)])
        before.k_proj.bias[rows] = strength * torch.cat([angles.cos(), angles.sin()])  # turned by one position
        before.v_proj.weight[rows] = seen
        before.o_proj.weight[:, rows] = kept * 0.1
        after.q_proj.weight[rows] *= 0.1
        after.k_proj.weight[rows] *= 0.1
        for number, component in enumerate(slow):
            after.q_proj.weight[head * head_width + component] = seen[number] * 1.7
            after.k_proj.weight[head * head_width + component] = kept[:, number] * 2.4
        copied: Tensor = torch.linalg.qr(torch.randn(width, width))[0][:head_width]
        after.v_proj.weight[rows] = copied
        after.o_proj.weight[:, rows] = copied.T * 0.4
