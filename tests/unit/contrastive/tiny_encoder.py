"""A BERT of width 32 with a vocabulary of whole words, made in memory in milliseconds."""

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.transformer import Transformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.settings import EncoderSettings
from agentic_r.quiet import quiet_transformers

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def tiny_encoder(words, *, folder, seed=0, dropout=0.1, width=32, layers=1, lengths=(24, 32)) -> BiEncoder:
    """Write a random BERT and its tokenizer to ``folder`` and wrap it; the same arguments give the same weights."""
    vocabulary = {word: row for row, word in enumerate([*SPECIAL, ":", *sorted({word.lower() for word in words})])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=backend, mask_token="[MASK]", **names).save_pretrained(folder)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=4 * width,
        max_position_embeddings=max(lengths),
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    with quiet_transformers():
        BertModel(config, add_pooling_layer=False).save_pretrained(folder)
        backbone = Transformer(str(folder), model_kwargs={"add_pooling_layer": False})
    pooling = Pooling(backbone.get_embedding_dimension(), pooling_mode="mean")
    settings = EncoderSettings(
        query_prefix="query: ",
        passage_prefix="passage: ",
        query_format="question_query",
        max_query_tokens=lengths[0],
        max_passage_tokens=lengths[1],
        separator="[SEP]",
        dtype="float32",
    )
    return BiEncoder(SentenceTransformer(modules=[backbone, pooling, Normalize()], device="cpu"), settings)
