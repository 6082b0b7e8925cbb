"""The loss against numbers worked out by hand and against a plain loop."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from agentic_r.contrastive.loss import Identities, info_nce, masked_columns, masked_cross_entropy


def identities(positive, rows, columns, texts=None) -> Identities:
    """Ids are their own text hashes unless ``texts`` gives the columns' (rows look theirs up)."""
    column_texts = columns if texts is None else texts
    text_of = dict(zip(columns, column_texts, strict=True))
    return Identities(
        positive_B=torch.tensor(positive),
        row_ids_BK=torch.tensor(rows),
        row_texts_BK=torch.tensor([[text_of.get(name, name) for name in row] for row in rows]),
        column_ids_P=torch.tensor(columns),
        column_texts_P=torch.tensor(column_texts),
    )


def plain_loss(queries: Tensor, passages: Tensor, who: Identities, temperature: float) -> tuple[Tensor, int]:
    """One row and one column at a time; a row without negatives is left out."""
    losses = []
    for row in range(len(queries)):
        own = int(who.positive_B[row])
        terms = []
        for column in range(len(passages)):
            same_id = int(who.column_ids_P[column]) in who.row_ids_BK[row].tolist()
            same_text = int(who.column_texts_P[column]) in who.row_texts_BK[row].tolist()
            if column == own or not (same_id or same_text):
                cosine = torch.dot(queries[row], passages[column]) / (queries[row].norm() * passages[column].norm())
                terms.append((column, cosine / temperature))
        if len(terms) > 1:
            values = torch.stack([value for _, value in terms])
            own_value = next(value for column, value in terms if column == own)
            top = values.max().detach()
            losses.append(torch.log(torch.exp(values - top).sum()) + top - own_value)
    return torch.stack(losses).mean(), len(queries) - len(losses)


H11 = identities([0, 1], [[7], [7]], [7, 7, 9])
H11_LOGITS = torch.tensor([[2.0, 2.0, 0.0], [1.0, 1.0, 0.0]])


def test_h11_the_other_rows_copy_of_a_shared_positive_is_masked_by_identity():
    row_losses = masked_cross_entropy(H11_LOGITS, H11.positive_B, masked_columns(H11))
    # row 1: log(e^2 + e^0) - 2 = log(1 + e^-2) = 0.126928; row 2: log(1 + e^-1) = 0.313262
    assert row_losses.tolist() == pytest.approx([0.126928, 0.313262], abs=1e-6)
    assert float(row_losses.mean()) == pytest.approx(0.220095, abs=1e-6)


def test_h11_without_masking_the_loss_would_be_another():
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    assert float(masked_cross_entropy(H11_LOGITS, H11.positive_B, nothing).mean()) == pytest.approx(0.810309, abs=1e-6)


def test_h11_each_row_keeps_its_own_copy():
    assert masked_columns(H11).tolist() == [[False, True, False], [True, False, False]]


def test_h11_copies_that_differ_by_dropout_noise_are_masked_all_the_same():
    # unit vectors in the plane; the two copies of d1 lie 0.1 rad apart
    queries = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    copies = torch.tensor([[1.0, 0.0], [math.cos(0.1), math.sin(0.1)], [0.0, 1.0]])
    result = info_nce(queries, copies, identities=H11, temperature=0.5)
    # row 1 sees cos 1 against 0, row 2 sees cos(0.1) against 0
    expected = [math.log1p(math.exp(-2.0)), math.log1p(math.exp(-2.0 * math.cos(0.1)))]
    assert result.row_losses_B.tolist() == pytest.approx(expected, abs=1e-6)


def test_h11_columns_gathered_from_two_ranks_give_the_loss_of_one_process():
    generator = torch.Generator().manual_seed(0)
    queries, passages = torch.randn(2, 4, generator=generator), torch.randn(3, 4, generator=generator)
    whole = info_nce(queries, passages, identities=H11, temperature=0.1)
    rows = []
    for rank in range(2):  # each rank holds one row and meets the gathered columns in the same order
        local = Identities(
            positive_B=H11.positive_B[rank : rank + 1],
            row_ids_BK=H11.row_ids_BK[rank : rank + 1],
            row_texts_BK=H11.row_texts_BK[rank : rank + 1],
            column_ids_P=H11.column_ids_P,
            column_texts_P=H11.column_texts_P,
        )
        rows.append(info_nce(queries[rank : rank + 1], passages, identities=local, temperature=0.1).loss)
    assert float(torch.stack(rows).mean()) == pytest.approx(float(whole.loss), abs=1e-6)


def test_a_column_with_the_text_of_a_positive_is_masked_under_any_id():
    who = identities([0], [[1]], [1, 2, 3], texts=[50, 50, 60])
    assert masked_columns(who).tolist() == [[False, True, False]]


def test_another_positive_of_the_query_is_no_negative():
    who = identities([0], [[1, 4]], [1, 4, 3])
    assert masked_columns(who).tolist() == [[False, True, False]]


