"""oneDNN's multiplication gives torch's value and gradient, and is used where it pays."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from agentic_r.onednn import _Multiplication, is_quicker_here, quick_linear

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs a torch with oneDNN")

WIDE, NARROW = 384, 32


@pytest.fixture(autouse=True)
def quicker(monkeypatch):
    monkeypatch.setattr("agentic_r.onednn.is_quicker_here", lambda: True)


@pytest.fixture
def layer() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(WIDE, 2 * WIDE)


def steps(layer: nn.Module, given: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return value and gradients for an upstream gradient that is the same each time."""
    given = given.detach().clone().requires_grad_()
    value = layer(given)
    torch.manual_seed(1)
    upstream = torch.randn_like(value)
    return value, *torch.autograd.grad(value, (given, *layer.parameters()), upstream)


@pytest.mark.parametrize("shape", [(1, 300, WIDE), (300, WIDE), (2, 150, WIDE)])
@pytest.mark.parametrize("bias", [True, False])
def test_value_and_gradients_are_those_of_torch(shape, bias):
    torch.manual_seed(2)
    layer, given = nn.Linear(WIDE, 2 * WIDE, bias=bias), torch.randn(shape)
    with quick_linear(layer):
        found = steps(layer, given)
        assert type(layer(given.requires_grad_()).grad_fn).__name__ == "_MultiplicationBackward"
    for ours, expected in zip(found, steps(layer, given), strict=True):
        assert ours.shape == expected.shape
        torch.testing.assert_close(ours, expected, atol=2e-4, rtol=1e-4)  # sums of up to 768 float32 in another order


def test_layers_that_read_the_same_input_keep_it_once(layer):
    given = torch.randn(1, 300, WIDE, requires_grad=True)
    kept: list[torch.Tensor] = []
    with (
        quick_linear(layer),
        torch.autograd.graph.saved_tensors_hooks(lambda one: kept.append(one) or one, lambda one: one),
    ):
        layer(given), layer(given)
    assert {one.data_ptr() for one in kept} == {given.data_ptr(), layer.weight.data_ptr()}


def test_a_frozen_layer_passes_the_gradient_on(layer):
    layer.requires_grad_(False)
    given = torch.randn(300, WIDE, requires_grad=True)
    with quick_linear(layer):
        layer(given).sum().backward()
    torch.testing.assert_close(given.grad, layer.weight.sum(0).expand(300, WIDE), atol=1e-4, rtol=1e-4)


def is_by_onednn(layer: nn.Module, given: torch.Tensor) -> bool:
    with quick_linear(layer):
        return type(layer(given).grad_fn).__name__ == _Multiplication.__name__ + "Backward"


def test_without_a_gradient_fewer_rows_pay(layer, monkeypatch):
    num_rows: list[int] = []
    multiply = _Multiplication.apply
    monkeypatch.setattr(
        _Multiplication, "apply", lambda given, *rest: num_rows.append(len(given)) or multiply(given, *rest)
    )
    given = torch.randn(300, WIDE)
    with torch.inference_mode(), quick_linear(layer):
        for rows in (63, 64, 255, 300):
            torch.testing.assert_close(
                layer(given[:rows]), nn.functional.linear(given[:rows], layer.weight, layer.bias)
            )
    assert num_rows == [64, 255, 300]


def test_a_weight_that_stays_is_laid_out_once_and_gives_torchs_value(layer, monkeypatch):
    given, by_torch = torch.randn(1, 300, WIDE), []
    linear = nn.functional.linear
    with quick_linear(layer, weights_stay=True):
        monkeypatch.setattr(nn.functional, "linear", lambda *args: by_torch.append(args[0].shape[-2]) or linear(*args))
        with torch.inference_mode():
            for rows in (1, 7, 8, 9, 64, 65, 300):
                expected = linear(given[:, :rows], layer.weight, layer.bias)
                torch.testing.assert_close(layer(given[:, :rows]), expected, atol=2e-4, rtol=1e-4)
        layer(given).sum().backward()
    assert by_torch == [1, 7, 300]  # by torch: too few rows, and what is given a gradient
    torch.testing.assert_close(layer.weight.grad, given.sum((0, 1)).expand_as(layer.weight), atol=1e-3, rtol=1e-4)
    assert "forward" not in vars(layer)


def test_few_rows_narrow_layers_and_other_types_are_torchs_business(layer):
    given = torch.randn(300, WIDE)
    assert is_by_onednn(layer, given)
    assert not is_by_onednn(layer, given[:255])
    assert not is_by_onednn(nn.Linear(WIDE, NARROW), given)
    assert not is_by_onednn(copy.deepcopy(layer).double(), given.double())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not is_by_onednn(layer, given)


def test_contexts_nest_and_leave_no_trace(layer):
    given = torch.randn(300, WIDE)
    with quick_linear(layer):
        with quick_linear(layer):
            once = layer(given)
        assert torch.equal(layer(given), once)
    assert "forward" not in vars(layer)
    with pytest.raises(ZeroDivisionError), quick_linear(layer):
        raise ZeroDivisionError
    assert "forward" not in vars(layer)


def test_what_is_computed_again_in_the_backward_pass_is_computed_the_same_way(layer):
    given = torch.randn(300, WIDE, requires_grad=True)
    with quick_linear(layer):
        value = checkpoint(layer, given, use_reentrant=False)  # it refuses where the second time keeps other tensors
        (again,) = torch.autograd.grad(value.sum(), given)
        (once,) = torch.autograd.grad(layer(given).sum(), given)
    assert torch.equal(again, once)


def test_only_wide_layers_are_told_and_only_where_it_is_quicker(layer, monkeypatch):
    narrow = nn.Linear(NARROW, WIDE)
    with quick_linear(nn.Sequential(narrow, layer)):
        assert "forward" in vars(layer)
        assert "forward" not in vars(narrow)
    monkeypatch.setattr("agentic_r.onednn.is_quicker_here", lambda: False)
    with quick_linear(layer):
        assert "forward" not in vars(layer)


@pytest.mark.parametrize(
    ("vendor", "capability", "expected"),
    [("AuthenticAMD", "AVX512", True), ("AuthenticAMD", "AVX2", False), ("GenuineIntel", "AVX512", False)],
)
def test_it_is_for_amd_with_avx512(tmp_path, vendor, capability, expected):
    file = tmp_path / "cpuinfo"
    file.write_text(f"processor\t: 0\nvendor_id\t: {vendor}\n")
    assert is_quicker_here(file, capability=capability) is expected
    assert is_quicker_here(tmp_path / "none", capability=capability) is False
