"""Multiplication by oneDNN, on machines where torch's usual library for float32 is slow.

Torch multiplies float32 matrices on x86 by MKL, which leaves half the speed of an AMD processor with AVX-512 unused;
oneDNN, which comes with torch, does not (docs/log.md). The value is the same but for the order of its sums. Owns the
choice of machines, models and sizes for which it pays.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction, FunctionCtx
from torch.nn import functional
from torch.overrides import TorchFunctionMode

__all__ = ["OneDnn", "is_quicker_here", "quick_linear"]

_MIN_WIDTH, _MIN_ROWS = 384, 256  # measured: from here on it is quicker, forward and backward
_ROWS_STEP = 64
_CPU_FILE = Path("/proc/cpuinfo")


def quick_linear(model: nn.Module) -> AbstractContextManager[object]:
    """Return a context in which this thread multiplies by oneDNN, if that is quicker for the model here."""
    weights = (layer.weight for layer in model.modules() if isinstance(layer, nn.Linear))
    is_wide = any(_fits(weight) for weight in weights)
    return OneDnn() if is_wide and is_quicker_here() else nullcontext()


@cache
def is_quicker_here(cpu_file: Path = _CPU_FILE, *, capability: str | None = None) -> bool:
    """Say whether this machine is an AMD processor with AVX-512.

    Args:
        cpu_file: Where Linux describes the processor; without it the answer is no.
        capability: What torch found; asked of it by default.
    """
    if (capability or torch.backends.cpu.get_cpu_capability()) != "AVX512" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    return cpu_file.exists() and "AuthenticAMD" in cpu_file.read_text(encoding="utf-8", errors="replace")


class OneDnn(TorchFunctionMode):
    """Linear layers in float32, wide and of many rows, by oneDNN; all else as it would be."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Return what the function returns; torch calls it for each of its functions."""
        if func is functional.linear and not kwargs and not torch.is_autocast_enabled("cpu"):
            given, weight, bias = (*args, None)[:3]
            if isinstance(given, Tensor) and isinstance(weight, Tensor) and _pays(given, weight):
                return _Multiplication.apply(given, weight, bias)  # type: ignore[no-untyped-call]
        return func(*args, **(kwargs or {}))


def _pays(given: Tensor, weight: Tensor) -> bool:
    """Inside another such context, what is given is oneDNN's own already, and not strided."""
    if given.layout is not torch.strided or weight.layout is not torch.strided or given.dtype is not weight.dtype:
        return False
    return given.device == weight.device and _fits(weight) and given.numel() >= _MIN_ROWS * weight.shape[1]


def _fits(weight: Tensor) -> bool:
    is_matrix = weight.device.type == "cpu" and weight.dtype is torch.float32 and weight.ndim == 2
    return is_matrix and min(weight.shape) >= _MIN_WIDTH


class _Multiplication(torch.autograd.Function):
    """By oneDNN both ways, keeping the input as it was given: layers that read the same input share it.

    Rows are filled up with zeros to a multiple of 64, since oneDNN makes and keeps a program for every number of rows.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, given: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(given, weight)
        found = functional.linear(_rows(given), weight, bias).to_dense()
        return found[: given.numel() // given.shape[-1]].reshape(*given.shape[:-1], -1)

    @staticmethod
    def backward(ctx: BackwardCFunction, gradient: Tensor) -> tuple[Tensor | None, ...]:
        kept: Sequence[Tensor] = ctx.saved_tensors
        given, weight = kept
        found = torch.ops.aten.mkldnn_linear_backward(_rows(given), _rows(gradient), weight, list(ctx.needs_input_grad))
        of_given, of_weight, of_bias = (
            _dense(one) if is_needed else None for one, is_needed in zip(found, ctx.needs_input_grad, strict=True)
        )
        if of_given is not None:
            of_given = of_given[: given.numel() // given.shape[-1]].reshape(given.shape)
        return of_given, of_weight, of_bias


def _dense(found: Tensor) -> Tensor:
    return found.to_dense() if found.is_mkldnn else found


def _rows(given: Tensor) -> Tensor:
    """Return (..., D) as oneDNN's own (rows, D), filled up."""
    rows = given.reshape(-1, given.shape[-1])
    return functional.pad(rows, (0, 0, 0, -len(rows) % _ROWS_STEP)).to_mkldnn()
