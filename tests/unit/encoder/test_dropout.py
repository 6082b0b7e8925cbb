"""Quick dropout is dropout: its share goes, the rest grows, nothing happens outside training."""

import pytest
import torch
from torch import nn

from agentic_r.encoder.dropout import QuickDropout, draw_kept, use_quick_dropout

COUNT = 100_000


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999999])
def test_elements_go_with_the_given_probability(share):
    torch.manual_seed(0)
    kept = draw_kept(torch.Size((COUNT,)), share)
    deviation = (share * (1 - share) / COUNT) ** 0.5 + 2**-16 / 5  # of 65,536 levels one stays at least
    assert abs(1 - kept.float().mean() - share) <= 5 * deviation
    for lane in range(4):  # four elements share a word of 64 bits
        assert abs(1 - kept[lane::4].float().mean() - share) <= 10 * deviation
    assert abs((kept[:-1] & kept[1:]).float().mean() - (1 - share) ** 2) <= 5 * deviation + 1e-9  # neighbours


@pytest.mark.parametrize("shape", [(0,), (1,), (3,), (2, 3, 5)])
def test_any_shape_is_drawn(shape):
    assert draw_kept(torch.Size(shape), 0.5).shape == shape


def test_value_and_gradient_are_zero_or_grown():
    torch.manual_seed(0)
    given = torch.rand(50, 40).add_(1).requires_grad_()
    dropped = QuickDropout(0.2)(given)
    is_kept = dropped != 0
    torch.testing.assert_close(dropped, given / 0.8 * is_kept)
    (gradient,) = torch.autograd.grad(dropped.sum(), given)
    torch.testing.assert_close(gradient, is_kept / 0.8)


def test_outside_training_nothing_is_dropped():
    given = torch.rand(5)
    assert QuickDropout(0.5).eval()(given) is given


def test_every_plain_dropout_of_a_model_is_replaced_and_keeps_its_mode():
    class Other(nn.Dropout):
        pass

    model = nn.Sequential(nn.Dropout(0.3), nn.Sequential(nn.Dropout(0.1), Other(0.2), nn.Dropout(1.0)))
    model[1].eval()
    use_quick_dropout(model)
    assert [type(one) for one in (model[0], *model[1])] == [QuickDropout, QuickDropout, Other, nn.Dropout]
    assert (model[0].p, model[1][0].p) == (0.3, 0.1)
    assert (model[0].training, model[1][0].training) == (True, False)