def test_h12_a_row_without_negatives_is_left_out_of_the_mean_and_counted():
    queries = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    passages = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    who = identities([0, 0], [[1, 2], [1, 1]], [1, 2])  # row 1: both columns are its positives
    result = info_nce(queries, passages, identities=who, temperature=1.0)
    # row 2: cosines 0 (own) and 0.8: log(1 + e^0.8) = 1.171101, alone in the mean
    assert float(result.loss) == pytest.approx(1.171101, abs=1e-6)
    assert result.num_rows_without_negatives == 1
    assert result.counted_B.tolist() == [False, True]
    assert float(result.positive_similarity) == pytest.approx(0.0, abs=1e-6)
    assert float(result.negative_similarity) == pytest.approx(0.8, abs=1e-6)


def test_h12_a_step_without_any_negative_is_an_error():
    who = identities([0], [[1]], [1])
    with pytest.raises(ValueError, match="no row of this step has an unmasked negative"):
        info_nce(torch.ones(1, 2), torch.ones(1, 2), identities=who, temperature=0.01)


def test_rows_left_out_receive_no_gradient():
    queries = torch.tensor([[1.0, 0.2], [0.3, 1.0]], requires_grad=True)
    passages = torch.tensor([[1.0, 0.0], [0.6, 0.8]], requires_grad=True)
    who = identities([0, 0], [[1, 2], [1, 1]], [1, 2])
    info_nce(queries, passages, identities=who, temperature=0.1).loss.backward()
    assert queries.grad is not None
    assert queries.grad[0].tolist() == [0.0, 0.0]
    assert float(queries.grad[1].abs().sum()) > 0
    assert passages.grad is not None
    assert bool(torch.isfinite(passages.grad).all())


def test_similarities_are_computed_in_float32_under_bfloat16_autocast():
    generator = torch.Generator().manual_seed(1)
    # cosines packed near 1, as in E5 encoders, where bfloat16 would be off by more than 0.1 at temperature 0.01
    queries = torch.ones(4, 64) + 0.3 * torch.randn(4, 64, generator=generator)
    passages = torch.ones(8, 64) + 0.3 * torch.randn(8, 64, generator=generator)
    who = identities([0, 1, 2, 3], [[0], [1], [2], [3]], list(range(8)))
    plain = info_nce(queries, passages, identities=who, temperature=0.01)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        autocast = info_nce(queries, passages, identities=who, temperature=0.01)
    assert autocast.loss.dtype == torch.float32
    assert float(autocast.loss) == float(plain.loss)


def test_the_length_of_vectors_does_not_matter():
    generator = torch.Generator().manual_seed(2)
    queries, passages = torch.randn(3, 5, generator=generator), torch.randn(6, 5, generator=generator)
    who = identities([0, 2, 4], [[0], [2], [4]], list(range(6)))
    one = info_nce(queries, passages, identities=who, temperature=0.05).loss
    other = info_nce(queries * 7.0, passages * 0.01, identities=who, temperature=0.05).loss
    assert float(one) == pytest.approx(float(other), rel=1e-4)


@st.composite
def steps(draw: st.DrawFn) -> tuple[Identities, int]:
    num_columns = draw(st.integers(2, 7))
    num_rows = draw(st.integers(1, 5))
    columns = draw(st.lists(st.integers(0, 9), min_size=num_columns, max_size=num_columns))
    texts_of = {name: draw(st.integers(100, 104)) for name in range(10)}
    positive = [draw(st.integers(0, num_columns - 1)) for _ in range(num_rows)]
    rows = [[columns[own], draw(st.sampled_from([columns[own], *range(10)]))] for own in positive]
    who = Identities(
        positive_B=torch.tensor(positive),
        row_ids_BK=torch.tensor(rows),
        row_texts_BK=torch.tensor([[texts_of[name] for name in row] for row in rows]),
        column_ids_P=torch.tensor(columns),
        column_texts_P=torch.tensor([texts_of[name] for name in columns]),
    )
    return who, draw(st.integers(0, 1000))


@settings(deadline=None, max_examples=100)
@given(steps())
def test_value_and_gradient_equal_those_of_a_plain_loop(step: tuple[Identities, int]):
    who, seed = step
    generator = torch.Generator().manual_seed(seed)
    queries = torch.randn(len(who.positive_B), 3, generator=generator).requires_grad_()
    passages = torch.randn(len(who.column_ids_P), 3, generator=generator).requires_grad_()
    try:
        result = info_nce(queries, passages, identities=who, temperature=0.2)
    except ValueError:
        with pytest.raises(RuntimeError, match="non-empty"):
            plain_loss(queries, passages, who, 0.2)
        return
    expected, left_out = plain_loss(queries, passages, who, 0.2)
    assert result.num_rows_without_negatives == left_out
    torch.testing.assert_close(result.loss, expected, atol=1e-5, rtol=1e-5)
    ours = torch.autograd.grad(result.loss, (queries, passages), retain_graph=True)
    theirs = torch.autograd.grad(expected, (queries, passages))
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-4, rtol=1e-4)
