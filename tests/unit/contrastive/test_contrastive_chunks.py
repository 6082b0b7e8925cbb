"""Chunks, packed or padded, kept or computed again: always the vectors and gradients of one plain pass."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_encoder import tiny_encoder

from agentic_r.contrastive.chunks import ChunkedEncoder, ChunkLimits, cut_chunks, join_features, keep_within
from agentic_r.contrastive.loss import Identities, info_nce
from agentic_r.encoder.packing import pack
from agentic_r.types import Passage, QueryText

WORDS = [f"w{number}" for number in range(60)]
QUERIES = [QueryText(f"w{number} w2", "w4") for number in range(3)]
PASSAGES = [
    Passage(f"p{number}", "d", "", " ".join(WORDS[number : 2 * number + 3])) for number in (9, 1, 4, 7, 2, 5, 3)
]
WHO = Identities(
    positive_B=torch.tensor([0, 1, 2]),
    row_ids_BK=torch.tensor([[0], [1], [2]]),
    row_texts_BK=torch.tensor([[0], [1], [2]]),
    column_ids_P=torch.arange(7),
    column_texts_P=torch.arange(7),
)
ALL = 2**40
# What one text of n tokens keeps, by estimate: 1 layer x 4 bytes x (20 x 32 units + 3 x 4 heads x n) a token
KEPT_BY_6 = 6 * 4 * (20 * 32 + 12 * 6)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return tiny_encoder([*WORDS, "query", "passage"], folder=tmp_path_factory.mktemp("base"), layers=2)


def features(encoder):
    return join_features(encoder.query_features(QUERIES), encoder.passage_features(PASSAGES))


def loss_and_gradients(model, vectors):
    model.zero_grad()
    loss = info_nce(vectors[:3], vectors[3:], identities=WHO, temperature=0.05).loss
    loss.backward()
    gradients = {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
    model.zero_grad()
    return loss.detach(), gradients


@pytest.mark.parametrize("unpadded", [True, False])
@pytest.mark.parametrize(
    ("texts", "activation_bytes"),
    [(100, ALL), (2, ALL), (2, 0), (3, 12 * KEPT_BY_6)],
    ids=["one", "kept", "twice", "part"],
)
def test_value_and_gradient_equal_the_plain_step_to_1e_6_in_float64(tmp_path, texts, activation_bytes, unpadded):
    encoder = tiny_encoder([*WORDS, "query", "passage"], folder=tmp_path, layers=2)
    model = encoder.model.double().eval()
    given = features(encoder)
    plain = loss_and_gradients(model, model(dict(given))["sentence_embedding"])
    module = ChunkedEncoder(model, ChunkLimits(texts, activation_bytes), unpadded=unpadded)
    assert module.is_unpadded is unpadded
    loss, gradients = loss_and_gradients(model, module(given))
    assert loss.dtype == torch.float64
    assert float(loss) == pytest.approx(float(plain[0]), abs=1e-9)
    assert gradients.keys() == plain[1].keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, plain[1][name], atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize("unpadded", [True, False])
def test_dropout_is_replayed_when_chunks_are_computed_twice(encoder, unpadded):
    found = []
    for activation_bytes in (ALL, 0):
        torch.manual_seed(3)
        module = ChunkedEncoder(encoder.model, ChunkLimits(1, activation_bytes), unpadded=unpadded).train()
        found.append(loss_and_gradients(module, module(features(encoder))))
    assert float(found[0][0]) == float(found[1][0])
    for name, gradient in found[0][1].items():
        torch.testing.assert_close(found[1][1][name], gradient, atol=1e-6, rtol=1e-5)


def test_what_does_not_fit_the_budget_alone_is_computed_twice(encoder):
    """Ten chunks of one text; the longest come last, and of those only one fits: the other nine are computed twice."""
    short = [Passage(f"s{number}", "d", "", "w1 w2") for number in range(4)]
    given = join_features(encoder.passage_features(PASSAGES[:1] * 6), encoder.passage_features(short))
    passes = []
    module = ChunkedEncoder(encoder.model, ChunkLimits(1, 2 * 4 * KEPT_BY_6)).eval()
    hook = encoder.model.register_forward_pre_hook(lambda model, inputs: passes.append(inputs))
    module(given).sum().backward()
    hook.remove()
    encoder.model.zero_grad()
    assert len(passes) == 10 + 9


def test_packed_texts_hold_no_padding_and_start_their_positions_anew():
    mask = torch.tensor([[1, 1, 0], [0, 1, 1], [1, 1, 1]])
    numbered = {"input_ids": torch.arange(9).reshape(3, 3), "attention_mask": mask}
    packed = pack(numbered, first_position=2, words_WD=10.0 * torch.arange(9)[:, None])
    assert packed["inputs_embeds"].squeeze().tolist() == [0, 10, 40, 50, 60, 70, 80]
    assert pack(numbered, first_position=2)["input_ids"].tolist() == [[0, 1, 4, 5, 6, 7, 8]]
    assert packed["position_ids"].tolist() == [[2, 3, 2, 3, 2, 3, 4]]
    assert packed["cu_seq_lens_q"].tolist() == [0, 2, 4, 7]


def test_the_attention_for_packed_texts_does_not_reach_the_saved_model(encoder, tmp_path):
    ChunkedEncoder(encoder.model, ChunkLimits(2, ALL))
    encoder.save(tmp_path)
    assert not any("agentic_r_packed" in file.read_text() for file in tmp_path.rglob("*.json"))


def test_chunks_are_sorted_by_length_and_no_wider_than_needed():
    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]])
    order, chunks = cut_chunks({"input_ids": mask * 5, "attention_mask": mask}, fits=lambda rows, width: rows <= 2)
    assert order.tolist() == [1, 0, 2]
    assert [chunk["input_ids"].tolist() for chunk in chunks] == [[[5, 5, 5, 5], [5, 5, 0, 0]], [[5]]]


def test_padding_on_the_left_is_cut_too():
    mask = torch.tensor([[0, 0, 1, 1], [0, 0, 0, 1]])
    _, chunks = cut_chunks({"input_ids": mask * 5, "attention_mask": mask}, fits=lambda rows, width: True)
    assert chunks[0]["input_ids"].tolist() == [[5, 5], [0, 5]]


def test_batches_are_joined_with_their_padding_on_the_side_on_which_it_was():
    narrow = {"input_ids": torch.tensor([[7]]), "attention_mask": torch.tensor([[1]])}
    for wide, joined in (([1, 1, 0], [1, 0, 0]), ([0, 1, 1], [0, 0, 1])):
        other = {"input_ids": torch.tensor([[8, 8, 8]]), "attention_mask": torch.tensor([wide])}
        assert join_features(narrow, other)["attention_mask"].tolist() == [joined, wide]


@settings(deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.integers(1, 6), st.integers(1, 30))
def test_chunks_hold_every_row_once_within_the_budget(lengths, texts, max_tokens):
    ids = torch.tensor([[row + 1] * length + [0] * (9 - length) for row, length in enumerate(lengths)])
    order, chunks = cut_chunks(
        {"input_ids": ids, "attention_mask": (ids > 0).long()},
        fits=lambda rows, width: rows <= texts and rows * width <= max_tokens,
    )
    assert [int(row[0]) - 1 for chunk in chunks for row in chunk["input_ids"]] == order.tolist()
    assert sorted(order.tolist()) == list(range(len(lengths)))
    for chunk in chunks:
        rows, width = chunk["input_ids"].shape
        assert rows == 1 or (rows <= texts and rows * width <= max_tokens)


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), max_size=12), st.integers(0, 60))
def test_as_many_of_the_last_chunks_are_kept_as_fit(sizes, limit):
    count = keep_within(sizes, limit)
    assert sum(sizes[len(sizes) - count :]) <= limit
    assert count == len(sizes) or sum(sizes[len(sizes) - count - 1 :]) > limit
