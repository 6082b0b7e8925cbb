"""oneDNN's multiplication gives torch's value and gradient, and is used where it pays."""

import copy

import pytest
import torch
from torch import nn

from agentic_r.contrastive.linear import OneDnnLinear, is_quicker_here, use_onednn

WIDE, NARROW = 384, 32


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


@pytest.mark.parametrize("shape", [(1, 300, WIDE), (300, WIDE), (2, 150, WIDE), (1, 5, WIDE)])
def test_value_and_gradients_are_those_of_torch(layer, shape):
    torch.manual_seed(2)
    given = torch.randn(shape)
    for ours, expected in zip(steps(OneDnnLinear(layer), given), steps(layer, given), strict=True):
        assert ours.shape == expected.shape
        torch.testing.assert_close(ours, expected, atol=2e-4, rtol=1e-4)  # sums of up to 768 float32 in another order


def test_layers_that_read_the_same_input_keep_it_once(layer):
    given = torch.randn(1, 300, WIDE, requires_grad=True)
    kept: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda one: kept.append(one) or one, lambda one: one):
        OneDnnLinear(layer)(given), OneDnnLinear(layer)(given)
    assert {one.data_ptr() for one in kept} == {given.data_ptr(), layer.weight.data_ptr()}


def test_a_frozen_layer_passes_the_gradient_on(layer):
    layer.requires_grad_(False)
    given = torch.randn(300, WIDE, requires_grad=True)
    OneDnnLinear(layer)(given).sum().backward()
    torch.testing.assert_close(given.grad, layer.weight.sum(0).expand(300, WIDE), atol=1e-4, rtol=1e-4)


def test_other_types_are_torchs_business(layer):
    given = torch.randn(300, WIDE)
    double = copy.deepcopy(layer).double()
    assert torch.equal(OneDnnLinear(double)(given.double()), double(given.double()))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(OneDnnLinear(layer)(given), layer(given))


def test_only_wide_layers_are_replaced_and_parameters_stay_the_same_objects(layer):
    model = nn.Sequential(layer, nn.ModuleList([nn.Linear(NARROW, WIDE), nn.Linear(WIDE, WIDE, bias=False)]))
    names = {name: id(one) for name, one in model.named_parameters()}
    use_onednn(model)
    assert [type(one) for one in (model[0], *model[1])] == [OneDnnLinear, nn.Linear, OneDnnLinear]
    assert {name: id(one) for name, one in model.named_parameters()} == names


@pytest.mark.parametrize(
    ("vendor", "capability", "expected"),
    [("AuthenticAMD", "AVX512", True), ("AuthenticAMD", "AVX2", False), ("GenuineIntel", "AVX512", False)],
)
def test_it_is_for_amd_with_avx512(tmp_path, vendor, capability, expected):
    file = tmp_path / "cpuinfo"
    file.write_text(f"processor\t: 0\nvendor_id\t: {vendor}\n")
    assert is_quicker_here(file, capability=capability) is expected
    assert is_quicker_here(tmp_path / "none", capability=capability) is False
