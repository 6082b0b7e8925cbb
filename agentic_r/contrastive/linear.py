"""Linear layers by oneDNN, on machines where torch's usual library for float32 is slow.

Torch multiplies float32 matrices on x86 by MKL, which leaves half the speed of an AMD processor with AVX-512 unused;
oneDNN, which comes with torch, does not (docs/log.md). The value is the same but for the order of its sums. Owns the
layer, and the choice of machines and sizes for which it pays.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction, FunctionCtx
from torch.nn import functional

__all__ = ["OneDnnLinear", "is_quicker_here", "use_onednn"]

_MIN_WIDTH, _MIN_ROWS = 384, 256  # measured: from here on it is quicker, forward and backward
_CPU_FILE = Path("/proc/cpuinfo")


class OneDnnLinear(nn.Linear):
    """A linear layer with the parameters of another; torch's own multiplication where oneDNN does not pay."""

    def __init__(self, other: nn.Linear) -> None:
        """Share the other layer's parameters."""
        super().__init__(other.in_features, other.out_features, bias=other.bias is not None, device="meta")
        self.weight, self.bias = other.weight, other.bias
        self.train(other.training)

    def forward(self, given: Tensor) -> Tensor:
        """Return what ``nn.Linear`` returns."""
        is_float32 = given.dtype is torch.float32 is self.weight.dtype and not torch.is_autocast_enabled("cpu")
        if not is_float32 or given.numel() < _MIN_ROWS * self.in_features:
            return super().forward(given)
        vectors: Tensor = _Multiplication.apply(given, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return vectors


class _Multiplication(torch.autograd.Function):
    """By oneDNN both ways, keeping the input as it was given: layers that read the same input share it."""

    @staticmethod
    def forward(ctx: FunctionCtx, given: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(given, weight)
        return functional.linear(given.to_mkldnn(), weight, bias).to_dense()

    @staticmethod
    def backward(ctx: BackwardCFunction, gradient: Tensor) -> tuple[Tensor | None, ...]:
        kept: Sequence[Tensor] = ctx.saved_tensors
        given, weight = kept
        found = torch.ops.aten.mkldnn_linear_backward(
            given.to_mkldnn(), gradient.contiguous().to_mkldnn(), weight, list(ctx.needs_input_grad)
        )
        needed = zip(found, ctx.needs_input_grad, strict=True)
        return tuple((one.to_dense() if one.is_mkldnn else one) if is_needed else None for one, is_needed in needed)


def use_onednn(model: nn.Module) -> None:
    """Put ``OneDnnLinear`` in the place of every wide linear layer of a model on CPU."""
    for parent in [*model.modules()]:
        for name, child in parent.named_children():
            if type(child) is nn.Linear and min(child.in_features, child.out_features) >= _MIN_WIDTH:
                setattr(parent, name, OneDnnLinear(child))


def is_quicker_here(cpu_file: Path = _CPU_FILE, *, capability: str | None = None) -> bool:
    """Say whether this machine is an AMD processor with AVX-512.

    Args:
        cpu_file: Where Linux describes the processor; without it the answer is no.
        capability: What torch found; asked of it by default.
    """
    if (capability or torch.backends.cpu.get_cpu_capability()) != "AVX512" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    return cpu_file.exists() and "AuthenticAMD" in cpu_file.read_text(encoding="utf-8", errors="replace")
