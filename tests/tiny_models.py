"""Tiny causal models and tokenizers, made from scratch, for tests that need real ones."""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from agentic_r.llm.tiny import tiny_tokenizer
from agentic_r.llm.transformers_model import TransformersModel

CHAT_TEMPLATE = (
    "{% for message in messages %}<|start|>{{ message.role }}\n{{ message.content }}<|stop|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
_TEXTS = (
    "Find the answer to the question below. Question: where is Paris, and what is new?",
    "The capital of France is Paris. user assistant one two three four five six seven",
)


@cache
def bpe_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE in which our tags are several ordinary tokens, with chat control tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|end|>"]
    )
    tokenizer.train_from_iterator(_TEXTS, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<|end|>",
        eos_token="<|end|>",
        additional_special_tokens=["<|start|>", "<|stop|>"],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def word_tokenizer(words: str) -> PreTrainedTokenizerFast:
    """The tiny agent's kind of tokenizer: a token a word, and one a tag."""
    return tiny_tokenizer(tuple(words.split()))


def random_llama(
    vocabulary: int, *, seed: int = 0, width: int = 16, layers: int = 2, **settings: object
) -> LlamaForCausalLM:
    """A small Llama whose next-token distribution is far from uniform, so that mistakes show."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.3,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
        **settings,
    )
    return LlamaForCausalLM(config).eval()


def chain_llama(vocabulary: int, follows: Mapping[int, int]) -> LlamaForCausalLM:
    """A Llama that says ``follows[token]`` after each token, whatever stood before it."""
    width = vocabulary + -vocabulary % 4
    model = random_llama(vocabulary, width=width, layers=1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight", "lm_head.weight", "embed_tokens.weight")):
                weight.zero_()
        for token in range(vocabulary):
            model.model.embed_tokens.weight[token, token] = 1.0
            model.lm_head.weight[follows.get(token, token), token] = 1.0
    return model


def language_model(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> TransformersModel:
    return TransformersModel(model, tokenizer, fingerprint="test")


def speaking(text: str, tokenizer: PreTrainedTokenizerFast) -> tuple[TransformersModel, list[int]]:
    """A model that says ``text`` after its first token, and that token as a prompt. No token may stand twice."""
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert len(set(ids)) == len(ids), "a chain has one way on from each token"
    follows = dict(pairwise(ids))
    return language_model(chain_llama(len(tokenizer), follows), tokenizer), ids[:1]


def logprobs_of(
    model: LlamaForCausalLM, prompt: Sequence[int], ids: Sequence[int], temperature: float = 1.0
) -> list[float]:
    """Log-probabilities of ``ids`` after ``prompt``, one forward pass, no padding."""
    with torch.no_grad():
        logits_TV = model(input_ids=torch.tensor([[*prompt, *ids]])).logits[0].float() / temperature
    log_TV = logits_TV.log_softmax(-1)
    return [float(log_TV[len(prompt) - 1 + place, token]) for place, token in enumerate(ids)]
