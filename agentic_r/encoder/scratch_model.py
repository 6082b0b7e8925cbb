"""A small BERT that knows nothing yet, with a tokenizer learned from the corpus.

Owns the architecture and vocabulary of an encoder made from scratch; its training is ``scratch.py``'s.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.transformer import Transformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from agentic_r.artifacts.fingerprint import generator_seed
from agentic_r.config import ScratchEncoder
from agentic_r.quiet import quiet_transformers

__all__ = ["new_model"]

_PAD, _UNKNOWN, _START, _SEPARATOR, _MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
_FEED_FORWARD_RATIO = 4  # as in BERT


def new_model(config: ScratchEncoder, texts: Iterable[str], folder: Path, *, seed: int) -> SentenceTransformer:
    """Make an untrained model (mean pooling, unit norm).

    Args:
        config: Sizes and lengths.
        texts: What the vocabulary is learned from.
        folder: Working folder for the two parts that sentence-transformers reads from disk.
        seed: Seed of the weights.
    """
    texts = list(texts)
    tokenizer = _learn_tokenizer(texts, config)
    bert = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=config.width,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        intermediate_size=_FEED_FORWARD_RATIO * config.width,
        max_position_embeddings=max(config.max_query_tokens, config.max_passage_tokens),
        hidden_dropout_prob=0.0,  # words are dropped instead
        attention_probs_dropout_prob=0.0,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]), quiet_transformers():
        torch.manual_seed(generator_seed(seed, "scratch encoder", "weights"))
        encoder = BertModel(bert, add_pooling_layer=False)
        _weigh_words_by_rarity(encoder, _rarity(tokenizer, texts))
        encoder.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        transformer = Transformer(str(folder), model_kwargs={"add_pooling_layer": False})
    return SentenceTransformer(modules=[transformer, Pooling(config.width, pooling_mode="mean"), Normalize()])


def _rarity(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]) -> Tensor:
    """Inverse document frequency of each piece, 0 (in every text) to 1 (in one); 0.5 for pieces in none."""
    counts: Counter[int] = Counter()
    for ids in tokenizer(list(texts)).input_ids:
        counts.update(set(ids))
    scale = math.log(max(len(texts), 2))
    rarities = [
        math.log(len(texts) / counts[piece]) / scale if counts[piece] else 0.5 for piece in range(len(tokenizer))
    ]
    return torch.tensor(rarities).clamp(0, 1)


@torch.no_grad()
def _weigh_words_by_rarity(encoder: BertModel, rarity_V: Tensor) -> None:
    """Start from random directions weighted by rarity, so that mean pooling matches rare words from the first step.

    Each embedding is rarity * (its own random direction) + sqrt(1 - rarity^2) * (one direction common to all): the
    embedding layer's normalisation gives all words one length, and frequent ones then say nothing apart. With weights
    drawn at random as in BERT, hundreds of steps of inverse cloze stay far behind this start (recall@5 on the tiny
    world 0.16 against 0.46). Our choice.
    """
    words_VD = encoder.embeddings.word_embeddings.weight
    own_VD, common_D = torch.randn_like(words_VD), torch.randn(words_VD.shape[1])
    rarity_V1 = rarity_V[:, None]
    words_VD.copy_(rarity_V1 * own_VD + (1 - rarity_V1**2).sqrt() * common_D)
    encoder.embeddings.token_type_embeddings.weight.zero_()


def _learn_tokenizer(texts: Iterable[str], config: ScratchEncoder) -> PreTrainedTokenizerFast:
    """Learn lower-case pieces: frequent words whole, rare names in pieces that other names share.

    Byte-pair merges inside words, since tokenizers learns those the same way every time (its WordPiece
    trainer numbers the pieces differently in every process).
    """
    tokenizer = Tokenizer(models.BPE(unk_token=_UNKNOWN))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocabulary,
        special_tokens=[_PAD, _UNKNOWN, _START, _SEPARATOR, _MASK],
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{_START} $A {_SEPARATOR}",
        pair=f"{_START} $A {_SEPARATOR} $B:1 {_SEPARATOR}:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (_START, _SEPARATOR)],
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=_PAD,
        unk_token=_UNKNOWN,
        cls_token=_START,
        sep_token=_SEPARATOR,
        mask_token=_MASK,
        model_max_length=max(config.max_query_tokens, config.max_passage_tokens),
        padding_side="right",
    )
