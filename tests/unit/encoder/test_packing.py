"""Texts go through a model without padding, unless its layers see less than a whole text: vectors stay the same."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.transformer import Transformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from torch import nn
from transformers import ModernBertConfig, ModernBertModel, PreTrainedModel, RobertaConfig, RobertaModel

from agentic_r.contrastive.chunks import ChunkedEncoder, ChunkLimits
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.packing import _attend, enable_packing, number_words
from agentic_r.types import Passage, QueryText

WORDS = ("the quick brown fox jumps over the lazy dog and runs to the river " * 5).split()[:60]
LIMITS = ChunkLimits(texts=4, activation_bytes=2**29, keeps_layers=True)


SHAPE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 128,
    "initializer_range": 0.5,
}


@pytest.fixture
def encoder_of(make_encoder, tmp_path) -> Callable[..., BiEncoder]:
    """Make an encoder of 96 tokens around another backbone, with a BERT's tokenizer."""

    def make(backbone: Callable[[int], PreTrainedModel], **settings: object) -> BiEncoder:
        bert, folder = make_encoder(), tmp_path / "backbone"
        torch.manual_seed(0)
        bert.model.tokenizer.save_pretrained(folder)
        backbone(len(bert.model.tokenizer)).save_pretrained(folder)
        loaded = Transformer(str(folder), **settings)
        pooling = Pooling(loaded.get_embedding_dimension(), pooling_mode="mean")
        lengths = bert.settings.model_copy(update={"max_query_tokens": 96, "max_passage_tokens": 96})
        return BiEncoder(SentenceTransformer(modules=[loaded, pooling, Normalize()], device="cpu"), lengths)

    return make


@pytest.fixture
def local_encoder(encoder_of) -> BiEncoder:
    """A ModernBERT whose second layer sees 8 tokens to each side."""

    def backbone(vocabulary: int) -> ModernBertModel:
        ends = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
        config = ModernBertConfig(
            vocab_size=vocabulary, global_attn_every_n_layers=2, local_attention=16, **ends, **SHAPE
        )
        return ModernBertModel(config)

    return encoder_of(backbone, model_kwargs={"attn_implementation": "sdpa"})


@pytest.fixture
def roberta(encoder_of) -> BiEncoder:
    """A RoBERTa, whose first position has the number after the padding token's."""

    def backbone(vocabulary: int) -> RobertaModel:
        return RobertaModel(RobertaConfig(vocab_size=vocabulary, pad_token_id=0, **SHAPE), add_pooling_layer=False)

    return encoder_of(backbone)


def test_a_model_with_local_attention_is_given_padded_texts_and_keeps_its_vectors(local_encoder):
    texts = [" ".join(WORDS[(start + 7 * place) % 60] for place in range(90)) for start in range(3)]
    passages = [Passage(str(row), "d", "", text) for row, text in enumerate(texts)]
    local_encoder.model.eval()
    with torch.no_grad():
        plain = ChunkedEncoder(local_encoder.model, LIMITS, unpadded=False)(local_encoder.passage_features(passages))
        chunked = ChunkedEncoder(local_encoder.model, LIMITS, unpadded=True)(local_encoder.passage_features(passages))
    torch.testing.assert_close(chunked, plain, atol=1e-5, rtol=0)
    assert enable_packing(local_encoder.model) is None


def test_a_model_whose_layers_see_whole_texts_is_packed(encoder, roberta):
    assert enable_packing(encoder.model) == 0
    assert enable_packing(roberta.model) == roberta.model.tokenizer.pad_token_id + 1


def test_positions_that_start_elsewhere_keep_the_vectors(roberta):
    passages = [Passage(str(row), "d", "", " ".join(WORDS[: 2 * row + 1])) for row in range(12)]
    texts = [roberta.format_passage(passage).removeprefix("passage: ") for passage in passages]
    assert np.abs(roberta.encode_passages(passages) - roberta.model.encode_document(texts)).max() < 1e-6


def test_encoding_gives_a_model_the_real_tokens_only(make_encoder):
    bert = make_encoder()
    seen: list[torch.Size] = []
    bert.model[0].register_forward_pre_hook(lambda _, given: seen.append(given[0]["input_ids"].shape))
    queries = [QueryText(text) for text in ("the", "the quick brown fox jumps", "dog")]
    bert.encode_queries(queries)
    assert seen == [(1, int(bert.query_features(queries)["attention_mask"].sum()))]


@pytest.mark.parametrize("name", ["sliding_window", "softcap"])
def test_a_layer_that_hands_over_a_window_or_a_cap_is_refused_whatever_its_config_says(name):
    one_1H5E = torch.ones(1, 1, 5, 2)
    with pytest.raises(ValueError, match=name):
        _attend(nn.Module(), *[one_1H5E] * 3, None, cu_seq_lens_q=torch.tensor([0, 5]), is_causal=False, **{name: 3})


def test_a_word_that_comes_twice_in_a_step_is_looked_up_once(encoder):
    ids = torch.tensor([[7, 5, 7], [5, 9, 5]])
    numbered, words_WD = number_words(encoder.model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)})
    table = encoder.model.transformers_model.get_input_embeddings().weight
    assert numbered["input_ids"].tolist() == [[1, 0, 1], [0, 2, 0]]
    assert torch.equal(words_WD, table[[5, 7, 9]])


def attended(seed: int, *, dropout: float, values: torch.Tensor | None = None) -> torch.Tensor:
    """Two texts of 200 and 56 tokens, one head of 256 units; by default every value is a unit vector of its own."""
    torch.manual_seed(0)
    query, key = torch.randn(2, 1, 1, 256, 256)
    values = torch.eye(256)[None, None] if values is None else values
    torch.manual_seed(seed)
    borders = torch.tensor([0, 200, 256])
    found, _ = _attend(nn.Module(), query, key, values, None, dropout=dropout, cu_seq_lens_q=borders, is_causal=False)
    return found[0, :, 0]


def test_dropout_leaves_out_its_share_of_attention_weights_and_scales_the_others():
    weights, dropped = attended(0, dropout=0.0), attended(0, dropout=0.25)
    inside = torch.zeros(256, 256, dtype=torch.bool)
    inside[:200, :200] = inside[200:, 200:] = True
    is_kept = dropped[inside] != 0
    assert not dropped[~inside].any()
    torch.testing.assert_close(dropped[inside][is_kept], weights[inside][is_kept] / 0.75)
    assert abs(is_kept.float().mean() - 0.75) < 0.01  # of 43,136 draws: nearly five standard deviations
    of_lane = [is_kept[lane::4].float().mean() for lane in range(4)]  # four draws come from one word of 64 bits
    assert max(abs(share - 0.75) for share in of_lane) < 0.02


def test_the_same_state_of_the_generator_drops_the_same_weights():
    assert torch.equal(attended(3, dropout=0.5), attended(3, dropout=0.5))
    assert not torch.equal(attended(3, dropout=0.5), attended(4, dropout=0.5))


def test_the_gradient_under_dropout_is_that_of_the_weights_that_stay():
    torch.manual_seed(1)
    values = torch.randn(1, 1, 256, 256, requires_grad=True)
    found = attended(5, dropout=0.25, values=values)
    upstream = torch.randn(256, 256)
    (gradient,) = torch.autograd.grad((found * upstream).sum(), values)
    torch.testing.assert_close(gradient[0, 0], attended(5, dropout=0.25).T @ upstream, atol=1e-5, rtol=1e-5)
